"""Linear layers made ready for inference: several joined into one, prepacked for the CPU's kernels, or in 8 bits.

D width in, E width out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.blocks.activations import tanh_gelu
from glassformer.blocks.alignment import ConcatScore
from glassformer.blocks.decoder import Norms

from . import kernels, native
from .native import STEPS

M = TypeVar("M", bound=nn.Module)
Projection = Callable[[Tensor], Tensor]
Fuse = Callable[[Sequence[nn.Module]], Projection]
"""One projection for linear layers that read the same input."""
NAMED = {tanh_gelu: "tanh_gelu", F.relu: "relu", F.silu: "silu", F.gelu: "gelu"}  # that a GPU's kernels know
IN_PRODUCT = ("tanh_gelu", "relu")  # that its matrix products take along


class Int8Linear(nn.Module):
    """A linear layer with weights in 8 bits, one scale for each output, whose inputs are rounded row by row.

    A row's own largest value is its scale, so that a text gives the same numbers alone and in any batch. The weights
    are prepacked for the kernels, anew when torch counts a change of them; after one through `.data`, which it does not
    count, call `prepack` (the engine does).
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, *, prepacked: Tensor | None = None) -> None:
        super().__init__()
        if not supports_int8():
            raise ValueError("8-bit weights need torch's oneDNN kernels, on an x86 CPU; leave quant out")
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight)  # (E, D), int8
        self.register_buffer("scale", scale)  # (E,)
        self.register_buffer("bias", bias)
        self.zeros = torch.zeros(self.out_features, dtype=torch.long, device=weight.device)
        self.prepacked, self.version = prepacked, self._weight_version()
        if prepacked is None:
            self.prepack()

    @staticmethod
    def of(linear: nn.Linear) -> "Int8Linear":
        """The nearest to a layer of ordinary weights."""
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        bias = None if linear.bias is None else linear.bias.detach().float()
        made = Int8Linear((weight / scale[:, None]).round().to(torch.int8), scale, bias)
        return made.train(linear.training)

    def tied(self) -> "Int8Linear":
        """Another layer with the same tensors."""
        return Int8Linear(self.weight, self.scale, self.bias, prepacked=self.prepacked).train(self.training)

    def prepack(self) -> None:
        """Lay the weights out for the kernels, as they are now."""
        self.prepacked, self.version = torch.ops.onednn.qlinear_prepack(self.weight, None), self._weight_version()

    def _load_from_state_dict(self, *state: object) -> None:
        super()._load_from_state_dict(*state)
        self.prepack()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "prepacked": None}  # which can be neither copied nor pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.prepack()

    def _weight_version(self) -> int | None:
        return None if self.weight.is_inference() else self.weight._version

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach() if x.requires_grad else x  # nothing can be learnt through this
        y, largest = self.product(x)
        return y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest, out=y)

    def product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What rows (…, D) over the largest size in each give without the bias, (…, E), and those sizes (…, 1)."""
        if self.version != self._weight_version():
            self.prepack()
        rounded, largest = native.round_rows(x) if native.takes(x) else round_rows(x)
        places = (rounded, 1 / STEPS, STEPS + 1, self.prepacked, self.scale, self.zeros, None, 1.0, 0)
        return torch.ops.onednn.qlinear_pointwise(*places, torch.float32, "none", [], ""), largest


def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (…, D) over the largest size in each, in STEPS on either side of STEPS + 1, and those sizes (…, 1).

    A row that is not finite becomes one of zeros, and its size NaN.
    """
    largest = x.abs().amax(-1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny)
    largest = torch.where(largest.isfinite(), largest, torch.nan)
    steps = (x / largest * x.new_tensor(1 / STEPS).reciprocal()).nan_to_num_().round_()
    return (steps + (STEPS + 1)).to(torch.uint8), largest


def is_plain(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether a module is of this very class, and has no forward of its own."""
    return type(module) is kind and "forward" not in vars(module)


def is_linear(module: nn.Module) -> "TypeGuard[nn.Linear | Int8Linear]":
    """Whether a module is a plain linear layer, of 32 or 8 bits."""
    return is_plain(module, nn.Linear) or is_plain(module, Int8Linear)


def quantised(model: M) -> M:
    """The model with its linear layers in 8 bits, in place; embeddings, norms and concat scores stay as they are."""
    made: dict[nn.Linear, Int8Linear] = {}
    of_tensors: dict[tuple[Tensor, Tensor | None], Int8Linear] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and not isinstance(parent, ConcatScore):  # it reads past the layer
                if child not in made:
                    tensors = (child.weight, child.bias)
                    first = of_tensors.get(tensors)
                    made[child] = Int8Linear.of(child) if first is None else first.tied()
                    of_tensors.setdefault(tensors, made[child])
                setattr(parent, name, made[child])
    return model


def with_bias(linear: nn.Linear | Int8Linear, bias: Tensor) -> nn.Module:
    """The same layer, and a bias it did not have."""
    if isinstance(linear, Int8Linear):
        return Int8Linear(linear.weight, linear.scale, bias)
    made = nn.Linear(linear.in_features, linear.out_features, device="meta")
    made.weight, made.bias = linear.weight, nn.Parameter(bias, requires_grad=False)
    return made


def pad_vocab(linear: nn.Module, multiple: int) -> nn.Module:
    """The same layer with outputs of zero added, up to a multiple of some number."""
    if not is_plain(linear, nn.Linear) or linear.out_features % multiple == 0:
        return linear
    more = -linear.out_features % multiple
    made = nn.Linear(1, 1, bias=linear.bias is not None, device="meta")
    made.weight = nn.Parameter(F.pad(linear.weight.detach(), (0, 0, 0, more)), requires_grad=False)
    if linear.bias is not None:
        made.bias = nn.Parameter(F.pad(linear.bias.detach(), (0, more)), requires_grad=False)
    return made


def supports_int8() -> bool:
    return torch.backends.mkldnn.is_available() and "fbgemm" in torch.backends.quantized.supported_engines


@dataclass(frozen=True)
class DenseProjection:
    """An ordinary linear layer, or several in one."""

    weight: Tensor  # (E, D)
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    @property
    def on_gpu(self) -> bool:
        return kernels.on_current_gpu(self.weight)


ONEDNN: dict[Any, tuple[str, list[Any], str]] = {
    None: ("none", [], ""),
    F.relu: ("relu", [], ""),
    F.gelu: ("gelu", [], "none"),
    F.silu: ("swish", [], ""),
    tanh_gelu: ("gelu", [], "tanh"),
}  # activations that its products take along


@dataclass(frozen=True)
class OneDnnProjection:
    """The same, laid out for oneDNN's kernels."""

    plain: DenseProjection
    weight: Tensor

    @staticmethod
    def of(plain: DenseProjection) -> "OneDnnProjection":
        return OneDnnProjection(plain, torch.ops.mkldnn._reorder_linear_weight(plain.weight.contiguous()))

    def __call__(self, x: Tensor, activation: object = None, added: Tensor | None = None) -> Tensor:
        """added + activation(linear(x)), with one of the two at most, and one of ONEDNN."""
        weight, bias, kernel = self.weight, self.plain.bias, torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return kernel.binary(x, added, weight, bias, "add")  # type: ignore[no-any-return]
        return kernel(x, weight, bias, *ONEDNN[activation])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Int8Projection:
    """A layer in 8 bits, or several in one."""

    linear: Int8Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear.forward(x)

    def fused(self, x: Tensor, *, gelu: bool, added: Tensor | None) -> Tensor:
        """added + gelu(linear(x)), each part where it is asked for."""
        y, largest = self.linear.product(x)
        native.finish_rows(y, largest, bias=self.linear.bias, gelu=gelu, added=added)
        return y


def fuse_linears(linears: Sequence[nn.Module], *, prepacked: bool = False) -> Projection:
    """One function for layers that read the same: their outputs, one after another.

    `prepacked` lays ordinary weights out anew for the CPU's kernels, which pays where several rows are read at once.
    """
    plain = [linear for linear in linears if is_plain(linear, nn.Linear)]
    if len(plain) == len(linears):
        weights = [linear.weight.detach() for linear in plain]
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        bias = _fused_bias([linear.bias for linear in plain], weights)
        return (
            OneDnnProjection.of(DenseProjection(weight, bias))
            if prepacked and can_prepack(weight)
            else DenseProjection(weight, bias)
        )
    eight = [linear for linear in linears if is_plain(linear, Int8Linear)]
    if len(eight) == len(linears) > 1:
        scales = [linear.scale for linear in eight]
        bias = _fused_bias([linear.bias for linear in eight], scales)
        return Int8Projection(Int8Linear(torch.cat([linear.weight for linear in eight]), torch.cat(scales), bias))
    if len(linears) == 1:
        return Int8Projection(eight[0]) if eight else linears[0]
    return lambda x: torch.cat([linear(x) for linear in linears], dim=-1)


def memoized(fuse: Fuse) -> Fuse:
    """As `fuse`, once for layers over the same tensors, such as ALBERT's."""
    made: dict[tuple[int, ...], Projection] = {}

    def once(linears: Sequence[nn.Module]) -> Projection:
        tensors = (tensor for linear in linears for tensor in (linear.weight, linear.bias))
        key = tuple(map(id, tensors if all(map(is_linear, linears)) else linears))
        if key not in made:
            made[key] = fuse(linears)
        return made[key]

    return once


def _fused_bias(biases: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor | None:
    """One after another, zeros for a layer without one; None where no layer has one."""
    if all(bias is None for bias in biases):
        return None
    return torch.cat([x.new_zeros(len(x)) if b is None else b for b, x in zip(biases, like, strict=True)]).detach()


def can_prepack(weight: Tensor) -> bool:
    """Whether oneDNN has its own layout for such weights."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()


@dataclass(frozen=True)
class PreparedNorm:
    """A LayerNorm or an RMSNorm without its module."""

    weight: Tensor
    bias: Tensor | None
    eps: float
    centred: bool = True  # an RMSNorm does not take the mean off

    def __call__(self, x: Tensor) -> Tensor:
        if self.centred:
            return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return torch.rms_norm(x, self.weight.shape, self.weight, self.eps)

    @property
    def parameters(self) -> kernels.NormParameters:
        """For the kernels on a GPU."""
        return kernels.NormParameters(self.weight, self.bias, self.eps, self.centred)

    @cached_property
    def struct(self) -> native.NormStruct | None:
        """For the kernels on a CPU, which read ordinary numbers."""
        if not native.ordinary(self.weight, self.bias):
            return None
        return native.NormStruct(self.weight.data_ptr(), native.address(self.bias), self.eps, self.centred)


class FusedLinear:
    """added + activation(linear(norm(x))), the norm before and what is added after where they are given.

    `gated`: two layers in one, the first, activated, times the second. On a GPU the sum may be written over what is
    added.
    """

    def __init__(
        self, project: Projection, activation: Callable[[Tensor], Tensor] | None = None, *, gated: bool = False
    ) -> None:
        self.project, self.activation, self.gated = project, activation, gated
        self.name = None if activation is None else NAMED.get(activation)
        named = activation is None or self.name is not None
        self.plain = project if isinstance(project, DenseProjection) and named and project.on_gpu else None
        self.small = small_batch_of(project)

    def __call__(self, x: Tensor, *, norm: Norms | None = None, added: Tensor | None = None) -> Tensor:
        if self.plain is not None and kernels.takes(x, self.plain.weight):
            return self.in_one_kernel(x, self.plain, norm, added)
        if self.small is not None and x.numel() <= native.SMALL_BATCH * x.shape[-1] and native.takes(x, added):
            return self.in_small_batch(x, self.small, norm, added)
        x = x if norm is None else norm(x)
        if isinstance(self.project, OneDnnProjection) and self.in_one_dnn(added):
            return self.project(x, self.activation, added)
        if isinstance(self.project, Int8Projection) and self.in_eight_bits(x, added):
            return self.project.fused(x, gelu=self.activation is not None, added=added)
        if added is not None and self.can_add(added):
            assert self.plain is not None
            added.flatten(0, -2).addmm_(x.flatten(0, -2), self.plain.weight.t())
            return added
        y = self.activated(x)
        return y if added is None else added + y

    def in_one_dnn(self, added: Tensor | None) -> bool:
        return self.activation is None or (self.activation in ONEDNN and added is None and not self.gated)

    def in_eight_bits(self, x: Tensor, added: Tensor | None) -> bool:
        return self.activation in (None, F.gelu) and not self.gated and native.takes(x, added)

    def can_add(self, added: Tensor) -> bool:
        """Whether the product can be summed up where the residual lies."""
        if self.plain is None or self.plain.bias is not None or self.activation is not None:
            return False
        return added.is_contiguous() and added.dtype == self.plain.weight.dtype

    def in_small_batch(
        self, x: Tensor, small: native.SmallBatchLinear, norm: Norms | None, added: Tensor | None
    ) -> Tensor:
        struct = norm.struct if isinstance(norm, PreparedNorm) else None
        x = x if norm is None or struct else norm(x)
        if self.activation is None:
            return small(x, norm=struct, added=added)
        y = self.after(small(x, norm=struct, added=None))
        return y if added is None else added + y

    def in_one_kernel(self, x: Tensor, plain: DenseProjection, norm: Norms | None, added: Tensor | None) -> Tensor:
        parts = norm.parameters if isinstance(norm, PreparedNorm) else None
        x = x if norm is None or parts else norm(x)
        return kernels.linear(
            x, plain.weight, plain.bias, norm=parts, activation=self.name, gated=self.gated, added=added
        )

    def activated(self, x: Tensor) -> Tensor:
        if self.plain is None or self.plain.bias is None or self.gated or self.name not in IN_PRODUCT:
            return self.after(self.project(x))
        weight, bias = self.plain.weight, self.plain.bias
        y: Tensor = torch._addmm_activation(bias, x.flatten(0, -2), weight.t(), use_gelu=self.name == "tanh_gelu")
        return y.unflatten(0, x.shape[:-1])  # type: ignore[no-any-return]

    def after(self, y: Tensor) -> Tensor:
        """The activation, and the gate."""
        if self.activation is None:
            return y
        if not self.gated:
            return self.activation(y)
        if self.plain is not None and kernels.on_current_gpu(y) and kernels.available():
            return kernels.gate(y, self.name)
        gate, up = y.chunk(2, -1)
        return self.activation(gate) * up


def small_batch_of(project: Projection) -> native.SmallBatchLinear | None:
    """The same for few rows on a CPU, where there is a kernel for it."""
    project = project.plain if isinstance(project, OneDnnProjection) else project
    if native.kernels() is None:
        return None
    if isinstance(project, Int8Projection) and native.ordinary(project.linear.scale, project.linear.bias):
        return native.SmallBatchLinear(project.linear.weight, project.linear.bias, project.linear.scale)
    if isinstance(project, DenseProjection) and native.ordinary(project.weight, project.bias):
        return native.SmallBatchLinear(project.weight, project.bias)
    return None
