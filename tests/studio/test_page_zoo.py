"""The studio as it starts: every built-in model on every screen, with the text that it offers first."""

from collections.abc import Iterator
from typing import Any

import pytest

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.example_inputs import built_in_inputs
from glassformer.studio.traces import Traces
from studio.cases import serving, turn, watched_again

SCREENS = ("run", "atlas", "head", "recompute", "states", "lens", "tensors", "edit", "compare", "train")
CARDS = {card["name"]: card for card in gf.zoo()}
LESS = {"lstm-sentiment": {"atlas", "head"}, "bilstm-ner": {"atlas", "head"}, "embed-mini-en": {"lens", "edit"}}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def zoo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = ModelStore([f"zoo:{name}" for name in CARDS])
    with serving(create_app(Studio(store, Traces(), runs=tmp_path_factory.mktemp("runs")))) as url:
        yield url


@pytest.mark.parametrize("name", CARDS)
def test_every_screen_shows_a_built_in_model_or_says_why_not(browser: Any, zoo_url: str, name: str) -> None:
    """Compare waits for a second text, and Train for a run; words that are missing would show as their keys."""
    without = set()
    with watched_again(browser, zoo_url) as page:
        for screen in SCREENS:
            turn(page, f"/?screen={screen}&lang=en&model={name}")
            page.wait_for_selector(f".screen-{screen}[data-painted=yes], .screen-{screen} .notice, .problem")
            assert page.locator(".problem").count() == 0
            if screen == "run":
                assert page.input_value("#ask-text") == built_in_inputs(CARDS[name])[0]["inputs"]
                assert page.text_content(".result h2").strip()
                assert "runTask" not in page.text_content(".result")
            if screen not in ("compare", "train") and page.locator(".notice").count():
                without.add(screen)
    assert without == LESS.get(name, set())
