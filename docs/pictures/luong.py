"""The pictures of the page of Luong's attention."""

import torch
from docs.diagram import Diagram
from torch.autograd.graph import saved_tensors_hooks

from glassformer.blocks.alignment import AlignmentName, alignment
from glassformer.view.plots import PlotLine, line_plot

WIDTH, LENGTHS = 256, (10, 20, 30, 40, 60, 80, 100)


def luong_places() -> str:
    """Attention before the cell, and after it."""
    picture = Diagram(
        "Before the cell, or after it",
        "Bahdanau: the state before is the query, and the context enters the cell. Luong: the cell runs first, its new "
        "state is the query, and context and state are combined afterwards.",
    )
    for left, name in ((0.0, "Bahdanau: look, then step"), (400.0, "Luong: step, then look")):
        picture.frame(left - 62, -64, left + 282, 262, name)
        first = left == 0
        before = picture.box(left, 175, "s before", kind="state", width=84)
        word = picture.box(left + 110, 235, "last word", kind="data")
        cell = picture.box(left + 110, 175, "cell", width=64)
        after = picture.box(left + 220, 175, "s", kind="state", width=64)
        attention = picture.box(left + (0 if first else 220), 90, "attention", kind="gate", width=84)
        combine = picture.box(left + 110, 25, "tanh", width=64)
        picture.arrow(before.right, cell.left)
        picture.arrow(word.top, cell.bottom)
        picture.arrow(cell.right, after.left)
        picture.arrow((before if first else after).top, attention.bottom, text="query")
        if first:
            picture.arrow(attention.right, (left + 110, 90), cell.top, text="c")
            picture.arrow(attention.top, (left, 25), combine.left, text="c")
            picture.arrow(after.top, (left + 220, 25), combine.right)
        else:
            picture.arrow(attention.top, (left + 220, 25), combine.right, text="c")
            picture.arrow((left + 165, 175), (left + 165, 90), (left + 110, 90), combine.bottom)
        picture.arrow(combine.top, (left + 110, -14))
        picture.word(left + 110, -24, "word")
    return picture.svg()


def luong_memory() -> str:
    """What each kind of score keeps for the backward pass, by the length of both sentences."""
    kinds: dict[str, AlignmentName] = {"additive, concat": "concat", "general": "general", "dot": "dot"}
    lines = [
        PlotLine(name=name, x=LENGTHS, y=[_kept(kind, length) for length in LENGTHS]) for name, kind in kinds.items()
    ]
    return line_plot(
        lines,
        title="What one sentence pair keeps for the backward pass, width 256",
        x_axis="words of the source and of the target",
        y_axis="numbers",
        log_y=True,
    )


def _kept(kind: AlignmentName, length: int) -> int:
    """How many numbers autograd stores, those of weights and inputs not counted."""
    torch.manual_seed(0)
    attention = alignment(kind, WIDTH, WIDTH)
    query, memory = torch.randn(2, 1, length, WIDTH).unbind()
    given = {tensor.untyped_storage().data_ptr() for tensor in (query, memory, *attention.parameters())}
    kept: dict[int, int] = {}

    def store(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with saved_tensors_hooks(store, lambda tensor: tensor):
        context = attention(query.requires_grad_(), memory.requires_grad_())
    assert context.requires_grad
    return sum(kept.values())
