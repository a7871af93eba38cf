"""Will it fit? The memory that training takes, worked out before its first step, and what the device has.

Four small batches are run forward, and what autograd keeps of them is scaled up: a part that does not grow (weights
cast to half precision), one that grows with the tokens, and one with the square of the length (attention).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.blocks.memory import free_bytes
from glassformer.models.contract import as_model

PROBE = 32  # tokens: the shorter of the lengths tried
Loss = Callable[[int, int], Tensor]
"""(rows, length) -> the loss of some batch of this shape."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes that training takes, by what they hold, and those that the device can give."""

    parameters: int
    gradients: int
    optimiser: int
    activations: int
    passing: int  # the largest activation and its gradient, on the way back
    available: int

    @property
    def needed(self) -> int:
        return self.parameters + self.gradients + self.optimiser + self.activations + self.passing

    def __str__(self) -> str:
        return f"needs about {_short(self.needed)} of {_short(self.available)}"


def estimate(model: nn.Module, rows: int, *, length: int, loss: Loss | None = None) -> Memory:
    """The memory of AdamW on batches of `rows` texts, `length` tokens each, in the precision it is called under.

    `loss` gives the loss of some batch of (rows, length); without it the first output is compared with made-up
    targets, which is right for language models and a little much where only some positions are predicted.
    """
    kept = scaled_up(model, rows, length=length, loss=loss)
    parameters = _bytes_of([*model.parameters(), *model.buffers()])
    learning = _bytes_of([tensor for tensor in model.parameters() if tensor.requires_grad])
    return Memory(
        parameters=parameters,
        gradients=learning,
        optimiser=2 * learning,  # the mean of the gradients and of their squares
        activations=kept.total,
        passing=2 * kept.largest,
        available=free_bytes(next(model.parameters()).device) + parameters,  # which are there already
    )


class SavedActivations(NamedTuple):
    """Bytes that autograd keeps between forward and backward."""

    total: int
    largest: int  # of one tensor that has a gradient: masks and a kernel's notes have none


def scaled_up(model: nn.Module, rows: int, *, length: int, loss: Loss | None = None) -> SavedActivations:
    """What autograd will keep of a batch, from what it keeps of small ones."""
    loss = made_up_loss(model) if loss is None else loss
    short = max(1, min(PROBE, length // 2))
    shapes = ((1, short), (2, short), (1, 2 * short), (2, 2 * short))
    with _as_in_training(model):
        tried = [measured(model, loss, *shape) for shape in shapes]
    return SavedActivations(*(_extrapolated(part, short, rows, length) for part in zip(*tried, strict=True)))


def measured(model: nn.Module, loss: Loss, rows: int, length: int) -> SavedActivations:
    """What autograd keeps of one batch, without the model's own tensors; views of one storage count once."""
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)  # holding it, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss(rows, length)
    others = [tensor for address, tensor in kept.items() if address not in own]
    sizes = [(tensor.untyped_storage().nbytes(), tensor.is_floating_point()) for tensor in others]
    return SavedActivations(
        sum(size for size, _ in sizes), max((size for size, is_float in sizes if is_float), default=0)
    )


def _extrapolated(tried: tuple[int, int, int, int], short: int, rows: int, length: int) -> int:
    """What all rows share, which may grow with length² as a window's mask does, and each row's own.

    Of one row and of two, of a length and of twice that length.
    """
    one, two, one_long, two_long = tried
    shared, shared_long = 2 * one - two, 2 * one_long - two_long
    row, row_long = two - one, two_long - one_long
    shared_square = max(0.0, (shared_long - shared) / (3 * short**2))
    square = max(0.0, (row_long - 2 * row) / (2 * short**2))
    straight = row_long / (2 * short) - square * 2 * short
    return round(shared + shared_square * (length**2 - short**2) + rows * (straight * length + square * length**2))


def made_up_loss(model: nn.Module) -> Loss:
    device = next(model.parameters()).device
    decodes = as_model(model).config.is_encoder_decoder

    def loss(rows: int, length: int) -> Tensor:
        ids = torch.zeros(rows, length, dtype=torch.long, device=device)
        scores = model(input_ids=ids, **({"decoder_input_ids": ids} if decodes else {}))[0].flatten(0, -2)
        return F.cross_entropy(scores.float(), ids.new_zeros(len(scores)))

    return loss


@contextmanager
def _as_in_training(model: nn.Module) -> Iterator[None]:
    """Dropout on, and neither it nor any chance drawn leaves a trace."""
    modes = {part: part.training for part in model.modules()}
    device = next(model.parameters()).device
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type="cuda"), torch.enable_grad():
            model.train()
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _bytes_of(tensors: list[Tensor]) -> int:
    """A tied tensor counts once."""
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values())


def _short(size: int) -> str:
    """3.1 GB for 3100000000."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= 0.995 * unit:
            return f"{size / unit:.2g} {name}" if size < 9.95 * unit else f"{size / unit:.0f} {name}"
    return f"{size / 1e3:.0f} kB"
