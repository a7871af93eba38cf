"""Linear layers made ready for inference: several joined into one, packed for the CPU's kernels, or in 8 bits.

D width in, E width out.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import native
from .native import STEPS

Project = Callable[[Tensor], Tensor]


class Int8Linear(nn.Module):
    """A linear layer with weights in 8 bits, one scale for each output, whose inputs are rounded row by row.

    A row's own largest value is its scale, so that a text gives the same numbers alone and in any batch.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        if not supports_int8():
            raise ValueError("8-bit weights need torch's fbgemm kernels, on an x86 CPU; leave quant out")
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight)  # (E, D), int8
        self.register_buffer("scale", scale)  # (E,)
        self.register_buffer("bias", bias)
        self.packed = _packed_int8(weight, scale)

    @staticmethod
    def of(linear: nn.Linear) -> "Int8Linear":
        """The nearest to a layer of ordinary weights."""
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        bias = None if linear.bias is None else linear.bias.detach().float()
        made = Int8Linear((weight / scale[:, None]).round().to(torch.int8), scale, bias)
        return made.train(linear.training)

    def _load_from_state_dict(self, *state: Any) -> None:
        super()._load_from_state_dict(*state)
        self.packed = _packed_int8(self.weight, self.scale)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach() if x.requires_grad else x  # nothing can be learnt through this
        unit, largest = native.over_largest(x) if native.takes(x) else over_largest(x)
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            unit, 1 / STEPS, STEPS + 1, self.packed
        )
        return y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest, out=y)


def over_largest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (…, D) over the largest size in each, and those sizes (…, 1)."""
    largest = x.abs().amax(-1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny)
    return x / largest, largest


def quantised(model: nn.Module) -> nn.Module:
    """The model with every linear layer in 8 bits, in place; embeddings and norms stay as they are."""
    made: dict[nn.Linear, Int8Linear] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                made[child] = made.get(child) or Int8Linear.of(child)
                setattr(parent, name, made[child])
    return model


def with_bias(linear: nn.Linear | Int8Linear, bias: Tensor) -> nn.Module:
    """The same layer, and a bias it did not have."""
    if isinstance(linear, Int8Linear):
        return Int8Linear(linear.weight, linear.scale, bias)
    made = nn.Linear(linear.in_features, linear.out_features, device="meta")
    made.weight, made.bias = linear.weight, nn.Parameter(bias, requires_grad=False)
    return made


def rounded_up(linear: nn.Module, multiple: int) -> nn.Module:
    """The same layer with outputs of zero added, up to a multiple of some number."""
    if type(linear) is not nn.Linear or linear.out_features % multiple == 0:
        return linear
    more = -linear.out_features % multiple
    made = nn.Linear(1, 1, bias=linear.bias is not None, device="meta")
    made.weight = nn.Parameter(F.pad(linear.weight.detach(), (0, 0, 0, more)), requires_grad=False)
    if linear.bias is not None:
        made.bias = nn.Parameter(F.pad(linear.bias.detach(), (0, more)), requires_grad=False)
    return made


def supports_int8() -> bool:
    return "fbgemm" in torch.backends.quantized.supported_engines


def _packed_int8(weight: Tensor, scale: Tensor) -> object:
    """As fbgemm's kernels read it. Tensors of quantised types are on their way out of torch; this is the last use."""
    zeros = torch.zeros(len(scale), dtype=torch.long)
    engine = torch.backends.quantized.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        typed = torch._make_per_channel_quantized_tensor(weight, scale.double(), zeros, 0)
        try:
            torch.backends.quantized.engine = "fbgemm"
            packed: object = torch.ops.quantized.linear_prepack(typed, None)
        finally:
            torch.backends.quantized.engine = engine
    return packed


@dataclass(frozen=True)
class Plain:
    """An ordinary linear layer, or several in one."""

    weight: Tensor  # (E, D)
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


FUSED: dict[str | None, tuple[str, list[Any], str]] = {
    None: ("none", [], ""),
    "relu": ("relu", [], ""),
    "tanh_gelu": ("gelu", [], "tanh"),
}  # as oneDNN calls them


@dataclass(frozen=True)
class Packed:
    """The same, laid out for oneDNN's kernels."""

    plain: Plain
    weight: Tensor

    @staticmethod
    def of(plain: Plain) -> "Packed":
        return Packed(plain, torch.ops.mkldnn._reorder_linear_weight(plain.weight.contiguous()))

    def __call__(self, x: Tensor, activation: str | None = None, added: Tensor | None = None) -> Tensor:
        """added + activation(linear(x)), with one of the two at most."""
        weight, bias, kernel = self.weight, self.plain.bias, torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return kernel.binary(x, added, weight, bias, "add")  # type: ignore[no-any-return]
        return kernel(x, weight, bias, *FUSED[activation])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Eight:
    """A layer in 8 bits, or several in one."""

    linear: Int8Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear.forward(x)


def joined(linears: Sequence[nn.Module], *, packed: bool = False) -> Project:
    """One function for layers that read the same: their outputs, one after another.

    `packed` lays ordinary weights out anew for the CPU's kernels, which pays where several rows are read at once.
    """
    if all(type(linear) is nn.Linear for linear in linears):
        weights: list[Any] = [linear.weight.detach() for linear in linears]  # type: ignore[operator]
        biases: list[Any] = [linear.bias for linear in linears]
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        bias = None if biases[0] is None else torch.cat(biases).detach()
        return Packed.of(Plain(weight, bias)) if packed and can_pack(weight) else Plain(weight, bias)
    if len(linears) > 1 and all(isinstance(linear, Int8Linear) for linear in linears):
        parts = [[getattr(linear, name) for linear in linears] for name in ("weight", "scale", "bias")]
        return Eight(Int8Linear(*(None if part[0] is None else torch.cat(part) for part in parts)))  # type: ignore[arg-type]
    if len(linears) == 1:
        return Eight(linears[0]) if isinstance(linears[0], Int8Linear) else linears[0]
    return lambda x: torch.cat([linear(x) for linear in linears], dim=-1)


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN has its own layout for such weights."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
