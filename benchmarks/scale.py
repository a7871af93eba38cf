"""Training as on many GPUs, tried on one: what FSDP costs where nothing is shared out, which share of the peak large
models reach with activation checkpointing, and whether their memory is what `train/memory.py` predicts.

`python -m benchmarks.scale`; `--only sharded` or `--only large`; `--tiny` tries it out on any machine.
"""

import argparse
import gc
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

import glassformer as gf
from glassformer.data.blocks import Windows
from glassformer.models.contract import as_model
from glassformer.tasks.text_generation import PackedStream, TextGeneration, language_batch
from glassformer.train.memory import estimate
from glassformer.train.mesh import flops_per_token
from glassformer.train.transforms import recomputing

from .measure import Row, in_turns, row_of_rates, show
from .pretraining import DTYPES, TINY, Size, Step, gpt_shape, random_ids, tell, toy_tokenizer, training_step, turn

LLAMA = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32}
LLAMA |= {"num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True, "max_position_embeddings": 4096}
SMALL_LLAMA = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL_LLAMA |= {"num_key_value_heads": 2, "tie_word_embeddings": True, "max_position_embeddings": 64}


@dataclass(frozen=True)
class Shape:
    """A large model, and the batch that it learns from."""

    name: str
    arch: str
    config: dict[str, Any]
    vocabulary: int
    rows: int
    length: int
    chunk: int  # places whose scores are made at a time

    def build(self, device: str) -> nn.Module:
        with torch.device(device):
            return gf.build(self.arch, "text-generation", vocab_size=self.vocabulary, **self.config)


def shapes(*, tiny: bool) -> list[Shape]:
    if tiny:
        gpt = Size(1, 32, 1, 32, 32, 2, 4, 301, 320, 200, 2)
        return [
            Shape("GPT-2 tiny", "gpt2", gpt_shape(gpt), 320, 2, 32, 16),
            Shape("Llama tiny", "llama", SMALL_LLAMA, 320, 2, 32, 16),
        ]
    xl = gpt_shape(Size(width=1600, layers=48, heads=25))
    return [
        Shape("GPT-2 1.5B", "gpt2", xl, 50304, 32, 1024, 4096),
        Shape("Llama-3.2-1B's shape", "llama", LLAMA, 128256, 8, 4096, 4096),
    ]


def sharded(device: str, rounds: int, *, tiny: bool) -> Iterator[Row]:
    """GPT-2 124M by the same loop, plain and under FSDP2 with one process: every layer gathered and freed."""
    size = TINY if tiny else Size()
    work = f"GPT-2 {size.gpt_batch}×{size.gpt_length}, {DTYPES[device]}"
    contestants = {"plain": "ddp", "FSDP, one process": "fsdp"}
    steps: dict[str, Step] = {}
    feeds = []
    for name, parallel in contestants.items():
        model = gf.build("gpt2", "text-generation", vocab_size=size.rounded, **gpt_shape(size)).to(device)
        task = TextGeneration(toy_tokenizer(200), block_size=size.gpt_length)
        ids = random_ids(size.gpt_batch * size.gpt_length * 8 + 1, size.vocabulary)
        items = PackedStream(Windows(ids, size.gpt_length), bytes_per_token=4.0)
        if parallel == "fsdp":
            join_alone(device)
        steps[name], feed = training_step(model, task, items, batch_size=size.gpt_batch, parallel=parallel)
        feeds.append(feed)
    for name, step in steps.items():
        tell(work, name, first_5_steps_s=round(5 * turn(step, 5, device)(), 2))
    seconds = in_turns({name: turn(step, size.steps, device) for name, step in steps.items()}, rounds)
    for feed in feeds:
        feed.close()
    dist.destroy_process_group()
    rates = {name: size.gpt_batch * size.gpt_length / value for name, value in seconds.items()}
    yield row_of_rates(f"{work}, FSDP of one process", rates["FSDP, one process"], rates["plain"], "plain", "tokens/s")


def join_alone(device: str) -> None:
    """A process group of this process."""
    if device == "cuda":
        torch.cuda.set_device(0)
    store = Path(tempfile.mkdtemp()) / "store"
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=0, world_size=1)


def large(device: str, steps: int, *, tiny: bool) -> Iterator[Row]:
    """Models of more than a billion parameters with activation checkpointing, compiled, scores in chunks."""
    peak = matmul_peak(device, 512 if tiny else 8192)
    tell("bf16 matrix product", "torch", tflops=round(peak / 1e12, 1))
    for shape in shapes(tiny=tiny):
        found = learn(shape, device, steps)
        rate, work = found["tokens_per_s"], f"{shape.name}, {shape.rows}×{shape.length}"
        useful, computed = (rate * found[name] / 1e12 for name in ("model_flops", "hardware_flops"))
        tell(work, "ours", tokens_per_s=round(rate), tflops=round(useful, 1), with_recomputing=round(computed, 1))
        yield row_of_rates(f"{work}, without recomputing", useful, peak / 1e12, "a matrix product", "TFLOP/s")
        yield row_of_rates(f"{work}, with recomputing", computed, peak / 1e12, "a matrix product", "TFLOP/s")
        predicted, measured = (found[name] / 2**30 for name in ("predicted", "peak_memory"))
        if device == "cuda":
            yield row_of_rates(f"{work}, memory predicted", predicted, measured, "as measured", "GiB")
        gc.collect()
        torch.compiler.reset()
        if device == "cuda":
            torch.cuda.empty_cache()


def learn(shape: Shape, device: str, steps: int) -> dict[str, float]:
    """Tokens a second of one model, the operations of a token, and its memory: predicted, then measured."""
    model = shape.build(device).train()
    task = TextGeneration(toy_tokenizer(200), block_size=shape.length, chunk=shape.chunk)
    flops = {
        name: flops_per_token(model, length=shape.length, checkpointing=again)
        for name, again in (("model_flops", False), ("hardware_flops", True))
    }
    ids = random_ids(8 * shape.rows * shape.length + 1, shape.vocabulary)
    items = PackedStream(Windows(ids, shape.length), bytes_per_token=4.0)
    recomputing(model, compile=True)

    def loss(rows: int, length: int) -> Tensor:
        some = ids[: rows * (length + 1)].reshape(rows, -1).astype(np.int64)
        batch = language_batch(some, np.ones((rows, length), bool), np.ones(rows)).to(torch.device(device))
        return task.loss(as_model(model), batch)

    eager = torch.compiler.set_stance("force_eager")  # small batches of four shapes, each of which would be compiled
    with eager, torch.autocast(device, torch.bfloat16, enabled=DTYPES[device] == "bf16"):
        predicted = estimate(model, shape.rows, length=shape.length, loss=loss).needed
    step, feed = training_step(model, task, items, batch_size=shape.rows, checkpointing=True)
    try:
        turn(step, 3, device)()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds = turn(step, steps, device)()
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    finally:
        feed.close()
    return {"tokens_per_s": shape.rows * shape.length / seconds, "predicted": predicted, "peak_memory": peak, **flops}


def matmul_peak(device: str, size: int) -> float:
    """Operations a second of a large product of bf16 matrices."""
    x, y = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / in_turns({"product": turn(lambda: x @ y, 30, device)}, 5)["product"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("sharded", "large"), help="one part, instead of both")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the code out on any machine")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant; the median counts")
    parser.add_argument("--steps", type=int, default=10, help="that a large model takes")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not asked.tiny:
        raise SystemExit("there is no GPU here: add --tiny to try the code out")
    torch.set_float32_matmul_precision("high")
    if asked.only != "large":
        show([*sharded(device, asked.rounds, tiny=asked.tiny)])
    if asked.only != "sharded":
        show([*large(device, asked.steps, tiny=asked.tiny)])


if __name__ == "__main__":
    main()
