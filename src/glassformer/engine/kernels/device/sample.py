"""The draw of a token of each row."""

# mypy: ignore-errors

import triton
import triton.language as tl

from .scan import highest_of, ordered


@triton.jit
def reach(
    scores, size, bound, largest, cool, by_mass: tl.constexpr, unused_bits: tl.constexpr, chunk: tl.constexpr
):  # fmt: skip
    """How many scores are at least `bound`, or their mass: Σ exp((x − largest) · cool)."""
    found = tl.zeros([chunk], tl.float32)
    for begin in range(0, size, chunk):
        place = begin + tl.arange(0, chunk)
        x = tl.load(scores + place, mask=place < size, other=float("-inf"))
        kept = (place < size) & (ordered(x, unused_bits) >= bound)
        found += tl.where(kept, tl.exp((x - largest) * cool) if by_mass else 1.0, 0.0)
    return tl.sum(found)


@triton.jit
def lowest(
    scores, size, low, high, wanted, largest, cool,
    by_mass: tl.constexpr, unused_bits: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    """The highest number in [low, high] above which, itself included, there is as much as wanted; else low."""
    while low < high:
        middle = high - ((high - low) >> 1)  # in 64 bits: the difference may need 33
        enough = reach(scores, size, middle.to(tl.int32), largest, cool, by_mass, unused_bits, chunk) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle - 1)
    return low


@triton.jit
def kth_of(most, largest, top_k, groups, unused_bits: tl.constexpr, tile: tl.constexpr):
    """A number that at least k of the row's scores reach, where it has as many: the k-th highest of group maxima."""
    key = ordered(most, unused_bits)
    least = tl.min(tl.where(tl.arange(0, tile) < groups, most, float("inf")))
    least = tl.where(top_k <= groups, least, float("-inf"))
    low, high = ordered(least, unused_bits).to(tl.int64), ordered(largest, unused_bits).to(tl.int64)
    while low < high:
        middle = high - ((high - low) >> 1)
        enough = tl.sum((key >= middle.to(tl.int32)).to(tl.int32)) >= top_k
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle - 1)
    return low


@triton.jit
def missing(low, mass, largest, cool, size, unused_bits: tl.constexpr):
    """How many tokens of the score whose number is `low` it takes for a mass; one at least."""
    whole = (low << unused_bits).to(tl.int32)
    whole = tl.where(whole < 0, whole | ((1 << unused_bits) - 1), whole)
    last = (whole ^ ((whole >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    count = mass / tl.exp((last - largest) * cool)
    return tl.maximum(tl.ceil(tl.minimum(count, size * 1.0)), 1.0).to(tl.int32)


@triton.jit
def gather(
    scores, most, bound, chosen, kept, places, size, readable,
    unused_bits: tl.constexpr, group: tl.constexpr, tile: tl.constexpr, seats: tl.constexpr,
):  # fmt: skip
    """The scores that reach a bound, and their places, in their order; how many. Few groups are read."""
    lane, count = tl.arange(0, tile), tl.full([], 0, tl.int32)
    reaches = ((ordered(most, unused_bits) >= bound) & (lane * group < size)).to(tl.int32)
    tl.store(chosen + tl.cumsum(reaches, 0) - 1, lane, mask=reaches > 0)
    tl.debug_barrier()  # what one thread has written another reads
    taken = tl.sum(reaches)
    for begin in range(0, taken, seats):
        seat = begin + tl.arange(0, seats)
        own = tl.load(chosen + seat, mask=seat < taken, other=0)
        place = own[:, None] * group + tl.arange(0, group)[None, :]
        real = (seat < taken)[:, None]
        x = tl.load(scores + place, mask=real & (place < readable), other=float("-inf")).to(tl.float32)
        stays = (real & (place < size) & (ordered(x, unused_bits) >= bound)).to(tl.int32)
        number = tl.sum(stays, 1)
        target = count + (tl.cumsum(number, 0) - number)[:, None] + tl.cumsum(stays, 1) - 1
        tl.store(kept + target, x, mask=stays > 0)
        tl.store(places + target, place, mask=stays > 0)
        count += tl.sum(number)
    tl.debug_barrier()
    return count


@triton.jit
def sample_kernel(
    logits, maxima, noise, ids, highest, chosen, kept, places,
    size, readable, by_row, groups, cool, top_k, top_p, min_p,
    unused_bits: tl.constexpr, group: tl.constexpr, tile: tl.constexpr, seats: tl.constexpr, chunk: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, chunk)
    most, largest, told = highest_of(maxima, row, groups, tile)
    tl.store(highest + row, told)
    high = ordered(largest, unused_bits).to(tl.int64)
    low = kth_of(most, largest, top_k, (size + group - 1) // group, unused_bits, tile)
    scores, kept, places = logits + row * by_row, kept + row * size, places + row * size
    count = gather(
        scores, most, low.to(tl.int32), chosen + row * groups, kept, places, size, readable,
        unused_bits, group, tile, seats,
    )  # fmt: skip
    low = lowest(kept, count, low, high, top_k, largest, cool, False, unused_bits, chunk)  # k, and those that equal it
    ties = size  # how many of those that equal the last may stay
    if top_p is not None:
        wanted = top_p * reach(kept, count, low.to(tl.int32), largest, cool, True, unused_bits, chunk)
        low = lowest(kept, count, low, high, wanted, largest, cool, True, unused_bits, chunk)
        above = reach(kept, count, (low + 1).to(tl.int32), largest, cool, True, unused_bits, chunk)
        ties = missing(low, wanted - above, largest, cool, size, unused_bits)
    best, chosen_id, seen = tl.full([], -1.0, tl.float32), tl.full([], 0, tl.int32), tl.full([], 0, tl.int32)
    for number in range((count + chunk - 1) // chunk):  # from the end, where equals are kept first
        seat = ((count + chunk - 1) // chunk - 1 - number) * chunk + lane
        there = seat < count
        x = tl.load(kept + seat, mask=there, other=float("-inf"))
        place = tl.load(places + seat, mask=there, other=0)
        key = ordered(x, unused_bits)
        stays = there & (key >= low.to(tl.int32))
        if top_p is not None:
            equal = (there & (key == low.to(tl.int32))).to(tl.int32)
            after = seen + tl.sum(equal) - tl.cumsum(equal, 0)
            stays = stays & ((equal == 0) | (after < ties))
            seen += tl.sum(equal)
        chance = tl.exp((x - largest) * cool)
        if min_p is not None:
            stays = stays & ((chance >= min_p) | (x == largest))
        luck = tl.load(noise + row * size + place, mask=stays, other=1.0)
        lot, winner = tl.max(tl.where(stays, chance / luck, -1.0), 0, return_indices=True)
        own = tl.sum(tl.where(lane == winner, place, 0))
        chosen_id = tl.where(lot >= best, own, chosen_id)
        best = tl.maximum(best, lot)
    tl.store(ids + row, tl.minimum(chosen_id, size - 1).to(tl.int64))  # with NaN, anything may have won
