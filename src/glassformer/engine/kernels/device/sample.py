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
def mass_of(masses, row, blocks, largest, cool, tile: tl.constexpr):
    """Σ exp((x − largest) · cool) over a row."""
    lane = tl.arange(0, tile)
    top = tl.load(masses + (row * blocks + lane) * 2, mask=lane < blocks, other=0.0)
    mass = tl.load(masses + (row * blocks + lane) * 2 + 1, mask=lane < blocks, other=0.0)
    return tl.sum(tl.where(mass > 0, mass * tl.exp((top - largest) * cool), 0.0))


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
    logits, maxima, masses, noise, ids, highest, chosen, kept, places,
    size, readable, by_row, groups, blocks, cool, top_k, top_p, min_p,
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
    if top_k is not None:
        low = kth_of(most, largest, top_k, (size + group - 1) // group, unused_bits, tile)
    else:  # all that is lower has half of what may go at most
        total = mass_of(masses, row, blocks, largest, cool, tile)
        low = ordered(largest + tl.log(0.5 * (1.0 - top_p) * total / size) / cool, unused_bits).to(tl.int64)
    scores, kept, places = logits + row * by_row, kept + row * size, places + row * size
    count = gather(
        scores, most, low.to(tl.int32), chosen + row * groups, kept, places, size, readable,
        unused_bits, group, tile, seats,
    )  # fmt: skip
    if top_k is not None:  # the best k stay, and those that equal the last of them
        low = lowest(kept, count, low, high, top_k, largest, cool, False, unused_bits, chunk)
    ties = size  # how many of those that equal the last may stay
    if top_p is not None:
        if top_k is not None:
            total = reach(kept, count, low.to(tl.int32), largest, cool, True, unused_bits, chunk)
        wanted = top_p * total
        low = lowest(kept, count, low, high, wanted, largest, cool, True, unused_bits, chunk)
        above = reach(kept, count, (low + 1).to(tl.int32), largest, cool, True, unused_bits, chunk)
        whole = (low << unused_bits).to(tl.int32)
        whole = tl.where(whole < 0, whole | ((1 << unused_bits) - 1), whole)
        last = (whole ^ ((whole >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        missing = (wanted - above) / tl.exp((last - largest) * cool)
        ties = tl.maximum(tl.ceil(tl.minimum(missing, size * 1.0)), 1.0).to(tl.int32)
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


@triton.jit
def draw_kernel(
    logits, maxima, noise, lots, words, size, readable, by_row, groups, cool, min_p,
    tile: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """The draw within a block of a row: a lot for each token, and the highest has it."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, number, blocks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    _, largest, _ = highest_of(maxima, row, groups, tile)
    place = number * block + tl.arange(0, block)
    x = tl.load(logits + row * by_row + place, mask=place < readable, other=float("-inf")).to(tl.float32)
    chance, stays = tl.exp((x - largest) * cool), place < size
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
    """The highest lot of a row's blocks."""
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
