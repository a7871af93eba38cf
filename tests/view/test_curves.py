"""Curves: a point read against the axes has its value, all stays inside, and nothing comes from outside."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.view.axes import DENSE
from glassformer.view.curves import FEW, Panel, Series, panels_of, svg

ATTACK = '<img src=x onerror="alert(1)">&\'</style></title></svg><script>'
NS = "{http://www.w3.org/2000/svg}"

plain = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}")).filter(lambda value: abs(value) > 1e-6)
positive = st.floats(-12, 12).map(lambda power: 10**power)


def one(y, x=None, *, log=False, name="loss", best=None):
    steps = list(range(1, len(y) + 1)) if x is None else x
    return Panel(title="a panel", series=[Series(name=name, x=steps, y=y, best=best)], log=log)


def dots(root, look="dot"):
    return [circle for circle in root.iter(f"{NS}circle") if circle.get("class") == look]


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def ticks(root, anchor):
    """Where the labels of an axis stand, and what they say."""
    scale = {"k": 1e3, "M": 1e6}
    found = []
    for text in root.iter(f"{NS}text"):
        if text.get("class") == "tick" and text.get("text-anchor") == anchor and "→" not in text.text:
            value = float(text.text.rstrip("kM")) * scale.get(text.text[-1], 1)
            found.append((float(text.get("y" if anchor == "end" else "x")), value))
    return found


def read(place, axis, log=False):
    """The value that the axis has at this place, by its first and last tick."""
    (start, low), (end, high) = axis[0], axis[-1]
    if log:
        low, high = math.log10(low), math.log10(high)
    value = low + (place - start) / (end - start) * (high - low)
    return 10**value if log else value


@given(y=st.lists(plain, min_size=2, max_size=FEW))
def test_a_point_read_against_the_axes_has_its_value(y):
    assume(max(y) - min(y) > 1e-3 * max(map(abs, y)))
    root = ET.fromstring(svg([one(y)]))
    down, across = ticks(root, "end"), ticks(root, "middle")
    pixel = abs(down[0][1] - down[-1][1]) / abs(down[0][0] - down[-1][0])
    assert len(dots(root)) == len(y)
    for circle, (step, value) in zip(dots(root), enumerate(y, start=1), strict=True):
        x, place = numbers(circle, "cx", "cy")
        assert read(place, down) == pytest.approx(value, abs=0.3 * pixel)
        assert read(x, across) == pytest.approx(step, abs=0.02 * len(y))


@given(y=st.lists(positive, min_size=2, max_size=FEW))
def test_a_point_read_against_a_logarithmic_axis_has_its_value(y):
    assume(max(y) > 20 * min(y))
    root = ET.fromstring(svg([one(y, log=True)]))
    down = ticks(root, "end")
    pixel = abs(math.log10(down[0][1] / down[-1][1])) / abs(down[0][0] - down[-1][0])
    for circle, value in zip(dots(root), y, strict=True):
        found = read(float(circle.get("cy")), down, log=True)
        assert math.log10(found) == pytest.approx(math.log10(value), abs=0.3 * pixel)


@given(y=st.lists(plain | positive, min_size=1, max_size=8), log=st.booleans(), steps=st.integers(1, 10**7))
def test_ticks_are_few_round_and_different(y, log, steps):
    y = [abs(value) for value in y] if log else y
    root = ET.fromstring(svg([one(y, [steps * (place + 1) for place in range(len(y))], log=log)]))
    for axis, most in ((ticks(root, "end"), 7), (ticks(root, "middle"), 11)):
        values = [value for _, value in axis]
        assert 2 <= len(values) <= most
        assert sorted(set(values)) == values
    labels = [text.text for text in root.iter(f"{NS}text") if text.get("text-anchor") == "middle"]
    assert len(set(labels)) == len(labels)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 300), st.booleans()), min_size=1, max_size=5),
    names=st.lists(st.text(max_size=60), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_all_stays_inside_and_no_panel_covers_another(shapes, names, seed):
    chance = np.random.default_rng(seed)
    panels = [
        Panel(
            title=names[0],
            log=log,
            series=[
                Series(name=name, x=range(points), y=np.exp(chance.standard_normal(points)), best="low")
                for name in names[:count]
            ],
        )
        for count, points, log in shapes
    ]
    root = ET.fromstring(svg(panels, title=names[1], x_axis=names[2]))
    width, height = numbers(root, "width", "height")
    for circle in root.iter(f"{NS}circle"):
        x, y, radius = numbers(circle, "cx", "cy", "r")
        assert radius <= x <= width - radius
        assert radius <= y <= height - radius
    for text in root.iter(f"{NS}text"):
        x, y = numbers(text, "x", "y")
        assert 0 <= x <= width
        assert 8 <= y <= height
    bases = [numbers(line, "x1", "x2", "y1") for line in root.iter(f"{NS}line") if line.get("class") == "base"]
    assert len(bases) == len(panels)
    for place, (left, right, bottom) in enumerate(bases):
        for other_left, other_right, other_bottom in bases[:place]:
            assert abs(bottom - other_bottom) > 200 or left > other_right or right < other_left
    wide = [base for base in bases if base[1] - base[0] > width / 2]
    assert wide == bases[: len(panels) % 2]


@given(gaps=st.lists(st.booleans(), min_size=1, max_size=60).filter(lambda gaps: not all(gaps)))
def test_what_is_not_finite_leaves_a_gap(gaps):
    chance = iter([math.nan, math.inf, -math.inf] * 20)
    root = ET.fromstring(svg([one([next(chance) if gap else 1.0 + place for place, gap in enumerate(gaps)])]))
    path = next(p for p in root.iter(f"{NS}path") if "h12" not in p.get("d")).get("d")
    runs = sum(not gap and (place == 0 or gaps[place - 1]) for place, gap in enumerate(gaps))
    assert path.count("M") == runs
    assert len(re.findall(r"[ML]", path)) == gaps.count(False)


@pytest.mark.parametrize("count", [DENSE + 1, 1_000, 20_000])
def test_many_points_become_means_and_a_band(count):
    y = 3 + np.random.default_rng(0).standard_normal(count)
    root = ET.fromstring(svg([one(y, np.arange(count))]))
    line, band = (
        np.array(re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d")), dtype=float)
        for name in ("line", "band")
        for path in root.iter(f"{NS}path")
        if path.get("class") == name and "h12" not in path.get("d")
    )
    assert len(line) == DENSE // 2
    assert len(band) == DENSE
    assert not dots(root)
    down = ticks(root, "end")
    assert read(band[:, 1].min(), down) == pytest.approx(y.max(), abs=0.02)
    assert read(band[:, 1].max(), down) == pytest.approx(y.min(), abs=0.02)
    assert read(line[:, 1].mean(), down) == pytest.approx(y.mean(), abs=0.05)


@pytest.mark.parametrize("best", ["low", "high"])
@given(y=st.lists(plain, min_size=1, max_size=20, unique=True))
def test_the_best_point_is_ringed(best, y):
    root = ET.fromstring(svg([one([math.nan, *y], best=best)]))
    (ring,) = dots(root, "ring")
    step = 2 + y.index(min(y) if best == "low" else max(y))
    assert ring.findtext(f"{NS}title").startswith(f"best loss at {step}: ")


def test_points_are_drawn_in_the_order_of_their_steps():
    ordered = svg([one([5.0, 4.0, 3.0], [10, 20, 30])])
    assert svg([one([3.0, 5.0, 4.0], [30, 10, 20])]) == ordered


def test_names_and_titles_are_escaped_and_long_ones_cut():
    panel = Panel(title=ATTACK, series=[Series(name=ATTACK, x=[1], y=[1.0], best="low")])
    text = svg([panel], title=ATTACK, x_axis=ATTACK)
    root = ET.fromstring(text)
    assert "<img" not in text
    assert "<script" not in text
    assert text.count("</style>") == 1
    assert root.get("aria-label") == ATTACK
    assert max(len(each.text or "") for each in root.iter(f"{NS}text")) <= 90
    ET.fromstring(svg([one([1.0], name="a\x00b\ud800c\n")]))


def test_a_picture_needs_nothing_from_outside():
    text = svg([one([1.0, 2.0])], title="Alone")
    assert set(re.findall(r"\w+://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    for outside in ("url(", "@import", "src=", "href=", "<script", "<link"):
        assert outside not in text
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text


def test_panels_from_the_rows_of_a_metrics_file():
    rows = [
        {"step": 1, "loss": 3.0, "lr": 0.1},
        {"step": 2, "loss": 2.0, "lr": 0.2},
        {"step": 2, "dev_loss": 2.5, "dev_f1": math.nan},
        {"loss": 9.0},
    ]
    groups = {"loss": ["loss", "dev_loss"], "rate": ["lr"], "F1": ["dev_f1"], "none": ["nothing"]}
    loss, rate = panels_of(rows, groups, log=["rate"], best={"dev_loss": "low"})
    assert (loss.title, loss.log, rate.title, rate.log) == ("loss", False, "rate", True)
    assert [(s.name, list(s.x), list(s.y), s.best) for s in loss.series] == [
        ("loss", [1, 2], [3.0, 2.0], None),
        ("dev loss", [2], [2.5], "low"),
    ]
    assert [(s.name, list(s.x), list(s.y)) for s in rate.series] == [("lr", [1, 2], [0.1, 0.2])]


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "no panel"),
        ([Panel(title="loss", series=[])], "panel 'loss' has nothing to draw"),
        ([one([1.0, 2.0], [1])], "'loss' has 1 steps and 2 values"),
        ([one([math.nan, math.inf])], "'loss' of panel 'a panel' has no finite value to draw"),
        ([one([0.0, -1.0], log=True)], "no finite value above 0"),
        ([one([])], "no finite value"),
    ],
)
def test_what_cannot_be_drawn_is_named(panels, message):
    with pytest.raises(ValueError, match=message):
        svg(panels)
