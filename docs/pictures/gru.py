"""The pictures of the page of the GRU."""

from docs.diagram import Diagram
from docs.pictures._gates import gate

from glassformer.view.heatmap import heatmap


def gru_cell() -> str:
    """Two gates and a candidate; the upper line is the state."""
    picture = Diagram(
        "GRU: a state that can be kept as it is",
        "A GRU cell. The old state passes along the top, times z; the candidate joins it, times 1 minus z.",
    )
    picture.frame(40, -40, 620, 205)
    reset = picture.box(130, 90, "reset\nr = σ", kind="gate", width=84)
    update = picture.box(400, 90, "update\nz = σ", kind="gate", width=84)
    candidate = picture.box(265, 90, "candidate\nn = tanh", width=92)
    forget = picture.operation(190, 30, "×")
    keep = picture.operation(400, 0, "×")
    write = picture.operation(490, 50, "×")
    add = picture.operation(560, 0, "+")
    picture.arrow((0, 0), keep.left)
    picture.arrow(keep.right, add.left, text="z · h")
    picture.arrow(add.right, (670, 0))
    picture.word(-14, 0, "h", anchor="end")
    picture.word(686, 0, "h′", anchor="start")
    picture.arrow((190, 0), forget.top)
    picture.arrow(reset.top, (130, 30), forget.left)
    picture.arrow(forget.right, (265, 30), candidate.top)
    picture.word(243, 20, "r · U h", small=True)
    picture.arrow(update.top, keep.bottom, text="z")
    picture.arrow(candidate.right, (340, 90), (340, 50), write.left)
    picture.arrow(update.right, (490, 90), write.bottom)
    picture.word(480, 100, "1 − z", small=True)
    picture.arrow(write.right, (560, 50), add.bottom)
    x = picture.box(265, 180, "x, and h for both gates", kind="data")
    for box in (reset, update):
        picture.arrow(x.left if box is reset else x.right, (box.x, 180), box.bottom)
    picture.arrow(x.top, candidate.bottom)
    return picture.svg()


def gru_update_gate() -> str:
    """What the encoder of the built-in translator keeps, word by word."""
    values, units, tokens = gate(
        "zoo:gru-attention-en-de",
        "encoder.recurrent.layers.0.left_to_right.update",
        "Emma bought a book at the market.",
        6,
    )
    return heatmap(
        values,
        rows=units,
        columns=tokens,
        title="Update gate of zoo:gru-attention-en-de: 1 keeps the old state, 0 writes a new one",
        axes=("six units", "words as they are read"),
        form=".2f",
    )
