"""Pictures for papers show exactly their values, escape whatever they are given, and need nothing from outside."""

import io
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boards import inspected, made_up
from glassformer.view.colours import hexadecimal
from glassformer.view.png import png
from glassformer.view.svg import svg

ATTACK = '<img src=x onerror="alert(1)">&\'</title></svg><script>'
NS = "{http://www.w3.org/2000/svg}"


def painted(group, shape):
    """The colour of every cell, read back from the paths."""
    found = np.full(shape, "", dtype="<U7")
    for path in group:
        for column, row, wide in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path.get("d")):
            place = int(row), slice(int(column), int(column) + int(wide))
            assert not found[place].any()
            found[place] = path.get("fill")
    return found


def expected(board, row=0, column=0):
    colours = board.scales[column].colours(board.values[row, column])
    return np.array([[hexadecimal(cell) for cell in line] for line in colours])


@settings(max_examples=30)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_cell_has_the_colour_of_its_value(rows, columns, seed):
    board = made_up(1, 1, rows, columns, seed=seed)
    (group,) = ET.fromstring(svg(board)).findall(f"{NS}g[@class='cells']")
    np.testing.assert_array_equal(painted(group, (rows, columns)), expected(board))


@pytest.mark.parametrize("name", ["bert", "lstm"])
def test_a_mosaic_has_every_matrix_in_its_place(name):
    (board,) = inspected(name).boards
    groups = ET.fromstring(svg(board)).findall(f"{NS}g[@class='cells']")
    assert len(groups) == board.values.shape[0] * board.values.shape[1]
    wide = len(board.columns)
    places = [
        tuple(map(float, re.findall(r"translate\(([\d.]+) ([\d.]+)\)", group.get("transform"))[0])) for group in groups
    ]
    assert len({x for x, _ in places}) == wide
    assert places == sorted(places, key=lambda place: (place[1], place[0]))
    for number, group in enumerate(groups):
        row, column = divmod(number, wide)
        np.testing.assert_array_equal(painted(group, board.values.shape[-2:]), expected(board, row, column))


@settings(max_examples=60)
@given(tokens=st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_token_can_be_shown(tokens):
    text = svg(made_up(1, 1, len(tokens), texts=tokens))
    assert ET.fromstring(text).tag == f"{NS}svg"  # well formed, whatever the tokens are


def test_tokens_are_escaped_and_nothing_comes_from_outside():
    text = svg(made_up(1, 1, 2, texts=[ATTACK, "b"]))
    assert "<img" not in text
    assert "<script" not in text
    assert set(re.findall(r"\w+://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text.replace("url(#ramp0)", "")


def test_a_large_matrix_shrinks_its_cells():
    root = ET.fromstring(svg(made_up(1, 1, 100)))
    assert float(root.get("width")) < 800
    labels = root.findall(f"{NS}g/{NS}text")
    assert 40 < len(labels) < 200  # those that would lie on one another are left out


@pytest.mark.few(1)
@pytest.mark.parametrize(("layer", "head"), [(1, 2), (None, None)])
def test_a_png_has_the_same_colours(layer, head):
    image = pytest.importorskip("matplotlib.image")
    board = made_up().cut(layer, head)
    pixels = (image.imread(io.BytesIO(png(board)))[..., :3] * 255).round().astype(int)
    weights = np.array([65536, 256, 1])
    wanted = board.scales[0].colours(board.values) @ weights
    assert set(np.unique(wanted)) <= set(np.unique(pixels @ weights))
    assert pixels.shape[1] > 400


def test_a_png_says_where_its_font_ends(caplog):
    pytest.importorskip("matplotlib")
    png(made_up(1, 1, 2, texts=["$a$ _b^", "c"]))
    assert caplog.messages == []
    png(made_up(1, 1, 2, texts=["猫", "c"]))
    assert caplog.messages == ["the font of the .png has no signs for some tokens: a .svg shows them all"]


def test_a_png_without_matplotlib_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"pip install 'glassformer\[plots\]', or write a .svg"):
        png(made_up(1, 1))
