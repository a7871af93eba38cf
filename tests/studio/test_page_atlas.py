"""The Atlas screen in a real browser: every tile is its tensor, orders are the statistics', keys open a head."""

import json

import numpy as np
import pytest

from glassformer.view.colours import SHARE
from studio.cases import TEXT
from studio.looks import EVERY, inspected, pixels

LARGEST_FIRST = ("previous", "next", "first", "sink")


def tiles(page):
    return json.loads(page.get_attribute("#mosaic", "data-tiles"))


@pytest.mark.few(3)
@pytest.mark.parametrize(("model", "board"), EVERY)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_cell_of_every_tile_is_painted_in_its_colour(model, board, theme, tour, studio_folders):
    values = inspected(studio_folders[model])[board].values
    page = tour("atlas", model=model, text=TEXT, board=board, theme=theme)
    layout, painted = tiles(page), pixels(page, "canvas.mosaic")
    rows, columns, high, wide = values.shape
    assert layout["cells"] == [high, wide]  # as short a text is not pooled
    for place, (left, top) in zip(layout["places"], layout["corners"], strict=True):
        matrix = values[place // columns, place % columns]
        down = (top + (np.arange(high) + 0.5) * layout["high"] / high).astype(int)
        across = (left + (np.arange(wide) + 0.5) * layout["wide"] / wide).astype(int)
        np.testing.assert_array_equal(painted[np.ix_(down, across)], SHARE.colours(matrix, theme))
    assert len(layout["places"]) == rows * columns


def test_orders_are_those_of_the_statistics(visit, page, studio_folders):
    statistics = inspected(studio_folders["bert"])["attention"].statistics
    visit("atlas", model="bert", text=TEXT)
    assert tiles(page)["places"] == [0, 1, 2, 3]
    for name, values in statistics.items():
        page.click(f"button:text-is('{name}')")
        page.wait_for_selector(f".screen-atlas[data-painted=yes] button[aria-pressed=true]:text-is('{name}')")
        sign = -1 if name in LARGEST_FIRST else 1
        assert tiles(page)["places"] == np.argsort(sign * values.ravel(), kind="stable").tolist()
        assert f"order={name}" in page.url


def test_a_tile_that_is_pointed_at_says_its_statistics(tour, studio_folders):
    statistics = inspected(studio_folders["bert"])["attention"].statistics
    page = tour("atlas", model="bert", text=TEXT)
    layout = tiles(page)
    x, y = layout["corners"][3]
    page.hover("#mosaic", position={"x": x + 9, "y": y + 9})
    assert page.text_content("aside h2") == "layer 1 · head 1"
    told = dict(zip(page.locator("dt").all_text_contents(), page.locator("dd").all_text_contents(), strict=True))
    assert set(told) == set(statistics)
    for name, values in statistics.items():
        assert float(told[name].split()[0]) == pytest.approx(values[1, 1], rel=1e-6)  # eight digits are shown
    assert "off=layers.1.attention%3A1" in page.get_attribute("#switch-off", "href")
    assert "not why the model answered" in page.text_content(".caution")


def test_keys_walk_over_the_tiles_and_open_one(tour):
    page = tour("atlas", model="gpt2", text=TEXT)
    page.focus("#mosaic")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is none
    assert "layer 1 · head 1" in page.text_content("#told")
    page.reload()
    page.wait_for_selector("[data-painted=yes]")
    assert page.text_content("aside h2") == "layer 1 · head 1"
    page.focus("#mosaic")
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-head[data-painted=yes]")
    assert page.text_content("aside h2") == "layer 1 · head 1"
    page.go_back()
    page.wait_for_selector(".screen-atlas[data-painted=yes]")


def test_an_alignment_can_be_switched_off(tour):
    page = tour("atlas", model="seq2seq", text=TEXT)
    page.click("#switch-off")
    page.wait_for_selector(".screen-edit[data-painted=yes]")
    assert page.get_attribute("[id='switch-decoder.attention']", "aria-pressed") == "true"
    assert "1 off: the largest Δ" in page.text_content("#told")
    page.click("[id='switch-decoder.attention']")
    page.wait_for_selector(".screen-edit[data-painted=yes] [id='switch-decoder.attention'][aria-pressed=false]")


@pytest.mark.parametrize("model", ["lstm", "gru-lm", "rnn"])
def test_networks_without_attention_lead_to_their_states(model, tour):
    page = tour("atlas", model=model, text=TEXT)
    assert "has no attention" in page.text_content(".notice")
    assert "screen=states" in page.get_attribute("#open-states", "href")
    names = page.locator(".notice li").all_text_contents()
    assert {"bert", "gpt2", "seq2seq", "transformer"} <= set(names)  # those that have some
    assert not {"lstm", "gru-lm", "rnn", "cnn", "bow"} & set(names)
    page.click(".notice li a:text-is('bert')")
    page.wait_for_selector(".screen-atlas[data-painted=yes] .split")
