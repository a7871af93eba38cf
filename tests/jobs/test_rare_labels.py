"""A label so rare that all its texts are held out is learnt all the same, and the run says so."""

import json
from itertools import count

import pytest

import glassformer as gf
from glassformer.data.splits import place_of, plain
from tasks.cases import SMALL

RNN = {"arch": "gru", "config": SMALL["glassformer-rnn"]}
CASES = {"text-classification": RNN, "token-classification": RNN, "text-generation": {"block_size": 16, **RNN}}
RARE = next(f"rare word{number} Paul" for number in count() if place_of(plain(f"rare word{number} Paul")) < 0.1)
ROWS = [(f"some word{number} Paul", "good" if number % 2 else "bad") for number in range(120)] + [(RARE, "rare")]


def written(folder, task, rows=ROWS, name="data"):
    """A file of texts with labels, as the task reads them; tagged, the last word has the label."""
    if task == "token-classification":
        lines = [[f"{word} O" for word in text.split()[:-1]] + [f"Paul B-{label}", ""] for text, label in rows]
        path, content = folder / f"{name}.conll", "\n".join(line for some in lines for line in [*some, ""])
    else:
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        path, content = folder / f"{name}.jsonl", "\n".join(lines)
    path.write_text(content)
    return str(path)


def run(folder, task, **changes):
    said = []
    columns = {} if task == "token-classification" else {"columns": {"label": "label"}}
    settings = {"vocab_size": 300, "steps": 1, "batch_size": 4, "device": "cpu", **columns, **CASES[task], **changes}
    gf.train(task=task, out=str(folder / "run"), data=written(folder, task), log=said.append, **settings)
    return said, gf.pipeline(task, folder / "run").task


def known(task):
    return {label.removeprefix("B-") for label in getattr(task, "labels", None) or task.conditions}


@pytest.mark.parametrize("changes", [{}, {"limit": 5}])
@pytest.mark.parametrize("task", CASES)
def test_it_is_kept_in_training(tmp_path, task, changes):
    said, trained = run(tmp_path, task, **changes)
    assert "too rare to be held out, so in training: 'rare'" in said
    assert known(trained) >= {"good", "bad", "rare"}
    held_out = next(line for line in said if line.startswith("dev: "))
    assert "rare" not in held_out


def test_a_condition_that_only_dev_data_has_is_known_and_said(tmp_path):
    dev = written(tmp_path, "text-generation", [("what else", "other"), ("a word", "good")], name="dev")
    said, trained = run(tmp_path, "text-generation", dev=dev)
    assert "mind: no training example of: other, which dev has" in said
    assert set(trained.conditions) == {"good", "bad", "rare", "other"}
