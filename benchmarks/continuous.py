"""Continuous batching: requests of mixed lengths over GPT-2 124M's shape, against gf.generate one by one and padded.

All three take turns, and count the tokens that were asked for.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch

import glassformer as gf
from glassformer.generate.continuous import ContinuousBatch

from .decode import FREE
from .measure import Row, interleaved, row_of_rates

Request = tuple[list[int], int]


def run(sizes: tuple[int, ...] = (1, 8, 32), rounds: int = 3) -> list[Row]:
    """On this CPU, in float32."""
    model = gf.build("gpt2", "text-generation", **FREE).eval()
    rows = []
    for size in sizes:
        requests = mixed(size)
        seconds = interleaved(contestants(model, requests), rounds)
        tokens = sum(new for _, new in requests)
        ours = tokens / seconds.pop("continuous")
        name = f"GPT-2 124M, {size} requests of mixed lengths, continuous batching"
        rows += [row_of_rates(name, ours, tokens / one, peer, "tokens/s") for peer, one in seconds.items()]
    return rows


def mixed(number: int) -> list[Request]:
    """Prompts of 8 to 64 tokens, and 16 to 64 new ones; one alone is 32 + 64."""
    chance = torch.Generator().manual_seed(0)
    if number == 1:
        return [(torch.randint(1, 1000, (32,), generator=chance).tolist(), 64)]
    sizes = zip(*(torch.randint(low, 65, (number,), generator=chance).tolist() for low in (8, 16)), strict=True)
    return [(torch.randint(1, 1000, (prompt,), generator=chance).tolist(), new) for prompt, new in sizes]


def contestants(model: Any, requests: list[Request]) -> dict[str, Callable[[], object]]:
    longest = max(len(prompt) for prompt, _ in requests)
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt, _ in requests])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt, _ in requests])
    most = max(new for _, new in requests)
    batch = ContinuousBatch(model, None, max_rows=len(requests), max_length=128, prefix_bytes=0)

    def continuous() -> int:
        for number, (prompt, new) in enumerate(requests):
            batch.add(number, prompt, max_new_tokens=new)
        written = 0
        while not batch.idle:
            written += sum(event.token_id is not None for event in batch.step())
        assert written == sum(new for _, new in requests)
        return written

    return {
        "continuous": continuous,
        "gf.generate, one after another": lambda: [
            gf.generate(model, None, torch.tensor([prompt]), max_new_tokens=new) for prompt, new in requests
        ],
        "gf.generate, padded to the longest": lambda: gf.generate(
            model, None, ids, attention_mask=mask, max_new_tokens=most
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 32], help="requests at a time")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    for line in (one for size in asked.sizes for one in run((size,), asked.rounds)):
        print(line, flush=True)
