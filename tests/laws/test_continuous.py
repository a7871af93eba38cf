"""Law 11 for continuous batching: whatever comes and goes beside it, a request is written as gf.generate does alone."""

from itertools import count
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import random_model, settings_of
from generators import sharp
from glassformer.engine import slots
from glassformer.generate.continuous import ContinuousBatch

FAMILIES = ["gpt2", "glassformer-decoder", "llama", "mistral", "qwen3"]
WORDS = 41
WAYS: list[dict[str, Any]] = [
    {},
    {"eos_token_id": [5, 9, 17, 23]},
    {"do_sample": True},
    {"temperature": 1.3, "top_p": 0.9, "eos_token_id": [5, 9]},
    {"temperature": 1.3, "top_p": 0.9, "num_return_sequences": 3, "eos_token_id": [5, 9, 17, 23, 31, 37]},
    {"top_k": 7, "min_p": 0.05, "typical_p": 0.9},
    {"repetition_penalty": 1.7, "no_repeat_ngram_size": 2},
    {"presence_penalty": 0.8, "frequency_penalty": 0.4, "temperature": 0.8, "num_return_sequences": 2},
    {"bad_words_ids": [[7], [8, 9]], "sequence_bias": [[[11], 2.5]], "min_new_tokens": 3, "eos_token_id": [5, 9, 17]},
    {"suppress_tokens": [4, 5, 6], "begin_suppress_tokens": [7], "forced_eos_token_id": 3, "top_k": 12},
]


def model_of(family: str, data: Any) -> Any:
    """A random model in float64 that is sure of its words, so that no rounding can change one."""
    chosen = data.draw(settings_of(family)) | {"vocab_size": WORDS, "eos_token_id": 3, "pad_token_id": 0}
    return sharp(random_model(family, "text-generation", chosen)).double().eval()


class Arrival(NamedTuple):
    """A request, after how many steps it comes, and after how many it is cancelled."""

    prompt: list[int]
    way: dict[str, Any]
    at: int
    cancelled: int | None

    @property
    def keys(self) -> range:
        return range(self.way.get("num_return_sequences", 1))


@st.composite
def arrivals(draw: Any) -> Arrival:
    known = [4, 5, 6, 7, 8, 9, 10][: draw(st.integers(0, 7))]  # many prompts begin alike
    prompt = known + draw(st.lists(st.integers(4, WORDS - 1), min_size=1, max_size=9 - len(known)))
    way = draw(st.sampled_from(WAYS)) | {"max_new_tokens": draw(st.integers(1, 12)), "seed": draw(st.integers(0, 99))}
    at = draw(st.integers(0, 20))
    return Arrival(prompt, way, at, draw(st.none() | st.none() | st.integers(at, at + 15)))


def alone(model: Any, prompt: list[int], request: dict[str, Any]) -> list[list[int]]:
    """The new ids of each sequence, by gf.generate."""
    found = gf.generate(model, None, torch.tensor([prompt]), return_dict_in_generate=True, **request)
    return [ids[len(prompt) :][:length] for ids, length in zip(found.sequences.tolist(), found.lengths, strict=True)]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=15)
@given(data=st.data())
def test_every_request_is_written_as_if_alone(family, data):
    """Requests come and are cancelled at any step, in few rows, with little room: the axis moves both ways."""
    model, requests = model_of(family, data), data.draw(st.lists(arrivals(), min_size=4, max_size=10))
    rows, chunk, slack = (data.draw(st.integers(*bounds)) for bounds in ((3, 5), (1, 9), (0, 2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLACK", slack)
        patch.setattr(slots, "BLOCK", 2)
        batch = ContinuousBatch(model, None, max_rows=rows, max_length=20, prefill_chunk=chunk)
        found, cancelled = run(batch, requests)
    for number, one in enumerate(requests):
        for index, ids in enumerate(alone(model, one.prompt, one.way)):
            here = found[number, index]
            assert here == (ids[: len(here)] if number in cancelled else ids), f"sequence {index} of {one}"


def run(batch: ContinuousBatch, requests: list[Arrival]) -> tuple[dict[tuple[int, int], list[int]], set[int]]:
    """The ids of each sequence; which requests were cancelled before they had ended."""
    found = {(number, index): list[int]() for number, one in enumerate(requests) for index in one.keys}
    cancelled, ended = set[int](), set[tuple[int, int]]()
    for step in count():
        for number, one in enumerate(requests):
            if one.at == step:
                assert batch.add(number, one.prompt, **one.way).prompt_tokens == len(one.prompt)
            if one.cancelled == step:
                batch.cancel(number)
        for event in batch.step():
            key = event.request_id, event.index
            assert key not in ended
            found[key] += [] if event.token_id is None else [event.token_id]
            assert event.completion_tokens == len(found[key])
            if event.finish_reason is not None:
                assert event.finish_reason in ("stop", "length", "cancelled")
                ended.add(key)
                cancelled |= {event.request_id} if event.finish_reason == "cancelled" else set()
        if batch.idle and step >= max(one.at for one in requests):
            break
    assert ended == set(found)
    assert not batch.slots.begins
    return found, cancelled
