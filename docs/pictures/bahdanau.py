"""The pictures of the page of Bahdanau's attention."""

import numpy as np
from docs.diagram import Diagram

import glassformer as gf
from glassformer.jobs.align import align
from glassformer.view.heatmap import heatmap

MODEL = "zoo:gru-attention-en-de"
SOURCE = "Lena Klein sold a green cup in Munich on Monday."
TARGET = "Lena Klein verkaufte am Montag in München eine grüne Tasse."


def bahdanau_step() -> str:
    """One step of the decoder: compare, weigh, sum, go on."""
    picture = Diagram(
        "One step: where do I look, and what do I find there?",
        "The decoder's last state is compared with four encoder states; softmax gives four weights, their weighted sum "
        "is the context, which enters the next decoder cell beside the last word.",
    )
    places = [(number, 110.0 * number) for number in range(4)]
    middle = 165.0
    picture.frame(-44, 22, 374, 78)
    total = picture.operation(middle, -72, "Σ")
    for number, across in places:
        name = "₁₂₃₄"[number]
        memory = picture.box(across, 140, f"m{name}", kind="state", width=64)
        word = picture.box(across, 205, ("Lena", "Klein", "sold", "…")[number], kind="data")
        weight = picture.box(across, 50, f"× a{name}", kind="gate", width=64)
        picture.arrow(word.top, memory.bottom)
        picture.arrow(memory.top, weight.bottom, text="" if number else "U")
        picture.arrow(weight.top, (across, 0), (middle + (number - 1.5) * 12, -59 if number in (1, 2) else -62))
        if number:
            picture.arrow((memory.left[0] - 46, 134), (memory.left[0], 134))
            picture.arrow((memory.left[0], 146), (memory.left[0] - 46, 146))
    before = picture.box(540, 50, "s before", kind="state", width=84)
    picture.arrow(before.left, (374, 50), text="W")
    picture.word(436, 61, "v · tanh, softmax", small=True)
    cell = picture.box(540, -72, "GRU", width=84)
    picture.arrow(before.top, cell.bottom)
    picture.arrow(total.right, cell.left, text="context c")
    last = picture.box(540, -142, "Klein", kind="data")
    picture.arrow(last.bottom, cell.top)
    after = picture.box(670, -72, "s", kind="state", width=64)
    picture.arrow(cell.right, after.left)
    picture.arrow(after.right, (750, -72))
    picture.word(756, -72, "verkaufte", anchor="start")
    return picture.svg()


def bahdanau_alignment() -> str:
    """Where a trained model looks while it writes each word."""
    (found,) = align(gf.pipeline("translation", MODEL), [(SOURCE, TARGET)])
    return heatmap(
        np.round(found.weights, 2),
        rows=found.target,
        columns=found.source,
        title="Each German word, and the English words it was written from",
        axes=("written", "read"),
        form=".2f",
    )
