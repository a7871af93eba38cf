"""The highest score of every group of a row's scores: all that is read of a whole row but once."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def ordered(x, unused_bits: tl.constexpr):
    """Whole numbers in the order of the floats; those of bf16 differ in their upper bits alone."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) >> unused_bits


@triton.jit
def scan_kernel(
    logits, maxima, masses, size, readable, by_row, cool,
    group: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """Each group's highest score, NaN with NaN; a block's highest, and its mass Σ exp((x − highest) · cool)."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, number, blocks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    groups: tl.constexpr = block // group
    place = number * block + tl.arange(0, groups)[:, None] * group + tl.arange(0, group)[None, :]
    x = tl.load(logits + row * by_row + place, mask=place < readable, other=float("-inf")).to(tl.float32)
    x = tl.where(place < size, x, float("-inf"))
    broken = tl.max((x != x).to(tl.int32), 1) > 0
    x = tl.where(x != x, float("-inf"), x)
    most = tl.max(x, 1)  # (groups,)
    own = (row * blocks + number) * groups + tl.arange(0, groups)
    tl.store(maxima + own, tl.where(broken, float("nan"), most))
    if masses is not None:
        top = tl.max(most)
        top = tl.where(top == float("-inf"), 0.0, top)
        tl.store(masses + (row * blocks + number) * 2, top)
        tl.store(masses + (row * blocks + number) * 2 + 1, tl.sum(tl.exp((x - top) * cool)))


@triton.jit
def highest_of(maxima, row, groups, tile: tl.constexpr):
    """A row's group maxima (tile,) without NaN, the highest of them, and the same or NaN with NaN."""
    lane = tl.arange(0, tile)
    most = tl.load(maxima + row * groups + lane, mask=lane < groups, other=float("-inf"))
    broken = tl.max((most != most).to(tl.int32)) > 0
    most = tl.where(most != most, 0.0, most)  # whatever is chosen there is refused
    largest = tl.max(most)
    return most, largest, tl.where(broken, float("nan"), largest)


@triton.jit
def best_kernel(
    logits, maxima, ids, highest, size, readable, by_row, groups,
    group: tl.constexpr, tile: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    most, largest, told = highest_of(maxima, row, groups, tile)
    first = tl.min(tl.where(most == largest, tl.arange(0, tile), tile))
    place = first * group + tl.arange(0, group)
    x = tl.load(logits + row * by_row + place, mask=place < readable, other=float("-inf")).to(tl.float32)
    word = tl.min(tl.where((x == largest) & (place < size), place, size - 1))
    tl.store(ids + row, word.to(tl.int64))
    tl.store(highest + row, told)
