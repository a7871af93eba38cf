"""The page in a real browser: what is painted and said is the tensor, nothing comes from outside, tokens stay text."""

import io
import re
from base64 import b64decode
from contextlib import ExitStack
from dataclasses import replace
from html import unescape
from itertools import cycle

import numpy as np
import pytest

import glassformer as gf
from boards import MODELS, inspected, made_up
from browser import borrowed, heard
from glassformer.view import compressed
from glassformer.view.board import AxisTokens, pooled
from glassformer.view.compressed import rounded
from glassformer.view.inspection import Inspection
from glassformer.view.page import page

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "\u2028{{data}}",
    "&lt;b&gt;",
    "'\"",
]


class Opened:
    """A page that was opened from disk, and all that it complained about or asked for."""

    def __init__(self, browser, path, paper="light", size=(1440, 900)):
        self.complaints, self.asked, self.stack = [], [], ExitStack()
        self.tab = self.stack.enter_context(borrowed(browser, width=size[0], height=size[1], paper=paper))
        handlers = {
            "console": self.hear,
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self.asked.append(request.url),
        }
        self.stack.enter_context(heard(self.tab, **handlers))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("body[data-painted]")
        self.address = path.as_uri()

    def hear(self, message):
        if "Multiple readback" not in message.text:  # those are this test's own
            self.complaints.append(message.text)

    def choose(self, part):
        tab = self.tab.locator("#tabs button", has_text=re.compile(f"^{part}$"))
        if tab.count() and tab.is_visible():
            self.forget()
            tab.click()
            self.painted()

    def press(self, selector, **options):
        self.forget()
        self.tab.locator(selector, **options).first.click()
        self.painted()

    def forget(self):
        self.tab.evaluate("delete document.body.dataset.painted")

    def painted(self):
        self.tab.wait_for_selector("body[data-painted]")

    def pixels(self, selector):
        """(T, S, 3) of every canvas found."""
        found = self.tab.evaluate(
            """(selector) => [...document.querySelectorAll(selector)].map((canvas) => {
              const { width, height } = canvas;
              const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
              const parts = [];
              for (let n = 0; n < data.length; n += 4096) parts.push(String.fromCharCode(...data.slice(n, n + 4096)));
              return [height, width, btoa(parts.join(""))];
            })""",
            selector,
        )
        return [np.frombuffer(b64decode(data), np.uint8).reshape(high, wide, 4)[..., :3] for high, wide, data in found]

    def hover(self, row, column, shape):
        box = self.tab.locator("#matrix").bounding_box()
        x, y = (
            box[side] * (place + 0.5) / count
            for side, place, count in zip(("width", "height"), (column, row), shape[::-1], strict=True)
        )
        self.tab.mouse.move(box["x"] + x, box["y"] + y)
        return self.tab.locator("#readout dd").all_inner_texts()

    def sound(self):
        assert self.complaints == []
        assert self.asked == [self.address]
        assert self.tab.evaluate("window.hacked") is None
        assert not self.tab.evaluate("document.documentElement.scrollWidth > innerWidth"), "it overflows"


@pytest.fixture
def opened(browser, tmp_path):
    """Open an inspection; afterwards nothing may have been complained about or asked for."""
    pages = []

    def run(inspection, **options):
        pages.append(Opened(browser, inspection.save(tmp_path / f"page {len(pages)} ü.html"), **options))
        return pages[-1]

    yield run
    for each in pages:
        with each.stack:
            each.sound()


def shown(*boards, title="title"):
    return Inspection(title=title, caption="caption", boards=boards)


def said(number):
    """A value in the words of the page."""
    return 0.0 if number == 0 else float(f"{number:.3g}" if abs(number) < 1e-4 else f"{number:.4g}")


FEW = ("bert", "gpt2", "transformer", "lstm", "luong")  # every kind of board; the others are for `make test-all`
SHOWN = [
    pytest.param(name, paper, marks=[pytest.mark.slow] * (name not in FEW))
    for name, paper in zip(MODELS, cycle(["light", "dark"]), strict=False)
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "paper"), SHOWN)
def test_what_is_painted_and_said_is_the_tensor(opened, name, paper):
    inspection = inspected(name)
    assert [board.name for board in inspection.boards] == MODELS[name][3]
    page = opened(inspection, paper=paper)
    for board in inspection.boards:
        page.choose(board.name)
        matrices = rounded(board.values).reshape(-1, *board.values.shape[-2:])
        if len(matrices) > 1:
            tiles = page.pixels(".tile canvas")
            assert len(tiles) == len(matrices)
            for place, (tile, matrix) in enumerate(zip(tiles, matrices, strict=True)):
                scale = board.scales[place % len(board.columns)]
                np.testing.assert_array_equal(tile, scale.colours(matrix, paper))
            page.press(f'.tile[data-head="{len(matrices) - 1}"]')
        (matrix,) = page.pixels("#matrix canvas")
        np.testing.assert_array_equal(matrix, board.scales[-1].colours(matrices[-1], paper))
        row, column = 2, min(3, matrices.shape[-1] - 1)  # of a bag of words there is a column a class
        from_, to, value = page.hover(row, column, matrices.shape[1:])
        assert float(value) == said(float(matrices[-1, row, column]))
        assert from_.split("\n") == [board.down.texts[row], f"token {row}, id {board.down.ids[row]}"]
        if board.across is None:
            assert to == f"unit {column}"
        else:
            assert to.split("\n") == [board.across.texts[column], f"token {column}, id {board.across.ids[column]}"]


@pytest.mark.parametrize("paper", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_pixel_of_the_screen_has_the_colour_of_its_value(opened, paper):
    image = pytest.importorskip("matplotlib.image")
    board = made_up(1, 1, 6)
    page = opened(shown(board), paper=paper)
    page.hover(0, 0, (6, 6))  # the marks lie elsewhere
    box = page.tab.locator("#matrix").bounding_box()
    for row, column in ((1, 1), (3, 4), (5, 2)):
        x, y = box["x"] + box["width"] * (column + 0.5) / 6, box["y"] + box["height"] * (row + 0.5) / 6
        shot = page.tab.screenshot(clip={"x": int(x), "y": int(y), "width": 1, "height": 1})
        pixel = (image.imread(io.BytesIO(shot))[0, 0, :3] * 255).round().astype(np.uint8)
        assert bytes(pixel) == bytes(board.scales[0].colours(rounded(board.values[0, 0, row, column]), paper))


def test_hostile_tokens_and_titles_stay_text(opened):
    board = replace(made_up(2, 2, 5, texts=HOSTILE), name=HOSTILE[1])
    page = opened(shown(board, made_up(), title=HOSTILE[0]))
    assert page.tab.locator("h1").inner_text() == HOSTILE[0]
    assert page.tab.title() == HOSTILE[0]
    chips = page.tab.locator(".token").all_inner_texts()
    assert [chip.rsplit("\n", 1)[0] for chip in chips][:2] == [text.replace(" ", "␣") for text in HOSTILE[:2]]
    page.press(".tile")
    labels = page.tab.locator("#labels-down span").all_text_contents()
    assert labels[1] == HOSTILE[1].replace(" ", "␣")
    assert labels[2:4] == ["\\u{2028}{{data}}", "&lt;b&gt;"]
    assert page.tab.evaluate("document.images.length") == 0


def test_no_other_script_may_run(browser, tmp_path):
    page = Opened(browser, shown(made_up()).save(tmp_path / "page.html"))
    page.tab.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))"
    )
    page.tab.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://example.com/x.png'}))")
    page.tab.wait_for_timeout(50)
    assert page.tab.evaluate("window.hacked") is None
    assert len(page.complaints) >= 2
    assert all("Content Security Policy" in complaint for complaint in page.complaints)
    page.stack.close()


def test_the_keyboard_goes_all_the_way(opened):
    page = opened(shown(made_up(3, 4, 6)))
    keys = page.tab.keyboard
    for _ in range(12):
        keys.press("Tab")
        if page.tab.evaluate("document.activeElement.classList.contains('tile')"):
            break
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowRight"):
        keys.press(key)
    here = "document.activeElement.dataset.head"
    assert page.tab.evaluate(here) == "8"  # left of the first tile of a row is the last of the row above
    assert "layer 2 · head 0" in page.tab.locator("#told").inner_text()
    page.forget()
    keys.press("Enter")
    page.painted()
    assert page.tab.locator("#which").inner_text() == "layer 2 · head 0"
    before = page.tab.locator("#readout dd").all_inner_texts()
    keys.press("ArrowDown" if before[0].startswith("t0") else "ArrowUp")
    after = page.tab.locator("#readout dd").all_inner_texts()
    assert after[0] != before[0]
    assert after[1] == before[1]
    page.forget()
    keys.press("Escape")
    page.painted()
    assert page.tab.evaluate(here) == "8"


def test_tabs_take_the_keyboard_too(opened):
    page = opened(inspected("bart"))
    page.tab.locator("#tabs button").first.focus()
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.locator('#tabs [aria-selected="true"]').inner_text() == "decoder"


def test_heads_are_sorted_by_a_statistic(opened):
    board = made_up(2, 4, 6)
    page = opened(shown(board))
    for name, values in board.statistics.items():
        page.press("#orders button", has_text=name)
        heads = page.tab.evaluate("[...document.querySelectorAll('.tile')].map((tile) => Number(tile.dataset.head))")
        falls = name in ("previous", "next", "first", "sink")  # of shares, the largest are looked for
        assert heads == np.argsort(-values.ravel() if falls else values.ravel(), stable=True).tolist()
        told = page.tab.locator(".tile b").first.inner_text()
        assert float(told) == pytest.approx(values.max() if falls else values.min(), rel=0.01)
        np.testing.assert_array_equal(
            page.pixels(".tile canvas")[0], board.scales[0].colours(rounded(board.values.reshape(-1, 6, 6)[heads[0]]))
        )


def test_a_pair_is_filtered_by_its_texts(opened, minilm):
    model, tokenizer = gf.load(minilm), gf.load_tokenizer(minilm)
    inspection = gf.inspect(model, tokenizer, "The cat sat.", "It slept.")
    (board,) = inspection.boards
    sides = np.array([-1 if side is None else side for side in board.down.sides])
    assert sides.tolist() == [-1, 0, 0, 0, 0, -1, 1, 1, 1, -1]
    page = opened(inspection)
    page.press("#atlas [data-filter] button", has_text="A → B")
    matrix = rounded(board.values[0, 2])[np.ix_(sides == 0, sides == 1)]
    np.testing.assert_array_equal(page.pixels('.tile[data-head="2"] canvas')[0], board.scales[0].colours(matrix))
    page.press('.tile[data-head="2"]')
    np.testing.assert_array_equal(page.pixels("#matrix canvas")[0], board.scales[0].colours(matrix))
    from_, to, value = page.hover(1, 2, matrix.shape)
    assert (from_.split("\n")[0], to.split("\n")[0]) == ("cat", ".")
    assert float(value) == said(float(matrix[1, 2]))


def test_tokens_are_shown_with_their_ids(opened, minilm):
    tokenizer = gf.load_tokenizer(minilm)
    page = opened(gf.inspect(gf.load(minilm), tokenizer, "unbelievable cats"))
    ids = tokenizer("unbelievable cats")["input_ids"]
    chips = [chip.split("\n") for chip in page.tab.locator(".token").all_inner_texts()]
    assert chips == [[tokenizer.convert_ids_to_tokens(token), str(token)] for token in ids]


@pytest.mark.slow
def test_512_tokens_of_twelve_by_twelve_say_what_is_left_out(opened, tmp_path):
    board = made_up(12, 12, 512)
    path = shown(board).save(tmp_path / "long.html", layer=7, head=3)
    assert path.stat().st_size <= 5_000_000
    page = opened(shown(board.cut(0, 0)))  # closed with the others; the long one is saved already
    page.asked.clear()
    page.tab.goto(path.as_uri())
    page.address = path.as_uri()
    page.painted()
    told = page.tab.locator("#left-out").inner_text()
    assert "144 matrices of 512 × 512 are 37,748,736 numbers" in told
    assert "the largest of 8 × 8 values" in told
    assert re.search(r"Kept whole, as layer\.head: .*\b7\.3\b", told)
    tiles = page.pixels('.tile[data-head="5"] canvas, .tile[data-head="87"] canvas')
    for tile, place in zip(tiles, ((0, 5), (7, 3)), strict=True):
        np.testing.assert_array_equal(tile, board.scales[0].colours(rounded(pooled(board.values[place], 8, 8))))
    page.press('.tile[data-head="87"]')
    np.testing.assert_array_equal(
        page.pixels("#matrix canvas")[0], board.scales[0].colours(rounded(board.values[7, 3]))
    )
    assert page.tab.locator("#pooled").is_hidden()
    page.press("#back")
    unkept = next(head for head in range(144) if f"{head // 12}.{head % 12}" not in told)
    page.press(f'.tile[data-head="{unkept}"]')
    assert "not whole: a cell is the largest of 8 × 8" in page.tab.locator("#pooled").inner_text()
    from_, _, value = page.hover(0, 1, (64, 64))
    block = board.values.reshape(144, 512, 512)[unkept, :8, 8:16]
    assert float(value) == said(float(rounded(block.max())))
    assert "tokens 0–7" in from_


def test_a_pooled_page_of_states_and_fewer_bits_tell_so(opened, monkeypatch):
    monkeypatch.setattr(compressed, "MOST", 10)
    monkeypatch.setattr(compressed, "OVERVIEW", 24 * 20)
    monkeypatch.setattr(compressed, "BUDGET", 9000)
    (board,) = inspected("lstm").boards
    page = opened(shown(board))
    assert page.tab.locator("#left-out").is_visible()
    np.testing.assert_array_equal(
        page.pixels(".tile canvas")[0], board.scales[0].colours(rounded(pooled(board.values[0, 0], 2, 3)))
    )


@pytest.mark.parametrize(
    "name", ["lstm", "bart", *(pytest.param(one, marks=pytest.mark.slow) for one in ("bert", "bahdanau"))]
)
def test_a_phone_shows_it_without_overflow(opened, name):
    inspection = inspected(name)
    page = opened(inspection, size=(390, 844))
    for board in inspection.boards:
        page.choose(board.name)
        if page.tab.locator(".tile").first.is_visible():
            page.press(".tile")
        assert page.tab.locator("#matrix canvas").is_visible()
        assert not page.tab.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_the_paper_follows_the_system(opened):
    board = made_up(2, 2, 4)
    page = opened(shown(board))
    backs = [page.tab.evaluate("getComputedStyle(document.body).backgroundColor")]
    page.forget()
    page.tab.emulate_media(color_scheme="dark")
    page.painted()
    backs.append(page.tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(backs)) == 2
    np.testing.assert_array_equal(
        page.pixels(".tile canvas")[3], board.scales[0].colours(rounded(board.values[1, 1]), "dark")
    )
    page.tab.emulate_media(color_scheme="light")  # as it was: others have the tab after this


def test_a_notebook_shows_the_same_page_in_a_frame(browser, tmp_path):
    inspection = inspected("bert")
    frame = inspection._repr_html_()
    assert unescape(re.search(r'srcdoc="(.*)"', frame, re.DOTALL)[1]) == inspection.html()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    complaints = []
    with borrowed(browser) as tab, heard(tab, console=lambda message: complaints.append(message.text)):
        tab.goto((tmp_path / "notebook.html").as_uri())
        inside = tab.frame_locator("iframe")
        inside.locator(".tile").first.wait_for()
        inside.locator(".tile").last.click()
        inside.locator("#which", has_text="layer 1 · head 2").wait_for()
        assert complaints == []


def test_a_page_names_no_address():
    text = page([made_up()], title="title", caption="caption")
    assert re.findall(r"\w+://[^\"' ]*", text) == []
    for outside in ("url(", "@import", "src=", "href=", "<link", "//cdn"):
        assert outside not in text
    assert text.count("<script") == 3  # the data, the values, and the program


def test_what_is_said_of_a_board_must_fit(tmp_path):
    with pytest.raises(ValueError, match="'x.pdf' is not a .html, .svg or .png file"):
        shown(made_up()).save("x.pdf")
    with pytest.raises(ValueError, match="no part 'cross'; this model has 'attention'"):
        shown(made_up()).save(tmp_path / "x.svg", part="cross")
    with pytest.raises(ValueError, match="do not agree"):
        AxisTokens(texts=["a"], ids=[1, 2])
