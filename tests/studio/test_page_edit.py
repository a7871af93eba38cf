"""The Edit screen in a real browser: what it shows of an edited model is what Python says, for every family."""

import pytest
import torch

import glassformer as gf
from glassformer.inspect.ablation import ablate
from glassformer.inspect.lens import scores
from glassformer.jobs.reading import reading
from studio.cases import MODELS, TEXT, every_second

PART = {
    "rnn": "recurrent.layers.0.left_to_right.hidden:3",
    "lstm": "recurrent.layers.0.right_to_left.cell:1",
    "gru-lm": "recurrent.layers.1.left_to_right.hidden:0",
    "seq2seq": "decoder.recurrent.layers.0.left_to_right.hidden:2",
    "cnn": "features:5",
    "bow": "features:1",
    "transformer": "decoder.layers.0.cross_attention:1",
}


def logits(folder, names, to="zero", pair=None):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    inputs = reading(model, tok, TEXT, pair).inputs
    with torch.inference_mode(), gf.record(model, edit=ablate(model, names, to, inputs)):
        return scores(model, model(**inputs))[0]


def shown(page):
    """{choice: (before, after, Δ)} of the table of Δ logits."""
    rows = page.locator(".deltas tbody tr").all()
    cells = [[row.locator("th").text_content(), *row.locator("td").all_text_contents()] for row in rows]
    return {name: tuple(float(one) for one in found[:3]) for name, *found in cells}


def wait(page):
    page.wait_for_selector(".screen-edit[data-painted=yes]")


@pytest.mark.parametrize("name", every_second(0))
def test_the_deltas_are_those_of_python(name, tour, studio_folders):
    to = ("zero", "mean")[list(MODELS).index(name) % 2]
    part, pair = PART.get(name, "layers.1.attention:1"), TEXT if name == "bert-qa" else None
    page = tour("edit", model=name, text=TEXT, off=part, to=to, place=0, **({"pair": pair} if pair else {}))
    before, after = (logits(studio_folders[name], names, to, pair) for names in ([], [part]))
    found = shown(page)
    assert found
    for old, new, delta in found.values():
        place = (before[0] - old).abs().argmin()
        assert old == pytest.approx(float(before[0, place]), abs=1e-4)
        assert new == pytest.approx(float(after[0, place]), abs=1e-4)
        assert delta == pytest.approx(float(after[0, place] - before[0, place]), abs=2e-4)
    assert "ablate(model" in page.locator("pre").text_content()


@pytest.mark.parametrize("name", ["bert", "bert-ner", "bert-qa", "gpt2", "seq2seq"])
def test_the_new_output_stands_beside_the_old(name, tour):
    pair = {"pair": TEXT} if name == "bert-qa" else {}
    page = tour("edit", model=name, text=TEXT, off=PART.get(name, "layers.0"), **pair)
    assert page.locator(".pair > div").count() == 2
    assert page.locator(".pair .after").text_content().strip() != "After"


def test_heads_are_switched_by_keys_alone(tour):
    page = tour("edit", model="bert", text=TEXT)
    page.locator("[id='switch-layers.0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**off=layers.1.attention%3A1")
    wait(page)
    assert page.evaluate("document.activeElement.id") == "switch-layers.1.attention:1"
    assert page.locator("[id='switch-layers.1.attention:1']").get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    page.wait_for_url("**layers.1.attention%3A0")
    wait(page)
    page.click("#undo")
    page.wait_for_url("**off=layers.1.attention%3A1")
    wait(page)
    page.click("#others")
    wait(page)
    assert page.locator(".heads button.head[aria-pressed=true]").count() == 3
    page.click("#reset")
    page.wait_for_function("!location.search.includes('off=')")
    wait(page)
    assert "Everything is on" in page.locator(".now").text_content()


def test_a_neuron_is_switched_off_by_its_number(tour, studio_folders):
    page = tour("edit", model="gpt2", text=TEXT)
    page.fill("#neuron-number", "5")
    page.click("#switch-neuron")
    page.wait_for_selector("button.off")
    wait(page)
    assert page.locator("button.off").text_content() == "layers.0.feed_forward.neurons:5 ×"
    after = logits(studio_folders["gpt2"], ["layers.0.feed_forward.neurons:5"])[-1]
    for _, new, _ in shown(page).values():
        assert float((after - new).abs().min()) < 1e-4


def test_every_head_is_tried_and_coloured(tour, studio_folders):
    page = tour("edit", model="bert", text=TEXT)
    page.click("#try-heads")
    page.wait_for_selector("[data-tried=yes]")
    colours = page.evaluate("[...document.querySelectorAll('.heads .head')].map((one) => one.style.backgroundColor)")
    assert len(colours) == 4
    assert all(colours)
    before = logits(studio_folders["bert"], [])
    moved = {}
    for name in (f"layers.{layer}.attention:{head}" for layer in range(2) for head in range(2)):
        after = logits(studio_folders["bert"], [name])
        moved[name] = float((before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum())
    assert max(moved, key=moved.get) in page.locator(".trial p").text_content()
    page.hover("[id='switch-layers.0.attention:1']")
    assert page.locator("#told").text_content().startswith("layers.0.attention:1 off: KL ")


def test_a_wrong_name_is_explained_and_can_be_mended(visit, page):
    visit("edit", model="bert", text=TEXT, off="layers.9.attention:0")
    assert "near it: layers." in page.locator(".problem").text_content()
    page.faults.clear()  # the browser logs the 422
    page.click("#reset-off")
    page.wait_for_selector(".deltas")


def test_a_place_is_chosen_in_the_list(tour):
    page = tour("edit", model="bert-ner", text=TEXT, off="layers.0", place=1)
    page.focus(".grid")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**place=2**")
    wait(page)
    assert page.locator(".deltas").count() == 1


@pytest.mark.parametrize("screen", ["states", "lens", "edit"])
def test_what_is_typed_stays_text(screen, tour):
    page = tour(screen, model="gpt2", text="<img src=x onerror=alert(1)>", off="layers.0" if screen == "edit" else "")
    assert page.locator("main img").count() == 0


def test_a_trace_that_expired_can_be_run_again(visit, page, studio):
    visit("edit", model="bert", text=TEXT)
    studio.traces._kept.clear()
    page.locator("[id='switch-layers.0.attention:0']").click()
    page.click("#retry")
    wait(page)
    page.faults.clear()  # the browser logs the 404
    assert page.locator(".deltas").count() == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"kind": "start", "total": 4}\n', "broke off"),
        ('{"kind": "start", "total": 4}\n{"kind": "problem", "status": 429, "detail": "full"}\n', "busy"),
    ],
)
def test_a_trial_that_fails_says_so_and_can_be_tried_again(body, words, visit, page):
    visit("edit", model="bert", text=TEXT)
    page.route("**/edits/heads", lambda route: route.fulfill(body=body, content_type="application/x-ndjson"))
    page.click("#try-heads")
    assert words in page.locator(".problem").text_content()
    page.unroute("**/edits/heads")
    page.click("#retry")
    wait(page)
    page.wait_for_selector(".problem", state="detached")
    page.click("#try-heads")
    page.wait_for_selector("[data-tried=yes]")
    assert page.evaluate("document.querySelector('.heads .head').style.backgroundColor") != ""


def test_a_trial_can_be_stopped(visit, page):
    visit("edit", model="transformer", text=TEXT)
    page.route("**/edits/heads", lambda _: None)  # nobody answers
    page.click("#try-heads")
    assert page.locator("#try-heads").text_content() == "Stop"
    page.click("#try-heads")
    page.wait_for_selector("[data-tried=yes]")
    assert page.locator("#try-heads").text_content() == "Try every head (12)"
    assert page.locator(".problem").count() == 0


def test_undo_does_not_reach_into_another_question(visit):
    page = visit("edit", model="bert", text=TEXT)
    page.locator("[id='switch-layers.0']").click()
    page.wait_for_selector("button.off")
    wait(page)
    assert page.locator("#undo").is_enabled()
    page.select_option("#select-model", "gpt2")
    page.wait_for_url("**model=gpt2**")
    wait(page)
    assert page.locator("#undo").is_disabled()
