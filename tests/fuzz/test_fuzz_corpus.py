"""Edits of files that once gave a traceback, a hang or an abort: each is carried out or refused in one line.

`make fuzz` looks for more of them; `python -m fuzz.sweep --keep FILE` writes what corpus.jsonl holds.
"""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from fuzz.edits import Edit, apply, drawn
from fuzz.sweep import made, outcomes
from fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).with_name("corpus.jsonl")


def kept() -> dict[str, list[Edit]]:
    edits = defaultdict(list)
    for line in CORPUS.read_text("utf-8").splitlines():
        edit = json.loads(line)
        edits[edit.pop("target")].append(edit)
    return edits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_what_once_failed_is_carried_out_or_refused(name, tmp_path):
    target = TARGETS[name]
    template = made(target, tmp_path / name)
    found = list(outcomes(target, kept()[name], template))
    assert [(edit, result) for edit, result in found if result not in ("fine", "refused")] == []


def test_the_sweep_sees_a_fault(tmp_path):
    """A target that trips over one of its edits is reported, not passed over."""

    def value_of(folder: Path) -> int:
        return json.loads((folder / "a.json").read_text())["x"]

    tripping = Target("tripping", lambda folder: (folder / "a.json").write_text('{"x": 1}'), ("a.json",), value_of)
    template = made(tripping, tmp_path / "whole")
    edits = [{"file": "a.json", "path": [], "value": value} for value in ({"x": 2}, 3)]
    found = [result for _, result in outcomes(tripping, edits, template)]
    assert found[0] == "fine"
    assert found[1].startswith("TypeError")


def test_edits_do_what_they_say(tmp_path):
    import random

    (tmp_path / "a.json").write_text(json.dumps({"a": {"b": [1, 2]}, "c": 3}))
    apply({"file": "a.json", "path": ["a", "b", 1], "value": "x"}, tmp_path)
    apply({"file": "a.json", "path": ["c"], "drop": True}, tmp_path)
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": {"b": [1, "x"]}}
    same = [drawn(random.Random(3), tmp_path, ["a.json"]) for _ in range(2)]
    assert json.dumps(same[0]) == json.dumps(same[1])
