"""Attention of one new token in each row over a cache."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def heads_of(x, place, lane, gain, eps, cos, sin, width: tl.constexpr):
    """(n, lanes): heads that begin at `place` (n, 1), normed and turned; pairs are (i, i + K/2)."""
    half: tl.constexpr = width // 2
    real = (lane < width) & (place >= 0)
    y = tl.load(x + place + lane, mask=real, other=0.0).to(tl.float32)
    if gain is not None:
        shrink = tl.rsqrt(tl.sum(y * y, 1) / width + eps)[:, None]
        y = y * shrink * tl.load(gain + lane, mask=lane < width, other=0.0)
    if cos is not None:
        first = lane < half
        pair, across = tl.where(first, lane, lane - half), tl.where(first, lane + half, lane - half)
        z = tl.load(x + place + across, mask=real, other=0.0).to(tl.float32)
        if gain is not None:
            z = z * shrink * tl.load(gain + across, mask=lane < width, other=0.0)
        turned = z * tl.load(sin + pair, mask=lane < width, other=0.0)
        y = y * tl.load(cos + pair, mask=lane < width, other=0.0) + tl.where(first, -turned, turned)
    return y


@triton.jit
def attend_kernel(
    query, key, value, keys, values, used, padding, tickets, context,
    cos, sin, query_gain, key_gain, bias, parts, sums,
    query_row, key_row, value_row, cache_row, cache_token, turn_row, scale, eps,
    group: tl.constexpr, key_heads: tl.constexpr, width: tl.constexpr, lanes: tl.constexpr, tile: tl.constexpr,
    splits: tl.constexpr, seats: tl.constexpr, capacity: tl.constexpr, before: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, shared, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    count, start = tl.load(used).to(tl.int32), tl.load(padding + row).to(tl.int32)
    if before is not None:
        start = tl.maximum(start, count - before)
    active = tl.maximum(tl.minimum((count - start + tile - 1) // tile, splits), 1)  # the others have no token
    if split < active:
        seat, lane = tl.arange(0, seats)[:, None], tl.arange(0, lanes)[None, :]
        real, taken, head = lane < width, seat < group, shared * group + seat
        if cos is not None:
            cos += row * turn_row
            sin += row * turn_row
        place = tl.where(taken, head * width, -1)
        q = heads_of(query + row * query_row, place, lane, query_gain, eps, cos, sin, width)  # (seats, lanes)
        own = tl.full([1, 1], 0, tl.int32) + shared * width
        k = heads_of(key + row * key_row, own, lane, key_gain, eps, cos, sin, width).to(keys.dtype.element_ty)
        v = tl.load(value + row * value_row + own + lane, mask=real, other=0.0)  # (1, lanes)
        cached = row * cache_row + shared * width  # where this head's first token stands
        at_end = cached + count * cache_token + lane
        tl.store(keys + at_end, k, mask=real & (split == 0))
        tl.store(values + at_end, v, mask=real & (split == 0))
        q = q.to(keys.dtype.element_ty)
        largest = tl.sum(q.to(tl.float32) * k.to(tl.float32), 1) * scale  # the new token sees itself
        if bias is not None:
            largest += tl.sum(tl.load(bias + head * capacity + count, mask=taken, other=0.0).to(tl.float32), 1)
        largest = tl.where(split == 0, largest, float("-inf"))
        total = tl.where(split == 0, 1.0, tl.zeros([seats], tl.float32))
        gathered = tl.where(split == 0, v.to(tl.float32), tl.zeros([seats, lanes], tl.float32))
        for begin in range(start + split * tile, count, splits * tile):
            token = begin + tl.arange(0, tile)
            there = token < count
            block = cached + token * cache_token
            across = block[None, :] + tl.arange(0, lanes)[:, None]
            shown = there[None, :] & (tl.arange(0, lanes) < width)[:, None]
            past = tl.load(keys + across, mask=shown, other=0.0)  # (lanes, tile)
            seen = tl.load(values + block[:, None] + lane, mask=there[:, None] & real, other=0.0)
            scores = tl.dot(q, past, input_precision="ieee") * scale  # (seats, tile)
            if bias is not None:
                near = head * capacity + token[None, :]
                scores += tl.load(bias + near, mask=taken & there[None, :], other=0.0).to(tl.float32)
            scores = tl.where(there[None, :], scores, float("-inf"))
            higher = tl.maximum(largest, tl.max(scores, 1))
            weights, shrink = tl.exp(scores - higher[:, None]), tl.exp(largest - higher)
            mixed = tl.dot(weights.to(values.dtype.element_ty), seen, input_precision="ieee")
            gathered = gathered * shrink[:, None] + mixed
            total = total * shrink + tl.sum(weights, 1)
            largest = higher
        result = context + (row * key_heads * group + head) * width + lane
        if splits == 1:
            tl.store(result, (gathered / total[:, None]).to(context.dtype.element_ty), mask=taken & real)
        else:
            pair = row * key_heads + shared
            part = (pair * splits + split) * group + seat
            tl.store(parts + part * width + lane, gathered, mask=taken & real)
            tl.store(sums + part * 2, largest[:, None], mask=taken)
            tl.store(sums + part * 2 + 1, total[:, None], mask=taken)
            tl.debug_barrier()  # all of it is written before the ticket is taken
            if tl.atomic_add(tickets + pair, 1, sem="acq_rel") == active - 1:
                tl.store(tickets + pair, 0)
                top = tl.full([seats, 1], float("-inf"), tl.float32)
                mass = tl.zeros([seats, 1], tl.float32)
                whole = tl.zeros([seats, lanes], tl.float32)
                for number in tl.static_range(splits):
                    part = (pair * splits + number) * group + seat
                    ended = taken & (number < active)
                    theirs = tl.load(sums + part * 2, mask=ended, other=float("-inf"), cache_modifier=".cg")
                    theirs = tl.where(taken, theirs, 0.0)
                    higher = tl.maximum(top, theirs)
                    shrink, share = tl.exp(top - higher), tl.exp(theirs - higher)
                    weight = tl.load(sums + part * 2 + 1, mask=ended, other=0.0, cache_modifier=".cg")
                    mixed = tl.load(parts + part * width + lane, mask=ended & real, other=0.0, cache_modifier=".cg")
                    whole = whole * shrink + mixed * share
                    mass = mass * shrink + weight * share
                    top = higher
                mass = tl.where(taken, mass, 1.0)
                tl.store(result, (whole / mass).to(context.dtype.element_ty), mask=taken & real)
