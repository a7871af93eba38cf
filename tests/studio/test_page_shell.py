"""The studio as a whole, in a real browser: every screen and family, hostile text, faults, keys alone."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

import glassformer as gf
import glassformer.studio
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from quick import is_quick
from studio.cases import MODELS, TEXT, serving, turn, watched, watched_again

PAGE = Path(glassformer.studio.__file__).parent / "page"
SCREENS = re.findall(r'"(\w+)"', re.search(r"const SCREENS = \[(.*?)\]", (PAGE / "main.js").read_text())[1])
HOSTILE = "<img src=x onerror=alert(1)> & </script> \u202e 'quoted' 你好"
READY = ".screen[data-painted=yes], .screen .notice"


def asked(screen: str, model: str, **more: Any) -> str:
    pair = {"pair": "Who gave it ?"} if model == "bert-qa" else {}
    text = TEXT.replace("red", "[MASK]") if model == "bert-mlm" else TEXT
    return "/?" + urlencode({"screen": screen, "model": model, "text": text, "lang": "en", **pair, **more})


@pytest.mark.few(6)
@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_shows_every_family(screen, tab):
    """Something is painted, or a card says why there is nothing to paint; never an error.

    The quick suite takes BERT and every eighth of the others, beginning with another one on every screen.
    """
    shown = []
    models = list(MODELS)
    for model in {"bert", *models[SCREENS.index(screen) % 8 :: 8]} if is_quick() else models:
        turn(tab, asked(screen, model))
        tab.wait_for_selector(READY)
        assert tab.locator(".problem").count() == 0, tab.locator(".problem").text_content()
        shown.append(tab.locator(".screen[data-painted=yes]").count())
        assert tab.evaluate("document.querySelectorAll('*').length") < 3000
    assert any(shown)


@pytest.fixture(scope="module")
def phone(browser, studio_url):
    with watched_again(browser, studio_url, width=390, height=844) as one:
        yield one


@pytest.mark.few(4)
@pytest.mark.parametrize("screen", SCREENS)
def test_no_screen_overflows_a_phone_and_every_word_is_translated(screen, phone):
    phone.bring_to_front()
    model = {"states": "lstm", "edit": "gpt2"}.get(screen, "bert")
    for lang in ("en", "zh"):
        turn(phone, asked(screen, model, lang=lang))
        phone.wait_for_selector(READY)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        labels = phone.locator("h1, h2, h3, button:not(.box), .field > span, th, .note").all_text_contents()
        assert [one for one in labels if re.fullmatch(r"[a-z]+[A-Z]\w*", one)] == []  # a key nobody translated
    assert re.search(r"[\u4e00-\u9fff]", phone.locator("h1").text_content())


@pytest.mark.few(5)
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_serious(screen, tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    themes = ("light", "dark")
    for theme in [themes[SCREENS.index(screen) % 2]] if is_quick() else themes:
        turn(tab, asked(screen, {"states": "lstm"}.get(screen, "bert"), theme=theme))
        tab.wait_for_selector(READY)
        found = axe.run(tab).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in serious] == []


@pytest.mark.few(4)
@pytest.mark.parametrize("screen", SCREENS)
def test_hostile_text_stays_text(screen, tab):
    models = ("gpt2", "transformer")
    for model in [models[SCREENS.index(screen) % 2]] if is_quick() else models:
        turn(tab, asked(screen, model, text=HOSTILE))
        tab.wait_for_selector(READY)
        assert tab.locator("img").count() == 0
        assert tab.locator("#ask-text").input_value() == HOSTILE


@pytest.mark.parametrize(("screen", "model"), [("run", "gpt2"), ("head", "gpt2"), ("run", "transformer")])
def test_a_picture_of_hostile_text_is_xml(screen, model, page):
    page.goto(asked(screen, model, text=f"\x01\x1b\ufffe {HOSTILE}", max_new_tokens=3))
    page.wait_for_selector("[data-painted=yes]")
    with page.expect_download() as saved:
        page.click("#export-svg")
    words = "".join(ElementTree.parse(saved.value.path()).getroot().itertext())
    assert "<" in words
    assert screen == "run" or "␣" in words


def test_words_of_both_languages_have_the_same_keys(page):
    page.goto("/?lang=en")
    files = ["i18n.js", *(f"i18n/{file.name}" for file in sorted((PAGE / "i18n").glob("*.js")))]
    for file in files:
        keys = page.evaluate(
            "async (file) => { const found = await import(`/static/${file}`), { en, zh } = found.known ?? found;"
            "return [Object.keys(en), Object.keys(zh)] }",
            file,
        )
        assert set(keys[0]) ^ set(keys[1]) == set(), file


def test_nothing_of_the_page_comes_from_elsewhere():
    for file in PAGE.rglob("*.*"):
        text = file.read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), file.name
        assert "innerHTML" not in text, file.name
        assert "eval(" not in text, file.name


# --- faults of the server -------------------------------------------------------------------------------------------


def test_an_expired_trace_says_so_and_can_be_run_again(browser, studio_folders):
    now = [0.0]
    studio = Studio(ModelStore([str(studio_folders["bert"])]), Traces(seconds=60, clock=lambda: now[0]))
    with serving(create_app(studio)) as url, watched(browser, url) as page:
        page.goto(asked("tensors", "bert"))
        page.wait_for_selector("[data-painted=yes]")
        now[0] = 100.0
        page.click("[data-screen=tensors]")
        assert "expired" in page.locator(".problem").text_content()
        page.faults.clear()  # the browser logs the 410
        page.click("#retry")
        page.wait_for_selector("[data-painted=yes]")


def test_what_a_click_asks_for_in_vain_is_said_and_can_be_tried_again(browser, studio_folders):
    now = [0.0]
    studio = Studio(ModelStore([str(studio_folders["bert"])]), Traces(seconds=60, clock=lambda: now[0]))
    with serving(create_app(studio)) as url, watched(browser, url) as page:
        page.goto(asked("flow", "bert"))
        page.wait_for_selector("[data-painted=yes]")
        now[0] = 100.0
        page.click("#flow-fold")
        assert "expired" in page.locator(".problem").text_content()
        page.faults.clear()  # the browser logs the 410
        page.click("#retry")
        page.wait_for_selector("[data-painted=yes]")
        assert page.locator(".problem").count() == 0


def test_a_screen_that_is_left_while_it_asks_is_no_fault(page):
    """The numbers that Flow asks for come only after another screen is shown; nobody waits for them then."""
    held: list[Any] = []
    page.goto(asked("flow", "gpt2"))
    page.wait_for_selector("[data-painted=yes]")
    page.route("**/tensors/*", lambda route: route.continue_() if held else held.append(route))
    page.locator("#flow-matrix").press("ArrowDown")
    while not held:
        page.wait_for_timeout(10)
    page.click("[data-screen=tensors]")
    page.wait_for_selector(".screen-tensors[data-painted=yes]")
    assert page.locator(".problem").count() == 0


@pytest.mark.parametrize(("status", "words"), [(429, "busy"), (500, "Server"), (0, "does not answer")])
def test_a_fault_says_so_and_can_be_tried_again(status, words, page):
    def fault(route: Any) -> None:
        if status:
            route.fulfill(status=status, body=json.dumps({"detail": "Internal Server Error"}))
        else:
            route.abort()

    page.route("**/api/v1/traces", fault)
    page.goto(asked("tensors", "bert"))
    assert words in page.locator(".problem").text_content()
    page.unroute("**/api/v1/traces")
    page.faults.clear()
    page.click("#retry")
    page.wait_for_selector("[data-painted=yes]")


def test_wrong_addresses_are_answered_in_words(page):
    for query, words in (
        ({"screen": "nowhere"}, "no screen nowhere"),
        ({"screen": "tensors", "model": "nobody", "text": "a"}, "no model nobody"),
        ({"screen": "tensors", "model": "bert", "text": " "}, "nothing to read"),
    ):
        page.goto("/?" + urlencode({"lang": "en", **query}))
        assert words in page.locator(".problem").text_content()
        page.faults.clear()


def test_a_word_that_is_no_id_is_named(browser, studio_folders, tmp_path):
    gf.save(gf.load(studio_folders["gpt2"]), tmp_path / "bare")
    with (
        serving(create_app(Studio(ModelStore([str(tmp_path / "bare")]), Traces()))) as url,
        watched(browser, url) as page,
    ):
        page.goto(asked("tensors", "bare", text="5 17 seven"))
        assert "seven is not a whole number" in page.locator(".problem").text_content()
        page.goto(asked("compare", "bare", text="5 17", text2="5 x7"))
        assert "x7 is not a whole number" in page.locator(".problem").text_content()
        page.fill("#text2", "5, 7")
        page.click("#compare")
        page.wait_for_selector("[data-painted=yes] canvas")


# --- keys and addresses ---------------------------------------------------------------------------------------------


def test_keys_alone_go_all_the_way(page):
    """From the bare address, with the keyboard only: a model, a text, a screen, and a value in it."""
    page.goto("/?lang=en")
    page.wait_for_selector("#ask-text")
    reach(page, "#ask select")
    page.keyboard.type("gpt2")
    page.wait_for_selector("#ask-text")
    reach(page, "#ask-text")
    page.keyboard.press("Control+A")
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    reach(page, "[data-screen=tensors]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-tensors[data-painted=yes]")
    reach(page, "#tensor-search")
    page.keyboard.type("layers.0.attention.pattern")
    reach(page, "[data-name='layers.0.attention.pattern']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".heatmap")
    reach(page, ".heatmap")
    page.keyboard.press("ArrowDown")
    assert page.locator(".value").text_content().startswith("[1, 0] = ")


def reach(page: Any, selector: str) -> None:
    """Press Tab until the focus is there."""
    for _ in range(120):
        if page.evaluate("(selector) => document.activeElement?.matches(selector) ?? false", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached with the Tab key")


def test_the_address_is_the_whole_state(page, browser, studio_url):
    page.goto(asked("tensors", "gpt2", tensor="layers.1", cell="1,2", theme="dark"))
    page.wait_for_selector("[data-painted=yes]")
    before = page.locator("#screen").inner_text()
    with watched_again(browser, studio_url) as other:
        other.goto(page.url)
        other.wait_for_selector("[data-painted=yes]")
        assert other.locator("#screen").inner_text() == before
        assert other.evaluate("document.documentElement.dataset.theme") == "dark"
        other.click("[data-screen=run]")
        other.wait_for_selector(".screen-run")
        other.go_back()
        other.wait_for_selector(".screen-tensors[data-painted=yes]")
        assert other.locator("#screen").inner_text() == before


def test_a_cell_of_one_screen_is_not_one_of_another(page):
    page.goto(asked("lens", "bert", cell="1,2", step="layers.1"))
    page.click("[data-screen=atlas]")
    page.wait_for_url(lambda url: "cell=" not in url and "step=" not in url)
    page.goto(asked("head", "bert", cell="1,2"))
    page.click("[data-screen=recompute]")
    page.wait_for_selector(".screen-recompute[data-painted=yes]")
    assert "cell=1%2C2" in page.url


def test_what_was_typed_is_kept(page):
    page.goto(asked("tensors", "bert"))
    page.wait_for_selector("[data-painted=yes]")
    page.fill("#ask-text", "Tom read")  # and not sent
    page.click("[data-screen=lens]")
    page.wait_for_selector(".screen-lens[data-painted=yes]")
    assert "text=Tom+read" in page.url
    page.select_option("#select-model", "gpt2")
    page.wait_for_url("**model=gpt2**")
    assert page.locator("#ask-text").input_value() == "Tom read"
    page.fill("#ask-text", "")
    page.press("#ask-text", "Enter")
    page.wait_for_selector(".notice")
    assert "nothing to look at" in page.locator(".notice").text_content()
    page.reload()
    page.wait_for_selector(".notice")
    assert page.locator("#ask-text").input_value() == ""


def test_an_example_gives_way_to_that_of_the_next_model(page):
    models = page.request.get("/api/v1/models").json()
    for one in models:
        one["examples"] = [{"inputs": f"Tom and {one['name']}"}]
    page.route("**/api/v1/models", lambda route: route.fulfill(json=models))
    page.goto("/?lang=en&screen=tensors&model=bert")
    page.wait_for_selector("[data-painted=yes]")
    page.select_option("#select-model", "gpt2")
    page.wait_for_url("**model=gpt2**")
    assert page.locator("#ask-text").input_value() == "Tom and gpt2"


def test_the_focus_stays_where_it_was(page):
    def focus() -> str:
        return str(page.evaluate("document.activeElement.id"))

    page.goto(asked("head", "bert"))
    page.wait_for_selector("[data-painted=yes]")
    page.select_option("#select-language", "zh")
    page.locator("#select-layerOf").focus()
    page.keyboard.press("Escape")
    page.select_option("#select-theme", "dark")
    page.wait_for_selector("[data-theme=dark] .screen-head[data-painted=yes]")
    assert focus() == "select-layerOf"
    page.locator("#matrix").focus()
    page.keyboard.press("Escape")
    page.wait_for_selector(".screen-atlas[data-painted=yes]")
    page.wait_for_function("document.activeElement.id === 'screen'")
    page.locator("#to-tensors").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-tensors[data-painted=yes]")
    assert focus() == "to-tensors"
