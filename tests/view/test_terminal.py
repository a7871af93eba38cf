"""A board in a terminal: every cell in its colour, within the width, and legible without colours."""

import numpy as np
import pytest

from boards import inspected, made_up
from glassformer.view.colours import hexadecimal
from glassformer.view.terminal import SHADES, lines


def text_of(line):
    return "".join(piece.text for piece in line)


def test_every_cell_of_a_matrix_has_its_colour():
    board = made_up(1, 1, 6)
    _, _, *rows = lines(board, width=80)
    for row, line in enumerate(rows):
        cells = [piece.back for piece in line[1:] for _ in range(len(piece.text) // 2)]
        wanted = [hexadecimal(colour) for colour in board.scales[0].colours(board.values[0, 0, row], "dark")]
        assert cells == wanted
        assert text_of(line).split()[:2] == [f"t{row}", str(row)]


def test_without_colours_strong_cells_are_dark():
    board = made_up(1, 1, 6)
    _, _, *rows = lines(board, colour=False)
    for row, line in enumerate(rows):
        assert all(piece.back is None for piece in line)
        drawn = text_of(line[1:])[::2]
        shade = [SHADES.index(char) for char in drawn]
        assert (np.diff(np.array(shade)[np.argsort(board.values[0, 0, row])]) >= 0).all()


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (None, None), (1, None)])
@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("tokens", [5, 90])
def test_nothing_is_wider_than_the_terminal(layer, head, width, tokens):
    shown = list(lines(made_up(2, 12, tokens).cut(layer, head), width=width))
    assert max(len(text_of(line)) for line in shown) <= width
    assert any("largest of" in text_of(line) for line in shown) == (tokens == 90 and head == 0)


def test_states_and_alignments_are_shown_too():
    states = list(inspected("lstm").lines(layer=0, colour=False))
    assert text_of(states[0]) == "states: layer ↓  state →"
    assert text_of(states[1]).split()[:2] == ["hidden", "cell"]
    aligned = [text_of(line) for line in inspected("bahdanau").lines(colour=False)]
    assert aligned[0] == "alignment, layer 0, head 0"
    assert aligned[-1].startswith("read: 0 4  1 17")
