"""The Head screen in a real browser: the matrix is the tensor, numbers are exact, and one cell is marked everywhere."""

from struct import unpack
from xml.etree import ElementTree

import numpy as np
import pytest

from browser import heard
from glassformer.view.colours import SHARE
from studio.cases import TEXT
from studio.looks import EVERY, PAIR, inspected, pixels


def shown(page, row, column):
    """The number, once that of this cell has come; the browser's run is another one than the test's."""
    page.wait_for_selector(f'[data-exact="{row},{column}"]')
    return pytest.approx(float(page.text_content("#exact")), rel=1e-5)


@pytest.mark.few(3)
@pytest.mark.parametrize(("model", "board"), EVERY)
def test_pixels_and_numbers_are_the_tensor(model, board, tour, studio_folders):
    values = inspected(studio_folders[model])[board].values[-1, -1]
    high, wide = values.shape
    names = {"layer": "1", "head": "1"} if board != "alignment" else {}
    page = tour("head", model=model, text=TEXT, board=board, **names)
    np.testing.assert_array_equal(pixels(page, "#matrix canvas.pixels"), SHARE.colours(values))
    box = page.locator("#matrix .cells").bounding_box()
    for row, column in ((0, 0), (high - 1, 2), (high // 2, wide // 2)):
        where = {"x": (column + 0.5) * box["width"] / wide, "y": (row + 0.5) * box["height"] / high}
        page.hover("#matrix .cells", position=where)
        assert shown(page, row, column) == values[row, column]
    best = page.locator(".strongest li").first
    assert float(best.locator("b").text_content()) == pytest.approx(values[high // 2].max(), rel=1e-5)
    assert f"cell={high // 2}%2C{wide // 2}" in page.url


def test_a_token_of_the_lists_chooses_its_row(tour, studio_folders):
    values = inspected(studio_folders["bert"])["attention"].values[0, 0]
    page = tour("head", model="bert", text=TEXT)
    page.hover("#arcs canvas", position={"x": 20, "y": 4 + 5 * 18 + 9})
    best = int(values[5].argmax())
    assert shown(page, 5, best) == values[5, best]
    width = page.locator("#arcs canvas").bounding_box()["width"]
    page.hover("#arcs canvas", position={"x": width - 20, "y": 4 + 2 * 18 + 9})
    assert shown(page, 5, 2) == values[5, 2]


def test_lines_are_painted_from_the_threshold_on(tour):
    page = tour("head", model="bert", text=TEXT, cell="0,0")

    def coloured():
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = pixels(page, "#arcs canvas")
        middle = found[:, found.shape[1] // 2 - 20 : found.shape[1] // 2 + 20]
        return int((middle != 0).any(-1).sum())

    few = coloured()
    page.locator("#threshold").fill("0.01")
    assert coloured() > few > 0
    page.locator("#threshold").fill("0.9")
    assert coloured() < few
    assert "from=0.9" in page.url


def test_pairs_are_filtered_by_their_texts(visit, page, studio_folders):
    board = inspected(studio_folders["bert"], PAIR)["attention"]
    sides = np.array([-1 if side is None else side for side in board.down.sides])
    visit("head", model="bert", text=TEXT, pair=PAIR)
    for name in ("AA", "AB", "BA", "BB"):
        page.click(f"button:text-is('{name[0]} → {name[1]}')")
        page.wait_for_selector(".screen-head[data-painted=yes] button[aria-pressed=true]:has-text('→')")
        rows, columns = (np.flatnonzero(sides == "AB".index(letter)) for letter in name)
        part = board.values[0, 0][np.ix_(rows, columns)]
        np.testing.assert_array_equal(pixels(page, "#matrix canvas.pixels"), SHARE.colours(part))
        page.hover("#matrix .cells", position={"x": 2, "y": 2})
        assert shown(page, rows[0], columns[0]) == part[0, 0]


def test_keys_alone(tour, studio_folders):
    values = inspected(studio_folders["gpt2"])["attention"].values
    page = tour("head", model="gpt2", text=TEXT, cell="3,1")
    assert shown(page, 3, 1) == values[0, 0, 3, 1]
    page.focus("#matrix")
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert shown(page, 5, 0) == values[0, 0, 5, 0]
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-recompute[data-painted=yes]")
    assert float(page.text_content("#models-own")) == pytest.approx(values[0, 0, 5, 0], rel=1e-7)
    page.go_back()
    page.wait_for_selector(".screen-head[data-painted=yes]")
    assert shown(page, 5, 0) == values[0, 0, 5, 0]
    page.focus("#next-head")
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-head[data-painted=yes] h2:text-is('layer 0 · head 1')")
    np.testing.assert_array_equal(pixels(page, "#matrix canvas.pixels"), SHARE.colours(values[0, 1]))
    page.focus("#previous-head")
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-head[data-painted=yes] h2:text-is('layer 0 · head 0')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".screen-atlas[data-painted=yes]")


def test_only_the_row_that_is_rested_on_is_asked_for(tour, studio_folders):
    page = tour("head", model="bert", text=TEXT, cell="0,0")
    page.wait_for_selector('[data-exact="0,0"]')
    asked = []
    values = inspected(studio_folders["bert"])["attention"].values[0, 0]
    with heard(page, request=lambda request: asked.append(request.url)):
        page.evaluate(
            "() => { const m = document.querySelector('#matrix'); for (let n = 0; n < 9; n++)"
            "m.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true })); }"
        )
        assert shown(page, 9, 0) == values[9, 0]
    assert len(asked) == 1


@pytest.mark.slow
def test_what_can_be_taken_along(tour, studio_folders, tmp_path):
    values = inspected(studio_folders["bert"])["attention"].values
    page = tour("head", model="bert", text=TEXT, layer="1", head="0")
    saved = {}
    for kind in ("svg", "png", "npz"):
        with page.expect_download() as waiting:
            page.click(f"#export-{kind}")
        saved[kind] = tmp_path / f"head.{kind}"
        waiting.value.save_as(saved[kind])
    picture = saved["svg"].read_text(encoding="utf-8")
    colours = SHARE.colours(values[1, 0]).reshape(-1, 3)
    for colour in colours[:40]:
        assert f'fill="#{bytes(colour).hex()}"' in picture
    assert "Anna"[0] in picture
    size = unpack(">II", saved["png"].read_bytes()[16:24])  # of the SVG with its labels, twice as fine
    assert size == tuple(2 * int(ElementTree.fromstring(picture).get(side)) for side in ("width", "height"))
    with np.load(saved["npz"]) as found:
        np.testing.assert_array_equal(found["layers.1.attention.pattern"][0], values[1])


def test_a_network_without_attention_says_so(page):
    page.goto("/?screen=head&model=lstm&lang=en&text=Anna")
    page.wait_for_selector(".notice")
    assert "has no attention" in page.text_content(".notice")
