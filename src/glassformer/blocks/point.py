"""Points: named places in a model where a value can be read or replaced by a forward hook."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

IGNORED = "_ignored_hooks"  # an attribute of modules: the numbers that torch gave those hooks


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
    """Whether a hook of any kind is on this module, but for those that `ignore_hooks` was told of."""
    if not any(_hooks(module)):
        return False
    ignored = module.__dict__.get(IGNORED, ())
    return any(number not in ignored for hooks in _hooks(module) for number in hooks)


def ignore_hooks(module: nn.Module) -> None:
    """From now on the hooks that are on this module count as none: they see to its weights, and read no value."""
    module.__dict__[IGNORED] = {number for hooks in _hooks(module) for number in hooks}


def _hooks(module: nn.Module) -> tuple[Mapping[int, object], ...]:
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks


def any_global_hook() -> bool:
    """Whether torch calls a hook around every module of every model, as profilers ask it to."""
    return bool(torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)


def any_hooked(module: nn.Module) -> bool:
    """Whether any module inside is hooked: if so, values must have their textbook shapes."""
    return any(map(is_hooked, module.modules()))
