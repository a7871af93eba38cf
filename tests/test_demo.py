"""The demo runs from end to end, and what its table claims is so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Generator

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

import demo  # noqa: E402
import lessons  # noqa: E402

pytestmark = pytest.mark.slow


def learn(name: str, task: str) -> tuple[float, float]:
    torch.manual_seed(0)
    model, lr = demo.build(name)
    demo.train(model, lessons.Digits(task, Generator().manual_seed(0)), lr=lr, steps=demo.STEPS)
    return demo.score(model, task, Generator().manual_seed(1))


def test_the_demo_runs(tmp_path):
    out = tmp_path / "new" / "demo.html"
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "demo.py", "--scale", "0.005", "--out", out],
        capture_output=True,
        text=True,
        env={"COLUMNS": "200", "PYTHONUTF8": "1"},
    )
    assert run.returncode == 0, run.stderr
    for task in lessons.LONGEST:
        for name in demo.MODELS:
            row = rf"{task}\s+{re.escape(name)}\s+[\d.]+%\s+[\d.]+%\s+[\d,]+\s+2\s+[\d.]+"
            assert re.search(row, run.stdout), (task, name, run.stdout)
    assert run.stdout.count("[MASK]") == 1
    assert "omar the sailor …" in run.stdout
    assert str(out) in run.stdout
    text = out.read_text(encoding="utf-8")
    shown = json.loads(re.search(r'<script type="application/json" id="page">(.*?)</script>', text)[1])
    names = [f"{task}: {name}" for task in ("copy", "reverse") for name in demo.ATTENTION]
    assert [board["name"] for board in shown["boards"]] == names
    assert set(shown["boards"][0]["down"]["texts"]) <= set(lessons.DIGITS)
    assert re.findall(r"\w+://[^\"' ]*", text) == []


@pytest.mark.parametrize(("name", "task"), [("Transformer", "copy"), ("GRU", "parity"), ("LSTM", "parity")])
def test_unseen_sequences_are_right(name, task):
    tokens, _ = learn(name, task)
    assert tokens >= 0.99


@pytest.mark.parametrize("task", lessons.LONGEST)
def test_labels_are_the_task_and_nothing_unseen_is_trained_on(task):
    chance = Generator().manual_seed(0)
    seen, unseen = (lessons.draw(task, 3000, 1, 5, chance, unseen=which) for which in (False, True))
    assert len(unseen["labels"]) == 3000
    rows = [{tuple(row) for row in batch["input_ids"].tolist()} for batch in (seen, unseen)]
    assert not rows[0] & rows[1]
    for batch in (seen, unseen):
        for source, target, before in zip(
            *(batch[key].tolist() for key in ("input_ids", "labels", "decoder_input_ids")), strict=True
        ):
            digits = source[: source.index(lessons.END)]
            assert set(source[len(digits) + 1 :]) <= {lessons.PAD}
            values = [token - lessons.FIRST for token in digits]
            expected = {
                "copy": [*digits, lessons.END],
                "reverse": [*reversed(digits), lessons.END],
                "parity": [lessons.FIRST + sum(values) % 2],
            }[task]
            assert target == expected + [lessons.PAD] * (len(target) - len(expected))
            assert before == [lessons.START, *target[:-1]]
