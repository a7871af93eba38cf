"""Points: named places in a model where a value can be read or replaced by a forward hook."""

from torch import Tensor, nn


class Point(nn.Module):
    """An identity that knows whether someone listens, so that nobody listening costs nothing."""

    @property
    def heard(self) -> bool:
        return hooked(self)

    def forward(self, value: Tensor) -> Tensor:
        return value


class StepPoint(Point):
    """A Point inside a time loop: it fires once a step, and a recorder joins the steps along dim 1.

    `reverse` says that the loop runs from the last token to the first, so that what is joined
    can be turned round and lines up with the tokens.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        self.reverse = reverse


def hooked(module: nn.Module) -> bool:
    """Whether a hook of any kind is on this module."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def anyone_listens(module: nn.Module) -> bool:
    """Whether any module inside is hooked: if so, values must have their textbook shapes."""
    return any(map(hooked, module.modules()))
