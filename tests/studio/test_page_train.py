"""Runs, and the Train screen in a real browser: a run that grows while the page watches, several at once, none."""

import json
import os
import re
import time
import xml.etree.ElementTree as Xml
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from studio.cases import serving, watched_again

RECIPE = 'task = "text-classification"\narch = "lstm"\nout = "x"\nsteps = 100\n'


def row(step, **values):
    return json.dumps({"step": step, "epoch": 0, **values}) + "\n"


def write_run(folder, lines=4, recipe=RECIPE):
    """A run that has logged every 10 steps, and scored after every second line."""
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(recipe)
    with (folder / "metrics.jsonl").open("w") as file:
        for place in range(1, lines + 1):
            file.write(row(10 * place, loss=1 / place, lr=1e-3, grad_norm=0.5))
            if place % 2 == 0:
                file.write(row(10 * place, dev_loss=0.9 / place, dev_accuracy=0.1 * place, dev_f1=0.05 * place))


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(runs):
    with TestClient(create_app(Studio(ModelStore([]), Traces(), runs=runs)), base_url="http://127.0.0.1") as client:
        yield client


def entries(client):
    return {one["name"]: one for one in client.get("/api/v1/runs").json()["runs"]}


# --- the routes -----------------------------------------------------------------------------------------------------


def test_the_table_says_what_how_far_and_how_good(client, runs):
    write_run(runs / "a")
    write_run(runs / "deep" / "b", recipe='task = "translation"\nmodel = "marian"\n', lines=1)
    (runs / "no-run").mkdir()
    found = entries(client)
    assert set(found) == {"a", "deep/b"}
    one = found["a"]
    assert (one["task"], one["model"], one["step"], one["steps"], one["loss"]) == (
        "text-classification",
        "lstm",
        40,
        100,
        0.25,
    )
    assert one["best"] == {"metric": "dev_accuracy", "value": 0.4, "step": 40}
    assert found["deep/b"]["best"] is None
    assert client.get("/api/v1/runs/deep/b/metrics").json()["rows"][0]["step"] == 10


def test_rows_come_from_where_one_was_and_never_half(client, runs):
    write_run(runs / "a")
    path = runs / "a" / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"step": 50, "lo')
    first = client.get("/api/v1/runs/a/metrics").json()
    assert (first["first"], len(first["rows"])) == (0, 6)
    assert client.get("/api/v1/runs/a/metrics?after=6").json() == {"first": 6, "rows": [], "state": "running"}
    with path.open("a") as file:
        file.write('ss": 0.5}\nthis is no json\n{"step": 60, "loss": NaN, "lr": 1e999}\n')
    assert client.get("/api/v1/runs/a/metrics?after=6").json()["rows"] == [{"step": 50, "loss": 0.5}, {}, {"step": 60}]
    path.write_text(row(10, loss=1.0))  # begun again
    assert client.get("/api/v1/runs/a/metrics?after=9").json()["first"] == 0


def test_states(client, runs):
    write_run(runs / "a")
    assert entries(client)["a"]["state"] == "running"
    for name in ("recipe.toml", "metrics.jsonl"):
        os.utime(runs / "a" / name, (time.time() - 300, time.time() - 300))
    assert entries(client)["a"]["state"] == "stopped"
    (runs / "a" / "run.json").write_text('{"progress": {"step": 40}}')
    assert (entries(client)["a"]["state"], entries(client)["a"]["steps"]) == ("done", 40)
    write_run(runs / "b")
    (runs / "b" / "checkpoints").mkdir()
    (runs / "b" / "checkpoints" / "stopped-00000040.pt").touch()
    assert entries(client)["b"]["state"] == "stopped"


@pytest.mark.parametrize("name", ["..", "../secret", "%2e%2e/secret", "link", "/etc", "no-run"])
def test_no_path_leaves_the_folder_of_runs(client, runs, name):
    write_run(runs.parent / "secret")
    (runs / "link").symlink_to(runs.parent / "secret")
    answer = client.get(f"/api/v1/runs/{name}/metrics")
    assert answer.status_code == 404
    assert "loss" not in answer.text


def test_bad_questions_are_refused(client, runs):
    write_run(runs / "a", recipe="this is no toml")
    assert client.get("/api/v1/runs/a/metrics?after=-1").status_code == 422
    assert client.get("/api/v1/runs/a/metrics?after=x").status_code == 422
    assert entries(client)["a"]["task"] is None
    assert "there are: a" in client.get("/api/v1/runs/b/metrics").json()["detail"]


def test_a_model_that_is_a_run_is_in_the_table(studio_folders, runs, tmp_path):
    model = tmp_path / "trained"
    model.symlink_to(studio_folders["lstm"])
    (studio_folders["lstm"] / "metrics.jsonl").write_text(row(10, loss=1.0))
    try:
        app = create_app(Studio(ModelStore([str(model), str(studio_folders["bert"])]), Traces(), runs=runs))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert list(entries(client)) == ["trained"]
    finally:
        (studio_folders["lstm"] / "metrics.jsonl").unlink()


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served():
    """One address for the studios of all tests: the last of these is served."""
    apps = [create_app(Studio(ModelStore([]), Traces()))]

    async def last(scope, receive, send):
        await apps[-1](scope, receive, send)

    with serving(last) as url:
        yield apps, url


@pytest.fixture
def url(served, runs):
    """The address of a studio over this test's runs."""
    apps, url = served
    apps.append(create_app(Studio(ModelStore([]), Traces(), runs=runs)))
    return url


@pytest.fixture
def visit(browser, url):
    """Open the Train screen of a studio over this test's runs."""
    with watched_again(browser, url) as page:

        def go(**state):
            page.goto("/?" + urlencode({"screen": "train", "lang": "en", **state}))
            page.wait_for_selector(".screen-train[data-painted=yes]")
            return page

        yield go


def test_without_a_run_it_says_how_to_start_one_and_sees_it_begin(visit, runs):
    page = visit()
    assert f"--out {runs}/first" in page.locator(".notice pre").text_content()
    write_run(runs / "first")
    page.wait_for_selector("#run-first:checked")
    assert page.locator(".panel").count() == 4


@pytest.mark.few(1)
def test_a_run_grows_while_the_page_watches(visit, runs):
    write_run(runs / "a")
    page = visit()
    loss = page.locator("#plot-loss ~ .values b").first
    assert loss.text_content() == "0.25"
    drawn = page.locator("#plot-loss path").first.get_attribute("d")
    with (runs / "a" / "metrics.jsonl").open("a") as file:
        file.write(row(50, loss=0.123456789, lr=1e-3, grad_norm=0.1))
    page.locator("#plot-loss ~ .values b", has_text="0.123456789").wait_for()
    assert page.locator("#plot-loss path").first.get_attribute("d") != drawn
    assert "50 of 100" in page.locator("tbody tr").text_content()
    (runs / "a" / "run.json").write_text('{"progress": {"step": 50}}')
    page.wait_for_selector(".state.done")


def test_hover_and_keys_give_the_numbers_of_the_file(visit, runs):
    write_run(runs / "a")
    page = visit()
    box = page.locator("#plot-loss svg").bounding_box()
    page.mouse.move(box["x"] + 53, box["y"] + 60)
    values = page.locator("#plot-loss ~ .values b")
    assert values.all_text_contents() == ["1", "0.45"]  # the first step; no score before the second line
    page.locator("#plot-loss").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert values.all_text_contents() == [str(1 / 3), "0.45"]
    assert "at=30" in page.url
    assert "0.3333333333333333" in page.locator("#told").text_content()
    page.reload()
    page.wait_for_selector(".screen-train[data-painted=yes]")
    assert values.first.text_content() == str(1 / 3)
    page.locator("#plot-loss").focus()
    page.keyboard.press("Home")
    assert values.first.text_content() == "1"


def test_runs_are_laid_over_each_other_and_the_address_remembers(visit, runs):
    write_run(runs / "a")
    write_run(runs / "b, c", lines=6)
    page = visit(runs="a")
    page.get_by_label("show: b, c").focus()
    page.keyboard.press("Space")
    page.locator("#plot-loss path").nth(3).wait_for()
    strokes = page.locator("#plot-loss path").evaluate_all("lines => lines.map((one) => one.getAttribute('stroke'))")
    assert len(set(strokes)) == 2
    page.reload()
    page.wait_for_selector(".screen-train[data-painted=yes]")
    assert page.locator("tbody input:checked").count() == 2
    page.go_back()
    page.locator("tbody input:not(:checked)").wait_for()
    assert page.locator("tbody input:checked").count() == 1


def test_smoothing_log_axis_and_score_change_the_picture_not_the_numbers(visit, runs):
    write_run(runs / "a", lines=12)
    page = visit(log="yes", smooth="0.8")
    assert page.locator("#logarithmic").is_checked()
    assert page.locator("#plot-loss path").count() == 3  # faint, smooth, dev
    numbers = page.locator("#plot-loss ~ .values b").all_text_contents()
    page.locator("#logarithmic").uncheck()
    page.locator("#smoothing").fill("0")
    assert page.locator("#plot-loss path").count() == 2
    assert page.locator("#plot-loss ~ .values b").all_text_contents() == numbers
    assert "log=" not in page.url
    page.locator("[id='select-train.score']").select_option("dev_f1")
    page.locator("#plot-score ~ .values", has_text="dev f1").wait_for()


@pytest.mark.few(1)
def test_a_server_that_is_away_is_told_and_asked_again(visit, runs):
    write_run(runs / "a")
    page = visit()
    page.route("**/api/v1/runs", lambda route: route.abort())
    page.wait_for_selector("p.note[role=status]:not([hidden])")
    page.unroute("**/api/v1/runs")
    page.wait_for_selector("p.note[role=status]", state="hidden")
    assert page.locator("#plot-loss path").count() == 2  # train and dev: what was drawn is still there
    page.faults.clear()  # the aborted requests


def test_python_pictures_and_numbers_can_be_taken_along(visit, runs, tmp_path):
    write_run(runs / "a")
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy-python").click()
    page.locator("#told", has_text="Copied.").wait_for()
    scope = {}
    exec(page.evaluate("navigator.clipboard.readText()"), scope)
    assert scope["rows"]["a"][0] == {"step": 10, "epoch": 0, "loss": 1.0, "lr": 1e-3, "grad_norm": 0.5}
    for kind in ("svg", "png"):
        with page.expect_download() as waiting:
            page.locator(f"#export-{kind}").click()
        waiting.value.save_as(tmp_path / f"curves.{kind}")
    texts = [text.text for text in Xml.parse(tmp_path / "curves.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"a", "Loss", "Learning rate"} <= set(texts)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as waiting:
        page.locator("#export-csv").click()
    lines = waiting.value.path().read_text().splitlines()
    assert lines[:2] == ["run,step,epoch,loss,lr,grad_norm,dev_loss,dev_accuracy,dev_f1", "a,10,0,1,0.001,0.5,,,"]
    assert len(lines) == 1 + len(scope["rows"]["a"])


def test_a_stopped_run_says_how_to_go_on_and_a_lost_one_is_missed(visit, runs):
    write_run(runs / "<b>a</b>")
    for name in ("recipe.toml", "metrics.jsonl"):
        os.utime(runs / "<b>a</b>" / name, (1, 1))
    page = visit(runs="%3Cb%3Ea%3C%2Fb%3E,gone")
    notes = page.locator(".notes").text_content()
    assert "glassformer train" in notes
    assert "recipe.toml --resume" in notes
    assert "There is no run gone any more." in notes


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_phone_is_wide_enough(browser, runs, url, lang):
    write_run(runs / "a-run-with-quite-a-long-name")
    with watched_again(browser, url, width=390, height=844) as page:
        page.goto(f"/?screen=train&lang={lang}")
        page.wait_for_selector(".screen-train[data-painted=yes]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not re.search(r"train\.\w+", page.locator("#screen").inner_text())  # a key that nobody translated


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_axe_finds_nothing_serious(visit, runs, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe
    write_run(runs / "a")
    write_run(runs / "b")
    page = visit(runs="a,b", theme=theme)
    found = [one for one in axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []
