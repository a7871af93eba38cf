"""The Run screen in a real browser: tokens linked to their characters, and each task's result as the server has it."""

import json
import re
from urllib.parse import urlencode

import numpy as np
import pytest

from glassformer.studio.limits import MOST
from studio.cases import TEXT, every_second, http

TITLES = "all => all.map((one) => one.title)"
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def told(studio_url):
    """The lines that the server says of a question."""

    def ask(model, inputs, pair=None, **options):
        body = {"model": model, "inputs": inputs, "pair": pair, "options": options}
        answer = http.post(f"{studio_url}/api/v1/results", json=body)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    return ask


def state_of(model):
    text = "Anna gave [MASK] red [MASK] ." if model == "bert-mlm" else TEXT
    return {"model": model, "text": text, **({"pair": "The book was red ."} if model == "bert-qa" else {})}


def shortest(page):
    """The numbers as the page writes them, from the exact ones in their tooltips."""
    return float32([float(one) for one in page.locator(".answer .figure").evaluate_all(TITLES)])


def float32(values):
    return np.float32(values).tolist()


@pytest.mark.parametrize("model", every_second(1))
def test_every_family_shows_its_tokens_and_its_result(model, tour, studio_url):
    page = tour("run", **state_of(model))
    asked = {"model": model, "inputs": state_of(model)["text"], "pair": state_of(model).get("pair")}
    trace = http.post(f"{studio_url}/api/v1/traces", json=asked).json()
    for side, tokens in trace["tokens"].items():
        shown = page.locator(f".side.{side} .token").evaluate_all("all => all.map((one) => Number(one.dataset.id))")
        assert shown == [one["id"] for one in tokens]
    assert page.locator(".answer > *").count() > 0
    assert page.locator(".problem").count() == 0


def test_a_token_and_its_characters_are_linked(tour):
    """Characters are counted as Python counts them, so that an emoji is one."""
    text = "🎈 Anna gave the book"
    page = tour("run", model="bert", text=text)
    page.get_by_role("button", name=re.compile("^gave|^g")).first.click()
    facts = page.locator(".side .facts").inner_text()
    start, end = map(int, re.search(r"(\d+)–(\d+)", facts).groups())
    assert page.locator(".side mark").inner_text() == text[start:end]
    assert text[start] == "g"
    place = page.locator(".side .token[aria-pressed=true]").evaluate("one => [...one.parentNode.children].indexOf(one)")
    page.keyboard.press("ArrowRight")
    assert page.locator(".side .token[aria-pressed=true]").evaluate("one => one === document.activeElement")
    assert f"token=read%2C{place + 1}" in page.url
    page.reload()
    page.wait_for_selector("[data-painted=yes]")
    assert page.locator(".side .token[aria-pressed=true]").count() == 1
    box = page.locator(".side .passage").bounding_box()
    page.mouse.click(box["x"] + 30, box["y"] + box["height"] / 2)  # into Anna
    assert page.locator(".side mark").inner_text() in "Anna"


def test_classes_are_those_of_the_server(tour, told):
    page = tour("run", model="bert", text=TEXT)
    (line,) = (one for one in told("bert", TEXT) if one["kind"] == "classes")
    assert page.locator(".answer .name").all_inner_texts() == [one["label"] for one in line["classes"]]
    assert shortest(page) == float32([one["score"] for one in line["classes"]])


def test_entities_are_marked_in_the_text(tour, told):
    page = tour("run", model="bert-ner", text=TEXT, aggregation_strategy="simple")
    (line,) = (one for one in told("bert-ner", TEXT, aggregation_strategy="simple") if one["kind"] == "entities")
    assert line["entities"]
    assert page.locator(".answer mark").all_inner_texts() == [
        TEXT[one["start"] : one["end"]] for one in line["entities"]
    ]
    assert page.locator(".answer .token").count() == len(line["tokens"])
    page.locator(".answer .token").first.click()
    told_score = page.locator(".answer .facts dd").last.inner_text()
    assert float(told_score) == pytest.approx(line["tokens"][0]["score"], rel=1e-7)


def test_an_answer_is_marked_in_its_context(tour, told):
    context = "The book was red ."
    page = tour("run", model="bert-qa", text="Who ?", pair=context)
    (line,) = (one for one in told("bert-qa", "Who ?", context) if one["kind"] == "answers")
    assert page.locator(".answer mark").inner_text() == line["answers"][0]["answer"]
    page.locator(".answer .bars button").nth(1).click()
    assert page.locator(".answer mark").inner_text() == line["answers"][1]["answer"]
    assert shortest(page) == pytest.approx([one["score"] for one in line["answers"]], rel=1e-7)
    assert "answer=1" in page.url


def test_each_mask_has_its_fillings(tour, told):
    text = "Anna gave [MASK] red [MASK] ."
    page = tour("run", model="bert-mlm", text=text, top_k=3)
    (line,) = (one for one in told("bert-mlm", text, top_k=3) if one["kind"] == "fills")
    assert page.locator(".answer .mask").count() == 2
    assert shortest(page) == float32([one["score"] for words in line["masks"] for one in words])


@pytest.mark.parametrize("model", ["gpt2", "gru-lm"])
def test_a_stream_shows_every_token_and_its_alternatives(tour, told, model):
    options = {"strategy": "sample", "temperature": 1.5, "top_k": 30, "top_p": 1, "seed": 3, "max_new_tokens": 6}
    page = tour("run", model=model, text=TEXT, **options)
    tokens = [one for one in told(model, TEXT, **options) if one["kind"] == "token"]
    assert page.locator(".answer .token").count() == len(tokens)
    page.locator(".answer .token").nth(1).click()
    assert page.locator(".answer .bars .chosen").count() == 1
    wanted = [one["share"] for one in tokens[1]["top"]]
    assert shortest(page)[: len(wanted)] == pytest.approx(wanted, rel=1e-6)
    assert "written=1" in page.url
    page.keyboard.press("ArrowLeft")
    assert "written=0" in page.url


@pytest.mark.parametrize("model", ["seq2seq", "transformer"])
def test_translations_show_what_the_beams_found(tour, told, model):
    page = tour("run", model=model, text=TEXT, num_beams=3, max_new_tokens=7)
    last = told(model, TEXT, strategy="beam", num_beams=3, max_new_tokens=7)[-2]
    assert page.locator(".answer tbody tr").count() == 3
    shown = float32([float(one) for one in page.locator(".answer tbody span").evaluate_all(TITLES)])
    assert shown == float32([one["score"] for one in last["texts"]])
    page.locator(".tree").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".answer .value").inner_text().startswith("1.2 ")
    assert page.locator(".tree canvas").evaluate("one => one.width") > 400


def test_a_nasty_token_stays_text(visit, page):
    for model in ("bert", "bert-ner", "gpt2"):
        visit("run", model=model, text=NASTY)
        assert NASTY in page.locator(".side .passage").inner_text()
        assert page.locator("main img").count() == 0
    visit("run", model="bert-qa", text=NASTY, pair=NASTY)
    assert page.locator("main img").count() == 0


RESULTS = "**/api/v1/results"
BREAKS = {
    "dropped": ({"body": '{"kind": "begin"}\n', "content_type": "application/x-ndjson"}, "broke off"),
    "busy": ({"status": 429, "json": {"detail": "too many"}}, "busy"),
    "gone": ({"status": 410, "json": {"detail": "gone"}}, "expired"),
    "wrong": ({"status": 422, "json": {"detail": "top_p must be above 0"}}, "top_p must be above 0"),
    "broken down": ({"body": '{"kind": "error", "detail": "NaN"}\n'}, "NaN"),
    "no answer": (None, "does not answer"),
}


def fault(answer):
    return lambda route: route.abort() if answer is None else route.fulfill(**answer)


def test_faults_show_a_message_and_a_retry_that_works(visit, page):
    for what, (answer, words) in BREAKS.items():
        page.route(RESULTS, fault(answer))
        visit("run", model="gpt2", text=TEXT, max_new_tokens=4)
        assert words in page.locator(".problem").inner_text(), what
        page.faults.clear()  # a failed request is told on the console
        page.unroute(RESULTS)
        page.click("#retry")
        page.wait_for_selector(".answer .token >> nth=3")
        assert page.locator(".problem").count() == 0, what


def test_a_stream_can_be_stopped(page, monkeypatch):
    monkeypatch.setitem(MOST, "max_new_tokens", 10**6)
    page.goto(
        "/?" + urlencode({"screen": "run", "lang": "en", "model": "gru-lm", "text": TEXT, "max_new_tokens": 10**6})
    )
    page.click("#stop")
    page.wait_for_selector("[data-painted=yes]")
    assert re.match(r"stopped; tokens written: \d+", page.locator(".status").inner_text())
    assert page.locator("#stop").is_hidden()


def test_options_live_in_the_address(visit):
    page = visit("run", model="gpt2", text=TEXT, max_new_tokens=3)
    page.get_by_role("button", name="sample").click()
    page.wait_for_selector("[data-painted=yes] #option-temperature")
    page.fill("#option-temperature", "0.5")
    page.press("#option-temperature", "Enter")
    page.wait_for_url("**temperature=0.5**")
    page.wait_for_selector("[data-painted=yes] .answer .token >> nth=2")
    assert "strategy=sample" in page.url
    page.go_back()
    page.wait_for_url(lambda url: "temperature" not in url)
    page.fill("#option-temperature", "hot")
    page.press("#option-temperature", "Enter")
    page.wait_for_selector(".problem")
    assert "temperature is 'hot'; it must be a number" in page.locator(".problem").inner_text()
    page.faults.clear()


def test_many_tokens_are_few_nodes(visit, page):
    text = " ".join(["Anna gave the red book to Tom ."] * 80)
    visit("run", model="lstm", text=text)
    assert "of" in page.locator(".side .pages").inner_text()
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    page.locator(".side .pages button").last.click()
    assert page.locator(".side .token").count() > 0
    visit("run", model="bert-mlm", text="[MASK] " * 60)
    assert "36 more masks" in page.locator(".answer").inner_text()
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.few(1)
@pytest.mark.parametrize(("model", "words"), [("bert", "LABEL_0"), ("gpt2", "Anna"), ("transformer", "prompt")])
def test_results_can_be_taken_along(visit, page, model, words):
    visit("run", **state_of(model), max_new_tokens=5)
    with page.expect_download() as saved:
        page.click("#export-svg")
    svg = saved.value.path().read_text()
    assert svg.startswith("<svg")
    assert words in svg
    with page.expect_download() as saved:
        page.click("#export-png")
    assert saved.value.path().read_bytes()[:4] == b"\x89PNG"
    with page.expect_download() as saved:
        page.click("#export-npz")
    assert "outputs.logits" in np.load(saved.value.path())
