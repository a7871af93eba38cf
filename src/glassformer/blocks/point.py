"""Points: named places in a model where a value can be read or replaced by a forward hook."""

from torch import Tensor, nn


class Point(nn.Module):
    """An identity that knows whether someone listens, so that nobody listening costs nothing."""

    @property
    def heard(self) -> bool:
        return bool(self._forward_hooks)

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


def anyone_listens(module: nn.Module) -> bool:
    """Whether any module inside has a forward hook: if so, values must have their textbook shapes."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
