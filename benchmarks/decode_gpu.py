"""Decoding on one GPU in bf16: tokens or sentences a second, greedy and sampled, beside the time to read the weights.

`python -m benchmarks.decode --device cuda [--only llama] [--static]`; the contestants take turns. `--alone`: ours only,
with the time of calls of several lengths, which tells what a call costs apart from its steps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import transformers

import glassformer as gf

from .decode import BASE, FREE, PEER, both, prompts
from .measure import Row, interleaved

LLAMA = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
LLAMA |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True}
QWEN = {"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28}
QWEN |= {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True}
XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25}
SAMPLED = {"do_sample": True, "temperature": 1.0, "top_k": 50, "top_p": 0.9}
NEW, ROUNDS = 256, 3
CALLS = (1, 128, NEW)  # new tokens
PARTS: dict[str, tuple[str, tuple[int, ...], Callable[[], Any]]] = {
    "gpt2": ("GPT-2 124M", (1, 64), lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**FREE))),
    "xl": ("GPT-2 1.5B", (1,), lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**FREE, **XL))),
    "llama": (
        "Llama-3.2-1B's shape",
        (1, 64),
        lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**FREE, **LLAMA)),
    ),
    "qwen": (
        "Qwen3-0.6B's shape",
        (1, 64),
        lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**FREE, **QWEN)),
    ),
    "beams": ("Transformer-base", (64,), lambda: transformers.MarianMTModel(transformers.MarianConfig(**BASE))),
}


def run(only: str | None = None, *, static: bool = False, alone: bool = False) -> Iterator[Row]:
    """All parts, or one; rows come as they are measured."""
    for part in [only] if only else PARTS:
        if alone:
            yield from calls(part)
        else:
            yield from beams(part) if part == "beams" else tokens(part, static=static)
        torch.cuda.empty_cache()


def calls(part: str) -> Iterator[Row]:
    """Ours alone, in milliseconds: calls of 1, 128 and 256 new tokens, and a step of the last 128 of them."""
    name, batches, make = PARTS[part]
    with torch.device("cuda"):
        model = both(make(), "cuda")["ours"]
    for batch in batches:
        ids, mask = (x.cuda() for x in prompts(batch, 32, 1000))
        for way, asked in (("greedy", {"do_sample": False}), ("sampled", SAMPLED)):
            request = {"attention_mask": mask, **asked}
            works = {new: partial(gf.generate, model, None, ids, max_new_tokens=new, **request) for new in CALLS}
            times = {new: seconds * 1000 for new, seconds in interleaved(works, ROUNDS).items()}
            step = (times[CALLS[-1]] - times[CALLS[-2]]) / (CALLS[-1] - CALLS[-2])
            told = {f"{new} tokens": round(taken, 2) for new, taken in times.items()}
            yield {"name": f"{name} {way}, bf16, batch {batch}, ms", **told, "step": round(step, 4)}


def tokens(part: str, *, static: bool) -> Iterator[Row]:
    name, batches, make = PARTS[part]
    with torch.device("cuda"):
        peer = make()
    models = both(peer, "cuda")
    read = reading_seconds(models["ours"])
    for batch in batches:
        ids, mask = (x.cuda() for x in prompts(batch, 32, 1000))
        request = {"attention_mask": mask, "max_new_tokens": NEW}
        for way, asked in (("greedy", {"do_sample": False}), ("sampled", SAMPLED)):
            works = contestants(models, ids, {**request, **asked}, static=static and way == "greedy")
            rates = {who: batch * NEW / seconds for who, seconds in interleaved(works, ROUNDS).items()}
            rates["weights only read"] = batch / read
            yield rated(f"{name} {way}, bf16, batch {batch}, 32+{NEW} tokens", rates, "tokens/s")


def beams(part: str) -> Iterator[Row]:
    name, batches, make = PARTS[part]
    models = both(make(), "cuda")
    for batch in batches:
        ids, mask = (x.cuda() for x in prompts(batch, 16, 1000))
        request = {"attention_mask": mask, "max_new_tokens": 16, "num_beams": 4, "early_stopping": False}
        times = interleaved(contestants(models, ids, {**request, "do_sample": False}, static=False), 5)
        rates = {who: batch / seconds for who, seconds in times.items()}
        yield rated(f"{name}, bf16, beam 4, {batch} × 16 tokens", rates, "sentences/s")


def contestants(models: Any, ids: Any, request: Any, *, static: bool) -> dict[str, Callable[[], object]]:
    ours, peer = models["ours"], models[PEER]
    found: dict[str, Callable[[], object]] = {"ours": lambda: gf.generate(ours, None, ids, **request)}
    found[f"{PEER}, dynamic"] = lambda: peer.generate(ids, **request)
    if static:  # a static cache is compiled by itself, in the round that does not count
        found[f"{PEER}, static compiled"] = lambda: peer.generate(ids, cache_implementation="static", **request)
    return found


def reading_seconds(model: Any) -> float:
    """How long it takes to read every weight once, and do nothing else."""
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    weights.sum()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(10):
        weights.sum()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 10_000


def rated(name: str, rates: dict[str, float], unit: str) -> Row:
    """One line: work done in a second by each, and how many times the peer's."""
    peer = rates[f"{PEER}, dynamic"]
    more = {who: round(rate, 1) for who, rate in rates.items()}
    return {"name": name, "ours": rates["ours"], "peer": peer, "peer_name": PEER, "unit": unit} | {
        "ratio": rates["ours"] / peer,
        "all": more,
    }
