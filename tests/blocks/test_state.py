"""States: selecting rows is reading their texts, moves only what moves, and rewinding forgets."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families import random_model, sequences, settings_of
from generators import GENERATING, padded_left


def started(model, seed=0):
    """Four texts, left-padded, read but for what comes next; and what comes next."""
    ids, mask = padded_left(sequences(seed))
    first = torch.randint(4, 41, (4, 2), generator=torch.Generator().manual_seed(seed))
    read = first if model.config.is_encoder_decoder else ids
    return ids, mask, read


def after(model, rows, seed=0):
    """The state of these rows, each read from its beginning."""
    ids, mask, read = (x[rows] for x in started(model, seed))
    return model.step(read, model.start(ids, mask, length=read.shape[1] + 4))[1]


selections = st.lists(st.integers(0, 3), min_size=1, max_size=9)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=15)
@given(data=st.data())
@torch.no_grad()
def test_selected_rows_go_on_as_if_read_alone(model_type, head, data):
    """Rows dropped, doubled, moved, and once more from what was selected."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    rows = list(range(4))
    state = after(model, rows)
    for _ in range(3):
        picked = [n % len(rows) for n in data.draw(selections | st.just([]))]
        if not picked:  # as beams begin: every text twice
            picked = [n for n in range(len(rows)) for _ in range(2)]
        rows = [rows[n] for n in picked]
        state = state.select(torch.tensor(picked))
        new = torch.full((len(rows), 1), 7)
        expected = model.step(new, after(model, rows))[0]
        logits, _ = model.step(new, state)  # the cache still has room for the same place
        assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=2)
@given(data=st.data())
@torch.no_grad()
def test_what_does_not_move_is_not_copied(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    state = after(model, [0, 1, 2, 3])
    pointers = places(state)
    assert places(state.select(torch.arange(4))) == pointers
    wide = state.select(torch.arange(4).repeat_interleave(2))
    before = places(wide)
    swapped = wide.select(torch.tensor([1, 0, 2, 2, 5, 4, 6, 7]))  # within each text
    if model.config.is_encoder_decoder:
        assert set(sources(wide)) == set(sources(swapped))
    if model_type == "gpt2" or hasattr(wide, "cache"):  # a cache is changed where it is
        assert set(caches(swapped)) == set(caches(wide)) <= set(before)
    if hasattr(wide, "cache"):
        assert set(sources(state)) == set(sources(wide))  # beams share what they read


def places(state):
    """Where the tensors of a state lie."""
    parts, found = [state], []
    while parts:
        part = parts.pop()
        if isinstance(part, torch.Tensor):
            found.append(part.data_ptr())
        elif part is not None and not isinstance(part, int):
            parts += part if isinstance(part, (list, tuple)) else vars(part).values()
    return found


def caches(state):
    cache = getattr(state, "cache", state)
    return places([cache.keys, cache.values])


def sources(state):
    return places(state.sources if hasattr(state, "sources") else [state.memory, state.keys])


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=5)
@given(data=st.data(), back=st.integers(0, 2))
@torch.no_grad()
def test_a_rewound_state_has_never_read_on(model_type, head, data, back):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    more, new = torch.tensor([[9, 8]] * 4), torch.full((4, 1), 7)
    _, longer = model.step(more, after(model, [0, 1, 2, 3]))
    rewound = longer.rewind(back)
    if rewound is None:  # what is not kept cannot be gone back to
        assert back > 0
        assert "cache" not in type(longer).__name__.lower()
        return
    expected = after(model, [0, 1, 2, 3])
    if back < 2:
        _, expected = model.step(more[:, : 2 - back], expected)
    assert_close(model.step(new, rewound)[0], model.step(new, expected)[0], atol=1e-5, rtol=1e-5)
