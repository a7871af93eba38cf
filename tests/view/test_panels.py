"""Small heatmaps side by side: every value in its tooltip, every frame in its place, whatever the words."""

import re
from xml.etree import ElementTree

import pytest

from glassformer.view.panels import CELL, HeatmapPanel, heatmap_panels

ROWS, COLUMNS = ["der", "Hund <b>"], ["the", "dog", "&"]
SVG = "{http://www.w3.org/2000/svg}"


def panel(name, start=0.0):
    return HeatmapPanel(name=name, values=[[start, 0.5, 1.0], [float("nan"), 0.25, 0.75]])


def test_every_value_frame_and_word_is_drawn():
    svg = heatmap_panels([panel("a"), panel("b", 0.1)], rows=ROWS, columns=COLUMNS, title="<x>", marks={(1, 2)})
    tree = ElementTree.fromstring(svg)
    told = [one.text for one in tree.iter(f"{SVG}title")]
    assert told[:6] == ["der, the: 0", "der, dog: 0.5", "der, &: 1", "Hund <b>, the: nan", *told[4:6]]
    assert told[6] == "der, the: 0.1"
    cells = [one for one in tree.iter(f"{SVG}rect") if one.get("class")]
    looks = [one.get("class") for one in cells]
    assert looks.count("frame") == 2
    assert looks.count("empty") == 2
    frames = [(float(one.get("x")), float(one.get("y"))) for one in cells if one.get("class") == "frame"]
    corners = [(float(one.get("x")), float(one.get("y"))) for one in cells if one.get("class") in ("plain-0",)]
    assert frames[0] == (corners[0][0] + 2 * CELL, corners[0][1] + CELL)  # second row, third column
    texts = [one.text for one in tree.iter(f"{SVG}text")]
    assert texts.count("a") == texts.count("b") == 1
    assert texts.count("dog") == 2
    assert texts.count("der") == 1  # beside the first of a line


def test_panels_that_do_not_fit_beside_one_another_stand_below():
    words = [f"word{n}" for n in range(20)]
    values = [[0.0] * 20] * 2
    panels = [HeatmapPanel(name=f"p{n}", values=values) for n in range(3)]
    svg = heatmap_panels(panels, rows=ROWS, columns=words, title="t")
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)"', svg)
    assert len({x for x, _ in places}) == 1
    assert len({y for _, y in places}) == 3
    assert svg.count(">der</text>") == 3


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="'a': values of shape \\(2, 3\\) for 2 rows, 2 columns"):
        heatmap_panels([panel("a")], rows=ROWS, columns=COLUMNS[:2], title="t")
    with pytest.raises(ValueError, match="'t' has no panel to draw"):
        heatmap_panels([], rows=ROWS, columns=COLUMNS, title="t")
