"""One file and one line of the registry: an architecture is loaded, trained, generated with, looked into and drawn."""

import ast
import math
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlencode

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.engine.decoder import PreparedDecoder
from glassformer.engine.prepare import prepared
from glassformer.hub.registry import ARCHITECTURES
from glassformer.inspect.laws import LAWS
from glassformer.inspect.recompute import recompute
from glassformer.inspect.walk import WALKS
from pages import Shell, carry_out, page_blocks
from test_import_rules import MAY_IMPORT, rooms_imported

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "architecture.md"
TEXTS = ["the cat sat on the mat.", "a dog ran to the red house.", "the bird sings in the old tree."]


@pytest.fixture(scope="module")
def toy_gpt():
    """The two files that the page shows, as modules of the rooms that it names."""
    files = {one.file: one.code for one in page_blocks(PAGE) if one.language == "python" and one.file}
    walks = dict(WALKS)
    names = [file.removeprefix("src/").removesuffix(".py").replace("/", ".") for file in files]
    for name, code in zip(names, files.values(), strict=True):
        room = name.split(".")[1]
        outside = {one.split(".")[0] for one in rooms_imported(ast.parse(code), f"glassformer.{room}")}
        assert outside <= {room, *(one.split(".")[0] for one in MAY_IMPORT[room])} | ({"models"} - {room})
        sys.modules[name] = module = ModuleType(name)
        exec(compile(code, PAGE.name, "exec"), vars(module))
    yield sys.modules[names[0]]
    for name in names:
        del sys.modules[name]
    WALKS.clear()
    WALKS.update(walks)


@pytest.fixture(scope="module")
def run(tmp_path_factory, toy_gpt):
    """A toy that was trained by its everyday name, as any other model."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "texts.txt").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ARCHITECTURES, "toy-gpt", toy_gpt.ARCHITECTURE)  # the registry's line
        yield gf.train(
            task="text-generation",
            arch="toy-gpt",
            data=str(folder / "texts.txt"),
            out=str(folder / "run"),
            steps=30,
            lr=5e-3,
            config={"n_positions": 48},
            vocab_size=280,
        )


@pytest.fixture(scope="module")
def model(run):
    return gf.load(run.folder)


@pytest.fixture(scope="module")
def inputs(run):
    return gf.load_tokenizer(run.folder)(TEXTS, padding=True, return_tensors="pt")


def test_its_page_runs(run, glassformer, tmp_path, monkeypatch, capsys):
    """Where the architecture is in the registry, as it is while `run` is there."""
    monkeypatch.chdir(tmp_path)
    carry_out(PAGE, Shell(glassformer), capsys)


def test_it_learns_and_its_folder_says_what_it_is(toy_gpt, run, model):
    assert isinstance(model.layers[0].feed_forward, toy_gpt.GatedFeedForward)
    assert model.config.n_positions == 48
    assert run.scores["dev"]["loss"] < 0.8 * math.log(model.config.vocab_size)  # a chance of one in all words


def test_it_is_saved_and_loaded_bit_for_bit(model, inputs, tmp_path):
    with torch.no_grad():
        assert_close(gf.load(gf.save(model, tmp_path))(**inputs).logits, model(**inputs).logits)


def test_every_law_that_applies_holds(model, inputs):
    texts = [row[mask.bool()].tolist() for row, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
    errors = {law.name: law.check(model, texts) for law in LAWS if law.applies(model)}
    assert len(errors) >= 5
    assert max(errors.values()) <= 1e-5, errors


def test_it_writes_the_same_prepared_and_by_itself(run, model):
    """The engine does not know the gated block, and asks it itself."""
    tokenizer = gf.load_tokenizer(run.folder)
    ready = prepared(model, 1)
    assert isinstance(ready, PreparedDecoder)
    text = gf.generate(model, tokenizer, "the cat", max_new_tokens=8)
    with gf.record(model, "layers.0"):  # a model with hooks is not prepared
        assert gf.generate(model, tokenizer, "the cat", max_new_tokens=8) == text
    assert gf.pipeline("text-generation", run.folder)("the cat", max_new_tokens=8) == [{"generated_text": text}]


def test_it_is_recorded_and_recomputed(model, inputs):
    with gf.record(model, "*.pattern") as seen:
        model(**inputs)
    assert len(seen.attentions) == 2
    found = recompute(model, dict(inputs))
    assert {row.verdict for row in found.rows(1e-4)} <= {"holds", "-"}
    assert found.step("layers.1.feed_forward.neurons").formula.text == "silu(g) · u"


def test_it_is_drawn_in_the_studio(run, browser):
    """In a real browser: every head of it, one head, and a number of its own block recomputed."""
    from glassformer.studio.app import create_app
    from glassformer.studio.app_state import ModelStore, Studio
    from glassformer.studio.traces import Traces
    from studio.cases import serving, turn, watched

    studio = Studio(ModelStore([str(run.folder)]), Traces(), runs=run.folder.parent)
    with serving(create_app(studio)) as url, watched(browser, url) as page:
        for screen in ("atlas", "head", "recompute"):
            turn(page, "/?" + urlencode({"screen": screen, "lang": "en", "model": run.folder.name, "text": TEXTS[0]}))
            page.wait_for_selector(f".screen-{screen}[data-painted=yes]")
        assert "layers.1.feed_forward.neurons" in page.content()
