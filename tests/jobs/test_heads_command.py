"""`glassformer heads`: every head's worth to the task's own loss, the pruning report, what each looks at."""

import json

import pytest
import torch

from glassformer.inspect import edits
from glassformer.inspect.record import record
from glassformer.jobs.heads import measure
from glassformer.jobs.predict import pipeline

CASES = ["text-classification/bert", "token-classification/bert", "question-answering/bert", "fill-mask/bert",
         "text-generation/gpt2", "translation/transformer", "sentence-similarity/bert/mean"]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_task_has_a_loss_to_judge_by(glassformer, trained, case):
    words = ("heads", trained(case), "--data", "microworld", "--limit", 12)
    code, out, _ = glassformer(*words, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["examples"] == 12
    assert {"attention", "number", "delta", "entropy", "first", "sink"} <= set(report["heads"][0])
    assert len({(row["attention"], row["number"]) for row in report["heads"]}) == len(report["heads"])
    assert report["pruning"][0] == {"heads": 0, "loss": pytest.approx(report["loss"]), "parameters": 0}
    assert report["pruning"][-1]["heads"] == len(report["heads"])
    assert ("induction" in report["heads"][0]) == ("gpt2" in case)


def test_the_table_for_people(glassformer, trained):
    code, out, err = glassformer("heads", trained("text-classification/bert"), "--data", "microworld", "--limit", 12)
    assert code == 0
    assert err == "read 400 rows from microworld\n"
    assert "layers.1.attention.head.1" in out
    assert "4 heads can go for at most" in out


def test_the_loss_is_that_of_the_task(trained):
    pipe = pipeline("text-classification", trained("text-classification/bert"))
    examples = pipe.read(["microworld"]).examples[:20]
    found = measure(pipe, examples)
    items = pipe.task.encode(examples)
    batch = pipe.task.batch(items, torch.arange(20).numpy())
    with torch.no_grad():
        assert found.loss == pytest.approx(float(pipe.task.loss(pipe.model, batch)) / 20, abs=1e-5)
        for head in found.heads:
            with record(pipe.model, edit=edits.head(head.attention, head.number)):
                without = float(pipe.task.loss(pipe.model, batch)) / 20
            assert head.delta == pytest.approx(without - found.loss, abs=1e-5)


def test_a_file_may_be_called_microworld(glassformer, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "microworld.csv").write_text("text,label\nthe dog runs,positive\n", encoding="utf-8")
    words = ("heads", trained("text-classification/bert"), "--data", "microworld.csv", "--json")
    assert json.loads(glassformer(*words)[1])["examples"] == 1


def test_a_model_without_heads_is_refused(glassformer, trained):
    code, _, err = glassformer("heads", trained("text-classification/gru"), "--data", "microworld")
    assert code == 1
    assert "error: this model has no attention heads" in err
