"""The draw of a token of each row."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def ordered(x, unused_bits: tl.constexpr):
    """Whole numbers in the order of the floats; those of bf16 differ in their upper bits alone."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) >> unused_bits


@triton.jit
def reach(
    scores, size, readable, bound, largest, cool,
    by_mass: tl.constexpr, unused_bits: tl.constexpr, chunk: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """How many scores are at least `bound`, or their mass: Σ exp((x − largest) · cool)."""
    found = tl.zeros([chunk], tl.float32)
    for begin in tl.range(0, size, chunk, num_stages=stages):  # more are on their way
        place = begin + tl.arange(0, chunk)
        x = tl.load(scores + place, mask=place < readable, other=float("-inf")).to(tl.float32)
        kept = (place < size) & (ordered(x, unused_bits) >= bound)
        found += tl.where(kept, tl.exp((x - largest) * cool) if by_mass else 1.0, 0.0)
    return tl.sum(found)


@triton.jit
def lowest(
    scores, size, readable, low, high, wanted, largest, cool,
    by_mass: tl.constexpr, unused_bits: tl.constexpr, chunk: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """The highest number in [low, high] above which, itself included, there is as much as wanted; else low."""
    while low < high:
        middle = high - ((high - low) >> 1)  # in 64 bits: the difference may need 33
        enough = (
            reach(scores, size, readable, middle.to(tl.int32), largest, cool, by_mass, unused_bits, chunk, stages)
            >= wanted
        )
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle - 1)
    return low


@triton.jit
def sample_kernel(
    logits, noise, ids, highest, kept, places, size, readable, by_row, cool, top_k, top_p, min_p,
    unused_bits: tl.constexpr, chunk: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    scores, count, lane = logits + row * by_row, size, tl.arange(0, chunk)
    most = tl.full([chunk], float("-inf"), tl.float32)
    least = tl.full([chunk], float("inf"), tl.float32)
    broken = tl.zeros([chunk], tl.int32)
    for begin in range(0, size, chunk):
        there = begin + lane < size
        x = tl.load(scores + begin + lane, mask=begin + lane < readable, other=float("-inf")).to(tl.float32)
        x = tl.where(there, x, float("-inf"))
        most = tl.maximum(most, x)
        least = tl.minimum(least, tl.where(there, x, float("inf")))
        broken |= (x != x).to(tl.int32)
    largest = tl.max(most)
    tl.store(highest + row, tl.where(tl.max(broken) > 0, float("nan"), largest))
    low, high = ordered(tl.min(least), unused_bits).to(tl.int64), ordered(largest, unused_bits).to(tl.int64)
    if kept is not None:  # the best k go on, in their order, and those that equal the last of them
        low = lowest(scores, size, readable, low, high, top_k, largest, cool, False, unused_bits, chunk, 6)
        count = tl.full([], 0, tl.int32)
        for begin in range(0, size, chunk):
            there = begin + lane < size
            x = tl.load(scores + begin + lane, mask=begin + lane < readable, other=float("-inf")).to(tl.float32)
            stays = there & (ordered(x, unused_bits) >= low.to(tl.int32))
            target = row * size + count + tl.cumsum(stays.to(tl.int32), 0) - 1
            tl.store(kept + target, x, mask=stays)
            tl.store(places + target, begin + lane, mask=stays)
            count += tl.sum(stays.to(tl.int32))
        tl.debug_barrier()  # what one thread has written another reads
        scores, readable = kept + row * size, count
    stages: tl.constexpr = 6 if kept is None else 1  # those that are left are few
    ties = size  # how many of those that equal the last may stay
    if top_p is not None:
        bound = low.to(tl.int32)
        wanted = top_p * reach(scores, count, readable, bound, largest, cool, True, unused_bits, chunk, stages)
        low = lowest(scores, count, readable, low, high, wanted, largest, cool, True, unused_bits, chunk, stages)
        bound = (low + 1).to(tl.int32)
        above = reach(scores, count, readable, bound, largest, cool, True, unused_bits, chunk, stages)
        whole = (low << unused_bits).to(tl.int32)
        whole = tl.where(whole < 0, whole | ((1 << unused_bits) - 1), whole)
        last = (whole ^ ((whole >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        missing = (wanted - above) / tl.exp((last - largest) * cool)
        ties = tl.maximum(tl.ceil(tl.minimum(missing, size * 1.0)), 1.0).to(tl.int32)
    best, chosen, seen = tl.full([], -1.0, tl.float32), tl.full([], 0, tl.int32), tl.full([], 0, tl.int32)
    for number in range((count + chunk - 1) // chunk):  # from the end, where equals are kept first
        place = ((count + chunk - 1) // chunk - 1 - number) * chunk + lane
        there = place < count
        x = tl.load(scores + place, mask=there, other=float("-inf")).to(tl.float32)
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
        if kept is not None:
            place = tl.load(places + row * size + place, mask=there, other=0)
        luck = tl.load(noise + row * size + place, mask=stays, other=1.0)
        lot, winner = tl.max(tl.where(stays, chance / luck, -1.0), 0, return_indices=True)
        own = tl.sum(tl.where(lane == winner, place, 0))
        chosen = tl.where(lot >= best, own, chosen)
        best = tl.maximum(best, lot)
    tl.store(ids + row, tl.minimum(chosen, size - 1).to(tl.int64))  # with NaN, a lane behind the last may have won
