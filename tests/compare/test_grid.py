"""A grid of cells: what is done stays done, what fails is a row, and whoever is killed loses next to nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.compare import grid, worker
from glassformer.compare.budget import TrainingBudget
from glassformer.compare.cell import Cell, CellResult
from glassformer.compare.cluster import RayExecutor
from glassformer.compare.grid import InlineExecutor, ProcessExecutor, run_grid

RECIPE = {"task": "text-classification", "data": "microworld", "arch": "gru", "limit": 60, "batch_size": 8}
SMALL = {"config": {"embedding_size": 8, "hidden_size": 8}, "device": "cpu"}


def cells(steps=3, seeds=2, **changes):
    recipe = {**RECIPE, **SMALL, "steps": steps, **changes}
    return [Cell(contestant="gru", seed=seed, recipe=recipe) for seed in range(seeds)]


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("executor", [InlineExecutor, pytest.param(lambda: ProcessExecutor(2), marks=pytest.mark.slow)])
def test_every_cell_is_a_run_folder_and_a_line(tmp_path, executor):
    found = run_grid(cells(), tmp_path, executor())
    assert [one.state for one in found] == ["done", "done"]
    for one, line in zip(found, lines(tmp_path), strict=True):
        assert (one.scores, one.seed) == (line["scores"], line["seed"])
        run = tmp_path / line["folder"] / "run"
        assert json.loads((run / "run.json").read_text())["scores"] == one.scores
        assert gf.load(run).config.hidden_size == 8
        assert {"parameters", "train_seconds", "core_seconds", "peak_memory", "texts_per_second"} <= one.cost.keys()
        assert all(value > 0 for value in one.cost.values())
    assert found[0].scores != found[1].scores  # other seeds


def test_what_is_done_stays_and_what_failed_is_tried_again(tmp_path, monkeypatch):
    carried = []
    real = worker.carry_out

    def counted(folder, log=print):
        carried.append(Cell.read(folder).seed)
        return real(folder, log)

    monkeypatch.setattr(grid, "carry_out", counted)
    first = run_grid(cells(), tmp_path, InlineExecutor())
    broken = CellResult(**{**vars(first[1]), "state": "failed", "error": "once"})
    broken.write(tmp_path / "cells" / first[1].folder)
    again = run_grid(cells(), tmp_path, InlineExecutor())
    assert carried == [0, 1, 1]
    assert [one.scores for one in again] == [one.scores for one in first]


def test_a_cell_that_fails_is_one_row_and_the_rest_goes_on(tmp_path):
    bad = Cell(contestant="gru", seed=7, recipe={**RECIPE, **SMALL, "steps": 8, "lr": 1e30, "clip": 0.0})
    unable = Cell(contestant="gpt", reason="it cannot do this")
    broken, skipped, *good = run_grid([bad, unable, *cells(steps=2, seeds=1)], tmp_path, InlineExecutor())
    assert broken.state == "failed"
    assert "loss" in broken.error
    assert (skipped.state, skipped.error) == ("skipped", "it cannot do this")
    assert [one.state for one in good] == ["done"]
    assert [line["state"] for line in lines(tmp_path)] == ["failed", "skipped", "done"]


@pytest.mark.slow
def test_a_process_that_is_killed_is_one_row(tmp_path):
    class Killed(ProcessExecutor):
        def submit(self, folder: Path) -> None:
            super().submit(folder)
            if folder.name.endswith("seed-0"):
                self.running[folder].kill()

    killed, whole = run_grid(cells(), tmp_path, Killed(1))
    assert (killed.state, whole.state) == ("failed", "done")
    assert "killed" in killed.error
    assert [one.state for one in run_grid(cells(), tmp_path, InlineExecutor())] == ["done", "done"]


@pytest.mark.parametrize("error", [MemoryError("no more"), OSError(28, "No space left on device")])
def test_memory_and_disks_that_fill_are_one_row(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(worker, "run", fail)
    (found,) = run_grid(cells(seeds=1), tmp_path, InlineExecutor())
    assert found.state == "failed"
    assert type(error).__name__ in found.error
    assert "Traceback" in (tmp_path / "cells" / found.folder / "log.txt").read_text()


GRID = """
import sys
from pathlib import Path
from glassformer.compare.cell import Cell
from glassformer.compare.grid import ProcessExecutor, run_grid
recipe = {recipe!r}
run_grid([Cell(contestant="gru", seed=seed, recipe=recipe) for seed in range(2)], Path(sys.argv[1]), ProcessExecutor(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [3.0, 7.0])
def test_a_grid_that_is_killed_ends_with_the_same_table(tmp_path, after):
    recipe = {**RECIPE, **SMALL, "steps": 12, "eval_every": 4, "save_every": 2}
    script = GRID.format(recipe=recipe)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_grid([Cell(contestant="gru", seed=seed, recipe=recipe) for seed in range(2)], whole, InlineExecutor())
    process = subprocess.Popen([sys.executable, "-c", script, broken], start_new_session=True)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while _workers(broken) and time.monotonic() < deadline:  # they see that nobody is there, and leave
        time.sleep(0.1)
    assert not _workers(broken)
    subprocess.run([sys.executable, "-c", script, broken], check=True)
    scores = [[(line["seed"], line["scores"]) for line in lines(folder)] for folder in (whole, broken)]
    assert scores[0] == scores[1]


def _workers(folder):
    """The processes of a grid's cells."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "glassformer.compare.worker" in words and str(folder) in words:
                found.append(entry.name)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)  # ray's own
def test_cells_on_a_ray_cluster_are_those_of_this_machine(tmp_path):
    pytest.importorskip("ray")
    here = run_grid(cells(), tmp_path / "here", InlineExecutor())
    there = run_grid(cells(), tmp_path / "there", RayExecutor())
    assert [one.scores for one in there] == [one.scores for one in here]


def test_two_cells_of_one_name_and_folders_of_others_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the same contestant, place and seed"):
        run_grid([*cells(seeds=1), *cells(seeds=1)], tmp_path, InlineExecutor())
    run_grid(cells(steps=2, seeds=1), tmp_path, InlineExecutor())
    with pytest.raises(ValueError, match="other settings"):
        run_grid(cells(steps=3, seeds=1), tmp_path, InlineExecutor())


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("10m", 600, "seconds"),
        ("90s", 90, "seconds"),
        ("1.5h", 5400, "seconds"),
        ("500steps", 500, "steps"),
        ("2M tokens", 2e6, "tokens"),
        ("3 epochs", 3, "epochs"),
        ("1epoch", 1, "epochs"),
    ],
)
def test_budgets_are_read(text, number, unit):
    assert TrainingBudget.of(text) == (number, unit)


@pytest.mark.parametrize("text", ["", "10", "m", "-3m", "0s", "2km", "10 minutes of it", "1e3steps"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(ValueError, match="no length of training"):
        TrainingBudget.of(text)


def test_seconds_and_tokens_become_steps(tmp_path):
    settings = {**RECIPE, **SMALL, "out": str(tmp_path)}
    planned = TrainingBudget.of("2ktokens").steps(settings)
    run = gf.train(**{**settings, **planned, "out": str(tmp_path / "run")}, log=lambda _: None)
    assert run.outcome.progress.step == planned["steps"]
    assert run.outcome.progress.tokens == pytest.approx(2000, rel=0.2)
    assert TrainingBudget.of("20s").steps(settings)["steps"] > 10
    with pytest.raises(ValueError, match=r"the budget of 3 tokens is too small for one step, of \d+"):
        TrainingBudget.of("3tokens").steps(settings)


def test_a_budget_too_small_is_the_row_of_its_cell(tmp_path):
    cell = Cell(contestant="gru", recipe={**RECIPE, **SMALL}, budget="0.00001s")
    (found,) = run_grid([cell], tmp_path, InlineExecutor())
    assert "too small for one step" in found.error
