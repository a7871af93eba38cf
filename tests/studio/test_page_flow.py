"""The Flow screen in a real browser: what is drawn is the model, what is shown are its numbers, and keys suffice."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.view.colours import ramp
from studio.cases import TEXT, http, visited, watched_again
from studio.looks import pixels

CROSS = "decoder.layers.0.cross_attention.pattern"
TOURS = {  # a model of each family, and the last stop of its tour but one
    "lstm": "head",
    "seq2seq": "head",
    "bert": "head",
    "gpt2": "head",
    "transformer": "head",
}


def flow_of(url, model, **query):
    trace = http.post(f"{url}/api/v1/traces", json={"model": model, "inputs": TEXT}).json()
    return trace, http.get(f"{url}/api/v1/traces/{trace['trace_id']}/flow", params=query).json()


def recorded(folder):
    model, tokenizer = gf.load(folder), gf.load_tokenizer(folder)
    with torch.inference_mode(), gf.record(model, "*") as seen:
        model(**tokenizer(TEXT, return_tensors="pt"))
    return seen


def box(page, name):
    return page.locator(f'.box[data-name="{name}"]')


@pytest.mark.parametrize("model", ["bert", "lstm", "transformer"])
def test_shapes_and_tensors_of_the_route_are_those_of_the_trace(model, studio_url):
    groups = [one["name"] for one in flow_of(studio_url, model)[1]["boxes"] if not one["leaf"]]
    trace, flow = flow_of(studio_url, model, expand=",".join(groups))
    listed = http.get(f"{studio_url}/api/v1/traces/{trace['trace_id']}/tensors").json()
    shapes = {one["name"]: one["shape"] for one in listed}
    assert {one["name"] for one in flow["boxes"] if one["frame"]} == set(groups)
    for one in flow["boxes"]:
        if one["tensor"] in shapes:
            assert shapes[one["tensor"]][1:] == one["shape"][1:], one["name"]
    assert {one["kind"] for one in flow["boxes"]} >= {"text", "input", "embedding", "answer"}
    for wire in flow["wires"]:
        assert all(end["path"].startswith("M") for end in wire["ends"])
    asked = f"{studio_url}/api/v1/traces/{trace['trace_id']}/flow/nodes"
    assert http.get(f"{asked}/nothing").status_code == 404
    assert http.get(f"{asked}/head").json()["source"]["file"].startswith("glassformer/")


def test_a_picture_is_its_tensor(tour, studio_folders):
    page = tour("flow", model="bert", text=TEXT, theme="light")
    value = recorded(studio_folders["bert"])["layers.0"][0].numpy()  # 16 wide, so that nothing is pooled
    shown = pixels(page, '.box[data-name="layers.0"] canvas')
    reach = np.abs(value).max()
    steps = np.floor(255 * (value + reach) / (2 * reach) + 0.5).astype(int)
    wrong = np.abs(shown.astype(int) - ramp("signed", "light")[steps].astype(int)).max(-1)
    assert (wrong <= 2).all()  # two ways through the model may round to neighbouring colours


def test_the_cells_of_a_network_are_its_states(tour, studio_folders):
    page = tour("flow", model="lstm", text=TEXT, theme="light")
    seen = recorded(studio_folders["lstm"])
    tokens = page.locator(".tokens > span > span:first-child").all_text_contents()
    for way in ("left_to_right", "right_to_left"):
        layer = f"recurrent.layers.0.{way}"
        cells = box(page, layer).locator(".cell")
        assert [one.strip() for one in cells.locator("i").all_text_contents()] == tokens
        places = cells.evaluate_all("all => all.map(one => [one.offsetTop, one.offsetHeight])")
        for number, (state, share) in enumerate((("hidden", 0.3), ("cell", 0.7))):  # one above the other in a cell
            at = [round(top + share * high) for top, high in places]
            value = seen[f"{layer}.{state}"][0].numpy()
            reach = np.abs(value).max()
            steps = np.floor(255 * (value + reach) / (2 * reach) + 0.5).astype(int)
            shown = pixels(page, f'.box[data-name="{layer}"] canvas:nth-of-type({number + 1})')[at]
            wrong = np.abs(shown.astype(int) - ramp("signed", "light")[steps].astype(int)).max(-1)
            assert (wrong <= 2).all()


@pytest.mark.parametrize("way", ["left_to_right", "right_to_left"])
def test_a_cell_opens_to_its_gates_at_its_token(way, visit, studio_folders):
    page, layer = visit("flow", model="lstm", text=TEXT), f"recurrent.layers.0.{way}"
    cells = box(page, layer).locator(".cell")
    count, row = cells.count(), 2
    cells.nth(row).hover()
    page.wait_for_function(f"() => document.querySelector('#stage').dataset.token === 'read {row}'")
    carried = page.locator(".overlay .carried").get_attribute("d")
    # of both ways the states come up to this token, of each h and c
    assert carried.count("M") == 2 * (row + 1) + 2 * (count - row)
    cells.nth(row).click()
    page.wait_for_selector(f'.frame[data-name="{layer}"]')
    assert page.input_value("#flow-token") == str(row)
    box(page, f"{layer}.cell").click()
    page.wait_for_selector(f'.details[data-node="{layer}.cell"]')
    page.wait_for_selector(f'.numbers[data-cell="{row},0"]')
    own = float(recorded(studio_folders["lstm"])[f"{layer}.cell"][0, row, 0])
    assert float(page.locator("#flow-models-own").text_content()) == pytest.approx(own, abs=1e-4)
    before = row + 1 if way == "right_to_left" else row - 1
    assert f"{layer}.cell.step.{before}" in page.locator(".numbers").text_content()
    page.locator(f'[data-box="{layer}"]').click()  # the frame's name closes it
    page.wait_for_selector(f'.box[data-name="{layer}"] .cell')


def test_a_block_opens_to_one_number_made_by_hand(visit, studio_folders):
    page = visit("flow", model="bert", text=TEXT)
    box(page, "layers.0").click()
    page.wait_for_selector('.frame[data-name="layers.0"]')
    box(page, "layers.0.attention").click()
    box(page, "layers.0.attention.pattern").click()
    page.wait_for_selector('.details[data-node="layers.0.attention.pattern"]')
    page.locator("#flow-matrix").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector('.numbers[data-cell="1,0"]')
    weight = recorded(studio_folders["bert"])["layers.0.attention.pattern"][0, 0, 1, 0]
    shown = page.locator(".details .value").text_content()
    assert shown.startswith("[1, 0] = ")
    assert float(shown.split(" = ")[1]) == pytest.approx(float(weight), rel=1e-4)
    for told in ("#flow-recomputed", "#flow-models-own"):
        assert float(page.locator(told).text_content()) == pytest.approx(float(weight), rel=1e-4)
    assert "self.pattern(" in page.locator(".code .marked").first.text_content()
    assert "softmax" in page.locator(".details .formula").text_content()
    page.reload()
    page.wait_for_selector(".screen-flow[data-painted=yes]")
    assert box(page, "layers.0.attention.pattern").count() == 1


@pytest.mark.parametrize(
    ("model", "name", "cell"),
    [
        ("bert", "layers.0.attention_residual", (2, 3)),
        ("gpt2", "layers.1.feed_forward.up", (1, 5)),
        ("lstm", "recurrent.layers.0.right_to_left.cell", (3, 4)),
        ("transformer", "decoder.layers.0.cross_attention.query", (0, 9)),
    ],
)
def test_numbers_by_hand_are_the_tensors(model, name, cell, tour, studio_url):
    parts = name.split(".")
    around = ",".join(".".join(parts[:count]) for count in range(1, len(parts)))
    page = tour("flow", model=model, text=TEXT, expand=around, node=name, cell=f"{cell[0]},{cell[1]}")
    page.wait_for_selector(f'.numbers[data-cell="{cell[0]},{cell[1]}"]')
    shown = float(page.locator(".details .value").text_content().split(" = ")[1])
    assert float(page.locator("#flow-recomputed").text_content()) == pytest.approx(shown, abs=1e-4)
    assert float(page.locator("#flow-models-own").text_content()) == pytest.approx(shown, abs=1e-5)


def test_keys_walk_open_and_close(visit):
    page = visit("flow", model="gpt2", text=TEXT)

    def focused():
        return page.evaluate("document.activeElement.dataset.box ?? ''")

    page.locator('[data-box="input_ids"]').focus()
    page.keyboard.press("ArrowRight")
    assert focused() == "embeddings"
    page.keyboard.press("ArrowRight")
    assert focused() == "layers.0"
    page.keyboard.press("Enter")
    page.wait_for_selector('.frame[data-name="layers.0"]')
    page.wait_for_function("() => document.activeElement.dataset.box === 'layers.0'")
    page.keyboard.press("ArrowRight")
    assert focused() == "layers.0.attention_norm"
    page.keyboard.press("Escape")
    page.wait_for_selector('.box[data-name="layers.0"]')
    page.wait_for_function("() => document.activeElement.dataset.box === 'layers.0'")
    page.keyboard.press("End")
    assert focused() == "answer"
    stops = page.evaluate("document.querySelectorAll('#stage [tabindex=\"0\"]').length")
    assert stops == 1


def test_a_token_is_followed(visit):
    page = visit("flow", model="bert", text=TEXT)
    at = box(page, "layers.0").bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.wait_for_function("() => document.querySelector('#stage').dataset.token.startsWith('read ')")
    assert page.locator(".overlay .row").count() >= 4
    assert page.locator(".overlay .look").count() > 0
    page.mouse.move(5, 5)
    page.wait_for_function("() => document.querySelector('#stage').dataset.token === ''")


def test_play_goes_from_token_to_token(visit):
    page = visit("flow", model="gpt2", text="Tom read")
    tokens = int(page.get_attribute("#flow-token", "max")) + 1
    assert tokens > 1
    page.clock.install()
    page.click("#flow-play")
    for place in range(tokens):
        page.wait_for_function(f"() => document.querySelector('#stage').dataset.token === 'read {place}'")
        veils = page.locator(".overlay .veil").count()
        assert (veils == 0) == (place == tokens - 1)
        page.clock.run_for(1300)
    page.wait_for_function("() => document.querySelector('#flow-play').textContent === '▶'")
    page.click("#flow-flowBefore")
    assert page.get_attribute("#stage", "data-token") == f"read {tokens - 2}"
    assert f"token={tokens - 2}" in page.url


@pytest.mark.few(2)
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("model", TOURS)
def test_the_tour_of_every_family(model, lang, tour):
    page = tour("flow", model=model, text=TEXT, lang=lang)
    page.click("#flow-tour")
    stops = []
    while True:
        place = len(stops) + 1
        page.wait_for_function(f"() => document.querySelector('.tour small').textContent.startsWith('{place} /')")
        count = int(page.locator(".tour small").text_content().split("/")[1])
        page.wait_for_function(
            "() => document.querySelector('.chosen')?.dataset.box === document.querySelector('.tour').dataset.stop"
        )
        told = page.locator(".tour p").text_content()
        assert not told.startswith("tour_")
        assert len(told) <= 160
        stops.append(page.locator(".chosen").get_attribute("data-box"))
        if place == count:
            break
        page.click("#tour-next")
    assert 8 <= len(stops) <= 14
    assert stops[-2] == TOURS[model]
    assert stops[-1] == "answer"
    assert page.locator("#tour-next").is_disabled()
    page.keyboard.press("Escape")
    assert page.locator(".tour").is_hidden()


@pytest.mark.parametrize("model", ["bert", "seq2seq"])
def test_the_figure_has_every_block(model, visit):
    page = visit("flow", model=model, text=TEXT, expand="encoder,decoder,layers.0,layers.0.attention,encoder.recurrent")
    with page.expect_download() as saved:
        page.click("#export-svg")
    words = list(ElementTree.parse(saved.value.path()).getroot().itertext())
    for title in page.locator(".box .title, .frame > .head b").all_text_contents():
        assert title in words
    for shape in page.locator(".wires text").all_text_contents():
        assert shape in words


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("model", "expand", "node"),
    [
        ("transformer", "encoder,decoder,decoder.layers.0,decoder.layers.0.cross_attention", CROSS),
        ("seq2seq", "encoder,encoder.recurrent,decoder,decoder.recurrent", "decoder.recurrent.layers.0.left_to_right"),
    ],
)
def test_axe_finds_nothing_in_what_is_open(model, expand, node, theme, tour):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tour("flow", model=model, text=TEXT, expand=expand, node=node, token=1, theme=theme)
    page.click("#flow-tour")
    page.wait_for_selector(".tour[data-stop]")
    found = axe.run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


def test_its_python_gives_the_same_figure(visit, studio_folders):
    page = visit("flow", model="bert", text=TEXT, pair="Who gave it ?", expand="layers.0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-python")
    page.wait_for_function("() => document.querySelector('#told').textContent === 'Copied.'")
    scope = {}
    exec(page.evaluate("navigator.clipboard.readText()"), scope)
    words = list(ElementTree.fromstring(scope["svg"]).itertext())
    for shape in page.locator(".wires text").all_text_contents():
        assert shape in words
    for title in page.locator(".frame > .head b").all_text_contents():
        assert title in words


@pytest.mark.parametrize("model", ["bert", "gpt2"])
def test_of_a_long_text_the_beginning_is_seen(model, visit):
    page = visit("flow", model=model, text=" ".join([TEXT] * 3))
    assert int(page.get_attribute("#flow-token", "max")) >= 40
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.inside.tokens > span, .inside .lines')].filter((one) => {
          const [own, around] = [one, one.parentElement].map((some) => some.getBoundingClientRect());
          return own.top < around.top - 1 || own.bottom > around.bottom + 1;
        }).map((one) => one.textContent)"""
    )
    assert outside == []
    assert page.locator('.box[data-name="text"] .lines').text_content().startswith(TEXT)


def test_a_formula_is_whole_on_a_phone(browser, studio_url):
    names = {"expand": "layers.0,layers.0.attention", "node": "layers.0.attention.pattern"}
    with watched_again(browser, studio_url, width=360, height=720) as page:
        visited(page, "flow", model="bert", text=TEXT, **names)
        page.wait_for_selector('.details[data-node="layers.0.attention.pattern"] .formula')
        wide, room = page.locator(".details .formula").evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert wide <= room


@pytest.mark.parametrize("model", ["bert", "cnn", "bow", "seq2seq", "transformer"])
def test_words_in_formulas_are_in_the_language_of_the_page(model, tour, studio_url):
    groups = [one["name"] for one in flow_of(studio_url, model)[1]["boxes"] if not one["leaf"]]
    expand = ",".join({*groups, "encoder.layers.0", "decoder.layers.0.cross_attention", "layers.0.attention"})
    page = tour("flow", model=model, text=TEXT, lang="zh", expand=expand)
    boxes = [
        one for one in flow_of(studio_url, model, expand=expand)[1]["boxes"] if one["formula"] and not one["frame"]
    ]
    assert boxes
    for one in boxes:
        shown = box(page, one["name"]).locator(".caption").text_content()
        left = set(re.findall(r"[a-z]{3,}", shown)) - {"softmax", "tanh", "relu", "gelu", "cos", "sin"}
        assert left == set(), (one["name"], shown)


def test_zoom_changes_no_layout(visit):
    page = visit("flow", model="bert", text=TEXT)
    before = box(page, "layers.0").evaluate("one => [one.style.left, one.style.top]")
    wide = box(page, "layers.0").bounding_box()["width"]
    page.click("#flow-flowLarger")
    assert box(page, "layers.0").bounding_box()["width"] == pytest.approx(1.25 * wide, rel=0.01)
    assert box(page, "layers.0").evaluate("one => [one.style.left, one.style.top]") == before
    page.click("#flow-flowFit")
    assert page.evaluate(
        "(() => { const s = document.querySelector('#stage'); return s.scrollWidth <= s.clientWidth + 8 })()"
    )
