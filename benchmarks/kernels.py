"""Single kernels on one GPU, in bf16: how much of the memory's speed they reach, with several ways to share the work.

`python -m benchmarks.kernels [--only llama] [--draws]`: for every linear layer of a shape the best tilings and the one
that is chosen; then attention and the draw of a token, in microseconds.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from glassformer.engine import kernels
from glassformer.engine.kernels.launch import multiprocessors, power_of_two
from glassformer.engine.kernels.linear import Tiling
from glassformer.generate import pick

Layer = tuple[str, int, int, bool]
"""A name, inputs, outputs (of each half, where it is gated), and whether it is gated."""
LAYERS: dict[str, list[Layer]] = {
    "llama": [("qkv", 2048, 3072, False), ("output", 2048, 2048, False), ("gate and up", 2048, 8192, True)],
    "qwen": [("qkv", 1024, 4096, False), ("output", 2048, 1024, False), ("gate and up", 1024, 3072, True)],
    "xl": [("qkv", 1600, 4800, False), ("output", 1600, 1600, False), ("up", 1600, 6400, False)],
}
LAYERS["llama"] += [("down", 8192, 2048, False), ("head", 2048, 128256, False)]
LAYERS["qwen"] += [("down", 3072, 1024, False), ("head", 1024, 151936, False)]
LAYERS["xl"] += [("down", 6400, 1600, False), ("head", 1600, 50304, False)]
HEADS = {"llama": (32, 8, 64, 128256), "qwen": (16, 8, 128, 151936), "xl": (25, 25, 64, 50257)}
TILES = [(16384, 4), (16384, 8), (32768, 4), (32768, 8), (65536, 8), (65536, 16)]  # bytes of a tile, and warps
FLUSH = 256 * 2**20  # bytes: several times what a GPU keeps of what it has read


def microseconds(works: list[Callable[[], object]], replays: int = 5) -> float:
    """The time of each of some launches one after another in one graph."""
    for work in works:
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for work in works:
            work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / replays / len(works)


def tilings(inputs: int, outputs: int, gated: bool) -> Iterator[Tiling]:
    row_bytes = power_of_two(inputs) * 2 * (1 + gated)
    yield Tiling.of(outputs, row_bytes)  # what is chosen
    for tile_bytes, warps in TILES:
        tile = max(1, tile_bytes // row_bytes)
        tiles = -(-outputs // tile)
        for most in (1, 2, 3, 4, 8):
            each = -(-tiles // (most * multiprocessors()))
            yield Tiling(tile, -(-tiles // each), warps)


def linear(layer: Layer) -> None:
    name, inputs, outputs, gated = layer
    rows = outputs * (1 + gated)
    copies = max(2, -(-FLUSH // (rows * inputs * 2)))
    weights = [bf16(rows, inputs) for _ in range(copies)]
    x = bf16(1, 1, inputs)
    more: dict[str, Any] = {"norm": kernels.NormParameters(bf16(inputs), None, 1e-6, False)}
    more |= {"activation": "silu" if gated else None, "gated": gated}
    chosen, *others = tilings(inputs, outputs, gated)
    times = {
        tiling: microseconds([partial(kernels.linear, x, weight, None, tiling=tiling, **more) for weight in weights])
        for tiling in dict.fromkeys([chosen, *others])
    }
    library = microseconds([partial(torch.nn.functional.linear, x, weight) for weight in weights])
    speed = rows * inputs * 2 / 1e6  # over microseconds: TB/s
    print(f"{name} {inputs}→{outputs}: library {library:.1f} µs {speed / library:.2f} TB/s (no norm)")
    best = sorted(times, key=times.__getitem__)[:3]
    for mark, tiling in (("chosen", chosen), *(("best", one) for one in best)):
        print(f"   {mark:6} {times[tiling]:6.1f} µs {speed / times[tiling]:.2f} TB/s  {tuple(tiling)}", flush=True)


def attention(heads: int, key_heads: int, width: int, *, batch: int, used: int) -> None:
    capacity = -(-used // 64) * 64 + 64
    padding, tickets = (torch.zeros(batch * key_heads, dtype=torch.int32, device="cuda") for _ in range(2))
    cached = (bf16(batch, capacity, key_heads, width) for _ in range(2))
    past = kernels.Past(*cached, torch.tensor([used], device="cuda"), padding[:batch], tickets)
    new = [bf16(batch, 1, number, width) for number in (heads, key_heads, key_heads)]
    angles = torch.rand(batch, 1, 1, width // 2, device="cuda")
    asked: dict[str, Any] = {"scale": width**-0.5, "rotation": (angles.cos(), angles.sin())}
    told = []
    for splits in (None, 1, 4, 8, 16) if batch == 1 else (None,):
        taken = microseconds([partial(kernels.attend_next, *new, past, **asked, splits=splits)] * 20)
        told.append(f"splits {splits or 'as chosen'}: {taken:.1f} µs")
    moved = 2 * batch * used * key_heads * width * 2 / 1e6
    print(
        f"attention of {heads} over {key_heads} heads, batch {batch}, {used} tokens, {moved:.1f} MB:", ", ".join(told)
    )


def drawing(size: int, batch: int) -> None:
    """Of scores as a sure model gives them, and of flat ones; and how many draws are those of the filters."""
    noise = torch.empty(batch, size, device="cuda").exponential_()
    ids = torch.zeros(batch, 1, dtype=torch.long, device="cuda")
    asked: dict[str, Any]
    for spread in (3, 1):
        logits = (bf16(batch, -(-size // 64) * 64) * spread)[:, :size]
        for asked in ({}, {"top_k": 50}, {"top_k": 50, "top_p": 0.9}, {"top_p": 0.9}, {"min_p": 0.1}):
            ours = microseconds([partial(kernels.sample, logits, noise, **asked)] * 10)
            same = kernels.sample(logits, noise, **asked)[0] == by_filters(asked, ids, logits, noise)
            print(f"a draw of {batch} × {size}, spread {spread}, {asked}: {ours:.1f} µs, {same.sum()} as by filters")
    best, library = (microseconds([partial(one, logits)] * 10) for one in (kernels.best, lambda x: x.max(-1)))
    same = (logits.gather(1, kernels.best(logits)[0][:, None])[:, 0] == logits.amax(-1)).all()
    luck = microseconds([noise.exponential_] * 10)
    print(f"the best of {batch} × {size}: {best:.1f} µs, by torch {library:.1f} µs, {same}; the noise: {luck:.1f} µs")
    word, score, one = ids[:, 0], noise[:, 0].contiguous(), torch.zeros((), device="cuda")
    known = {"token": word, "running": word == 0, "highest": one, "new": ids}
    told = microseconds([partial(kernels.write_tokens, word, score, ends=word[:1], padding=0, **known)] * 10)
    print(f"what becomes of {batch} texts: {told:.1f} µs", flush=True)


def by_filters(asked: Any, ids: torch.Tensor, logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    return (pick.apply(pick.warpers(asked), ids, logits.float()).softmax(-1) / noise).argmax(-1)


def bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=LAYERS)
    parser.add_argument("--draws", action="store_true", help="the draw of a token alone")
    asked = parser.parse_args()
    for shape in [asked.only] if asked.only else LAYERS:
        heads, key_heads, width, vocabulary = HEADS[shape]
        print(f"-- {shape}")
        if asked.draws:
            drawing(vocabulary, 1)
            drawing(vocabulary, 64)
            continue
        for batch in (1, 64):
            for used in (160, 4000):
                attention(heads, key_heads, width, batch=batch, used=used)
            drawing(vocabulary, batch)
        for layer in LAYERS[shape]:
            linear(layer)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
