"""Layers and heads: what a head is worth is what the weights without it score, and the page shows the whole grid."""

import csv
import random

import pytest
import torch
from sacrebleu.metrics import BLEU

import glassformer as gf
from glassformer.compare.cell import CellResult
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.experiments.layers_heads import AXES, attention_title, is_an_end, smallest
from glassformer.compare.results import Results
from glassformer.compare.statistics import Difference
from glassformer.inspect.heads import attentions_of
from glassformer.tasks.metrics.intervals import Interval

GRID = {"layers": [1, 2], "heads": [2, 3], "widths": [16], "head_examples": 40}
NO_DROPOUT = {"config.hidden_dropout_prob": 0.0, "config.attention_probs_dropout_prob": 0.0}
LETTERS = "abcdefgh"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Letters; the label says whether an a is among them."""
    path, draw = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, count in (("data", 200), ("dev", 60)):
        texts = [" ".join(draw.choices(LETTERS, k=draw.randint(3, 8))) for _ in range(count)]
        with (path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((text, str("a" in text)) for text in texts)])
    return {name: str(path / f"{name}.csv") for name in ("data", "dev")}


@pytest.fixture(scope="module")
def found(labelled, tmp_path_factory):
    out = str(tmp_path_factory.mktemp("out") / "grid")
    settings = {**labelled, **GRID, "out": out, "seeds": 1, "device": "cpu", "budget": "80steps"}
    learnt = {"lr": 3e-3, "batch_size": 32, "vocab_size": 20, "tokenizer": "character", **NO_DROPOUT}
    return compare("layers-heads", **settings, jobs=0, set=learnt)


def without(model, name, number):
    """The output layer of an attention reads nothing of one head."""
    part = attentions_of(model)[name]
    width = part.output.in_features // part.heads
    with torch.no_grad():
        part.output.weight[:, number * width : (number + 1) * width] = 0


def test_every_cell_is_there_and_what_cannot_be_has_its_reason(found):
    states = {one.contestant: (one.state, dict(one.place), one.error) for one in found.results.cells}
    reason = "a width of 16 cannot be shared equally by 3 heads"
    assert states == {
        f"L{layers} H{heads} W16": (
            *("done" if heads == 2 else "skipped", {"layers": layers, "heads": heads, "width": 16}),
            None if heads == 2 else reason,
        )
        for layers in (1, 2)
        for heads in (2, 3)
    }


def test_a_head_costs_what_the_weights_without_it_lose(found, labelled):
    (cell,) = found.results.of("L2 H2 W16")
    folder = found.folder / "cells" / cell.folder / "run"
    dev = gf.pipeline("text-classification", folder, device="cpu").read([labelled["dev"]]).examples
    chosen = random.Random(0).sample(dev, 40)

    def accuracy(*gone):
        pipe = gf.pipeline("text-classification", folder, device="cpu")
        for name, number in gone:
            without(pipe.model, name, number)
        answers = pipe([one.text for one in chosen])
        return 100 * sum(one["label"] == example.label for one, example in zip(answers, chosen, strict=True)) / 40

    facts = cell.facts
    assert facts["examples"] == 40
    assert facts["score"] == pytest.approx(accuracy())
    assert facts["attentions"] == ["layers.0.attention", "layers.1.attention"]
    drops = [facts["heads"][row][n] for row in range(2) for n in range(2)]
    heads = [(name, n) for name in facts["attentions"] for n in range(2)]
    by_hand = [accuracy() - accuracy(head) for head in heads]
    assert drops == pytest.approx(by_hand)
    assert facts["dispensable"] == sum(drop < 0.1 for drop in by_hand) / 4
    assert facts["pruned"]["heads"] == [0, 1, 2, 3, 4]
    assert facts["pruned"]["scores"][:2] == pytest.approx([accuracy(), accuracy() - min(by_hand)])
    assert facts["pruned"]["scores"][-1] == pytest.approx(accuracy(*heads))
    assert accuracy(*heads) < accuracy()  # it learnt something, and by its attention


def test_the_report_shows_the_grid_and_the_heads(found):
    titles = [section.title.en for section in found.report.sections]
    assert titles == ["Scores", "Cost", "Heads that can be ablated", "Not measured"]
    names = {path.stem for path in found.folder.glob("*.svg")}
    assert names == {
        *("accuracy-width-16", "training-seconds-width-16", "million-parameters-width-16"),
        *("percent-of-heads-to-spare-width-16", "heads", "pruning"),
    }
    scores = found.report.sections[0].figures[0].svg
    for cell in found.results.done:
        shown = f"<title>{cell.place['layers']}, 2: {100 * cell.scores['dev']['accuracy']:.10g}</title>"
        assert shown in scores
    best = found.results.best()
    told = [one.en for one in found.report.findings]
    assert told[0] == f"{best} has the best mean."  # there is no test, for whose sake it would be chosen on dev
    assert any("between L" in one or "is above L" in one for one in told)
    assert "heads of " + best in told[-2]
    assert "no test data" in told[-1]
    assert all(one.zh for one in found.report.findings)


@pytest.mark.slow
def test_a_head_of_a_translator_costs_bleu(tmp_path):
    draw = random.Random(0)
    pairs = [" ".join(draw.choices(LETTERS, k=draw.randint(1, 4))) for _ in range(400)]
    for name, some in (("train", pairs[:360]), ("dev", pairs[360:])):
        (tmp_path / f"{name}.src").write_text("\n".join(some) + "\n")
        (tmp_path / f"{name}.tgt").write_text("\n".join(some).upper() + "\n")
    sides = {name: [str(tmp_path / f"{name}.{end}") for end in ("src", "tgt")] for name in ("train", "dev")}
    found = compare(
        "layers-heads", task="translation", data=sides["train"], dev=sides["dev"], out=str(tmp_path / "out"), seeds=1,
        jobs=0, device="cpu", budget="300steps", layers=[1], heads=[2], widths=[32],
        set={"tokenizer": "character", "vocab_size": 40, "batch_tokens": 512, "lr": 5e-3},
    )  # fmt: skip
    (cell,) = found.results.done
    folder = found.folder / "cells" / cell.folder / "run"
    dev = list(zip(*((tmp_path / f"dev.{end}").read_text().split("\n")[:-1] for end in ("src", "tgt")), strict=True))
    chosen = random.Random(0).sample(dev, len(dev))
    for row, name in enumerate(cell.facts["attentions"]):
        for number in range(2):
            pipe = gf.pipeline("translation", folder, device="cpu")
            without(pipe.model, name, number)
            texts = [one["translation_text"] for one in pipe([source for source, _ in chosen])]
            bleu = BLEU(force=True).corpus_score(texts, [[target for _, target in chosen]]).score
            assert cell.facts["heads"][row][number] == pytest.approx(cell.facts["score"] - bleu, abs=1e-6)
    assert max(map(max, cell.facts["heads"])) > 1
    assert found.report.sections[0].figures[0].name == "bleu-width-32"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"task": "text-generation"},
            "can do text-classification, token-classification, translation, not 'text-generation'",
        ),
        ({"heads": []}, "at least one number each of layers, heads and widths"),
        ({"layers": [0]}, "layers"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_bad_settings_are_named(labelled, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        experiment_of("layers-heads", {**labelled, "out": str(tmp_path / "x"), **changes}).cells()


def test_heads_that_all_are_too_many_leave_nothing_to_compare(labelled, tmp_path):
    with pytest.raises(ValueError, match="no contestant can take part: L1 H3 W16: a width of 16"):
        compare("layers-heads", **labelled, out=str(tmp_path / "x"), layers=[1], heads=[3], widths=[16])


def test_without_examples_no_head_is_ablated(labelled, tmp_path):
    cells = experiment_of("layers-heads", {**labelled, "out": str(tmp_path / "x"), "head_examples": 0}).cells()
    assert {cell.measure for cell in cells} == {None}


def test_attentions_are_named_as_people_count_layers():
    named = ("layers.0.attention", "encoder.layers.1.attention", "decoder.layers.2.cross_attention")
    assert [*map(attention_title, named)] == ["layer 1", "encoder 2", "decoder 3 to source"]


def grid_of(tmp_path, sizes):
    """Cells with so many parameters at each place."""
    cells = [
        CellResult(
            contestant=" ".join(map(str, place)), seed=0, place=dict(zip(AXES, place, strict=True)), state="done",
            folder="x", cost={"parameters": size, "train_seconds": 1.0},
        )
        for place, size in sizes.items()
    ]  # fmt: skip
    return Results(tmp_path, cells)


def test_the_smallest_that_is_not_behind_is_named(tmp_path):
    results = grid_of(tmp_path, {(1, 1, 8): 10.0, (2, 1, 8): 20.0, (4, 1, 8): 40.0})
    behind = {"1 1 8": Difference(3.0, Interval(1.0, 5.0), 0.01), "2 1 8": Difference(1.0, Interval(-1.0, 3.0), 0.3)}
    (told,) = smallest(results, "4 1 8", behind)
    assert told.en == "2 1 8 is the smallest that is not shown to be behind it, with 50% of its parameters."
    assert smallest(results, "1 1 8", {}) == []


def test_only_the_ends_of_an_axis_are_compared_with_the_best(tmp_path):
    results = grid_of(tmp_path, {(layers, 1, 8): 1.0 for layers in (1, 2, 4, 8)})
    assert [is_an_end(results, f"{layers} 1 8", "8 1 8") for layers in (1, 2, 4)] == [True, False, True]
