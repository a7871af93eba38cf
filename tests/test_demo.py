"""The demo: every built-in model answers, one is looked into, one learns; and the page of it opens anywhere."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
import torch

import glassformer as gf
from browser import borrowed, heard, unknown_styles
from glassformer.jobs.demo import SHOWN, free_folder
from glassformer.view.tour import ModelAnswers, Picture, page

NAMES = [f"zoo:{card['name']}" for card in gf.zoo()]


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_it_shows_every_model_and_leaves_a_page_and_a_run(glassformer, tmp_path):
    out, runs = tmp_path / "new" / "demo.html", tmp_path / "runs"
    code, said, err = glassformer("demo", "--steps", 2, "--out", out, "--runs", runs)
    assert code == 0, err
    text, lines = unescape(out.read_text("utf-8")), said.splitlines()
    for card in gf.zoo():
        assert any(card["task"] in line and f"zoo:{card['name']}" in line for line in lines)
        assert card["about"] in text
    assert "read: 0 Sophie" in said
    assert any(set(line[19:]) & set("░▒▓█") for line in lines)
    assert "step 2 of 2" in said
    assert str(out) in said
    assert f"glassformer predict {runs / 'demo'}" in said
    assert {"model.safetensors", "recipe.toml", "metrics.jsonl", "curves.svg"} <= {
        path.name for path in (runs / "demo").iterdir()
    }
    assert text.count("<svg") == 2
    assert re.findall(r"(?:src|href|url)\s*[=(]", text) == []


@pytest.mark.slow  # all models once more
def test_for_machines_it_is_one_object(glassformer, tmp_path):
    words = ("--steps", 1, "--out", tmp_path / "demo.html", "--runs", tmp_path, "--json")
    code, out, err = glassformer("demo", *words)
    assert code == 0, err
    found = json.loads(out)
    assert [one["name"] for one in found["models"]] == [*NAMES, str(tmp_path / "demo")]
    assert all(len(one["answers"]) == SHOWN for one in found["models"])
    assert all(asked and answered for one in found["models"] for asked, answered in one["answers"])
    answers = {one["name"]: dict(one["answers"]) for one in found["models"]}
    assert answers["zoo:lstm-sentiment"]["A warm, funny and moving film."].startswith("positive ")
    assert answers["zoo:bilstm-ner"]["In the office, Anna London broke a cheap mirror in October."] == "Anna London PER"
    german = answers["zoo:gru-attention-en-de"]["Sophie repaired a chair in the garden."]
    assert german == "Sophie reparierte im Garten einen Stuhl."
    assert list(answers["zoo:t5-mini-summaries"].values()) == ["Sophie repaired a chair.", "Oskar helped Daniel."]
    assert Path(found["page"]).is_file()


def test_another_run_has_a_folder_of_its_own(tmp_path):
    folders = []
    for _ in range(3):
        folders.append(free_folder(tmp_path))
        folders[-1].mkdir()
    assert [folder.name for folder in folders] == ["demo", "demo-2", "demo-3"]


def test_what_is_not_ours_is_not_written_over(glassformer, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    code, _, err = glassformer("demo", "--out", tmp_path / "page.html")
    assert code == 1
    assert "would be lost" in err
    assert (tmp_path / "page.html").read_text() == "mine"


LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 4


@pytest.mark.parametrize(("width", "paper"), [(1200, "light"), (360, "dark")])
def test_the_page_in_a_browser(browser, tmp_path, width, paper):
    """No error, nothing wider than the screen, and every text a text."""
    asked = [("<b>bold</b> & \x1b[31m", "an answer"), (LONG, LONG)]
    model = ModelAnswers(name="zoo:one", task="fill-mask", about="<i>what</i>", score="f1 1", answers=asked)
    picture = Picture(title="seen", text="so", svg='<svg width="900" height="40"></svg>', caption="below")
    (tmp_path / "page.html").write_text(page([model, model], [picture], ["# why", "a 'command'"], title="A <title>"))
    faults = []
    with (
        borrowed(browser, width=width, height=800, paper=paper) as tab,
        heard(tab, console=lambda told: faults.append(told.text), pageerror=lambda error: faults.append(str(error))),
    ):
        tab.goto((tmp_path / "page.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.title() == "A <title>"
        assert [one.inner_text() for one in tab.locator("h2").all()] == ["fill-mask", "seen", "What to type next"]
        assert tab.locator(".card .asked dt").first.inner_text().startswith("<b>bold</b> & ")
        assert tab.locator("pre").inner_text() == "# why\na 'command'"
        assert unknown_styles(tab) == []
    assert faults == []
