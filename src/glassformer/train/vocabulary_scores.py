"""Scores of a vocabulary whose words are dealt out to several processes, and the cross-entropy over them.

P places, V vocabulary, W = V / N words of this process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map

Reduction = Literal["none", "mean", "sum"]


class VocabularyScores:
    """Scores (…, V), of which this process holds (…, W).

    F.cross_entropy is computed where they are: of each place only three numbers are exchanged. Functions of torch,
    methods and indices get all of them, gathered; of Python's operators there is + alone.
    """

    def __init__(self, scores: DTensor) -> None:
        """`scores` are sharded over their last dimension, on a mesh of one."""
        self._scores = scores

    @property
    def whole(self) -> Tensor:
        return self._scores.full_tensor()

    def __add__(self, other: Tensor) -> "VocabularyScores | Tensor":
        """With numbers for all words, as a bias is; those that learn are needed whole."""
        if other.requires_grad or other.shape[-1:] != self._scores.shape[-1:]:
            return self.whole + other
        local = self._scores.to_local()
        mine = other[..., self._first : self._first + local.shape[-1]]
        return VocabularyScores(DTensor.from_local(local + mine, self._scores.device_mesh, self._scores.placements))

    @property
    def _first(self) -> int:
        """The first word of this process."""
        return self._scores.device_mesh.get_local_rank() * self._scores.to_local().shape[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def __getitem__(self, key: Any) -> Tensor:
        return self.whole[key]

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        _types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.cross_entropy and isinstance(args[0], VocabularyScores):
            return args[0].cross_entropy(*args[1:], **(kwargs or {}))
        args, named = tree_map(_whole, (args, dict(kwargs or {})))
        return function(*args, **named)

    def cross_entropy(
        self,
        target: Tensor,
        weight: None = None,
        size_average: None = None,
        ignore_index: int = -100,
        reduce: None = None,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """As F.cross_entropy of scores (P, V) and classes (P,); without weights of classes."""
        assert weight is size_average is reduce is None, "words have no weights"
        mesh = self._scores.device_mesh
        local = self._scores.to_local()
        check_words(target.where(target != ignore_index, 0), self._scores.shape[-1])
        losses = _CrossEntropy.apply(local, target, self._first, ignore_index, label_smoothing, mesh.get_group())  # type: ignore[no-untyped-call]
        assert isinstance(losses, Tensor)
        match reduction:
            case "none":
                return losses
            case "sum":
                return losses.sum()
            case "mean":
                return losses.sum() / (target != ignore_index).sum()

    def float(self) -> "VocabularyScores":
        scores = self._scores.float()
        assert isinstance(scores, DTensor)
        return VocabularyScores(scores)


def check_words(ids: Tensor, count: int) -> None:
    """An id that is none of so many words is an error, as in torch's own look-ups: on a CPU here, on a GPU later."""
    known = ((ids >= 0) & (ids < count)).all()
    if known.is_cuda:
        torch._assert_async(known)
    elif not known:
        raise IndexError(f"an id is none of {count} words")


def _whole(value: object) -> object:
    return value.whole if isinstance(value, VocabularyScores) else value


class _CrossEntropy(torch.autograd.Function):
    """log Σ exp(s) − s[target], with the sums over all processes; its gradient, softmax(s) − target, stays local."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, target: Tensor, first: int, ignored: int, smoothing: float, group: dist.ProcessGroup
    ) -> Tensor:
        top = scores.amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        shifted = scores - top[:, None]  # (P, W)
        place = target - first
        mine = (place >= 0) & (place < scores.shape[-1])
        place = place.where(mine, 0)
        right = shifted.gather(-1, place[:, None]).squeeze(-1).where(mine, 0.0)
        powers = shifted.exp()
        sums = torch.stack([powers.sum(-1), right, shifted.sum(-1)])  # (3, P)
        dist.all_reduce(sums, group=group)
        total, right, every = sums.unbind()
        classes = scores.shape[-1] * dist.get_world_size(group)
        keep = target != ignored
        ctx.save_for_backward(powers / total[:, None], place, mine, keep)
        ctx.smoothing, ctx.classes = smoothing, classes
        losses = total.log() - (1 - smoothing) * right - smoothing * every / classes
        return losses.where(keep, 0.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        softmax, place, mine, keep = ctx.saved_tensors
        found = softmax - ctx.smoothing / ctx.classes
        found.scatter_add_(-1, place[:, None], -(1 - ctx.smoothing) * mine[:, None].to(found.dtype))
        return found * gradient.where(keep, 0.0)[:, None], None, None, None, None, None
