"""Attention of one new token in each row over a cache on a GPU, with all that stands around it in one launch.

B batch, L capacity, H heads, G heads of keys and values, K head width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .launch import early, multiprocessors, power_of_two
from .linear import NormParameters

MOST_SPLITS = 16
SEATS = 16  # heads at least: what the matrix units take
TILE_NUMBERS = 4096  # of keys that a program reads at once


class Past(NamedTuple):
    """One layer's share of a cache."""

    keys: Tensor  # (B, L, G, K)
    values: Tensor
    used: Tensor  # (1,): how many tokens there are
    padding: Tensor  # (B,), int32: where each row's first token stands
    tickets: Tensor  # (B·G,), int32: zeros, and zeros again after every call


def attend_next(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: Past,
    *,
    scale: float,
    norms: tuple[NormParameters, NormParameters] | None = None,
    rotation: tuple[Tensor, Tensor] | None = None,
    before: int | None = None,
    bias: Tensor | None = None,
    splits: int | None = None,
) -> Tensor:
    """Put (B, 1, G, K) keys and values behind the used ones of a cache; give softmax(q kᵀ · scale + bias) v.

    Queries (B, 1, H, K) and keys first pass their heads' RMS norms, and are turned by cosines and sines
    (B or 1, 1, 1, K/2). Row b looks at its tokens from padding[b] on, and `before` tokens back at most; bias (H, 1, L).

    One program for each row and head of keys, which serves all the heads that share it, or as many as keep the GPU
    busy (`splits`): each then has every so-manieth tile of tokens, and the last one to end puts the parts together.
    The softmax takes one pass: the largest score so far, the sum of weights and the weighted values are corrected as
    larger scores come.
    """
    from .device.attend import attend_kernel

    batch, _, heads, width = query.shape
    capacity, key_heads = past.keys.shape[1:3]
    group, lanes = heads // key_heads, max(16, power_of_two(width))
    query, key, value = (x if x.stride()[2:] == (width, 1) else x.contiguous() for x in (query, key, value))
    tile = max(16, TILE_NUMBERS // lanes)
    splits = splits or splits_of(batch * key_heads, -(-capacity // tile))
    context = query.new_empty(batch, 1, heads, width)
    parts = sums = None
    if splits > 1:
        parts = torch.empty(batch * heads * splits, width, dtype=torch.float32, device=query.device)
        sums = torch.empty(batch * heads * splits, 2, dtype=torch.float32, device=query.device)
    gains, eps = (None, None) if norms is None else (norms[0].gain, norms[1].gain), norms[0].eps if norms else 0.0
    cos, sin = (None, None) if rotation is None else (x.contiguous() for x in rotation)
    turn_row = 0 if cos is None or len(cos) == 1 else width // 2
    bias = None if bias is None else bias.reshape(heads, capacity).contiguous()
    given = (query, key, value, past.keys, past.values, past.used, past.padding, past.tickets, context)
    tensors = (*given, cos, sin, *gains, bias, parts, sums)
    numbers = (*(x.stride(0) for x in (query, key, value, past.keys)), past.keys.stride(1), turn_row, scale, eps)
    shape = {"group": group, "key_heads": key_heads, "width": width, "lanes": lanes, "tile": tile, "splits": splits}
    shape |= {"seats": max(SEATS, power_of_two(group)), "capacity": capacity, "num_warps": 4, "num_stages": 3}
    attend_kernel[(batch, key_heads, splits)](*tensors, *numbers, before=before, **shape, **early())
    return context


def splits_of(programs: int, tiles: int) -> int:
    """Into how many parts the tokens go: two programs for each multiprocessor, a tile each at least."""
    return max(1, min(MOST_SPLITS, tiles, 2 * multiprocessors() // programs))
