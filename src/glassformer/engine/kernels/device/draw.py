"""The draw of a token of each row out of all of them, or out of a nucleus, by many programs a row."""

# mypy: ignore-errors

import triton
import triton.language as tl

from .sample import missing
from .scan import highest_of, ordered

ONE = tl.constexpr(1099511627776.0)  # masses are added as whole numbers of this part: in any order they are the same


@triton.jit
def nucleus(
    maxima, masses, sums, row, size, groups, blocks, cool, top_p, done,
    unused_bits: tl.constexpr, tile: tl.constexpr, seats: tl.constexpr,
):  # fmt: skip
    """Between which numbers the lowest score of a row's nucleus lies after so many rounds.

    Also the mass that is missing above the lower of them, once they are one, and the highest score.
    """
    _, largest, _ = highest_of(maxima, row, groups, tile)
    lane, seat = tl.arange(0, tile), tl.arange(0, seats)
    top = tl.load(masses + (row * blocks + lane) * 2, mask=lane < blocks, other=0.0)
    mass = tl.load(masses + (row * blocks + lane) * 2 + 1, mask=lane < blocks, other=0.0)
    total = tl.sum(tl.where(mass > 0, mass * tl.exp((top - largest) * cool), 0.0))
    bound = largest + tl.log(0.5 * (1.0 - top_p) * total / size) / cool  # all below has half of what may go at most
    low, high = ordered(bound, unused_bits).to(tl.int64), ordered(largest, unused_bits).to(tl.int64)
    wanted = tl.maximum((top_p * total * ONE).to(tl.int64), 1)
    above = tl.full([], 0, tl.int64)
    for number in range(done):
        step = (high - low) // seats + 1
        found = tl.load(sums + number * seats + seat)  # from low + step, low + 2 step, … on
        enough = tl.sum((found >= wanted).to(tl.int64))
        above = tl.sum(tl.where(seat == enough, found, 0))
        low = tl.minimum(low + enough * step, high)
        high = tl.minimum(high, low + step - 1)
    return low, high, (wanted - above).to(tl.float32) / ONE, largest


@triton.jit(do_not_specialize=["done"])
def nucleus_kernel(
    logits, maxima, masses, sums, equals, size, readable, by_row, groups, cool, top_p, done,
    rounds: tl.constexpr, unused_bits: tl.constexpr, tile: tl.constexpr, block: tl.constexpr, seats: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    """A round of the search for the lowest score; at last, how many of each block are equal to it."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, number, blocks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    sums += row * rounds * seats
    low, high, _, largest = nucleus(
        maxima, masses, sums, row, size, groups, blocks, cool, top_p, done, unused_bits, tile, seats
    )
    place = number * block + tl.arange(0, block)
    x = tl.load(logits + row * by_row + place, mask=place < readable, other=float("-inf")).to(tl.float32)
    key = ordered(x, unused_bits)
    if equals is not None:
        same = (place < size) & (key == low.to(tl.int32))
        tl.store(equals + row * blocks + number, tl.sum(same.to(tl.int32)))
    else:
        step = (high - low) // seats + 1
        weight = tl.where((place < size) & (key >= low.to(tl.int32)), tl.exp((x - largest) * cool), 0.0)
        if tl.max(weight) > 0:
            for seat in tl.static_range(seats):
                bound = tl.minimum(low + (seat + 1) * step, 0x7FFFFFFF).to(tl.int32)
                mass = tl.sum(tl.where(key >= bound, weight, 0.0))
                tl.atomic_add(sums + done * seats + seat, (mass * ONE).to(tl.int64), sem="relaxed")


@triton.jit
def draw_kernel(
    logits, maxima, masses, sums, equals, noise, lots, words, size, readable, by_row, groups, cool, top_p, min_p,
    rounds: tl.constexpr, unused_bits: tl.constexpr, tile: tl.constexpr, block: tl.constexpr, seats: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    """The draw within a block of a row: a lot for each token, and the highest has it."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, number, blocks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    place, lane = number * block + tl.arange(0, block), tl.arange(0, tile)
    x = tl.load(logits + row * by_row + place, mask=place < readable, other=float("-inf")).to(tl.float32)
    stays = place < size
    if top_p is None:
        _, largest, _ = highest_of(maxima, row, groups, tile)
    else:
        sums += row * rounds * seats
        low, _, mass, largest = nucleus(
            maxima, masses, sums, row, size, groups, blocks, cool, top_p, rounds, unused_bits, tile, seats
        )
        key = ordered(x, unused_bits)
        equal = (stays & (key == low.to(tl.int32))).to(tl.int32)
        behind = (lane > number) & (lane < blocks)
        later = tl.sum(tl.load(equals + row * blocks + lane, mask=behind, other=0))
        after = later + tl.sum(equal) - tl.cumsum(equal, 0)  # of equals the last stay
        ties = missing(low, mass, largest, cool, size, unused_bits)
        stays = stays & (key >= low.to(tl.int32)) & ((equal == 0) | (after < ties))
    chance = tl.exp((x - largest) * cool)
    if min_p is not None:
        stays = stays & ((chance >= min_p) | (x == largest))
    luck = tl.load(noise + row * size + place, mask=stays, other=1.0)
    lot, winner = tl.max(tl.where(stays, chance / luck, -1.0), 0, return_indices=True)
    tl.store(lots + row * blocks + number, lot)
    tl.store(words + row * blocks + number, number * block + winner)


@triton.jit
def winner_kernel(
    maxima, lots, words, ids, highest, size, groups, blocks,
    tile: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """The highest lot of a row's blocks, the first of equals."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    _, _, told = highest_of(maxima, row, groups, tile)
    lot = tl.load(lots + row * blocks + lane, mask=lane < blocks, other=-1.0)
    word = tl.load(words + row * blocks + lane, mask=lane < blocks, other=size)
    chosen = tl.min(tl.where(lot == tl.max(lot), word, size - 1))
    tl.store(ids + row, chosen.to(tl.int64))  # with NaN, the last
    tl.store(highest + row, told)
