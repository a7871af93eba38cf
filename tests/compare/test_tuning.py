"""optimisers and schedules: each contestant at its best rate on dev, loss curves as the runs wrote them down."""

import json

import numpy as np
import pytest

from glassformer.compare.cell import CellResult
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.results import Results
from glassformer.compare.tuning import is_at_the_edge, loss_curve, on_dev, tuned
from glassformer.train.schedule import Rate

pytestmark = pytest.mark.slow  # a grid of trainings; those of test_ladder stand for them in the quick suite

TINY = {
    "arch": "transformer",
    "config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32},
    "vocab_size": 300,
    "limit": 64,
    "batch_size": 16,
    "log_every": 2,
}


def carried_out(name, folder, **settings):
    runs = {key: value for key, value in TINY.items() if key != "arch"}
    known = {"data": "microworld", "out": folder, "seeds": 2, "budget": "6steps", "set": runs, **settings}
    return compare(name, jobs=0, **known)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimisers") / "out"
    return carried_out("optimisers", folder, contestants=["adamw", "sgd"], rates=[1e-3, 1e-2])


def metrics(found, cell):
    path = found.folder / "cells" / cell.folder / "run" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_cell_has_its_optimiser_and_rate(found):
    assert len(found.results.done) == 2 * 2 * 2
    for cell in found.results.done:
        recipe = (found.folder / "cells" / cell.folder / "run" / "recipe.toml").read_text()
        assert f'optimiser = "{cell.contestant}"' in recipe
        assert f"lr = {cell.place['lr']}" in recipe


def test_the_best_rate_is_that_of_the_best_mean_on_dev(found):
    at_best, rates = tuned(found.results)
    for name in ("adamw", "sgd"):
        means = {
            rate: np.mean([c.scores["dev"]["accuracy"] for c in found.results.at(lr=rate).of(name)])
            for rate in (1e-3, 1e-2)
        }
        assert means[rates[name]] == max(means.values())
        assert {cell.place["lr"] for cell in at_best.of(name)} == {rates[name]}
        assert len(at_best.of(name)) == 2


def test_loss_curves_are_those_of_the_runs(found):
    at_best, _ = tuned(found.results)
    for cell in at_best.done:
        rows = {row["step"]: row["loss"] for row in metrics(found, cell) if row.get("loss") is not None}
        assert loss_curve(at_best, cell) == rows
        assert set(rows) == {2, 4, 6}


def test_the_report_shows_both_tables_and_the_curves(found):
    best, every = found.report.sections
    assert {one.name for one in (*best.figures, *every.figures)} == {"scores", "loss", "rates"}
    assert [row.entries[0].text for row in every.tables[0].rows] == ["adamw", "sgd"]
    assert [column.title.en for column in every.tables[0].columns][1:] == ["0.001", "0.01"]
    assert "There is no test data" in found.report.findings[-1].en
    assert "best rate is the least or the highest tried" in found.report.findings[-2].en


def result(contestant, rate, dev, seed=0, state="done"):
    scores = {"dev": {"accuracy": dev}} if state == "done" else {}
    place = {"lr": rate}
    return CellResult(
        contestant=contestant, seed=seed, place=place, state=state, folder=f"{contestant}{rate}{seed}",
        metric="accuracy", scores=scores,
    )  # fmt: skip


def test_a_rate_at_which_a_seed_has_failed_is_not_the_best(tmp_path):
    cells = [result("sgd", 0.1, 0.6), result("sgd", 0.1, 0.6, seed=1)]
    cells += [result("sgd", 1.0, 0.9), result("sgd", 1.0, 0.0, seed=1, state="failed")]
    results = Results(tmp_path, cells)
    at_best, rates = tuned(results)
    assert rates == {"sgd": 0.1}
    assert on_dev(results, "sgd", 1.0) == [0.9]
    assert [cell.seed for cell in at_best.cells] == [0, 1]


def test_an_edge_of_the_grid_is_known(tmp_path):
    results = Results(tmp_path, [result("adam", rate, 0.5) for rate in (1e-4, 1e-3, 1e-2)])
    assert [is_at_the_edge(results, "adam", rate) for rate in (1e-4, 1e-3, 1e-2)] == [True, False, True]
    assert not is_at_the_edge(Results(tmp_path, [result("adam", 1e-4, 0.5)]), "adam", 1e-4)


def test_the_grids_of_both_are_whole(tmp_path):
    optimisers = experiment_of("optimisers", {"data": "microworld", "out": str(tmp_path / "o"), "seeds": 1}).cells()
    assert {one.recipe["optimiser"] for one in optimisers} == {"adamw", "adam", "sgd", "adafactor", "muon"}
    assert {one.contestant for one in optimisers if one.recipe.get("weight_decay") == 0} == {"adam", "sgd"}
    assert len(optimisers) == 5 * 3
    schedules = experiment_of("schedules", {"data": "microworld", "out": str(tmp_path / "s"), "seeds": 1}).cells()
    assert {one.recipe["schedule"] for one in schedules} == {"linear", "cosine", "inverse_sqrt", "constant", "plateau"}
    assert {(one.contestant.endswith(", warm-up"), one.recipe["warmup"]) for one in schedules} == {
        (False, 0.0),
        (True, 0.1),
    }
    assert len(schedules) == 5 * 2 * 2


def test_schedules_follow_their_courses(tmp_path):
    ways = ["constant", "linear, warm-up"]
    found = carried_out("schedules", tmp_path / "out", contestants=ways, rates=[0.01], seeds=1, warmup=2)
    expected = {"constant": Rate("constant", total=6), "linear, warm-up": Rate("linear", total=6, warmup=2)}
    for way, rate in expected.items():
        (cell,) = found.results.of(way)
        written = {row["step"]: row["lr"] for row in metrics(found, cell) if "lr" in row}
        assert written == pytest.approx({step: 0.01 * rate(step - 1) for step in (2, 4, 6)})
    assert {one.name for one in found.report.sections[1].figures} == set()  # one rate is no curve


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("optimisers", {"contestants": ["lion"]}, "no contestant 'lion'; there are: adamw, adam"),
        ("schedules", {"contestants": ["cosine, warm"]}, "no contestant 'cosine, warm'"),
        ("optimisers", {"rates": [0.0]}, "rates"),
        ("optimisers", {"arch": "seq2seq"}, "no contestant can take part"),
    ],
)
def test_wrong_requests_are_named(tmp_path, name, settings, message):
    with pytest.raises(ValueError, match=message):
        carried_out(name, tmp_path / "out", **settings)
