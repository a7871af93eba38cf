"""How much memory a trace holds, and how much one will hold before it is made."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from glassformer.blocks.memory import check_memory
from glassformer.inspect.record import record
from glassformer.models.contract import as_model

from .app_state import Loaded

SHORT = 64  # tokens up to which nothing is worked out beforehand
PROBES = (2, 4, 6)  # tokens
CALL = 1024  # bytes that a recorded value takes beside its numbers, as long as the model runs


def held_bytes(value: object) -> int:
    """All that a value holds: tensors, of which what several share counts once, and what Python needs for the rest."""
    storages: dict[int, int] = {}
    left, size = [value], 0
    while left:
        one = left.pop()
        if isinstance(one, Tensor):
            storages[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
            continue
        size += sys.getsizeof(one)
        if isinstance(one, Mapping):
            left.extend(one.values())
            left.extend(one.keys())
        elif isinstance(one, list | tuple) and one and isinstance(one[0], float | int):  # numbers are all alike
            size += len(one) * sys.getsizeof(one[0])
        elif isinstance(one, list | tuple):
            left.extend(one)
        elif is_dataclass(one):
            left.extend(getattr(one, part.name) for part in fields(one))
    return size + sum(storages.values())


def check_trace(loaded: Loaded, capture: Sequence[str], tokens: int, budget: int) -> None:
    """Refuse a trace of a text of so many tokens where it would not fit, by three short ones.

    Every value that is recorded is as large as a constant, a text, or a text times a text; so is their sum.
    """
    limit = as_model(loaded.model).config.max_positions
    if tokens <= SHORT or (limit is not None and limit < PROBES[-1]):
        return
    found = [_probed(loaded, capture, length) for length in PROBES]
    kept, passing = (_scaled([one[which] for one in found], tokens) for which in (0, 1))
    if kept > budget:
        raise ValueError(
            f"the trace of {tokens:,} tokens would hold about {kept / 1e6:,.0f} MB, more than the "
            f"{budget / 1e6:,.0f} MB that the studio keeps: give a shorter text, name fewer modules in capture, or "
            "start it with more --memory"
        )
    check_memory(kept + passing, next(loaded.model.parameters()).device, f"a trace of {tokens:,} tokens")


def _probed(loaded: Loaded, capture: Sequence[str], length: int) -> tuple[int, int]:
    """Bytes that a trace of so many tokens holds, and those it takes beside them while it is made."""
    ids = torch.zeros(1, length, dtype=torch.long, device=next(loaded.model.parameters()).device)
    inputs = {"input_ids": ids} | (
        {"decoder_input_ids": ids} if as_model(loaded.model).config.is_encoder_decoder else {}
    )
    with loaded.lock, torch.inference_mode(), record(loaded.model, capture) as seen:
        outputs = loaded.model(**inputs)
    values = [value for name in seen for value in seen.calls(name)]
    numbers = sum(value.nbytes for value in values)
    kept = numbers + sum(value.nbytes for value in outputs if isinstance(value, Tensor))
    return kept, numbers + len(values) * CALL


def _scaled(found: Sequence[int], tokens: int) -> int:
    """The parabola through three sizes, at another length."""
    first, second, third = found
    square = (third - 2 * second + first) / 8
    slope = (second - first) / 2 - 6 * square
    return round(first + slope * (tokens - 2) + square * (tokens**2 - 4))
