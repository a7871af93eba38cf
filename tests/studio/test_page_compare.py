"""The Compare screen in a real browser: differences are the tensors' own, and where none can be taken it says so."""

import json
import shutil
from urllib.parse import urlencode

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from glassformer.view.colours import ColourScale, ramp
from studio.cases import TEXT, every_second, http, serving, watched

OTHER = "Anna gave the book red to Tom ."
SHORT = "Anna gave it ."


def state_of(model, text=TEXT, other=OTHER):
    state = {"model": model, "text": text, "text2": other}
    if model in ("seq2seq", "transformer"):
        return state | {"target": "Tom gave the book"}
    if model == "bert-mlm":
        return state | {"text": text.replace("Tom", "[MASK]"), "text2": other.replace("Tom", "[MASK]")}
    return state | ({"pair": "The book was red ."} if model == "bert-qa" else {})


def numbers(url, trace, name, **query):
    answer = http.get(f"{url}/api/v1/traces/{trace}/tensors/{name}", params=query)
    return np.frombuffer(answer.content, "<f4").reshape([int(size) for size in answer.headers["X-Shape"].split(",")])


def traced(url, **asked):
    return http.post(f"{url}/api/v1/traces", json=asked).json()


@pytest.mark.few(3)
@pytest.mark.parametrize("model", every_second(1))
def test_every_family_has_a_difference(model, tour):
    page = tour("compare", **state_of(model))
    found = {name: page.locator(name).count() for name in (".problem", ".mosaic", ".heatmap")}
    assert found == {".problem": 0, ".mosaic": 1, ".heatmap": 1}
    assert page.locator(".said .headline").count() > 0


def test_a_cell_shows_the_exact_numbers_and_their_colour(tour, studio_url):
    page = tour("compare", **state_of("bert"), layer=1, head=1, cell="2,5", theme="light")
    first, second = (traced(studio_url, model="bert", inputs=text)["trace_id"] for text in (TEXT, OTHER))
    name = "layers.1.attention.pattern"
    one, other = (numbers(studio_url, trace, name, slice="0,1") for trace in (first, second))
    words = page.locator(".value").inner_text().split()
    shown = [np.float32(words[words.index(label) + 1]) for label in ("First", "Second", "Δ")]
    assert shown == [one[2, 5], other[2, 5], other[2, 5] - one[2, 5]]
    change = other - one
    steps = ColourScale(-np.abs(change).max(), np.abs(change).max()).steps(change)
    pixel = "one => [...one.getContext('2d').getImageData(5, 2, 1, 1).data.slice(0, 3)]"
    assert page.locator("canvas.pixels").evaluate(pixel) == ramp("signed", "light")[steps[2, 5]].tolist()


def test_the_class_that_changes_is_named_with_its_logits(tour, studio_url):
    page = tour("compare", **state_of("lstm", other="Tom was sad ."))
    labels = []
    for text in (TEXT, "Tom was sad ."):
        answer = http.post(f"{studio_url}/api/v1/results", json={"model": "lstm", "inputs": text})
        labels.append(next(line for line in map(json.loads, answer.text.splitlines()) if "classes" in line))
    first, second = (line["classes"][0]["label"] for line in labels)
    wanted = f"Both say the same: {first}." if first == second else f"The answer changes: {first} → {second}."
    assert page.locator(".said .headline").inner_text() == wanted
    traces = [traced(studio_url, model="lstm", inputs=text)["trace_id"] for text in (TEXT, "Tom was sad .")]
    logits = [numbers(studio_url, trace, "outputs.logits")[0] for trace in traces]
    titles = page.locator(".said td span").evaluate_all("all => all.map((one) => Number(one.title))")
    assert np.float32(titles).reshape(-1, 3).tolist() == np.stack([*logits, logits[1] - logits[0]], 1).tolist()


@pytest.mark.parametrize("model", ["gpt2", "transformer"])
def test_chances_of_the_first_token_are_those_of_the_logits(tour, studio_url, model):
    page = tour("compare", **state_of(model))
    target = {"target": "Tom gave the book"} if model == "transformer" else {}
    traces = [traced(studio_url, model=model, inputs=text, **target)["trace_id"] for text in (TEXT, OTHER)]
    place = "0,0" if model == "transformer" else "0,-1"
    chances = [
        torch.from_numpy(numbers(studio_url, one, "outputs.logits", slice=place).copy()).softmax(0) for one in traces
    ]
    best = page.locator(".both .figure.soft").first.inner_text().split(" → ")
    assert float(best[0]) == pytest.approx(float(chances[0].max()), rel=1e-3)
    changes = page.locator(".both .figure span").evaluate_all("all => all.map((one) => Number(one.title))")
    assert changes[0] == pytest.approx(float(chances[1][chances[0].argmax()] - chances[0].max()), abs=1e-6)


def test_unequal_numbers_of_tokens_stand_side_by_side(tour):
    for model in ("bert", "gpt2", "lstm", "bert-ner"):
        page = tour("compare", **state_of(model, other=SHORT))
        assert "side by side instead of a difference" in page.locator(".note").all_inner_texts()[-1]
        assert page.locator(".mosaic").count() == page.locator(".heatmap").count() == 2


def test_another_head_is_chosen_by_keys_and_stays_after_a_reload(tour):
    page = tour("compare", **state_of("bert"))
    page.locator(".mosaic").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**head=1**")
    page.wait_for_selector("[data-painted=yes]")
    assert "layer 1 · head 1" in page.locator("h3").all_inner_texts()
    page.reload()
    page.wait_for_selector("[data-painted=yes]")
    assert "layer 1 · head 1" in page.locator("h3").all_inner_texts()
    assert "off=layers.1.attention%3A1" in page.get_by_role("link", name="Switch this head off").get_attribute("href")


def test_a_second_text_is_typed(tour):
    page = tour("compare", model="bert", text=TEXT)
    assert "Type another text" in page.locator(".notice").inner_text()
    page.fill("#text2", "<img src=x onerror=alert(1)>")
    page.press("#text2", "Enter")
    page.wait_for_selector(".said")
    assert page.locator("main img").count() == 0
    assert "text2=%3Cimg" in page.url


def test_two_checkpoints_of_one_shape(browser, studio_folders, tmp_path):
    """Only those of the same shape are offered; the same weights differ nowhere."""
    model, tokenizer = gf.load(studio_folders["bert"]), gf.load_tokenizer(studio_folders["bert"])
    shutil.copytree(studio_folders["bert"], tmp_path / "same")
    with torch.no_grad():
        model.layers[0].attention.query.weight.mul_(-1)
    gf.save(model, tmp_path / "turned", tokenizer=tokenizer)
    folders = [studio_folders["bert"], studio_folders["gpt2"], tmp_path / "same", tmp_path / "turned"]
    studio = Studio(ModelStore([str(folder) for folder in folders]), Traces())
    with serving(create_app(studio)) as url, watched(browser, url) as page:
        page.goto("/?" + urlencode({"screen": "compare", "model": "bert", "text": TEXT, "by": "model", "lang": "en"}))
        page.wait_for_selector("[data-painted=yes]")
        chosen = page.get_by_label("Other checkpoint")
        assert chosen.locator("option").all_inner_texts() == ["choose…", "same", "turned"]
        chosen.select_option("same")
        page.wait_for_selector("[data-painted=yes] .said")
        assert "Largest difference of logits: 0, at" in page.locator(".said").inner_text()
        page.get_by_label("Other checkpoint").select_option("turned")
        page.wait_for_selector("[data-painted=yes] .said:not(:has-text('of logits: 0,'))")
        assert "model2=turned" in page.url
        page.goto("/?" + urlencode({"screen": "compare", "model": "gpt2", "text": TEXT, "by": "model", "lang": "en"}))
        page.wait_for_selector("[data-painted=yes]")
        assert "no other checkpoint" in page.locator(".notice").inner_text()


def test_a_fault_of_the_second_says_so_and_can_be_tried_again(visit, page):
    def fault(route):
        busy = "book red" in route.request.post_data
        route.fulfill(status=429, json={"detail": "busy"}) if busy else route.continue_()

    page.route("**/api/v1/traces", fault)
    visit("compare", **state_of("bert"))
    assert "busy" in page.locator(".problem").inner_text()
    page.faults.clear()
    page.unroute("**/api/v1/traces")
    page.click("#retry")
    page.wait_for_selector(".said")
    assert page.locator(".problem").count() == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(("model", "other"), [("bert", OTHER), ("gru-lm", SHORT), ("transformer", OTHER)])
def test_a_comparison_can_be_taken_along(visit, page, model, other, capsys):
    """The Python runs as it stands, and prints what is shown."""
    visit("compare", **state_of(model, other=other), cell="0,0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-python")
    names: dict[str, torch.Tensor] = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    words = page.locator(".value").inner_text().split()
    if other == OTHER:
        assert float(names["first"][0, 0]) == pytest.approx(float(words[words.index("First") + 1]), abs=1e-6)
        assert float(names["second"][0, 0]) == pytest.approx(float(words[words.index("Second") + 1]), abs=1e-6)
    with page.expect_download() as saved:
        page.click("#export-svg")
    picture = saved.value.path().read_text()
    assert picture.startswith("<svg")
    assert [picture.count(f", {name}</text>") for name in ("Δ", "First", "Second")] == (
        [1, 0, 0] if other == OTHER else [0, 1, 1]
    )
    for button in ("#export-npz", "#export-npz-second"):
        with page.expect_download() as saved:
            page.click(button)
        assert len(np.load(saved.value.path()).files) == 1
    assert "tensor(" in capsys.readouterr().out
