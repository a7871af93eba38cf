"""Decoding: GPT-2, a Transformer-base, the Llama family's shapes; ours and transformers in turns, CPU or CUDA.

The parts that run on a GPU stand in decode_gpu.py.
"""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import transformers

import glassformer as gf

from .measure import Row, interleaved, row

BASE = {"vocab_size": 32000, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "pad_token_id": 0}
BASE |= {"encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
BASE |= {"eos_token_id": None, "forced_eos_token_id": None, "decoder_start_token_id": 0, "activation_function": "relu"}
SMOL = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
SMOL |= {"num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True}
PEER = "transformers"
Work = Callable[[], object]
FREE = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}  # no text ends before its time


def run(new: int = 128) -> list[Row]:
    """On this CPU, in float32 and with 8-bit weights."""
    gpt2 = both(transformers.GPT2LMHeadModel(transformers.GPT2Config(**FREE)))
    tiny = both(transformers.GPT2LMHeadModel(transformers.GPT2Config(**FREE, n_embd=24, n_head=2, vocab_size=1000)))
    base = both(transformers.MarianMTModel(transformers.MarianConfig(**BASE)))
    rows = []
    for batch in (1, 8):
        ids, mask = prompts(batch, 32, 1000)
        request = {"attention_mask": mask, "max_new_tokens": new}
        name = f"GPT-2 124M greedy, batch {batch}, 32+{new} tokens"
        rows += compared(name, gpt2, ids, request, rounds=5, others={"weights only read": reading(gpt2["ours"], new)})
    ids, mask = prompts(1, 32, 1000)
    request = {"attention_mask": mask, "max_new_tokens": 128}
    rows += compared("12 layers of width 24, batch 1, 32+128 tokens", tiny, ids, request, rounds=5)[:1]
    smol = both(transformers.LlamaForCausalLM(transformers.LlamaConfig(**FREE, **SMOL)))
    for batch in (1, 8):
        ids, mask = prompts(batch, 32, 1000)
        request = {"attention_mask": mask, "max_new_tokens": 64}
        name = f"SmolLM2-135M's shape greedy, batch {batch}, 32+64 tokens"
        rows += compared(name, smol, ids, request, rounds=3, others={"weights only read": reading(smol["ours"], 64)})
    for batch in (1, 64):
        ids, mask = prompts(batch, 16, 1000)
        request = {"attention_mask": mask, "max_new_tokens": 15, "num_beams": 4, "early_stopping": False}
        rows += compared(f"Transformer-base, beam 4, {batch} sentences of 16+15 tokens", base, ids, request, rounds=3)
    return rows


def both(peer: Any, device: str = "cpu") -> dict[str, Any]:
    """A peer's model and ours with the same weights; on a CPU also in 8 bits."""
    dtype = "bfloat16" if device == "cuda" else "float32"
    with tempfile.TemporaryDirectory() as folder:
        models: dict[str, Any] = {PEER: peer.eval().to(device, getattr(torch, dtype))}
        peer.save_pretrained(folder)
        models["ours"] = gf.load(folder, device=device, dtype=dtype)
        if device == "cpu":
            models["ours, int8"] = gf.load(folder, quant="int8")
    return models


def prompts(batch: int, length: int, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts of different lengths, padded on the left."""
    ids = torch.randint(1, words, (batch, length), generator=torch.Generator().manual_seed(0))
    return ids, (torch.arange(length) >= (torch.arange(batch)[:, None] * 3) % (length // 2)).long()


def reading(model: Any, times: int) -> Work:
    """Reads every weight so often and does nothing else: what no decoder of one token at a time can beat in fp32."""
    weights = [weight.detach() for weight in model.parameters()]
    return lambda: [weight.sum() for _ in range(times) for weight in weights]


def timed(models: dict[str, Any], ids: Any, request: Any, *, rounds: int, others: Any = None) -> dict[str, float]:
    """The median seconds of every model, and of other work."""

    def work(name: str, model: Any) -> Work:
        if name == PEER:
            return lambda: model.generate(ids, do_sample=False, **request)
        return lambda: gf.generate(model, None, ids, **request)

    return interleaved({**{name: work(name, model) for name, model in models.items()}, **(others or {})}, rounds)


def compared(name: str, *job: Any, **more: Any) -> list[Row]:
    """A line for every contestant of `timed` but the peer."""
    times, kinds = timed(*job, **more), {"ours": "fp32", "ours, int8": "int8"}
    return [row(f"{name}, {kinds.get(one, one)}", times[one], times[PEER], PEER) for one in times if one != PEER]


if __name__ == "__main__":
    from . import decode_gpu

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=decode_gpu.PARTS, help="on CUDA: one part")
    parser.add_argument("--static", action="store_true", help="on CUDA: transformers' static cache, compiled, as well")
    parser.add_argument("--alone", action="store_true", help="on CUDA: ours only, and what a call costs")
    asked = parser.parse_args()
    rows = decode_gpu.run(asked.only, static=asked.static, alone=asked.alone)  # none before it is asked for
    for line in run() if asked.device == "cpu" else rows:
        print(line, flush=True)
