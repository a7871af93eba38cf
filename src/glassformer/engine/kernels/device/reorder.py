"""Rows of a cache that trade places."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def reorder_kernel(
    x, rows, used, by_layer, by_row, by_token,
    group_size: tl.constexpr, seats: tl.constexpr, size: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    token, group, layer = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    if token < tl.load(used):
        seat, lane = tl.arange(0, seats), tl.arange(0, lanes)
        own = group * group_size + seat
        source = tl.load(rows + own, mask=seat < group_size, other=0)
        moves = ((seat < group_size) & (source != own))[:, None] & (lane < size)[None, :]
        here = layer * by_layer + token * by_token + lane[None, :]
        moved = tl.load(x + here + source[:, None] * by_row, mask=moves)
        tl.debug_barrier()
        tl.store(x + here + own[:, None].to(tl.int64) * by_row, moved, mask=moves)
