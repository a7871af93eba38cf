"""Boards: pooling by brute force, choosing, and what cannot be shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boards import inspected, made_up
from glassformer.view.board import pooled
from glassformer.view.colours import ColourScale, ramp, signed
from glassformer.view.inspection import Inspection
from glassformer.view.labels import short, text_width, visible


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), down=st.integers(1, 4), across=st.integers(1, 4))
def test_a_pooled_cell_is_the_value_furthest_from_zero(rows, columns, down, across):
    values = np.random.default_rng(rows).standard_normal((2, rows, columns))
    found = pooled(values, down, across)
    for (which, row, column), value in np.ndenumerate(found):
        block = values[which, row * down : (row + 1) * down, column * across : (column + 1) * across].ravel()
        assert value == block[np.abs(block).argmax()]


def test_layers_heads_and_gates_are_chosen_by_name():
    (board,) = inspected("lstm").boards
    assert board.cut(1).rows == ["1 →", "1 ←"]
    one = board.cut(0, "forget")
    assert one.columns == ["forget"]
    np.testing.assert_array_equal(one.values[:, 0], board.values[:2, board.columns.index("forget")])
    assert all(str(source).endswith('.forget"][0]') for source in one.sources)
    with pytest.raises(ValueError, match="no layer 7; it has 0, 1"):
        board.cut(7)
    with pytest.raises(ValueError, match="no state 'remember'; it has hidden, cell"):
        board.cut(0, "remember")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e6])
def test_what_cannot_be_shown_is_named(bad):
    values = made_up().values.copy()
    values[1, 2, 3, 4] = bad
    board = type(made_up())(**{**vars(made_up()), "values": values})
    with pytest.raises(ValueError, match=r"at \(1, 2, 3, 4\), which cannot be shown"):
        Inspection(title="", caption="", boards=[board])


def test_names_and_values_must_agree():
    with pytest.raises(ValueError, match=r"shape \(2, 3, 5, 4\), but names for \(2, 3, 5, 5\)"):
        type(made_up())(**{**vars(made_up()), "values": made_up().values[..., :4]})
    with pytest.raises(ValueError, match="5 tokens, 5 ids and 2 sides"):
        made_up(sides=[0, 1])


def test_colours_grow_with_the_value():
    share, both = ColourScale(root=True), signed(np.array([-3.0, 2.0]))
    assert share.steps(np.array([-1, 0, 0.25, 1, 2])).tolist() == [0, 0, 128, 255, 255]
    assert both.steps(np.array([-3, 0, 3])).tolist() == [0, 128, 255]
    assert signed(np.array([-3.0, np.nan, np.inf])) == signed(np.array([-3.0]))
    assert both.steps(np.array([np.nan, np.inf, -np.inf])).tolist() == [0, 255, 0]
    for kind in ("plain", "signed"):
        for paper in ("light", "dark"):
            assert len({bytes(colour) for colour in ramp(kind, paper)}) > 200
    brightness = ramp("plain", "light").astype(int).sum(1)
    assert (np.diff(brightness) <= 0).all()


def test_blanks_and_control_characters_are_visible():
    assert [visible(token) for token in ("\n", " the", "", "\x00", "\u2028")] == [
        "↵",
        "␣the",
        "∅",
        "\\x00",
        "\\u2028",
    ]


def test_a_label_is_as_long_as_there_is_room():
    assert short(" the", 4) == "␣the"
    assert short("internationalisation", 8) == "interna…"
    assert short("猫坐在垫子上", 8) == "猫坐在…"  # a Chinese character takes two columns
    assert text_width("猫a") == 3
