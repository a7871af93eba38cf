"""Encoders over prepared weights: the layers of a model at rest, for reading many texts on a CPU."""

from typing import Any, TypeGuard

from torch import Tensor, nn

from glassformer.blocks.attention import AttentionMask
from glassformer.blocks.point import any_hooked
from glassformer.blocks.transformer import Layer, Stack

from .layers import PreparedLayer, is_known, prepared_layers
from .linear import Fuse, is_plain

STACK_FORWARD = Stack.forward  # as it was written


class PreparedStack(Stack):
    """The layers of a Stack, which run by their prepared form where they have one."""

    def __init__(self, stack: Stack, fuse: Fuse) -> None:
        super().__init__(stack)
        self.forms = prepared_layers(list(stack), fuse)
        self.train(stack.training)

    def forward(self, x: Tensor, mask: AttentionMask, *, keep: Tensor | None = None, **across: Any) -> Tensor:
        """As `Stack.forward`."""
        if across or self.training or any_hooked(self):  # also by who came after it was prepared
            return super().forward(x, mask, keep=keep, **across)
        for form in self.forms:
            more = {"cache": None} if isinstance(form, PreparedLayer) else {}
            x = form(x, mask, **more, source=None, source_mask=None)  # type: ignore[call-arg, unused-ignore]
        return x if keep is None else x.masked_fill(~keep[..., None], 0.0)


def can_be_prepared(stack: nn.Module) -> TypeGuard[Stack]:
    """Whether these are layers of an encoder, run as a Stack does, and at least one of them known."""
    if not is_plain(stack, Stack) or type(stack).forward is not STACK_FORWARD:
        return False
    layers = list(stack.children())
    across = any(not isinstance(layer, Layer) or layer.cross_attention is not None for layer in layers)
    return not across and any(is_known(layer) for layer in layers)


def with_prepared_stacks(model: nn.Module, fuse: Fuse) -> nn.Module:
    """The model in another shell that shares every module but its stacks of encoder layers, which are prepared."""
    parts: dict[str, nn.Module] = {}
    for name, child in model.named_children():
        made = PreparedStack(child, fuse) if can_be_prepared(child) else with_prepared_stacks(child, fuse)
        if made is not child:
            parts[name] = made
    return shell_of(model, parts) if parts and has_own_state_alone(model) else model


def has_own_state_alone(model: nn.Module) -> bool:
    """Whether a module is no wrapper that stands for another, and nothing set on it runs on itself.

    A shell of it would change that other module, or hold the model alive.
    """
    ordinary = type(model).__setattr__ is nn.Module.__setattr__ and "forward" not in vars(model)
    return ordinary and all(getattr(value, "__self__", None) is not model for value in vars(model).values())


def shell_of(model: nn.Module, parts: dict[str, nn.Module]) -> nn.Module:
    """Another module of the same class and the same attributes, with other parts in the places named."""
    shell = type(model).__new__(type(model))
    shell.__dict__.update(vars(model))
    shell.__dict__["_modules"] = {**model._modules, **parts}
    return shell
