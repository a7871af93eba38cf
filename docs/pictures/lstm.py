"""The pictures of the page of the LSTM."""

from docs.diagram import Diagram
from docs.pictures._gates import gate
from docs.pictures._memory import LENGTHS, fresh, gradients

from glassformer.view.heatmap import heatmap
from glassformer.view.plots import PlotLine, line_plot


def lstm_cell() -> str:
    """The cell along the top, three gates and a candidate below it."""
    picture = Diagram(
        "LSTM: a cell that is added to, and a state that is shown",
        "An LSTM cell. The memory c passes along the top, times the forget gate, plus input gate times candidate; the "
        "state h is the output gate times tanh of c.",
    )
    picture.frame(40, -40, 640, 205)
    gates = [("forget\nf = σ", 110), ("input\ni = σ", 220), ("output\no = σ", 460)]
    forget, write, output = (picture.box(x, 110, text, kind="gate", width=84) for text, x in gates)
    candidate = picture.box(335, 110, "candidate\ng = tanh", width=92)
    keep, add = picture.operation(110, 0, "×"), picture.operation(278, 0, "+")
    join, show = picture.operation(278, 50, "×"), picture.operation(560, 74, "×")
    squash = picture.box(560, 32, "tanh", width=56, height=26)
    picture.arrow((0, 0), keep.left)
    picture.arrow(keep.right, add.left, text="f · c")
    picture.arrow(add.right, (690, 0))
    picture.word(-14, 0, "c", anchor="end")
    picture.word(706, 0, "c′", anchor="start")
    picture.arrow(forget.top, keep.bottom)
    picture.arrow(write.top, (220, 50), join.left)
    picture.arrow(candidate.top, (335, 50), join.right)
    picture.arrow(join.top, add.bottom)
    picture.word(256, 27, "i · g", small=True)
    picture.arrow((560, 0), squash.top)
    picture.arrow(squash.bottom, show.top)
    picture.arrow(output.top, (460, 74), show.left)
    picture.arrow(show.right, (690, 74))
    picture.word(706, 74, "h′", anchor="start")
    given = picture.box(278, 185, "x and h, to all four", kind="data")
    for box in (forget, write, candidate, output):
        side = given.left if box.x < given.left[0] else given.right if box.x > given.right[0] else (box.x, 168)
        places = [(box.x, 185)] if side in (given.left, given.right) else []
        picture.arrow(side, *places, box.bottom)
    return picture.svg()


def lstm_forget_gate() -> str:
    """What the built-in tagger forgets, word by word."""
    values, units, tokens = gate(
        "zoo:bilstm-ner", "recurrent.layers.0.left_to_right.forget", "Emma met Paul in Berlin.", 6
    )
    return heatmap(
        values,
        rows=units,
        columns=tokens,
        title="Forget gate of zoo:bilstm-ner: 1 keeps the cell, 0 empties it",
        axes=("six units", "words as they are read"),
        form=".2f",
    )


def lstm_memory() -> str:
    """The gradient by the first state, for the three cells."""
    cells = {"RNN": fresh("rnn"), "GRU": fresh("gru"), "LSTM, forget bias 0": fresh("lstm", forget_bias=0.0)}
    cells |= {f"LSTM, forget bias {bias}": fresh("lstm", forget_bias=bias) for bias in (1.0, 3.0)}
    return line_plot(
        [PlotLine(name=name.replace(".0", ""), x=LENGTHS, y=gradients(cell)) for name, cell in cells.items()],
        title="How much of the first state is left, before training",
        x_axis="steps between",
        y_axis="size of d(last state)/d(first state); of an LSTM, of its cell",
        log_y=True,
    )
