"""What takes long is shown: a bar to those who watch, lines to those who do not, silence from all but one process."""

import re
import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from glassformer.data.batches import Budget
from glassformer.jobs import progress
from glassformer.jobs.progress import ConsoleListener, shown
from glassformer.tasks.task import Task, evaluate


def wait_for(holds):
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    assert holds()


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.02)


def test_lines_come_while_something_goes_on_and_stop_with_it(often, capsys):
    printed = ""

    def line_is_there(text):
        nonlocal printed
        printed += capsys.readouterr().err
        return text in printed

    with shown("reading") as told:
        wait_for(lambda: line_is_there("reading: 0:00"))
        told(1, 4)
        wait_for(lambda: line_is_there("reading: 25% done, 0:00"))
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_how_fast_it_goes_is_told_in_its_unit(often, capsys):
    printed = ""

    def speed_is_there():
        nonlocal printed
        printed += capsys.readouterr().err
        return re.search(r"translating: 50% done, [\d,.]+ sentences/s, 0:00", printed)

    with shown("translating", "sentences") as told:
        told(2, 4)
        wait_for(speed_is_there)


def test_what_is_over_soon_says_nothing(capsys):
    with shown("reading") as told:
        told(1, 1)
    assert capsys.readouterr() == ("", "")


def test_someone_who_watches_sees_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with shown("encoding", "texts") as told:
        told(30, 40)
    printed = capsys.readouterr()
    assert re.search(r"[\d,.]+ texts/s", printed.err)
    assert "encoding" in printed.err
    assert "75%" in printed.err
    assert printed.out == ""


def test_only_the_first_process_speaks(often, monkeypatch, capsys):
    monkeypatch.setattr(progress, "Processes", lambda: SimpleNamespace(is_main=False))
    with shown("reading") as told:
        told(1, 2)
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


class Sheet:
    """Scores nothing, and remembers how many batches it saw."""

    def __init__(self, **_):
        self.seen, self.order = 0, []

    def update(self, _model, _batch):
        self.seen += 1


@pytest.mark.parametrize("share", [(0, 1), (0, 3), (2, 3)])
def test_scoring_tells_how_far_it_is(share, tmp_path, monkeypatch):
    batch = SimpleNamespace(to=lambda _device: None)
    task = SimpleNamespace(metrics=Sheet, batch=lambda _items, _indices: batch)
    task.eval_batches = partial(Task.eval_batches, task)
    told, said = [], []
    options = {"budget": Budget(rows=2), "share": share}
    items = SimpleNamespace(lengths=np.full(13, 5))
    sheet = evaluate(nn.Linear(1, 1), task, items, on_progress=lambda *one: told.append(one), **options)
    mine = len(range(share[0], 7, share[1]))
    assert told == [(done, mine) for done in range(1, mine + 1)]
    assert sheet.seen == mine
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    evaluate(nn.Linear(1, 1), task, items, on_progress=ConsoleListener(said.append, folder=tmp_path).scoring, **options)
    assert said == [f"scoring: {done} of {mine} batches" for done in range(1, mine + 1)]
