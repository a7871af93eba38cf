"""Linear layers of few rows, and the gate of many."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def activate(y, activation: tl.constexpr):
    if activation == 1:  # y/2 · (1 + tanh(z)), by its exponential
        y = y / (1.0 + tl.exp(-1.5957691216057308 * (y + 0.044715 * y * y * y)))
    if activation == 2:
        y = tl.maximum(y, 0.0)
    if activation == 3:
        y = y / (1.0 + tl.exp(-y))
    if activation == 4:
        y = 0.5 * y * (1.0 + tl.erf(0.7071067811865476 * y))
    return y


@triton.jit
def linear_kernel(
    x, weight, bias, gain, shift, added, out, eps,
    inputs: tl.constexpr, outputs: tl.constexpr, lanes: tl.constexpr, tile: tl.constexpr, centred: tl.constexpr,
    gated: tl.constexpr, activation: tl.constexpr, again: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
    row, first, step = tl.program_id(0), tl.program_id(1) * tile, tl.num_programs(1) * tile
    lane = tl.arange(0, lanes)
    real = lane < inputs
    place = first + tl.arange(0, tile)
    block = place[:, None].to(tl.int64) * inputs + lane[None, :]
    shown = (place < outputs)[:, None] & real[None, :]
    w = tl.load(weight + block, mask=shown, other=0.0)  # what the model holds need not wait for what it computes
    if gated:
        other = tl.load(weight + outputs * inputs + block, mask=shown, other=0.0)
    if gain is not None:
        stretch = tl.load(gain + lane, mask=real, other=0.0).to(tl.float32)
    if shift is not None:
        moved = tl.load(shift + lane, mask=real, other=0.0).to(tl.float32)
    if early:
        tl.extra.cuda.gdc_wait()
    v = tl.load(x + row * inputs + lane, mask=real, other=0.0).to(tl.float32)
    if centred:
        v = tl.where(real, v - tl.sum(v) / inputs, 0.0)
    if gain is not None:
        v = v * tl.rsqrt(tl.sum(v * v) / inputs + eps) * stretch
    if shift is not None:
        v += moved
    for begin in range(first, outputs, step):
        place = begin + tl.arange(0, tile)
        there = place < outputs
        now = w
        if gated:
            other_now = other
        if bias is not None:  # all that is read is on its way before anything is summed up
            own = tl.load(bias + place, mask=there, other=0.0)
            if gated:
                other_own = tl.load(bias + outputs + place, mask=there, other=0.0)
        if added is not None:
            more = tl.load(added + row * outputs + place, mask=there, other=0.0)
        if again:
            block = (place + step)[:, None].to(tl.int64) * inputs + lane[None, :]
            shown = (place + step < outputs)[:, None] & real[None, :]
            w = tl.load(weight + block, mask=shown, other=0.0)
            if gated:
                other = tl.load(weight + outputs * inputs + block, mask=shown, other=0.0)
        y = tl.sum(now.to(tl.float32) * v[None, :], 1)
        if bias is not None:
            y += own
        y = activate(y, activation)
        if gated:
            z = tl.sum(other_now.to(tl.float32) * v[None, :], 1)
            if bias is not None:
                z += other_own
            y *= z
        if added is not None:
            y += more
        tl.store(out + row * outputs + place, y.to(out.dtype.element_ty), mask=there)


@triton.jit
def gate_kernel(
    both, out, outputs: tl.constexpr, tile: tl.constexpr, activation: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, place = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    there = place < outputs
    first = tl.load(both + row * 2 * outputs + place, mask=there, other=0.0).to(tl.float32)
    second = tl.load(both + row * 2 * outputs + outputs + place, mask=there, other=0.0).to(tl.float32)
    y = activate(first, activation) * second
    tl.store(out + row * outputs + place, y.to(out.dtype.element_ty), mask=there)
