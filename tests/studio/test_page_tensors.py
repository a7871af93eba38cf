"""The Tensors screen in a real browser: the tree, a slice painted and read out, and wrong input."""

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.view.colours import ColourScale
from studio.cases import TEXT, every_second


def recorded(folder, name):
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    with torch.inference_mode(), gf.record(model, name) as seen:
        model(**tok(TEXT, return_tensors="pt"))
    return seen[name]


@pytest.mark.parametrize("name", every_second(0))
def test_every_family_lists_its_tensors(name, tour):
    page = tour("tensors", model=name, text=TEXT)
    assert page.locator(".tree summary, .tree > button").count() >= 3
    assert page.text_content(".shown h2") in ("outputs.logits", "outputs.start_logits")  # none was named
    page.fill("#tensor-search", "weight")
    names = page.locator(".tree button span").all_text_contents()
    assert names
    assert all("weight" in one for one in names)


def test_a_painted_pixel_and_the_text_are_the_tensor(tour, studio_folders):
    name = "layers.1.attention.pattern"
    values = recorded(studio_folders["bert"], name)[0, 1].numpy()
    page = tour("tensors", model="bert", text=TEXT, tensor=name, slice="0,1,:,:")
    found = page.evaluate(
        "() => { const c = document.querySelector('.heatmap canvas.pixels');"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] }"
    )
    colours = np.array(found).reshape(*values.shape, 4)[..., :3]
    np.testing.assert_array_equal(colours, ColourScale(0.0, float(values.max())).colours(values))
    page.hover(".heatmap .cells", position={"x": 5, "y": 5})
    shown = page.locator(".value").text_content()
    assert shown.startswith("[0, 0] = ")
    assert np.float32(shown.split("= ")[1]) == pytest.approx(values[0, 0], abs=1e-6)


def test_keys_walk_over_a_matrix_and_the_address_remembers(tour):
    page = tour("tensors", model="gpt2", text=TEXT, tensor="layers.0.attention.query", slice="0,:,:")
    page.focus(".heatmap")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".value").text_content().startswith("[2, 1] = ")
    assert "cell=2%2C1" in page.url
    page.reload()
    page.wait_for_selector("[data-painted=yes]")
    assert page.locator(".value").text_content().startswith("[2, 1] = ")


def test_a_wrong_slice_says_so_and_can_be_mended(visit, page):
    visit("tensors", model="bert", text=TEXT, tensor="layers.0")
    page.fill("#slice", "0,99")
    page.press("#slice", "Enter")
    assert "does not fit" in page.locator(".problem").text_content()
    page.faults.clear()  # the browser logs the 422
    page.go_back()
    page.wait_for_selector(".heatmap")
    assert page.locator("#slice").input_value() == "0,:,:"


def test_the_python_that_is_copied_gives_the_slice(visit, page, studio_folders):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    name = "recurrent.layers.0.left_to_right.hidden"
    visit("tensors", model="lstm", text=TEXT, tensor=name, slice="0,1,:")
    page.click("#copy-python")
    page.wait_for_selector("#told:has-text('Copied')")
    python = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {}
    lines = python.splitlines()
    exec("\n".join(lines[:-1]), scope)
    assert eval(lines[-1], scope).shape == recorded(studio_folders["lstm"], name)[0, 1].shape


def test_files_are_saved(visit, page):
    visit("tensors", model="bert", text=TEXT, tensor="layers.0.attention.scores")
    for button, ending in (("#export-svg", ".svg"), ("#export-png", ".png"), ("#export-npz", ".npz")):
        with page.expect_download() as saved:
            page.click(button)
        name = saved.value.suggested_filename
        assert (name.startswith("bert"), name.endswith(ending)) == (True, True)
        assert saved.value.path().stat().st_size > 100
