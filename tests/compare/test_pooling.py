"""Ways to one vector a text: scores against transformers' hidden states and scipy's ranks, pairs that can be paired."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.compare import results
from glassformer.compare.cell import CellResult
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.experiments.pooling import LAST_TWO, POOLINGS
from glassformer.compare.scoring import keep_scores
from glassformer.data import microworld
from glassformer.tasks.metrics import Correlation, ScoreSheet
from tasks.language import small_bert, tokenizer_of

LAYERS = 2


@pytest.fixture(scope="module")
def pairs():
    return microworld.examples("scored", 60, seed=2, language="en")


@pytest.fixture(scope="module")
def files(tmp_path_factory, pairs):
    """A folder with a BERT that has a pooler, and a file of pairs."""
    folder = tmp_path_factory.mktemp("pooling")
    tokenizer = tokenizer_of([text for one in pairs for text in (one.text, one.pair)], "wordpiece", 300)
    model = gf.save(small_bert(len(tokenizer), head=None), folder / "model", tokenizer=tokenizer)
    rows = [{"sentence1": one.text, "sentence2": one.pair, "score": one.label} for one in pairs]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return model, folder / "pairs.jsonl"


@pytest.fixture(scope="module")
def found(files, tmp_path_factory):
    model, data = files
    return compare("pooling", model=model, data=str(data), out=tmp_path_factory.mktemp("out") / "pooling", jobs=0)


def cosines(folder, pairs):
    """By contestant, each pair read by transformers alone, without padding."""
    from transformers import AutoModel

    tokenizer, model = gf.load_tokenizer(folder), AutoModel.from_pretrained(folder).eval()

    def vectors(text):
        with torch.no_grad():
            seen = model(**tokenizer([text], return_tensors="pt"), output_hidden_states=True)
        last, states = seen.last_hidden_state[0], seen.hidden_states
        yield from {"cls": last[0], "pooler": seen.pooler_output[0], "mean": last.mean(0)}.items()
        yield "max", last.amax(0)
        yield from (
            (f"mean of layer {layer}" if layer else "mean of the embeddings", state[0].mean(0))
            for layer, state in enumerate(states)
        )
        yield "mean of the last two layers", (states[-1] + states[-2])[0].mean(0) / 2

    sides = [[dict(vectors(text)) for text in texts] for texts in zip(*((p.text, p.pair) for p in pairs), strict=True)]
    return {
        name: [float(F.cosine_similarity(a[name], b[name], dim=0)) for a, b in zip(*sides, strict=True)]
        for name in sides[0][0]
    }


def test_every_way_is_scored_as_by_hand(found, files, pairs):
    from scipy.stats import pearsonr, spearmanr

    gold = [one.label for one in pairs]
    expected = cosines(files[0], pairs)
    assert found.results.contestants == list(expected)
    assert len(expected) == 4 + LAYERS + 1 + 1
    for name, values in expected.items():
        (cell,) = found.results.of(name)
        assert cell.scores["test"]["spearman"] == pytest.approx(spearmanr(values, gold).statistic, abs=2e-3)
        assert cell.scores["test"]["pearson"] == pytest.approx(pearsonr(values, gold).statistic, abs=1e-4)
        assert cell.facts == {"pairs": len(pairs)}
        rows = found.results.examples(cell).rows_of("spearman")
        torch.testing.assert_close(torch.tensor(rows[:, 0]), torch.tensor(values), atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.tensor(rows[:, 1]), torch.tensor(gold, dtype=torch.float32))


def test_differences_are_paired_over_pairs(found):
    same = found.results.difference(f"mean of layer {LAYERS}", "mean")
    assert same.ahead == pytest.approx(0, abs=1e-6)
    assert same.p == 1
    one = found.results.difference("mean", "pooler")
    assert one.interval is not None
    assert one.interval.low <= one.ahead <= one.interval.high


def test_the_scale_of_cosines_is_no_difference(tmp_path):
    """A test that exchanges answers must not be blind because one model's cosines all lie near 1."""
    random = np.random.default_rng(0)
    gold = random.random(200)
    close, near, far = (gold + noise * random.normal(size=200) for noise in (0.1, 0.1, 0.4))
    sheets = {"wide": close, "narrow": 0.95 + 0.01 * np.tanh(close), "other": 0.9 + 0.02 * near, "worse": far}
    cells = []
    for name, predicted in sheets.items():
        metric = Correlation()
        metric.update(predicted, gold)
        sheet = ScoreSheet(lambda _model, _batch: None, correlation=metric)
        sheet.order = list(range(len(gold)))
        (tmp_path / "cells" / name).mkdir(parents=True)
        found = keep_scores(tmp_path / "cells" / name, "spearman", sheet, gold.tolist())
        cells.append(
            CellResult(
                contestant=name, seed=0, place={}, state="done", folder=name, metric="spearman", scores=found.scores
            )
        )
    compared = results.Results(tmp_path, cells)
    same = compared.difference("wide", "narrow")
    assert (same.ahead, same.p) == (pytest.approx(0, abs=1e-9), 1)
    for score in ("spearman", "pearson"):
        assert not compared.difference("wide", "other", score).is_shown
        assert compared.difference("narrow", "worse", score).is_shown


def test_the_report_shows_every_way_and_every_layer(found):
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    (section,) = found.report.sections
    assert [row.entries[0].text for row in section.tables[0].rows] == found.results.contestants
    assert {one.name for one in section.figures} == {"scores", "layers"}
    assert page.count("<svg") == 2
    told = [one.en for one in found.report.findings]
    assert len(told) == len(POOLINGS) + 1  # the best against three ways, the last two layers and the best other layer
    assert all(any(way in one for one in told) for way in (*POOLINGS, LAST_TWO))
    seed = section.tables[0].rows[0].details[0][0]
    assert (found.folder / seed.link / "examples.npz").is_file()


def test_what_a_model_lacks_is_skipped_with_its_reason(files, tmp_path):
    tokenizer = gf.load_tokenizer(files[0])
    model = gf.save(small_bert(len(tokenizer), head=None, kind="distilbert"), tmp_path / "model", tokenizer=tokenizer)
    cells = experiment_of("pooling", {"model": model, "data": str(files[1]), "out": tmp_path / "out"}).cells()
    assert {one.contestant: one.reason for one in cells if one.reason} == {"pooler": f"{model} has no pooler"}
    assert len(cells) == len(POOLINGS) + LAYERS + 2


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({"seeds": 3}, None, "nothing is random in pooling"),
        ({"budget": "1m"}, None, "nothing is trained"),
        ({}, ["text,label", "a,1", "b,2"], "no second text"),
        ({}, ["sentence1,sentence2,score", "a,b,1", "b,c,1"], "no two different scores"),
        ({}, ["sentence1,sentence2,score", "a,b,good", "b,c,bad"], "not a finite number"),
        ({"model": "nowhere"}, None, "nowhere"),
    ],
)
def test_wrong_requests_are_named(files, tmp_path, settings, rows, message):
    data = tmp_path / "pairs.csv" if rows else files[1]
    if rows:
        data.write_text("\n".join(rows))
    with pytest.raises(ValueError, match=message):
        compare("pooling", **{"model": files[0], "data": str(data), "out": tmp_path / "out", "jobs": 0, **settings})
    assert not (tmp_path / "out").exists()
