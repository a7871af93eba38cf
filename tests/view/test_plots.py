"""Plots: a mark read against the axes has its value, names stand apart, and nothing comes from outside."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.view.axes import DENSE, LARGEST, drawable, label_width
from glassformer.view.marks import DASHES, LINE, MARKERS
from glassformer.view.plots import MARKED, Dot, PlotLine, ScatterPoint, dot_plot, heatmap, line_plot, scatter_plot

ATTACK = '<img src=x onerror="alert(1)">&\'</style></title></svg><script>'
NS = "{http://www.w3.org/2000/svg}"

plain = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}")).filter(lambda value: abs(value) > 1e-6)
positive = st.floats(-9, 9).map(lambda power: 10**power)
anything = st.floats() | st.integers(-(10**6), 10**6).map(float)
names = st.text(max_size=60)


def lines(found, **settings):
    return ET.fromstring(line_plot(found, title="a plot", x_axis="across", y_axis="up", **settings))


def marks(root):
    """Where the markers with a tooltip stand, and what it says."""
    found = []
    for path in root.iter(f"{NS}path"):
        if path.get("class").startswith("mark") and path.find(f"{NS}title") is not None:
            x, y = map(float, re.match(r"M(\S+) (\S+?)m", path.get("d")).groups())
            found.append((x, y, path.findtext(f"{NS}title")))
    return found


def ticks(root, anchor):
    """Where the labels of an axis stand, and what they say."""
    found = []
    for text in root.iter(f"{NS}text"):
        if text.get("class") == "tick" and text.get("text-anchor") == anchor and "→" not in text.text:
            value = float(text.text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text.text[-1], 1)
            found.append((float(text.get("y" if anchor == "end" else "x")), value))
    return found


def off(place, value, axis, log):
    """By how many pixels a place is not where the axis has this value."""
    (start, low), (end, high) = axis[0], axis[-1]
    low, high, value = (math.log10(each) if log else each for each in (low, high, value))
    return abs(start + (value - low) / (high - low) * (end - start) - place)


def spread(values, log):
    return max(values) > 20 * min(values) if log else max(values) - min(values) > 1e-3 * max(map(abs, values))


@given(data=st.data(), log_x=st.booleans(), log_y=st.booleans())
def test_a_point_of_a_line_is_where_its_values_say(data, log_x, log_y):
    x = data.draw(st.lists(positive if log_x else plain, min_size=2, max_size=MARKED, unique=True))
    y = data.draw(st.lists(positive if log_y else plain, min_size=len(x), max_size=len(x)))
    assume(spread(x, log_x) and spread(y, log_y))
    root = lines([PlotLine(name="one", x=x, y=y)], log_x=log_x, log_y=log_y)
    found, across, up = marks(root), ticks(root, "middle"), ticks(root, "end")
    assert len(found) == len(x)
    for (at, height, tooltip), (first, second) in zip(found, sorted(zip(x, y, strict=True)), strict=True):
        assert off(at, first, across, log_x) < 0.5
        assert off(height, second, up, log_y) < 0.5
        told = re.fullmatch(r"one at (\S+): (\S+)", tooltip)
        assert [float(number) for number in told.groups()] == pytest.approx([first, second], rel=1e-9)


@given(
    points=st.lists(st.tuples(anything, anything, anything), max_size=300),
    words=st.lists(names, min_size=3, max_size=3),
    log_x=st.booleans(),
    log_y=st.booleans(),
)
def test_whatever_the_numbers_a_line_plot_is_drawn_or_refused(points, words, log_x, log_y):
    x, y, other = ([point[place] for point in points] for place in range(3))
    found = [PlotLine(name=words[0], x=x, y=y, low=other, high=y), PlotLine(name=words[1], x=x, y=other)]
    settings = {"title": words[2], "x_axis": words[0], "y_axis": words[1], "log_x": log_x, "log_y": log_y}
    fits = drawable(x, log_x), drawable([y, other], log_y)
    if not np.isfinite(fits[0] + fits[1]).any():
        with pytest.raises(ValueError, match=r"\Athe plot '.*' has no finite value to draw; leave it out\Z"):
            line_plot(found, **settings)
        return
    text = line_plot(found, **settings)
    root = ET.fromstring(text)
    assert not re.search(r"\b(nan|inf)\b", re.sub("<title>.*?</title>|<text.*?</text>|aria-label=.*", "", text))
    for at, height, _ in marks(root):
        assert 0 <= at <= float(root.get("width"))
        assert 0 <= height <= float(root.get("height"))


def test_what_is_not_finite_leaves_a_gap_in_line_and_band():
    y = np.sin(np.arange(30.0))
    y[10], y[20] = np.nan, np.inf
    root = lines([PlotLine(name="one", x=range(30), y=y, low=y - 1, high=y + 1)])
    line, *_ = (path.get("d") for path in root.iter(f"{NS}path") if path.get("class") == "line")
    assert line.count("M") == 3
    assert sum(path.get("class") == "band" for path in root.iter(f"{NS}path")) == 3


@pytest.mark.parametrize("log", [False, True])
def test_an_interval_goes_from_low_to_high(log):
    root = lines([PlotLine(name="one", x=[1, 2], y=[10.0, 100.0], low=[1.0, np.nan], high=[20.0, 200.0])], log_y=log)
    (bar,) = (path.get("d") for path in root.iter(f"{NS}path") if path.get("class") == "error")
    low, high = map(float, re.match(r"M\S+ (\S+?)h6m-3 0V(\S+?)m", bar).groups())
    assert off(low, 1.0, ticks(root, "end"), log) < 0.5
    assert off(high, 20.0, ticks(root, "end"), log) < 0.5
    assert marks(root)[0][2] == "one at 1: 10 (1 to 20)"


def test_the_numbers_below_zero_of_an_interval_end_at_the_edge_of_a_logarithmic_axis():
    root = lines([PlotLine(name="one", x=[1, 2], y=[10.0, 1000.0], low=[-5.0, 900.0], high=[20.0, 1100.0])], log_y=True)
    base = next(float(line.get("y1")) for line in root.iter(f"{NS}line") if line.get("class") == "base")
    bar = next(path.get("d") for path in root.iter(f"{NS}path") if path.get("class") == "error")
    assert float(re.match(r"M\S+ (\S+?)h", bar)[1]) == pytest.approx(base, abs=0.1)


@given(count=st.integers(1, 40), seed=st.integers(0, 99))
def test_series_differ_without_colour_and_their_names_stand_apart(count, seed):
    y = np.random.default_rng(seed).integers(0, 5, count)
    root = lines([PlotLine(name=f"series {n}", x=[0, 1], y=[0, y[n]]) for n in range(count)])
    swatches = [group for group in root.iter(f"{NS}g") if group.find(f"{NS}text") is not None]
    looks = []
    for group in swatches:
        line, mark = group.findall(f"{NS}path")
        looks.append((line.get("stroke-dasharray"), mark.get("class"), re.sub(r"^M\S+ \S+?(?=m)", "", mark.get("d"))))
    assert len(set(looks)) == count
    assert len(looks) <= len(DASHES) or len({look[1:] for look in looks}) == len(MARKERS)
    heights = sorted(float(group.find(f"{NS}text").get("y")) for group in swatches)
    assert all(after - before > LINE - 0.2 for before, after in pairwise(heights))


def test_many_points_are_condensed():
    y = np.random.default_rng(0).standard_normal(20_000)
    text = line_plot([PlotLine(name="one", x=range(20_000), y=y)], title="", x_axis="", y_axis="")
    assert len(text) < 100 * DENSE
    assert 8 <= len(marks(ET.fromstring(text))) <= MARKED


@given(values=st.lists(plain, min_size=2, max_size=20), data=st.data())
def test_a_dot_is_where_its_value_says_and_so_are_interval_and_points(values, data):
    assume(spread(values, log=False))
    dots = [
        Dot(name=f"row {n}", value=each, low=min(values), high=max(values), points=values)
        for n, each in enumerate(values)
    ]
    root = ET.fromstring(dot_plot(dots, title="a plot", axis="score"))
    axis, found = ticks(root, "middle"), marks(root)
    assert [tooltip.split(":")[0] for *_, tooltip in found] == [dot.name for dot in dots]
    assert all(off(at, value, axis, False) < 0.5 for (at, *_), value in zip(found, values, strict=True))
    assert sorted(height for _, height, _ in found) == [height for _, height, _ in found]
    seeds = [float(circle.get("cx")) for circle in root.iter(f"{NS}circle")]
    assert all(off(at, value, axis, False) < 0.5 for at, value in zip(seeds, values * len(values), strict=True))
    bars = [path.get("d") for path in root.iter(f"{NS}path") if path.get("class") == "error"]
    low, high = map(float, re.match(r"M(\S+) .*H(\S+?)m", bars[0]).groups())
    assert off(low, min(values), axis, False) < 0.5
    assert off(high, max(values), axis, False) < 0.5


def test_a_dot_without_a_value_keeps_its_row():
    root = ET.fromstring(
        dot_plot([Dot(name="good", value=1.0), Dot(name="failed", value=math.nan, low=0.0)], title="", axis="")
    )
    assert len(marks(root)) == 1
    texts = [text.text for text in root.iter(f"{NS}text")]
    assert "failed" in texts
    assert "–" in texts


@given(values=st.lists(st.lists(anything, min_size=3, max_size=3), min_size=1, max_size=6), name=names)
def test_a_heatmap_writes_every_number_and_leaves_the_others_empty(values, name):
    table = np.array(values)
    drawn = np.isfinite(table) & (np.abs(table) < LARGEST)
    assume(drawn.any())
    root = ET.fromstring(
        heatmap(table, rows=[name] * len(table), columns=["a", name, "c"], title=name, axes=(name, name))
    )
    cells = [group for group in root.iter(f"{NS}g") if group.find(f"{NS}rect") is not None]
    for cell, value, there in zip(cells, table.ravel().tolist(), drawn.ravel(), strict=True):
        assert (cell.find(f"{NS}rect").get("class") == "empty") == (not there)
        assert (cell.findtext(f"{NS}text") or "") == (format(value, ".3g") if there else "")


@given(values=st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=9, unique=True))
def test_a_larger_number_has_no_lower_colour(values):
    root = ET.fromstring(
        heatmap([sorted(values)], rows=["r"], columns=[str(n) for n in values], title="", axes=("", ""))
    )
    levels = [cell.find(f"{NS}rect").get("class") for cell in root.iter(f"{NS}g")]
    kinds, numbers = zip(*(level.split("-") for level in levels), strict=True)
    assert set(kinds) == {"signed" if min(values) < 0 < max(values) else "plain"}
    assert sorted(map(int, numbers)) == [int(number) for number in numbers]


def boxes(root):
    """Left, right and middle of the names of a scatter plot, by the width that is reckoned for them."""
    for text in root.iter(f"{NS}text"):
        if text.get("class") == "label":
            x, width = float(text.get("x")), label_width(text.text or "")
            yield (x - width if text.get("text-anchor") == "end" else x), width, float(text.get("y"))


@given(count=st.integers(1, 40), kinds=st.integers(1, 5), longest=st.integers(1, 30), seed=st.integers(0, 99))
def test_names_of_points_do_not_lie_on_one_another(count, kinds, longest, seed):
    chance = np.random.default_rng(seed)
    points = [
        ScatterPoint(name="北x"[n % 2] * longest, x=float(chance.integers(kinds)), y=float(chance.integers(kinds)))
        for n in range(count)
    ]
    root = ET.fromstring(scatter_plot(points, title="a plot", x_axis="x", y_axis="y"))
    found = list(boxes(root))
    assert len(found) == len(marks(root)) == count
    for place, (left, width, middle) in enumerate(found):
        assert 0 <= left <= float(root.get("width")) - width
        for other_left, other_width, other_middle in found[:place]:
            apart = left > other_left + other_width - 0.2 or other_left > left + width - 0.2
            assert apart or abs(middle - other_middle) > LINE - 0.2


@given(data=st.data(), log_x=st.booleans(), log_y=st.booleans())
def test_a_scattered_point_is_where_its_values_say(data, log_x, log_y):
    x = data.draw(st.lists(positive if log_x else plain, min_size=2, max_size=12))
    y = data.draw(st.lists(positive if log_y else plain, min_size=len(x), max_size=len(x)))
    assume(spread(x, log_x) and spread(y, log_y))
    points = [ScatterPoint(name=str(n), x=each, y=other) for n, (each, other) in enumerate(zip(x, y, strict=True))]
    points.append(ScatterPoint(name="nowhere", x=math.nan, y=1.0))
    root = ET.fromstring(scatter_plot(points, title="", x_axis="", y_axis="", log_x=log_x, log_y=log_y))
    across, up = ticks(root, "middle"), ticks(root, "end")
    for (at, height, tooltip), point in zip(marks(root), points[:-1], strict=True):
        assert tooltip.startswith(f"{point.name}: ")
        assert off(at, point.x, across, log_x) < 0.5
        assert off(height, point.y, up, log_y) < 0.5


PICTURES = {
    "lines": lambda name: line_plot([PlotLine(name=name, x=[1, 2], y=[1, 2])], title=name, x_axis=name, y_axis=name),
    "dots": lambda name: dot_plot([Dot(name=name, value=1.0, points=[2.0])], title=name, axis=name),
    "heatmap": lambda name: heatmap([[1.0]], rows=[name], columns=[name], title=name, axes=(name, name)),
    "scatter": lambda name: scatter_plot([ScatterPoint(name=name, x=1, y=2)], title=name, x_axis=name, y_axis=name),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_self_contained_and_names_in_it_are_names(draw):
    for name in (ATTACK, "a\x00b\ud800c\n", "", "北京" * 99):
        text = draw(name)
        root = ET.fromstring(text)
        assert [element.tag for element in root.iter()] == [
            element.tag for element in ET.fromstring(draw("x" * bool(name))).iter()
        ]
        assert max(len(each.text or "") for each in root.iter(f"{NS}text")) <= 92
        assert set(re.findall(r"\w+://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
        for outside in ("url(", "@import", "href=", "<script", "<link", " style="):
            assert outside not in text
        assert "prefers-color-scheme: dark" in text
        assert b"made by glassformer" in text.encode()[:2000]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: lines([]), "the plot 'a plot' has no finite value to draw; leave it out"),
        (lambda: lines([PlotLine(name="one", x=[1, 2], y=[1])]), "'one' has x, y, low and high of 2, 1, 1, 1 values"),
        (lambda: lines([PlotLine(name="one", x=[1], y=[-1])], log_y=True), "no finite value"),
        (lambda: dot_plot([], title="a plot", axis=""), "no finite value"),
        (lambda: dot_plot([Dot(name="a", value=math.inf, points=[1])], title="a plot", axis=""), "no finite value"),
        (
            lambda: heatmap(np.full((1, 1), np.nan), rows=["a"], columns=["b"], title="", axes=("", "")),
            "no finite value",
        ),
        (lambda: heatmap(np.zeros((0, 0)), rows=[], columns=[], title="", axes=("", "")), "no finite value"),
        (
            lambda: heatmap(np.zeros((1, 2)), rows=["a"], columns=["b"], title="", axes=("", "")),
            r"shape \(1, 2\) for 1 rows",
        ),
        (
            lambda: scatter_plot([ScatterPoint(name="", x=1, y=math.nan)], title="", x_axis="", y_axis=""),
            "no finite point",
        ),
    ],
)
def test_what_cannot_be_drawn_is_named(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
