"""Ways to pretrain on the micro-world: equal shapes, fine-tuning that is paired, what a kill leaves and what not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.compare.budget import TrainingBudget
from glassformer.compare.downstream import of_job
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.experiments.pretraining import METHODS, NONE
from microworld_files import write_examples

TINY = {"width": 16, "heads": 2, "layers": 1, "length": 32, "vocab_size": 300, "set": {"batch_tokens": 256}}
SHORT = {"budget": "4steps", "downstream_budget": "4steps", "seeds": 1, "jobs": 0}
JOBS = ["labelled.csv", "tagged.conll"]
WORDS = "some words that are not many"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts, and examples with labels and with tags: to learn from, and for dev."""
    folder = tmp_path_factory.mktemp("data")
    (text,) = write_examples(folder, "documents", 60, seed=0)
    train, dev = ([str(path) for path in _labelled(folder / name, seed)] for name, seed in (("train", 0), ("dev", 1)))
    return {"data": str(text), "downstream": train, "dev": dev}


def _labelled(folder, seed):
    return [path for kind in ("labelled", "tagged") for path in write_examples(folder, kind, 40, seed=seed)]


@pytest.fixture(scope="module")
def found(files, tmp_path_factory):
    return compare("pretraining", **files, **TINY, **SHORT, out=tmp_path_factory.mktemp("out") / "pretraining")


@pytest.mark.slow
def test_every_way_is_pretrained_and_then_fine_tuned_on_every_job(found):
    results = found.results
    assert results.contestants == [NONE, *METHODS]
    for cell in results.done:
        home = found.folder / "cells" / cell.folder
        assert list(cell.facts["jobs"]) == JOBS
        for job in JOBS:
            run = json.loads((home / "downstream" / job / "run" / "run.json").read_text())
            assert cell.facts["jobs"][job]["scores"] == run["scores"]
            assert run["progress"]["step"] == 4
        if cell.contestant != NONE:
            assert json.loads((home / "run" / "run.json").read_text())["progress"]["step"] == 4
            assert cell.cost["tokens"] > 0


@pytest.mark.slow
def test_all_have_one_vocabulary_and_as_many_parameters(found):
    ids = gf.load_tokenizer(found.folder / "vocabulary").get_vocab()
    sizes = {}
    for cell in found.results.done:
        run = found.folder / "cells" / cell.folder / "downstream" / JOBS[0] / "run"
        assert gf.load_tokenizer(run).get_vocab() == ids
        sizes[cell.contestant] = sum(one.numel() for one in gf.load(run).parameters())
    assert max(sizes.values()) < 1.15 * min(sizes.values())  # a table of positions more or less
    (electra,) = found.results.of("ELECTRA")
    home = found.folder / "cells" / electra.folder / "run"
    alone = sum(one.numel() for one in gf.load(home).parameters())
    shared = {"embeddings.", "head.decoder.weight"}
    beside = gf.load(home / "generator").named_parameters()
    own = sum(one.numel() for name, one in beside if not name.startswith(tuple(shared)) or "projection" in name)
    assert electra.cost["parameters"] == alone + own


@pytest.mark.slow
def test_a_job_is_compared_by_its_own_examples(found):
    for job, metric in zip(JOBS, ("accuracy", "f1"), strict=True):
        here = of_job(found.results, job)
        assert here.metric == metric
        assert here.difference("MLM", NONE).interval is not None  # both were scored on the same examples
        assert here.interval("GPT") is not None
        assert here.summary("GPT").mean == here.of("GPT")[0].scores["dev"][metric]


@pytest.mark.slow
def test_the_report_has_all_jobs_in_one_table(found):
    titles = [one.title.en for one in found.report.sections]
    assert titles == ["All jobs", *(f"Fine-tuned on {job}" for job in JOBS), "What each has learnt from"]
    table = found.report.sections[0].tables[0]
    assert [row.entries[0].text for row in table.rows] == [NONE, *METHODS]
    assert [one.title.en for one in table.columns][1:3] == ["labelled.csv: accuracy (dev)", "tagged.conll: f1 (dev)"]
    told = [one.en for one in found.report.findings if one.en.startswith(f"{JOBS[0]}: ")]
    assert len(told) == len(METHODS) + 1
    assert told[-1].startswith(f"{JOBS[0]}: Shown to be ahead of random weights: nothing")  # one seed shows nothing
    assert all(one.zh for section in found.report.sections for one in (section.title, *section.paragraphs))
    link = found.report.sections[1].tables[0].rows[1].details[0][0].link
    assert gf.load(found.folder / link).head_name == "text-classification"


KILLED = """
import os, signal, sys
from glassformer.compare.experiment import compare
from glassformer.train import checkpoint

save = checkpoint.save

def save_and_die(folder, step, *rest, **more):
    save(folder, step, *rest, **more)
    if step == 2 and ("downstream" in str(folder)) == {late}:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.save = save_and_die
compare("pretraining", **{settings!r}, resume={late})
"""


@pytest.mark.slow
def test_a_kill_in_pretraining_or_fine_tuning_loses_what_came_after_the_last_checkpoint(found, files, tmp_path):
    settings = {**files, **TINY, **SHORT, "contestants": ["ELECTRA"], "out": str(tmp_path / "out")}
    for late in (False, True):
        script = KILLED.format(settings=settings, late=late)
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    (again,) = compare("pretraining", **settings, resume=True).results.done
    (whole,) = found.results.of("ELECTRA")
    assert again.scores == whole.scores
    for job in JOBS:
        assert again.facts["jobs"][job]["scores"] == whole.facts["jobs"][job]["scores"]
    log = (tmp_path / "out" / "cells" / again.folder / "log.txt").read_text()
    assert log.count("resuming after step 2") == 2


def test_seconds_are_as_many_steps_for_every_seed(files, tmp_path):
    settings = {**files, **TINY, "contestants": ["MLM", "GPT"], "out": str(tmp_path), "budget": "1s", "seeds": 2}
    experiment = experiment_of("pretraining", settings)
    cells = experiment.cells()
    experiment.prepare(cells)
    planned = [json.loads((tmp_path / "cells" / cell.name / "planned.json").read_text()) for cell in cells]
    assert planned[0] == planned[1]
    assert planned[2] == planned[3]
    experiment.prepare(cells)  # what is planned stays, whatever the clock says now
    assert planned[0] == json.loads((tmp_path / "cells" / cells[0].name / "planned.json").read_text())


def test_a_budget_that_is_too_small_is_the_row_of_its_cell(files, tmp_path):
    settings = {
        **files,
        **TINY,
        **SHORT,
        "contestants": [NONE, "MLM"],
        "budget": "0.000001s",
        "out": str(tmp_path / "out"),
    }
    found = compare("pretraining", **settings)
    assert [cell.state for cell in found.results.cells] == ["done", "failed"]
    assert "too small for one step" in found.results.cells[1].error


def test_settings_of_a_recipe_decide_how_often_it_is_scored():
    budget = TrainingBudget.of("100steps")
    assert budget.steps({}) == {"steps": 100, "eval_every": 10}
    assert budget.steps({"eval_every": 40}) == {"steps": 100, "eval_every": 40}


def test_tasks_are_inferred_or_named(files, tmp_path):
    def jobs(*names):
        given = {**files, **TINY, "dev": None, "downstream": list(names), "contestants": ["MLM"]}
        (cell,) = experiment_of("pretraining", {**given, "seeds": 1, "out": str(tmp_path)}).cells()
        return {name: job["task"] for name, job in cell.arguments["jobs"].items()}

    labelled, tagged = files["downstream"]
    texts, tags = "text-classification", "token-classification"
    assert jobs(labelled, tagged) == {"labelled.csv": texts, "tagged.conll": tags}
    assert jobs(f"ner={tagged}") == {"tagged.conll": tags}
    assert jobs(labelled, files["dev"][0]) == {"train/labelled.csv": texts, "dev/labelled.csv": texts}
    assert jobs("microworld", "ner=microworld") == {f"microworld ({texts})": texts, f"microworld ({tags})": tags}


def test_who_cannot_do_a_job_is_skipped_with_the_reason(files, tmp_path):
    settings = {**files, **TINY, "downstream": "question-answering=microworld", "dev": None, "out": str(tmp_path)}
    cells = experiment_of("pretraining", {**settings, "seeds": 1}).cells()
    assert {cell.contestant for cell in cells if cell.reason} == {"GPT"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "0.5steps"}, "too small for one step"),
        ({"downstream_budget": "0.2steps"}, "too small for one step"),
        ({"downstream_budget": "soon"}, "no length of training"),
        ({"dev": ["x"]}, "1 files of dev and 2 labelled jobs"),
        ({"contestants": ["BERT"]}, "no contestant 'BERT'; there are: none, MLM"),
        ({"set": {}}, r"words to train on, and one batch takes 4,096 tokens: give more text"),
        ({"data": "one.txt"}, "one text without a blank line"),
        ({"data": "short.txt"}, r"the text has \d+ words"),
        ({"downstream": "one.csv", "dev": None}, "only the label 'good'"),
        ({"downstream": "nowhere.csv", "dev": None}, "nowhere.csv"),
        ({"width": 17}, "heads"),
    ],
)
def test_wrong_requests_are_named(files, tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text(WORDS * 40)
    Path("short.txt").write_text(f"{WORDS}\n\n{WORDS}")
    Path("one.csv").write_text("text,label\na film,good\na book,good\n")
    with pytest.raises(ValueError, match=message):
        compare("pretraining", **{**files, **TINY, **SHORT, "out": "out", **settings})
    assert not Path("out").exists()
