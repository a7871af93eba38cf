"""Edits of files, many of which once gave a traceback, a hang or an abort: each is carried out, or refused in one line
that names what was edited.

`make fuzz` looks for more of them; `python -m fuzz.sweep --keep FILE` writes what corpus.jsonl holds.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from fuzz.edits import Edit, apply, drawn
from fuzz.sweep import made, outcomes
from fuzz.targets import TARGETS, Target
from quick import is_quick

CORPUS = Path(__file__).with_name("corpus.jsonl")
TOGETHER = re.compile(  # what several files are together names none of them
    r"the training data has |^\d+ documents? with text: |: the weights do not fit the config; "
)


def kept() -> dict[str, list[Edit]]:
    edits = defaultdict(list)
    for line in CORPUS.read_text("utf-8").splitlines():
        edit = json.loads(line)
        edits[edit.pop("target")].append(edit)
    return edits


def is_right(edit: Edit, found: str) -> bool:
    """Whether an edit was carried out, or refused by the name of its file or of a key on the way to what it changed.

    Of "request" a key alone can be named: its file is the test's own. A key that is a number, of a list, names nothing.
    """
    if found == "fine":
        return True
    names = [Path(edit["file"]).name, *(key for key in edit.get("path", ()) if isinstance(key, str))]
    kind, _, told = found.partition(": ")
    return kind == "refused" and (any(name in told for name in names) or bool(TOGETHER.search(told)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_an_edit_is_carried_out_or_refused_by_name(name, tmp_path):
    target, edits = TARGETS[name], kept()[name][:: 6 if is_quick() else 1]
    assert edits
    found = list(outcomes(target, edits, made(target, tmp_path / name)))
    assert len(found) == len(edits)
    assert [(edit, result) for edit, result in found if not is_right(edit, result)] == []


def test_a_refusal_that_names_nothing_is_not_right():
    edit = {"file": "a/config.json", "path": ["sizes", 0], "value": 3}
    for told in ("a/config.json is wrong", "sizes[0] is 3", "folder: the weights do not fit the config; missing: x"):
        assert is_right(edit, f"refused: {told}")
    for told in ("refused: 3 is wrong", "KeyError: config.json", "several lines: 'config.json'"):
        assert not is_right(edit, told)


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
