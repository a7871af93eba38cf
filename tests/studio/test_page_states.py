"""The States screen in a real browser: what is painted and read out is the tensor, for every family, by keys too."""

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.jobs.reading import reading
from glassformer.view.colours import GATE, ColourScale, signed
from studio.cases import TEXT, every_second

RECURRENT = ("rnn", "lstm", "gru-lm", "seq2seq")
PIXELS = """() => { const c = document.querySelector('.heatmap canvas.pixels');
return [c.height, c.width, ...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] }"""


def pixels(page):
    high, wide, *data = page.evaluate(PIXELS)
    return np.array(data).reshape(high, wide, 4)[..., :3]


def seen_of(folder):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    with torch.inference_mode(), gf.record(model, "*") as seen:
        model(**reading(model, tok, TEXT).inputs)
    return seen


def value_of(page):
    return np.float32(page.locator(".value").text_content().split("= ")[1].split(" ")[0])


@pytest.mark.parametrize("name", every_second(1))
def test_the_first_picture_is_the_tensor(name, tour, studio_folders):
    seen = seen_of(studio_folders[name])
    page = tour("states", model=name, text=TEXT)
    if name in ("cnn", "bow"):
        values = seen["features"][0].numpy()
        scale = signed(values)
    elif name in RECURRENT:
        side = "encoder." if name == "seq2seq" else ""
        values = seen[f"{side}recurrent.layers.0.left_to_right.hidden"][0].numpy()
        scale = signed(values)
    else:
        side = "encoder." if name == "transformer" else ""
        names = [f"{side}embeddings", f"{side}layers.0", f"{side}layers.1"]
        values = torch.stack([seen[one][0].norm(dim=-1) for one in names]).numpy()
        scale = ColourScale(0.0, float(values.max()))
    steps = np.abs(pixels(page).astype(int) - scale.colours(values).astype(int))
    assert steps.max() <= 8, "no colour is more than a step away, for the browser's run is another one"
    page.hover(".heatmap .cells", position={"x": 3, "y": 3})
    assert value_of(page) == pytest.approx(values[0, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "board", "gate", "tensor"),
    [
        ("lstm", "states", "forget", "recurrent.layers.0.right_to_left.forget"),
        ("lstm", "states", "cell", "recurrent.layers.0.right_to_left.cell"),
        ("gru-lm", "states", "update", "recurrent.layers.1.left_to_right.update"),
        ("seq2seq", "decoder states", "output", "decoder.recurrent.layers.0.left_to_right.output"),
    ],
)
def test_gates_of_any_layer_and_side(name, board, gate, tensor, tour, studio_folders):
    values = seen_of(studio_folders[name])[tensor][0].numpy()
    layer = {"lstm": "0 ←", "gru-lm": "1", "seq2seq": "0"}[name]
    page = tour("states", model=name, text=TEXT, board=board, head=gate, layer=layer)
    if gate != "cell":  # the scale of a cell is that of all layers
        assert np.abs(pixels(page).astype(int) - GATE.colours(values).astype(int)).max() <= 8
    page.focus(".heatmap")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert value_of(page) == pytest.approx(values[1, 2], abs=1e-5)
    held = np.tanh(values) if gate == "cell" else values
    ends = (held < (0.05 if gate != "cell" else -0.95)) | (held > 0.95)
    shown = float(page.locator(".share").text_content().split(" %")[0])
    assert shown == pytest.approx(100 * ends.mean(), abs=0.51)


def test_units_are_sorted_and_saturation_is_shown(tour, studio_folders):
    values = seen_of(studio_folders["lstm"])["recurrent.layers.0.left_to_right.hidden"][0].numpy()
    page = tour("states", model="lstm", text=TEXT, sort="size")
    order = np.argsort(-np.abs(values).sum(0), kind="stable")
    assert np.abs(pixels(page).astype(int) - signed(values).colours(values[:, order]).astype(int)).max() <= 8
    page.select_option("#select-stSort", "change")
    page.wait_for_url("**sort=change**")
    page.wait_for_selector("[data-painted=yes]")
    order = np.argsort(-np.abs(np.diff(values, axis=0, prepend=0)).sum(0), kind="stable")
    assert np.abs(pixels(page).astype(int) - signed(values).colours(values[:, order]).astype(int)).max() <= 8
    forget = seen_of(studio_folders["lstm"])["recurrent.layers.0.left_to_right.forget"][0].numpy()
    page = tour("states", model="lstm", text=TEXT, head="forget", show="ends")
    ends = np.where(forget < 0.05, -1.0, np.where(forget > 0.95, 1.0, 0.0))
    np.testing.assert_array_equal(pixels(page), ColourScale(-1, 1).colours(ends))


def test_keys_alone_lead_from_a_unit_to_its_switch(tour):
    page = tour("states", model="gru-lm", text=TEXT)
    page.focus("#tile-1-2")
    page.keyboard.press("Enter")
    page.wait_for_url("**layer=1**")
    page.wait_for_selector(".heatmap")
    page.focus(".heatmap")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".screen-edit[data-painted=yes]")
    assert "recurrent.layers.1.left_to_right." in page.locator(".off").text_content()
    page.go_back()
    page.wait_for_selector(".screen-states[data-painted=yes]")
    assert "unit 1 =" in page.locator(".value").text_content()


def test_the_place_is_kept_on_the_way_to_recompute_and_back(tour):
    page = tour("states", model="lstm", text=TEXT)
    page.click("#tile-1-2")
    page.wait_for_selector("h2:has-text('layer 0 ← · forget gate')")
    page.click("a[data-screen=recompute]")
    page.wait_for_selector(".screen-recompute[data-painted=yes]")
    assert page.locator(".picker h2").inner_text() == "layer 0 ← · forget gate"
    page.locator("#select-gate").select_option("cell")
    page.wait_for_selector(".picker h2:has-text('layer 0 ← · cell')")
    page.click("a[data-screen=states]")
    page.wait_for_selector(".screen-states h2:has-text('layer 0 ← · cell')")
    assert page.locator("a[data-screen=states]").inner_text() == "States"


def test_what_is_added_is_read_out(tour, studio_folders):
    seen = seen_of(studio_folders["transformer"])
    page = tour("states", model="transformer", text=TEXT, stack="decoder.layers", part="cross_attention", cell="1,0")
    wanted = float(seen["decoder.layers.1.cross_attention"][0, 0].norm())
    assert value_of(page) == pytest.approx(wanted, abs=1e-5)
    assert page.locator(".plot polyline").count() == 4
    dead = page.locator(".ends tbody tr").count()
    assert dead == 2
