"""A heatmap shows exactly its values, escapes whatever it is given, and needs nothing from outside."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.view.heatmap import ACCENT, Heatmap, page, svg

ATTACK = '<img src=x onerror="alert(1)">&\'</title></svg><script>'
NS = "{http://www.w3.org/2000/svg}"


def shares(rows, columns, seed=0):
    scores = np.exp(3 * np.random.default_rng(seed).standard_normal((rows, columns)))
    return scores / scores.sum(axis=1, keepdims=True)


def cells(text):
    group = ET.fromstring(text).find(f"{NS}g[@class='cells']")
    return group, group.findall(f"{NS}rect")


def heatmap(rows=("a", "b"), columns=("c", "d", "e"), **more):
    return Heatmap(matrix=shares(len(rows), len(columns)), rows=rows, columns=columns, title="Title", **more)


@settings(max_examples=30)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_cell_shows_its_value(rows, columns, seed):
    matrix = shares(rows, columns, seed)
    names = [f"r{n}" for n in range(rows)], [f"c{n}" for n in range(columns)]
    group, rectangles = cells(svg(matrix, *names))
    assert group.get("fill") == ACCENT
    assert len(rectangles) == rows * columns
    places = set()
    for (row, column), value in np.ndenumerate(matrix):
        rectangle = rectangles[row * columns + column]
        assert rectangle.get("fill-opacity") == f"{value:.3f}"
        assert rectangle.findtext(f"{NS}title") == f"r{row} → c{column}: {value:.3f}"
        places.add((float(rectangle.get("x")), float(rectangle.get("y"))))
    assert len(places) == rows * columns
    xs, ys = sorted({x for x, _ in places}), sorted({y for _, y in places})
    assert places == {(x, y) for x in xs for y in ys}
    first = (float(rectangles[0].get("x")), float(rectangles[0].get("y")))
    assert first == (xs[0], ys[0])


@settings(max_examples=60)
@given(tokens=st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_token_can_be_shown_and_none_overflows(tokens):
    text = svg(shares(len(tokens), len(tokens)), tokens, tokens)
    root = ET.fromstring(text)  # well formed, whatever the tokens are
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for rectangle in cells(text)[1]:
        assert 0 < float(rectangle.get("x")) <= width - float(rectangle.get("width"))
        assert 0 < float(rectangle.get("y")) <= height - float(rectangle.get("height"))


def test_tokens_titles_and_axes_are_escaped():
    attacked = heatmap((ATTACK, "b"), (ATTACK, "d", "e"), caption=ATTACK, row_axis=ATTACK, column_axis=ATTACK)
    text = page([attacked], title=ATTACK, caption=ATTACK)
    assert "<img" not in text
    assert "<script" not in text
    assert text.count("</title>") == 1 + 6  # the page's and the cells'
    tooltip = cells(attacked.svg())[1][0].findtext(f"{NS}title")
    assert ATTACK.replace(" ", "␣") in tooltip  # the token is all there


def test_braces_in_a_title_are_only_text():
    assert "{figures}" in page([heatmap()], title="{figures}", caption="{0}")


def test_a_page_needs_nothing_from_outside():
    text = page([heatmap(), heatmap()], title="Two", caption="One sentence.")
    assert set(re.findall(r"\w+://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    for outside in ("url(", "@import", "src=", "href=", "<script", "<link", "//cdn"):
        assert outside not in text
    assert text.count("<figure>") == text.count("<svg") == 2
    assert "prefers-color-scheme: dark" in text


def test_blanks_and_control_characters_are_visible():
    _, rectangles = cells(svg(shares(1, 3), ["\n"], [" the", "", "\x00"]))
    assert [r.findtext(f"{NS}title").split(":")[0] for r in rectangles] == [
        "\\n → ␣the",
        "\\n → ∅",
        "\\n → \\x00",
    ]


def test_a_large_matrix_shrinks_its_cells():
    root = ET.fromstring(svg(np.full((100, 100), 0.01), ["x"] * 100, ["y"] * 100))
    assert float(root.get("width")) < 800


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 2)), r"shape \(2, 2\).*2 rows and 3 columns"),
        (np.ones(3), r"shape \(3,\)"),
        (np.array([[0, 1, 0], [0, np.nan, 1]]), "nan at row 1, column 1"),
        (np.array([[0, 1, 0], [0, 1, np.inf]]), "inf at row 1, column 2"),
        (np.array([[0, 1, 0], [0, 1, 7]]), "0 to 7.*between 0 and 1"),
        (np.array([[0, 1, 0], [-2, 1, 0]]), "-2 to 1.*between 0 and 1"),
    ],
)
def test_what_cannot_be_shown_is_named(matrix, message):
    with pytest.raises(ValueError, match=message):
        svg(matrix, ["a", "b"], ["c", "d", "e"])
    with pytest.raises(ValueError, match="nothing to show"):
        svg(np.ones((0, 0)), [], [])
