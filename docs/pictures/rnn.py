"""The pictures of the page of the RNN."""

from docs.diagram import Diagram
from docs.pictures._memory import LENGTHS, fresh, gradients

from glassformer.view.plots import PlotLine, line_plot

WORDS = ("the", "film", "was", "good")


def rnn_unrolled() -> str:
    """The loop, and the same cell drawn once for each word."""
    picture = Diagram(
        "One cell, used at every word",
        "An RNN cell with a loop, and the same cell unrolled over four words: each takes a word and the state before.",
    )
    x = picture.box(0, 150, "x", kind="data")
    loop = picture.box(0, 75, "cell", kind="state", width=64)
    picture.arrow(x.top, loop.bottom, text="W")
    picture.arrow(loop.top, (0, 22))
    picture.word(0, 12, "h")
    picture.arrow((0, 42), (56, 42), (56, 75), loop.right)
    picture.word(64, 58, "U", small=True, anchor="start")
    picture.word(112, 75, "=")
    picture.word(150, 75, "h₀ = 0", small=True, anchor="middle")
    before = (178.0, 75.0)
    for number, word in enumerate(WORDS, 1):
        across = 115.0 + 125 * number
        cell = picture.box(across, 75, "cell", kind="state", width=64)
        given = picture.box(across, 150, word, kind="data")
        picture.arrow(before, cell.left, text="" if number == 1 else f"h{'₀₁₂₃'[number - 1]}")
        picture.arrow(given.top, cell.bottom, text="W")
        before = cell.right
    picture.arrow(before, (before[0] + 60, 75), text="h₄")
    return picture.svg()


def rnn_vanishing() -> str:
    """The gradient of the last state by the first one, for recurrent weights of three sizes."""
    lines = [
        PlotLine(name=f"U = {scale:g} · rotation", x=LENGTHS, y=gradients(fresh("rnn", scale)))
        for scale in (0.7, 1.0, 2.0)
    ]
    return line_plot(
        lines,
        title="How much of the first state is left",
        x_axis="steps between",
        y_axis="size of d(last state)/d(first state)",
        log_y=True,
    )
