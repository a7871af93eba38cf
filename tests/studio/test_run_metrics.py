"""A metrics.jsonl that is followed: what is kept stays small, and a file that was cut or replaced is read anew."""

import gc
import json
import os
import tracemalloc

import pytest
from fastapi.testclient import TestClient

from glassformer.studio import runs as room
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.metrics import RUNS, MetricsReader, followed
from glassformer.studio.traces import Traces


def line(step, **values):
    return json.dumps({"step": step, "epoch": 0, **values}) + "\n"


def add(path, *lines):
    with path.open("a") as file:
        file.writelines(lines)


@pytest.mark.slow
def test_a_run_that_is_watched_takes_no_more_memory_with_every_look(tmp_path):
    """200 looks at a growing file of 3,000 rows: what is kept is eight bytes a row, and no row.

    Answers leave cycles behind, which a process with a large heap collects late: they are collected before each count.
    """
    path = tmp_path / "a" / "metrics.jsonl"
    path.parent.mkdir()
    add(path, *(line(step, loss=1 / (1 + step), lr=1e-3, grad_norm=0.5) for step in range(3000)))
    with TestClient(create_app(Studio(ModelStore([]), Traces(), runs=tmp_path)), base_url="http://127.0.0.1") as client:
        assert len(client.get("/api/v1/runs/a/metrics").json()["rows"]) == 3000
        tracemalloc.start()
        try:
            look_on(client, path, range(3000, 3020))  # what is made once is made
            before = traced_bytes()
            look_on(client, path, range(3020, 3220))
            after = traced_bytes()
        finally:
            tracemalloc.stop()
    assert after - before < 2_000_000


def look_on(client, path, steps):
    """A row is written and the run is looked at, for each of `steps`: each look sees that row and no other."""
    for step in steps:
        add(path, line(step, loss=0.1))
        (entry,) = client.get("/api/v1/runs").json()["runs"]
        rows = client.get(f"/api/v1/runs/a/metrics?after={step}").json()["rows"]
        assert (entry["step"], [row["step"] for row in rows]) == (step, [step])


def traced_bytes():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    path, read = tmp_path / "metrics.jsonl", []
    parse = room.MetricsReader._take
    monkeypatch.setattr(MetricsReader, "_take", lambda self, line: (read.append(line), parse(self, line)))
    metrics = MetricsReader(path)
    for count in range(1, 6):
        add(path, line(count, loss=1.0))
        metrics.read_on()
    assert (len(read), len(metrics)) == (5, 5)


def test_a_resumed_run_cuts_the_file_and_other_rows_follow(tmp_path):
    path = tmp_path / "metrics.jsonl"
    add(path, *(line(step, loss=1.0, dev_loss=float(step)) for step in range(10)))
    metrics = MetricsReader(path).read_on()
    assert metrics.least["dev_loss"] == (0.0, 0)
    with path.open("r+") as file:
        file.truncate(len("".join(line(step, loss=1.0, dev_loss=float(step)) for step in range(4))))
    assert (len(metrics.read_on()), metrics.last["step"]) == (4, 3)
    with path.open("r+") as file:  # between two looks it was cut, and has outgrown what it was
        file.truncate(0)
    add(path, *(line(step, loss=0.5, dev_loss=7.0 + step) for step in range(12)))
    assert (len(metrics.read_on()), metrics.loss, metrics.least["dev_loss"]) == (12, 0.5, (7.0, 0))
    assert [row["step"] for row in metrics.rows(10)] == [10, 11]
    path.unlink()
    assert (len(metrics.read_on()), metrics.rows(0)) == (0, [])


@pytest.mark.parametrize(
    "odd", ["[" * 100_000, "1" + "0" * 400, "{", '"text"', '{"loss": 1' + "0" * 400 + "}", "\udcff"]
)
def test_a_line_that_is_none_keeps_its_place(tmp_path, odd):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(f"{odd}\n".encode(errors="surrogateescape"))
    add(path, line(1, loss=0.5))
    metrics = MetricsReader(path).read_on()
    assert metrics.rows(0) == [{}, {"step": 1, "epoch": 0, "loss": 0.5}]
    assert metrics.loss == 0.5


def test_no_more_than_some_runs_are_followed(tmp_path):
    for number in range(RUNS + 20):
        followed(tmp_path / str(number))
    assert followed.cache_info().currsize <= RUNS


def test_a_run_of_another_program_is_shown_as_far_as_it_can_be(tmp_path):
    for name, recipe, result in (
        ("a", 'task = ["x"]\nmetric = 3\nsteps = 2020-01-01\n', '{"progress": [1]}'),
        ("b", "metric = nan\n", "no json"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(recipe)
        (tmp_path / name / "run.json").write_text(result)
        add(tmp_path / name / "metrics.jsonl", line(1, dev_loss=0.5))
    with TestClient(create_app(Studio(ModelStore([]), Traces(), runs=tmp_path)), base_url="http://127.0.0.1") as client:
        found = client.get("/api/v1/runs").json()["runs"]
    assert [(one["best"]["value"], one["steps"]) for one in found] == [(0.5, None)] * 2


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    assert len(followed(tmp_path / "metrics.jsonl").read_on()) == 0
