"""Greedy decoding equals the naive loop that reads everything anew for each token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families import random_model, sequences, settings_of
from glassformer.generate.greedy import greedy
from glassformer.hub.registry import ARCHITECTURES

GENERATORS = [
    (name, head)
    for name, architecture in ARCHITECTURES.items()
    for head in architecture.heads
    if head in ("text-generation", "text2text-generation")
]
NEW = 6


def naive(model, ids, *, eos, source=None):
    """One row: the full forward for every token, until eos; `source` is an encoder-decoder's input."""
    for _ in range(NEW):
        given_ = {"input_ids": ids} if source is None else {"input_ids": source, "decoder_input_ids": ids}
        ids = torch.cat([ids, model(**given_).logits[:, -1:].argmax(-1)], dim=1)
        if ids[0, -1] == eos:
            break
    return ids[0].tolist()


def padded_left(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


@pytest.mark.parametrize(("model_type", "head"), GENERATORS)
@settings(max_examples=6)
@given(options=st.data(), seed=st.integers(0, 99))
@torch.no_grad()
def test_greedy_is_the_naive_loop(model_type, head, options, seed):
    model = random_model(model_type, head, options.draw(settings_of(model_type)), seed)
    rows = sequences(seed)
    ids, mask = padded_left(rows)
    start = None if head == "text-generation" else torch.ones(len(rows), 1, dtype=torch.long)
    before = ids.shape[1] if start is None else 1
    free = greedy(model, ids, mask, start_ids=start, max_new_tokens=NEW)
    eos = free[0, before + 2].item()  # a token that some row surely writes
    written = greedy(model, ids, mask, start_ids=start, max_new_tokens=NEW, eos_token_id=eos)
    assert_close(written[:, :before], ids if start is None else start)
    for row, out in zip(rows, written.tolist(), strict=True):
        alone = torch.tensor([row])
        known = [1] if start is not None else row
        expected = naive(model, torch.tensor([known]), eos=eos, source=None if start is None else alone)
        new = expected[len(known) :]
        new += [eos] * (written.shape[1] - before - len(new))
        assert out[before:] == new


def test_it_stops_when_every_row_has_ended():
    model = random_model("glassformer-rnn", "text-generation", {"vocab_size": 9, "hidden_size": 8})
    prompt = torch.tensor([[5, 6]])
    first = greedy(model, prompt, max_new_tokens=1)[0, -1].item()
    assert greedy(model, prompt, max_new_tokens=50, eos_token_id=first).tolist() == [[5, 6, first]]


def test_a_position_table_is_used_to_its_end():
    model = random_model(
        "gpt2", "text-generation", {"vocab_size": 9, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 5}
    )
    prompt = torch.tensor([[5, 6]])
    assert greedy(model, prompt, max_new_tokens=4).shape == (1, 6)
    with pytest.raises(ValueError, match="5"):
        greedy(model, prompt, max_new_tokens=5)


def test_wrong_uses_are_named():
    model = random_model("glassformer-rnn", "text-generation", {"vocab_size": 9, "hidden_size": 8})
    ids = torch.tensor([[5, 6], [7, 0]])
    with pytest.raises(ValueError, match="pad it on the left"):
        greedy(model, ids, torch.tensor([[1, 1], [1, 0]]), max_new_tokens=1)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        greedy(model, ids, max_new_tokens=0)
