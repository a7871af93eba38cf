"""The ladder and its like on small data: the grid, the report and its numbers, resuming, and what is refused."""

import csv
import json

import pytest

import glassformer as gf
from browser import borrowed, heard, unknown_styles
from glassformer.compare.cell import CellResult
from glassformer.compare.experiment import compare, experiment_of, sorted_settings
from glassformer.compare.experiments.scratch_vs_finetune import same_shape
from glassformer.compare.learning_curves import examples_needed, sizes_up_to
from glassformer.compare.reporting import cautions
from glassformer.compare.results import Results, is_lower_better, shown_score
from glassformer.compare.runs import read_runs, runs_report
from glassformer.data import microworld
from tasks.language import small_bert, tokenizer_of

SOME = ["bag of words", "gru", "fine-tuned"]


def write(path, examples):
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows((one.text, one.label) for one in examples)
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    train = microworld.examples("labelled", 80, seed=0, language="en")
    data = (
        write(folder / "train.csv", train),
        write(folder / "dev.csv", microworld.examples("labelled", 40, seed=1, language="en")),
    )
    tokenizer = tokenizer_of([one.text for one in train], "wordpiece", 200)
    gf.save(small_bert(len(tokenizer), head="fill-mask"), folder / "model", tokenizer=tokenizer)
    return *data, str(folder / "model")


def settings(files, out, **more):
    train, dev, model = files
    common = {"data": train, "dev": dev, "model": model, "out": str(out), "budget": "3steps", "seeds": 2, "jobs": 0}
    return {**common, "contestants": SOME, "sizes": [20, 80], "set": {"batch_size": 8}, **more}


@pytest.fixture(scope="module")
def found(files, tmp_path_factory):
    return compare("ladder", **settings(files, tmp_path_factory.mktemp("out") / "ladder"))


@pytest.mark.slow
def test_every_contestant_has_every_size_and_seed(found):
    cells = {(one.contestant, one.place["examples"], one.seed) for one in found.results.done}
    assert cells == {(one, size, seed) for one in SOME for size in (20, 80) for seed in (0, 1)}
    for one in found.results.done:
        run = json.loads((found.results.run_folder(one) / "run.json").read_text())
        assert run["preflight"]["train_examples"] == one.place["examples"]
        assert run["progress"]["step"] == 3


@pytest.mark.slow
def test_tables_say_what_the_results_are(found):
    full = found.results.at(examples=80)
    table = found.report.sections[0].tables[0]
    for row in table.rows:
        name, score = row.entries[0].text, row.entries[1].text
        values = [one.scores["dev"]["accuracy"] for one in full.of(name)]
        mean = sum(values) / 2
        deviation = abs(values[0] - values[1]) / 2**0.5
        assert score == f"{shown_score('accuracy', mean)} ± {shown_score('accuracy', deviation)}"
        for seed, entries in zip(full.of(name), row.details, strict=True):
            assert entries[1].text == shown_score("accuracy", seed.scores["dev"]["accuracy"])
            assert gf.load(found.folder / entries[0].link)


@pytest.mark.slow
def test_resuming_adds_seeds_and_does_nothing_twice(found, files):
    before = {path: path.stat().st_mtime_ns for path in found.folder.glob("cells/*/run/run.json")}
    more = compare("ladder", **settings(files, found.folder, seeds=3), resume=True)
    assert len(more.results.done) == 18
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    with pytest.raises(ValueError, match="holds an experiment: go on with --resume"):
        compare("ladder", **settings(files, found.folder))
    with pytest.raises(ValueError, match="was begun with other settings"):
        compare("ladder", **settings(files, found.folder, budget="4steps"), resume=True)
    other = {name: value for name, value in settings(files, found.folder).items() if name != "contestants"}
    with pytest.raises(ValueError, match="holds the experiment 'ladder', not 'scratch-vs-finetune'"):
        compare("scratch-vs-finetune", **other, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "paper"), [pytest.param(1280, "light", marks=pytest.mark.slow), (390, "dark")])
def test_a_browser_shows_the_numbers_of_the_results(browser, found, width, paper):
    complaints = []
    handlers = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
    }
    with borrowed(browser, width=width, height=800, paper=paper) as tab, heard(tab, **handlers):
        tab.goto((found.folder / "report.html").as_uri())
        text = tab.evaluate("document.body.textContent")
        assert complaints == []
        assert unknown_styles(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        for line in map(json.loads, (found.folder / "results.jsonl").read_text().splitlines()):
            assert shown_score("accuracy", line["scores"]["dev"]["accuracy"]) in text
            assert tab.locator(f'a[href="{line["folder"]}/run/"]').count() == 1


@pytest.mark.slow
def test_scratch_has_the_shape_of_the_model_and_all_are_told_apart(files, tmp_path):
    asked = settings(files, tmp_path / "out", sizes=[80])
    del asked["contestants"]
    found = compare("scratch-vs-finetune", **asked)
    assert found.results.contestants == ["from scratch", "frozen", "fine-tuned"]
    sizes = {name: found.results.cost(name, "parameters").mean for name in found.results.contestants}
    assert len(set(sizes.values())) == 1
    assert same_shape(files[2])["config"]["hidden_size"] == gf.load(files[2]).config.hidden_size
    titles = [section.title.en for section in found.report.sections]
    assert titles == ["80 examples", "F1 of each class"]


@pytest.mark.slow
def test_runs_side_by_side(found, files, tmp_path, glassformer):
    of = {name: [str(found.results.run_folder(one)) for one in found.results.at(examples=80).of(name)] for name in SOME}
    results = read_runs([*of["gru"][:2], of["bag of words"][0]])
    assert [len(results.of(name)) for name in results.contestants] == [2, 1]  # seeds of one recipe are one contestant
    report = runs_report(results)
    differing = report.sections[1].tables[0]
    assert [column.title.en for column in differing.columns][1:3] == ["arch", "config"]
    code, out, _ = glassformer(
        "compare", "runs", *of["gru"][:2], of["bag of words"][0], "--out", tmp_path / "runs.html"
    )
    assert code == 0
    assert "Settings that differ" in out
    assert (tmp_path / "runs.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    code, _, err = glassformer("compare", "runs", of["gru"][0], tmp_path)
    assert (code, err) == (1, f"error: {tmp_path} holds no run\n")
    code, _, err = glassformer("compare", "runs", of["gru"][0], of["gru"][0])
    assert (code, err) == (1, "error: a run was named twice\n")


def test_the_command_prints_the_answer_and_tells_by_its_code_what_failed(files, tmp_path, glassformer):
    train, dev, _ = files
    words = [
        "compare",
        "ladder",
        "--data",
        train,
        "--dev",
        dev,
        "--out",
        tmp_path / "out",
        "--seeds",
        "1",
        "--jobs",
        "0",
    ]
    words += ["--set", 'contestants=["gru"]', "--set", "sizes=[20]", "--set", "batch_size=8"]
    code, out, err = glassformer(*words, "--budget", "2steps")
    assert code == 0
    assert "accuracy" in out
    assert "1 of 1: gru, examples 20, seed 0: accuracy" in err
    code, out, _ = glassformer("compare", tmp_path / "out" / "experiment.toml", "--resume", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["contestant"] == "gru"
    words[words.index(tmp_path / "out")] = tmp_path / "other"
    code, out, err = glassformer(*words, "--budget", "0.00001s")
    assert code == 1
    assert "too small for one step" in out
    assert "1 of 1 cells failed; try them again with --resume" in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "one.csv"}, "the training data has only the label 'good'; a classifier needs two classes or more"),
        ({"test": "unseen.csv"}, "the test data has labels that no training example has: 'ugly'"),
        ({"contestants": ["mamba"]}, "there is no contestant 'mamba'; there are: bag of words, rnn"),
        ({"budget": "a while"}, "the budget 'a while' is no length of training"),
        ({"out": " "}, "out is empty"),
        ({"seeds": 0}, "seeds is 0; it must be"),
        ({"sizes": [0]}, "sizes"),
        ({"colour": "red"}, "ladder has no setting 'colour'"),
        ({"data": None}, "ladder needs --data"),
        ({"set": {"lr": "high"}}, "lr is 'high'; it must be a number above 0"),
        (
            {"task": "translation", "contestants": ["bag of words"]},
            "no contestant can take part: bag of words: arch",
        ),
    ],
)
def test_what_no_cell_could_do_is_refused_in_one_line(files, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("text,label\na,good\nb,good\nc,good\n")
    (tmp_path / "unseen.csv").write_text("text,label\na,ugly\n")
    with pytest.raises(ValueError, match=message):
        compare("ladder", **{**settings(files, tmp_path / "out"), **changes})
    assert not (tmp_path / "out").exists()


def test_an_experiment_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="there is no experiment 'lader'; did you mean 'ladder'"):
        compare("lader", out="x")


def test_sizes_and_what_is_needed():
    assert sizes_up_to(50) == [50]
    assert sizes_up_to(2500) == [100, 1000, 2500]
    assert examples_needed([100, 1000], [0.5, 0.7], 0.6) == pytest.approx(10**2.5)
    assert examples_needed([100, 1000], [0.5, 0.7], 0.8) is None
    assert examples_needed([100, 1000], [0.5, 0.7], 0.4) == 100
    assert is_lower_better("loss")
    assert not is_lower_better("accuracy")


def test_what_a_reader_must_know_is_said(files, tmp_path):
    asked = settings(files, tmp_path / "out", sizes=[20], contestants=["gru"], test=files[1], seeds=1)
    assert not any("no test data" in one.en for one in compare("ladder", **asked).report.findings)
    asked = settings(files, tmp_path / "other", sizes=[20], contestants=["gru", "bag of words"], seeds=1)
    found = compare("ladder", **asked)
    told = [one.en for one in found.report.findings]
    assert told[0].startswith("One seed: ")
    assert told[-1].startswith("There is no test data: scores are those on dev")
    assert found.report.sections[0].tables[0].columns[1].title.en == "accuracy (dev)"
    lost = found.results.cells[1]
    broken = CellResult(**{**vars(lost), "seed": 1, "state": "failed", "error": "no", "scores": {}})
    results = Results(found.folder, [*found.results.cells, broken])
    assert any("1 of 2 cells failed" in one.en for one in cautions(results))
    assert results.best() != lost.contestant


@pytest.mark.slow
def test_a_refused_resume_leaves_the_experiment_as_it_was(found, files):
    before = (found.folder / "experiment.toml").read_text()
    with pytest.raises(ValueError, match="was begun with other settings"):
        compare("ladder", **settings(files, found.folder, budget="4steps"), resume=True)
    assert (found.folder / "experiment.toml").read_text() == before


@pytest.mark.slow
def test_settings_of_runs_join_those_of_the_file(found):
    values = sorted_settings(str(found.folder / "experiment.toml"), {}, {"lr": 0.1})
    joined = experiment_of(str(found.folder / "experiment.toml"), values)
    assert joined.set == {"batch_size": 8, "lr": 0.1}
