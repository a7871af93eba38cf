"""The Lens screen in a real browser: its cells are Python's lens, for every family, by keys, and at 512 tokens."""

from urllib.parse import urlencode

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.inspect.lens import head_layers, prefix_lens, scores
from glassformer.jobs.reading import reading
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from glassformer.view.colours import SHARE
from studio.cases import TEXT, every_second, serving, watched

HEAD, HIGH = 26, 24  # of a grid: pixels of its names, and of a row


def logits_of(folder, name):
    """(rows, places, choices) by hand."""
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    asked = reading(model, tok, TEXT, TEXT if name == "bert-qa" else None)
    with torch.inference_mode():
        if name in ("rnn", "lstm", "cnn", "bow"):
            return prefix_lens(model, asked.inputs)[None]
        if name in ("gru-lm", "seq2seq"):
            return scores(model, model(**asked.inputs))
        if name in ("gpt2", "transformer"):
            return gf.logit_lens(model, asked.inputs).logits[:, 0]
        return head_layers(model, asked.inputs).together().logits[:, 0]


def pixel(page, row, column):
    """The colour just inside the top left corner of a cell, which no letter covers."""
    return page.evaluate(
        """([row, column, high, head]) => { const c = document.querySelector('.grid canvas');
        const wide = Number(c.dataset.wide), side = Number(c.dataset.side);
        const at = [side + column * wide + 3, head + row * high + 3];
        return [...c.getContext('2d').getImageData(...at, 1, 1).data].slice(0, 3) }""",
        [row, column, HIGH, HEAD],
    )


@pytest.mark.parametrize("name", every_second(0))
def test_cells_are_the_lens(name, tour, studio_folders):
    logits = logits_of(studio_folders[name], name)
    rows, places, _ = logits.shape
    shares = logits.softmax(-1)
    pair = {"pair": TEXT} if name == "bert-qa" else {}
    page = tour("lens", model=name, text=TEXT, cell="0,0", **pair)
    best = shares[0, 0].topk(min(5, shares.shape[-1]))
    painted = np.array(pixel(page, 0, 0), int)
    assert np.abs(painted - SHARE.colours(np.array(float(best.values[0]))).astype(int)).max() <= 8
    shown = [float(one) for one in page.locator(".best .exact").all_text_contents()]
    np.testing.assert_allclose(shown, best.values.numpy(), atol=1e-5)
    page.focus(".grid")
    page.keyboard.press("End" if rows > 1 else "ArrowDown")
    row, place = (rows - 1, 0) if rows > 1 else (0, min(1, places - 1))
    shown = [float(one) for one in page.locator(".best .exact").all_text_contents()]
    np.testing.assert_allclose(shown, shares[row, place].topk(len(shown)).values.numpy(), atol=1e-5)
    assert "cell=" in page.url


def test_colours_can_mean_rank_or_entropy_and_the_address_remembers(tour):
    page = tour("lens", model="gpt2", text=TEXT)
    pictures = set()
    for meaning in ("rank of the final answer", "rank of the true next token", "entropy", "probability"):
        page.click(f"text={meaning}")
        page.wait_for_selector(f".choice button[aria-pressed=true]:has-text('{meaning}')")
        page.wait_for_selector("[data-painted=yes]")
        pictures.add(page.evaluate("document.querySelector('.grid canvas').toDataURL()"))
    assert len(pictures) == 4
    page.click("text=entropy")
    page.wait_for_url("**colour=entropy**")
    page.reload()
    page.wait_for_selector("[data-painted=yes]")
    assert page.locator(".choice button[aria-pressed=true]").text_content() == "entropy"


def test_a_decoder_lens_is_one_click_away(tour, studio_folders):
    page = tour("lens", model="transformer", text=TEXT)
    page.click("text=encoder layers")
    page.wait_for_url("**lens=decoder**")
    page.wait_for_selector("[data-painted=yes]")
    model, tok = gf.load(studio_folders["transformer"]), gf.load_tokenizer(studio_folders["transformer"])
    lens = gf.decoder_lens(model, reading(model, tok, TEXT).inputs)
    page.focus(".grid")
    page.keyboard.press("Home")
    shown = [float(one) for one in page.locator(".best .exact").all_text_contents()]
    np.testing.assert_allclose(shown, lens.top(5)[0][0, 0, 0].numpy(), atol=1e-5)


@pytest.mark.slow
def test_512_tokens_and_12_layers_are_a_small_page(browser, tmp_path, studio_folders):
    torch.manual_seed(0)
    tok = gf.load_tokenizer(studio_folders["gpt2"])
    settings = {"n_embd": 24, "n_head": 12, "n_layer": 12, "n_positions": 512, "vocab_size": tok.vocab_size}
    gf.save(
        gf.build("gpt2", "text-generation", **settings, eos_token_id=0, bos_token_id=0),
        tmp_path / "long",
        tokenizer=tok,
    )
    text = "a" * 3000
    while len(tok(text)["input_ids"]) > 512:
        text = text[:-1]
    studio = Studio(ModelStore([str(tmp_path / "long")]), Traces(), runs=tmp_path)
    with serving(create_app(studio)) as url, watched(browser, url) as page:
        page.goto("/?" + urlencode({"screen": "lens", "lang": "en", "model": "long", "text": text}))
        page.wait_for_selector("[data-painted=yes]")
        assert page.evaluate("document.querySelectorAll('*').length") < 3000
        page.focus(".grid")
        page.keyboard.press("Control+End")
        (last,) = page.evaluate("[new URL(location).searchParams.get('cell')]")
        assert int(last.split(",")[0]) == len(tok(text)["input_ids"]) - 1
        assert page.evaluate("document.querySelector('.grid').scrollTop") > 1000
