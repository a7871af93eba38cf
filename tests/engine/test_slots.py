"""Rows that come and go in one cache are decoded as each is in a cache of its own; by the CPU's kernels too."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from families import random_model, settings_of
from glassformer.blocks.cache import KVCache
from glassformer.engine import native, slots
from glassformer.engine.slots import PrefixCache, SlotCache, slot_decoder

FAMILIES = ["gpt2", "glassformer-decoder", "llama", "mistral", "qwen3"]
LENGTH, ROWS = 16, 11  # more rows than the kernels for few take


@dataclass
class Alone:
    """One sequence in a cache of its own."""

    state: Any
    length: int


@pytest.mark.parametrize("kernels", ["kernels", "no kernels"])
@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@torch.inference_mode()
def test_each_row_is_decoded_as_if_alone(family, kernels, data):
    model = random_model(family, "text-generation", data.draw(settings_of(family))).eval()
    words = st.integers(4, model.config.vocab_size - 1)
    acts = st.tuples(st.just("join"), st.lists(words, min_size=1, max_size=12), st.integers(1, 3))
    acts |= st.tuples(st.just("leave"), st.integers(0, 99), st.booleans())
    acts |= st.tuples(st.just("step"), words, st.integers(1, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLACK", data.draw(st.integers(0, 2)))
        if kernels == "no kernels":
            patch.setattr(native, "kernels", lambda: None)
        decoder = slot_decoder(model, 1)
        cache = SlotCache(model.start(torch.zeros(1, 1, dtype=torch.long), length=1).cache, rows=ROWS, length=LENGTH)
        follow(decoder, cache, data.draw(st.lists(acts, min_size=1, max_size=14)))


def follow(decoder: Any, cache: SlotCache, acts: list[Any]) -> None:
    """Do what the acts say in the cache, and with each sequence alone."""
    alone = list[Alone]()
    for act, what, number in acts:
        match act:
            case "join" if len(alone) + number <= ROWS:
                prompt = torch.tensor([what])
                state = decoder.hidden_step(prompt, decoder.start(prompt, length=len(what)))[1]
                cache.join(state.cache, number)
                for _ in range(number):
                    own = decoder.hidden_step(prompt, decoder.start(prompt, length=LENGTH))[1]
                    alone.append(Alone(own, len(what)))
            case "leave" if alone:
                row = what % len(alone)
                cache.leave(row, erase=number)
                alone[row] = alone[-1]
                alone.pop()
            case "step":
                for _ in range(number):
                    if not alone or max(one.length for one in alone) == LENGTH:
                        break
                    step(decoder, cache, alone, what)
    assert len(cache) == len(alone)


def step(decoder: Any, cache: SlotCache, alone: list[Alone], token: int) -> None:
    hidden, _ = decoder.hidden_step(torch.full((len(alone), 1), token), cache.state())
    cache.advance()
    for row, one in enumerate(alone):
        expected, one.state = decoder.hidden_step(torch.tensor([[token]]), one.state)
        one.length += 1
        assert_close(hidden[row], expected[0], atol=1e-4, rtol=1e-4)
        for here, there in zip(cache.row(row), (one.state.cache.keys, one.state.cache.values), strict=True):
            assert_close(here, there[:, 0, : one.length], atol=1e-4, rtol=1e-4)


def keys_of(ids: list[int]) -> torch.Tensor:
    """(1, P, 1, 1): numbers that tell each beginning of ids from all others."""
    numbers = [sum((id_ + 1) * 3**place for place, id_ in enumerate(ids[:end])) for end in range(1, len(ids) + 1)]
    return torch.tensor(numbers, dtype=torch.float64)[None, :, None, None]


@given(
    texts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), min_size=1, max_size=25),
    blocks=st.integers(0, 6),
)
def test_beginnings_are_known_as_long_as_there_is_memory(texts, blocks):
    """What is restored is right; the last text is known as far as it fits; no block is kept without those before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "BLOCK", 2)
        like = KVCache.empty(1, 1, 1, 1, 1, keep=None, like=torch.zeros(1, dtype=torch.float64))
        prefixes = PrefixCache(like, max_bytes=blocks * 2 * 2 * 8)
        for ids in texts:
            empty = KVCache.empty(1, 1, 1, len(ids), 1, keep=None, like=like.keys)
            found = prefixes.restore(ids, empty)
            assert_close(found.keys[:, 0, : found.used], keys_of(ids)[:, : found.used])
            assert_close(found.values[:, 0, : found.used], -keys_of(ids)[:, : found.used])
            assert found.used < len(ids)
            prefixes.put(ids, keys_of(ids), -keys_of(ids))
            assert len(prefixes.blocks) <= blocks
            numbers = {0} | {block.number for block in prefixes.blocks.values()}
            assert all(before in numbers for before, _ in prefixes.blocks)
        assert prefixes.restore(ids, empty).used == 2 * min(blocks, (len(ids) - 1) // 2)


def test_memory_is_what_was_said_beforehand():
    model = random_model(
        "llama",
        "text-generation",
        {
            "vocab_size": 41,
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "intermediate_size": 8,
        },
    )
    like = model.start(torch.zeros(1, 1, dtype=torch.long), length=1).cache
    cache = SlotCache(like, rows=3, length=20)
    assert cache.keys.nbytes + cache.values.nbytes == SlotCache.bytes(like, rows=3, length=20)
    prefixes = PrefixCache(like, max_bytes=10_000)
    keys, values = (torch.zeros(2, 999, 1, 6) for _ in range(2))
    prefixes.put(list(range(999)), keys, values)
    held = sum(block.keys.nbytes + block.values.nbytes for block in prefixes.blocks.values())
    assert 5_000 < held <= 10_000
