"""The Recompute screen in a real browser: operands and value of a cell are those of Python, for every family."""

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.jobs.reading import reading
from studio.cases import FAMILIES, TEXT

CELLS = {  # model, what the address says, and what Python calls it
    "bert": ({"layer": "1", "head": "1"}, "layers.1.attention.head.1"),
    "gpt2": ({"layer": "0", "head": "1"}, "layers.0.attention.head.1"),
    "transformer": ({"board": "cross", "layer": "1"}, "decoder.layers.1.cross_attention.head.0"),
    "seq2seq": ({"board": "alignment"}, "decoder.attention"),
    "lstm": ({"layer": "0 ←", "head": "forget"}, "recurrent.layers.0.right_to_left.forget"),
    "gru-lm": ({"layer": "1", "head": "candidate"}, "recurrent.layers.1.left_to_right.candidate"),
    "cnn": ({}, "features"),
    "rnn": ({"head": "hidden"}, "recurrent.layers.0.left_to_right.hidden"),
}


def explained(folder, step, cell):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    return gf.explain(model, reading(model, tok, TEXT).inputs, step, cell=cell)


@pytest.mark.few(3)
@pytest.mark.parametrize("model", [one for one in FAMILIES if one.values[0] in CELLS])
def test_a_cell_of_every_family(model, tour, studio_folders):
    state, step = CELLS[model]
    page = tour("recompute", model=model, text=TEXT, cell="4,3", **state)
    told = explained(studio_folders[model], step, (4, 3))
    assert float(page.text_content("#recomputed")) == pytest.approx(told.value.item(), rel=1e-5, abs=1e-7)
    assert float(page.text_content("#models-own")) == pytest.approx(told.seen.item(), rel=1e-5, abs=1e-7)
    assert float(page.text_content("#cell-error")) == pytest.approx(told.error, rel=0.06, abs=1e-12)
    symbols = page.locator(".operand .symbol").all_text_contents()
    assert symbols == [symbol.replace("ᵀ", "T") for symbol in told.operands]
    for place, (symbol, value) in enumerate(told.operands.items()):
        row = page.locator(".operand").nth(place)
        if told.names.get(symbol):
            assert told.names[symbol] in row.text_content()
        if value.dim() == 0 and value.is_floating_point():
            shown = float(row.locator(".figures").text_content())  # of a float32 the fewest digits that mean it
            assert shown == pytest.approx(value.item(), rel=1e-8) or np.float32(shown) == value.item()
        elif value.dim() == 1:
            row.locator("summary").click()
            numbers = [float(number) for number in row.locator("pre:not(:empty)").text_content().split()]
            torch.testing.assert_close(torch.tensor(numbers).double(), value, rtol=1e-6, atol=1e-7)
    verdicts = page.locator("td.verdict").all_text_contents()
    assert set(verdicts) <= {"holds", "–"}
    assert verdicts.count("holds") > 5


def test_keys_move_the_cell_and_the_address_remembers(tour, studio_folders):
    page = tour("recompute", model="gpt2", text=TEXT, cell="4,3")
    page.focus("#matrix")
    for key in ("ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_selector('.explained[data-cell="5,1"]')
    told = explained(studio_folders["gpt2"], "layers.0.attention.head.0", (5, 1))
    assert float(page.text_content("#recomputed")) == pytest.approx(told.value.item(), rel=1e-5, abs=1e-7)
    page.reload()
    page.wait_for_selector('.explained[data-cell="5,1"]')


def test_the_explanation_can_be_taken_along(tour):
    page = tour("recompute", model="lstm", text=TEXT, layer="0 ←", head="forget", cell="4,3")
    with page.expect_download() as saved:
        page.click("#export-svg")
    picture = saved.value.path().read_text()
    for words in ("forget gate, unit 3", page.text_content("#recomputed"), page.text_content(".substituted")):
        assert words in picture, words


def test_a_cell_that_the_mask_hides_is_zero(tour):
    page = tour("recompute", model="gpt2", text=TEXT, cell="1,4")
    assert page.text_content("#recomputed") == "0"
    assert page.text_content(".substituted") == "mask = 0  ⇒  0"


def test_the_table_unfolds_and_opens_a_step(tour, studio_folders):
    page = tour("recompute", model="bert", text=TEXT)
    folded = page.locator('tr[data-step="layers.0.attention.head.*.scores"] button')
    folded.click()
    page.wait_for_selector('tr.inner[data-step="layers.0.attention.head.1.scores"]')
    assert folded.get_attribute("aria-expanded") == "true"
    folded.click()
    assert page.locator("tr.inner").count() == 0
    page.locator('tr[data-step="layers.1.feed_forward.up"] button').click()
    page.wait_for_selector('.screen-recompute[data-painted=yes] .explained[data-cell="0,0"]')
    page.fill("#cell-row", "3")
    page.fill("#cell-column", "7")
    page.press("#cell-column", "Tab")
    page.wait_for_selector('.explained[data-cell="3,7"]')
    told = explained(studio_folders["bert"], "layers.1.feed_forward.up", (3, 7))
    assert float(page.text_content("#recomputed")) == pytest.approx(told.value.item(), rel=1e-5, abs=1e-7)
    page.locator('tr[data-step="layers.0.attention.mask"] button').click()
    page.wait_for_selector("text=it is not made number by number")


def test_a_long_text_says_that_one_attention_is_recomputed(tour, studio_folders, monkeypatch):
    monkeypatch.setattr("glassformer.studio.explain.WORK", 0)
    page = tour("recompute", model="bert", text=f"{TEXT} so", layer="1", head="0", cell="2,2")
    assert "Shown is layers.1.attention alone" in page.text_content(".steps")
    assert "from what entered layers.1.attention in the model" in page.text_content(".explained")
    names = page.locator("tr[data-step]").evaluate_all("(rows) => rows.map((row) => row.dataset.step)")
    assert names
    assert all(name.startswith("layers.1.attention.") for name in names)
