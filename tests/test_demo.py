"""The demo runs from end to end, and what its table claims is so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

import demo  # noqa: E402

pytestmark = pytest.mark.slow


def test_the_demo_runs(tmp_path):
    out = tmp_path / "new" / "demo.html"
    run = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "demo.py", "--scale", "0.005", "--out", out],
        capture_output=True,
        text=True,
        env={"COLUMNS": "200", "PYTHONUTF8": "1"},
    )
    assert run.returncode == 0, run.stderr
    for task in demo.TASKS:
        for name in demo.MODELS:
            row = rf"{task}\s+{re.escape(name)}\s+[\d.]+%\s+[\d,]+\s+[\d.]+"
            assert re.search(row, run.stdout), (task, name, run.stdout)
    assert run.stdout.count("[MASK]") == 1
    assert f"{demo.PROMPT} …" in run.stdout
    assert str(out) in run.stdout
    text = out.read_text(encoding="utf-8")
    shown = json.loads(re.search(r'<script type="application/json" id="page">(.*?)</script>', text)[1])
    names = [f"{task}: {name}" for task in ("copy", "reverse") for name in demo.LOOKS]
    assert [board["name"] for board in shown["boards"]] == names
    assert set(shown["boards"][0]["across"]["texts"]) <= set("0123456789=") | {"[CLS]", "[SEP]"}
    assert re.findall(r"\w+://[^\"' ]*", text) == []


@pytest.mark.parametrize(("name", "task"), [("Transformer", "copy"), ("GRU", "parity"), ("LSTM", "parity")])
def test_unseen_sequences_are_right(name, task, tmp_path):
    run = demo.learn_digits(task, name, tmp_path / "run", steps=demo.STEPS, seed=0)
    assert run.scores["dev"]["exact_match"] >= 0.97
