"""Decoding on a CPU beside llama.cpp: the same random Llama of SmolLM2-135M's shape in f32 and in 8 bits, in turns.

It needs `pip install 'glassformer[bench-llama]'`, which compiles llama.cpp for this machine.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import glassformer as gf

from .decode import FREE, SMOL, both, prompts
from .measure import Row, interleaved, row

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # llama.cpp's name -> that of transformers


def write_gguf(model: Any, path: Path, kind: str) -> None:
    """A Llama of transformers as llama.cpp reads it, its matrices in F32 or Q8_0."""
    import gguf

    config, weights = model.config, {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")

    def add(name: str, weight: np.ndarray) -> None:
        if weight.ndim == 1 or kind == "F32":
            writer.add_tensor(name, weight.astype(np.float32))
        else:
            quantised = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, gguf.quants.quantize(weight, quantised), raw_dtype=quantised)

    add("token_embd.weight", weights["model.embed_tokens.weight"])
    add("output_norm.weight", weights["model.norm.weight"])
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        for theirs, name in LAYER.items():
            weight = weights[f"model.layers.{layer}.{name}.weight"]
            if theirs in heads:  # rotary pairs stand side by side there
                weight = weight.reshape(heads[theirs], 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
            add(f"blk.{layer}.{theirs}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """A file opened by llama.cpp, which writes greedily."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        from llama_cpp import Llama

        threads = torch.get_num_threads()
        self.model = Llama(str(path), n_ctx=256, n_threads=threads, n_threads_batch=threads, verbose=False)
        self.vocabulary = vocabulary

    def __call__(self, prompt: Sequence[int], new: int) -> list[int]:
        self.model.reset()
        found, fed = [], list(prompt)
        for _ in range(new):
            self.model.eval(fed)
            logits = np.ctypeslib.as_array(self.model._ctx.get_logits(), shape=(self.vocabulary,))
            fed = [int(logits.argmax())]
            found += fed
        return found


def run(new: int = 64) -> list[Row]:
    """Greedy, one text: ours against theirs in fp32 and in 8 bits; none where llama.cpp is not installed."""
    try:
        import gguf  # noqa: F401

        import llama_cpp  # noqa: F401
    except ImportError:
        return []
    peer = transformers.LlamaForCausalLM(transformers.LlamaConfig(**FREE, **SMOL))
    models, (ids, _) = both(peer), prompts(1, 32, 1000)
    prompt = ids[0].tolist()
    with tempfile.TemporaryDirectory() as folder:
        theirs = {}
        for kind in ("F32", "Q8_0"):
            path = Path(folder) / f"{kind}.gguf"
            write_gguf(peer, path, kind)
            theirs[kind] = LlamaCpp(path, SMOL["vocab_size"])
        expected = gf.generate(models["ours"], None, ids, max_new_tokens=8)[0, 32:].tolist()
        assert theirs["F32"](prompt, 8) == expected, "llama.cpp writes another text: the weights are not the same"
        contestants: dict[str, Any] = {kind: lambda one=one: one(prompt, new) for kind, one in theirs.items()}
        for name in ("ours", "ours, int8"):
            contestants[name] = lambda name=name: gf.generate(models[name], None, ids, max_new_tokens=new)
        times = interleaved(contestants, rounds=7)
    name = f"SmolLM2-135M's shape greedy, batch 1, 32+{new} tokens"
    return [
        row(f"{name}, fp32", times["ours"], times["F32"], "llama.cpp f32"),
        row(f"{name}, int8", times["ours, int8"], times["Q8_0"], "llama.cpp q8_0"),
    ]


if __name__ == "__main__":
    for line in run() or ["llama.cpp is not installed: pip install 'glassformer[bench-llama]'"]:
        print(line)
