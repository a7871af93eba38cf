"""Points: named places in a model where a value can be read or replaced by a forward hook."""

from torch import Tensor, nn
from torch.nn.modules import module as torch_module


class Point(nn.Module):
    """An identity that knows whether a hook is on it, so that without one it costs nothing."""

    @property
    def has_hooks(self) -> bool:
        return is_hooked(self)

    def forward(self, value: Tensor) -> Tensor:
        return value


class FeaturePoint(Point):
    """A Point over the features (B, T, width) of tokens that a text's vector is pooled from."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width


class StepPoint(Point):
    """A Point inside a time loop: it fires once a step, and a recorder joins the steps along dim 1.

    `reverse` says that the loop runs from the last token to the first, so that what is joined
    can be turned round and lines up with the tokens.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        self.reverse = reverse


def is_hooked(module: nn.Module) -> bool:
    """Whether a hook of any kind is on this module."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def any_global_hook() -> bool:
    """Whether torch calls a hook around every module of every model, as profilers ask it to."""
    return bool(torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)


def any_hooked(module: nn.Module) -> bool:
    """Whether any module inside is hooked: if so, values must have their textbook shapes."""
    return any(map(is_hooked, module.modules()))
