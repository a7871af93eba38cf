"""Linear layers of few rows on a GPU, with what stands around them: the norm before, gate and sum after.

Such a product waits for memory: every weight is read once, and the art is to have enough of them on their way at any
time. A program reads the weights of some outputs at once, before it waits for the inputs, and those of its next outputs
while it adds these up. D width in, E width out.
"""

from typing import NamedTuple

from torch import Tensor

from .launch import available, early, multiprocessors, on_current_gpu, power_of_two

SMALL_BATCH = 4  # rows: more are left to the libraries' matrix products
WIDEST = 16384  # inputs that one program holds
ACTIVATIONS = {None: 0, "tanh_gelu": 1, "relu": 2, "silu": 3, "gelu": 4}
TILE_BYTES = 16384  # of weights that a program reads at once


class NormParameters(NamedTuple):
    """A LayerNorm, or an RMSNorm: not centred."""

    gain: Tensor
    shift: Tensor | None
    eps: float
    centred: bool


class Tiling(NamedTuple):
    """How outputs are shared out: `tile` at a time to each of `programs`, of so many warps."""

    tile: int
    programs: int
    warps: int = 4

    @staticmethod
    def of(outputs: int, row_bytes: int) -> "Tiling":
        """For rows of weights of so many bytes: all programs have about the same to do.

        As `benchmarks.kernels` found it on an H200: many small programs, or few large ones where rows are long.
        """
        tile, most, warps = (TILE_BYTES // row_bytes, 8, 4) if row_bytes < TILE_BYTES else (2, 2, 8)
        tiles = -(-outputs // tile)
        each = -(-tiles // (most * multiprocessors()))
        return Tiling(tile, -(-tiles // each), warps)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether `linear` is the way to go: few rows on a GPU, none of them too long for one program."""
    few = x.numel() <= SMALL_BATCH * x.shape[-1] and x.shape[-1] <= WIDEST and on_current_gpu(x)
    return few and x.dtype == weight.dtype and weight.is_contiguous() and available()


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    norm: NormParameters | None = None,
    activation: str | None = None,
    gated: bool = False,
    added: Tensor | None = None,
    tiling: Tiling | None = None,
) -> Tensor:
    """added + activation(norm(x) weightᵀ + bias) for few rows (…, D), each part where it is given.

    `gated`: the first half of the outputs, activated, times the second half.
    """
    from .device.linear import linear_kernel

    outputs, inputs = weight.shape
    outputs //= 1 + gated
    x = x.contiguous()
    rows, out = x.numel() // inputs, x.new_empty(*x.shape[:-1], outputs)
    added = None if added is None else added.expand_as(out).contiguous()
    gain, shift, eps, centred = norm or (None, None, 0.0, False)
    lanes = power_of_two(inputs)
    chosen = tiling or Tiling.of(outputs, lanes * weight.element_size() * (1 + gated))
    shape = {"inputs": inputs, "outputs": outputs, "lanes": lanes, "tile": chosen.tile}
    kind = {"centred": centred, "gated": gated, "activation": ACTIVATIONS[activation]}
    kind |= {"again": chosen.programs * chosen.tile < outputs}
    tensors = (x, weight, bias, gain, shift, added, out)
    linear_kernel[(rows, chosen.programs)](*tensors, eps, **shape, **kind, num_warps=chosen.warps, **early())
    return out


def gate(both: Tensor, activation: str | None) -> Tensor:
    """(…, 2E) -> (…, E): the first half, activated, times the second."""
    from .device.linear import gate_kernel

    both = both.contiguous()
    outputs = both.shape[-1] // 2
    out = both.new_empty(*both.shape[:-1], outputs)
    tile, rows = 1024, out.numel() // outputs
    shape = {"outputs": outputs, "tile": tile, "activation": ACTIVATIONS[activation]}
    gate_kernel[(rows, -(-outputs // tile))](both, out, **shape, num_warps=4, **early())
    return out
