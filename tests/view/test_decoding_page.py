"""The page of decoding strategies: all that was told is on it as text, and nothing comes from outside."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import borrowed, heard, unknown_styles
from glassformer.view import beam_tree
from glassformer.view.beam_tree import COLUMN, WIDTH, Branch, svg
from glassformer.view.colours import PAPER
from glassformer.view.decoding import PROMPTS, Page, StrategyRow, TakenToken, page
from glassformer.view.labels import visible
from tags import Reader

ATTACK = '<img src=x onerror="alert(1)">&\'</style></title></svg><script>'
NS = "{http://www.w3.org/2000/svg}"

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30) | st.just(ATTACK)


def told(text, prompts=2, strategies=2):
    tokens = [TakenToken(token=text, chance=0.25, top=[("other", 0.5), (text, 0.25)])] * 3
    listed = [
        StrategyRow(name=text, settings=text, scores=["1.5", text], texts=[text] * prompts, tokens=tokens)
        for _ in range(strategies)
    ]
    tree = [
        [Branch(text, -1.0, None, "kept", best=True), Branch(text, -2.0, None, "dropped")],
        [Branch(text, -1.5, 0, "ended", best=True)],
    ]
    return Page(
        title=text, caption=text, prompts=[text] * prompts, shown=0, measures=[(text, text)] * 2,
        strategies=listed, left_out=[(text, text)], tree=tree, figures=[(svg(tree), text)],
    )  # fmt: skip


@given(text=texts)
def test_every_text_stays_text(text):
    found = Reader(page(told(text)))
    allowed = {
        *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p", "section", "div"),
        *("table", "thead", "tbody", "tr", "th", "td", "small", "dl", "dt", "dd", "details", "summary", "b", "span"),
        *("ol", "ul", "li", "i", "svg", "text", "path", "g", "rect", "figure", "figcaption"),
    }
    assert {tag for tag, _ in found.tags} <= allowed
    assert not any(name.startswith("on") or name in ("src", "href") for _, given in found.tags for name in given)
    assert text in found.text
    assert sum(tag == "svg" for tag, _ in found.tags) == 2


def test_nothing_comes_from_outside_and_dark_pages_are_dark():
    written = page(told("a text"))
    assert re.findall(r"https?://[^\"']+", written) == ["http://www.w3.org/2000/svg"] * 2
    assert "url(" not in written
    assert "@import" not in written
    assert "prefers-color-scheme: dark" in written
    assert '<meta name="viewport"' in written


@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_and_has_nothing_to_complain_of(browser, tmp_path, paper, width):
    path = tmp_path / "page.html"
    path.write_text(page(told("<img src=x onerror=window.hacked=1>")), encoding="utf-8")
    complaints, asked = [], []
    handlers = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    with borrowed(browser, width=width, height=800, paper=paper) as tab, heard(tab, **handlers):
        tab.goto(path.as_uri())
        sound(tab, width, PAPER[paper]["paper"])
    assert (complaints, asked) == ([], [path.as_uri()])


def sound(tab, width, colour):
    assert tab.evaluate("window.hacked") is None
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width  # wide parts scroll by themselves
    assert tab.locator("figure .tree").is_visible()
    assert tab.locator(".card .tree").is_visible()
    assert unknown_styles(tab) == []
    assert tab.evaluate("[...document.querySelectorAll('meta:not([charset])')].every(one => one.content)")


def test_a_page_has_a_row_for_each_strategy_and_opens_at_once():
    found = Reader(page(told("a text", prompts=PROMPTS + 30, strategies=4)))
    assert sum(tag == "tr" for tag, _ in found.tags) == 5
    details = [given for tag, given in found.tags if tag == "details"]
    assert len(details) == PROMPTS + 4
    assert sum("open" in given for given in details) == 2
    assert f"{PROMPTS} of {PROMPTS + 30} prompts" in found.text


def test_a_page_without_a_tree_says_nothing_of_one():
    without = page(Page(**{**vars(told("x")), "tree": [], "left_out": []}))
    assert "Beam search" not in without
    assert "Left out" not in without


steps = st.lists(st.integers(1, 8), min_size=1, max_size=5)


@given(sizes=steps, text=texts, data=st.data())
def test_a_branch_is_joined_to_the_one_it_follows(sizes, text, data):
    tree, before = [], None
    for size in sizes:
        parent = st.none() if before is None else st.integers(0, before - 1)
        fate = st.sampled_from(["kept", "ended", "dropped"])
        tree.append(
            [Branch(text, data.draw(st.floats(-99, 0)), data.draw(parent), data.draw(fate)) for _ in range(size)]
        )
        before = size
    root = ET.fromstring(svg(tree))
    width, height = float(root.get("width")), float(root.get("height"))
    nodes = iter(root.iter(f"{NS}g"))
    edges = iter(root.iter(f"{NS}path"))
    places = []
    for step in tree:
        row = []
        for branch in step:
            node, edge = next(nodes), next(edges)
            box = node.find(f"{NS}rect")
            x, y, tall = (float(box.get(name)) for name in ("x", "y", "height"))
            assert 0 <= x <= width - WIDTH
            assert 0 <= y <= height - tall
            assert node.get("class") == f"node {branch.fate}"
            assert node.find(f"{NS}title").text == f"{visible(text)}: {branch.score:.4f}, {branch.fate}"
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", edge.get("d"))]
            assert numbers[-2:] == [x, y + tall / 2]
            if branch.parent is not None:
                assert numbers[:2] == [x - COLUMN + WIDTH, places[-1][branch.parent]]
            row.append(y + tall / 2)
        places.append(row)


def test_blanks_can_be_seen_and_long_tokens_fit():
    assert visible(" a\n") == "␣a↵"
    assert visible("") == "∅"
    root = ET.fromstring(
        svg([[Branch("interminable", -1.0, None, "kept"), Branch("北京上海很大", -1.0, None, "kept")]])
    )
    shown = [text.text for text in root.iter(f"{NS}text") if text.get("class") is None]
    assert all(text.endswith("…") for text in shown)
    assert beam_tree.STYLE.count("var(--") > 5
