"""Attention: what is measured of each contestant is what sacreBLEU, hands and other code say it is."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sacrebleu.metrics import BLEU

import glassformer as gf
from glassformer.compare.alignment_error import (
    GoldAlignment,
    alignment_error,
    between_spaces,
    check_gold,
    links_of,
    read_gold,
)
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.experiments.attention import ALIGNMENTS, TRANSFORMER, buckets, chosen_to_show, num_words
from glassformer.data.examples import Parallel
from glassformer.jobs.align import Aligned, align

SOURCE, TARGET = "abcdefgh", "ABCDEFGH"
SOME = ["no attention", "bahdanau", TRANSFORMER]
SMALL = {"width": 16, "heads": 2, "transformer_layers": 1, "seeds": 1, "jobs": 0, "device": "cpu"}
QUICK = {"vocab_size": 24, "tokenizer": "character", "batch_tokens": 256, "lr": 0.01}


def pairs_of(count, seed, longest=8):
    """Letters with spaces between, and the same in capitals."""
    draw = random.Random(seed)
    rows = [[draw.randrange(len(SOURCE)) for _ in range(draw.randint(1, longest))] for _ in range(count)]
    return [(" ".join(SOURCE[n] for n in row), " ".join(TARGET[n] for n in row)) for row in rows]


def write_pairs(folder, name, pairs):
    for ending, side in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{ending}").write_text("\n".join(side) + "\n", encoding="utf-8")
    return [str(folder / f"{name}.{ending}") for ending in ("src", "tgt")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    pairs = {"data": pairs_of(60, 0), "dev": pairs_of(8, 1), "test": pairs_of(50, 2)}
    files = {name: write_pairs(folder, name, some) for name, some in pairs.items()}
    gold = [" ".join(f"{n}-{n}" for n in range(len(source.split()))) for source, _ in pairs["test"]]
    (folder / "gold.txt").write_text("\n".join(gold) + "\n")
    return folder, files, pairs["test"]


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    folder, files, _ = data
    out = tmp_path_factory.mktemp("out") / "attention"
    settings = {**SMALL, **files, "gold": str(folder / "gold.txt"), "bucket": 4, "shown": 2, "set": QUICK}
    return compare("attention", out=str(out), budget="12steps", contestants=SOME, **settings)


@pytest.mark.slow
def test_all_contestants_take_part(data, tmp_path):
    found = compare("attention", out=str(tmp_path / "all"), budget="3steps", **SMALL, **data[1], set=QUICK)
    assert [(one.contestant, one.state, one.error) for one in found.results.cells] == [
        (name, "done", None) for name in (*ALIGNMENTS, TRANSFORMER)
    ]


@pytest.mark.parametrize("contestant", ["no attention", "bahdanau"])
def test_bleu_by_length_is_sacrebleus(found, data, contestant):
    (cell,) = found.results.of(contestant)
    pipe = gf.pipeline("translation", found.folder / "cells" / cell.folder / "run", device="cpu")
    texts = [one["translation_text"] for one in pipe([source for source, _ in data[2]])]
    steps = cell.facts["by_length"]
    assert [(one["from"], one["to"]) for one in steps] == [(1, 4), (5, 8)]
    assert sum(one["examples"] for one in steps) == len(data[2])
    for step in steps:
        rows = [n for n, (source, _) in enumerate(data[2]) if step["from"] <= len(source.split()) <= step["to"]]
        score = BLEU().corpus_score([texts[n] for n in rows], [[data[2][n][1] for n in rows]]).score
        assert step["bleu"] == pytest.approx(score, abs=1e-6)
        assert step["words"] == pytest.approx(np.mean([len(data[2][n][0].split()) for n in rows]))


def test_alignments_are_shares_of_attention_and_aer_is_theirs(found, data):
    for cell in found.results.done:
        if cell.contestant == "no attention":
            assert set(cell.facts) == {"by_length"}
            continue
        assert len(cell.facts["alignments"]) == 2
        for one in cell.facts["alignments"]:
            weights = np.array(one["weights"])
            assert weights.shape == (len(one["target"]), len(one["source"]))
            assert (weights >= 0).all()
            assert (weights.sum(1) <= 1.002).all()
            assert sorted(map(tuple, one["sure"])) == [(n, n) for n in range(len(one["source"]))]
        assert 0 <= cell.facts["aer"] <= 1
        # every source word has one gold link and every target word one found: AER is the share of words that miss it
        pipe = gf.pipeline("translation", found.folder / "cells" / cell.folder / "run", device="cpu")
        aligned = align(pipe, data[2])
        hits = sum(link.source == link.target for one in aligned for link in one.links())
        assert cell.facts["aer"] == pytest.approx(1 - hits / sum(len(one.target) for one in aligned))


def test_the_report_has_its_sections_and_figures(found):
    report = found.report
    assert [section.title.en for section in report.sections] == ["Scores", "By length of the source", "Alignments"]
    assert {path.name for path in found.folder.glob("*.svg")} == {
        *("scores.svg", "by-length.svg", "alignment-1.svg", "alignment-2.svg")
    }
    lengths, alignments = report.sections[1:]
    cell = found.results.of("bahdanau")[0]
    row = next(row for row in lengths.tables[0].rows if row.entries[0].text == "bahdanau")
    assert [entry.text for entry in row.entries[1:]] == [f"{one['bleu']:.4g}" for one in cell.facts["by_length"]]
    assert alignments.figures[0].svg.count('class="name"') == 2
    assert alignments.figures[0].svg.count('class="frame"') == 2 * len(cell.facts["alignments"][0]["sure"])
    assert f"{100 * cell.facts['aer']:.1f}" in {row.entries[1].text for row in alignments.tables[0].rows}
    told = " ".join(one.en for one in report.findings)
    assert "Sources of 1–4 words: " in told
    assert "Sources of 5–8 words: " in told
    assert "AER" in told
    assert all(one.zh for one in report.findings)
    lines = [json.loads(line) for line in (found.folder / "results.jsonl").read_text().splitlines()]
    assert [one["facts"] for one in lines] == [json.loads(json.dumps(one.facts)) for one in found.results.cells]


def test_what_differs_between_contestants_is_their_attention_alone(data, tmp_path):
    cells = experiment_of("attention", {**data[1], "out": str(tmp_path / "x")}).cells()
    configs = {cell.contestant: dict(cell.recipe["config"]) for cell in cells if cell.contestant != TRANSFORMER}
    assert {name: config.pop("attention") for name, config in configs.items()} == ALIGNMENTS
    assert len({json.dumps(config) for config in configs.values()}) == 1
    assert len(cells) == 6 * 3


def test_a_bidirectional_encoder_leaves_dot_out_with_the_reason(data, tmp_path):
    cells = experiment_of("attention", {**data[1], "out": str(tmp_path / "x"), "bidirectional": True}).cells()
    assert {cell.contestant: cell.reason for cell in cells if cell.reason} == {
        "luong dot": "dot compares states of one width, and those of a bidirectional encoder are twice as wide"
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "text-classification"}, "attention compares ways to translate, not text-classification"),
        ({"gold": "nowhere.txt"}, "nowhere.txt is not there; gold is a file of alignments"),
        ({"contestants": ["luong"]}, "there is no contestant 'luong'; there are: no attention, bahdanau"),
        ({"bucket": 0}, "bucket"),
        ({"kind": "transformer"}, "kind"),
    ],
)
def test_bad_settings_are_named(data, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        experiment_of("attention", {**data[1], "out": str(tmp_path / "x"), **changes}).cells()


def test_buckets_hold_every_example_once_and_never_few():
    draw = random.Random(0)
    for width, count, longest in ((1, 300, 30), (5, 200, 30), (5, 19, 30), (50, 100, 30), (5, 200, 16), (5, 90, 60)):
        pairs = [Parallel("a " * draw.randint(1, longest), "b") for _ in range(count)]
        found = buckets(pairs, width)
        assert sorted(n for one in found for n in one.chosen) == list(range(count))
        assert len(found) == 1 or min(len(one.chosen) for one in found) >= 20
        lengths = num_words(pairs)
        for one in found:
            assert all(one.first <= lengths[n] <= one.last for n in one.chosen)
        assert all(before.last + 1 == after.first for before, after in pairwise(found))


def test_sources_without_spaces_are_measured_in_characters():
    assert num_words([Parallel("猫坐在垫子上。")]) == [7]
    assert num_words([Parallel("the cat sat")]) == [3]


def test_sentences_that_can_be_drawn_are_shown():
    pairs = [Parallel("a " * n) for n in (1, 30, 6, 9, 14)]
    assert chosen_to_show(pairs, 2) == [2, 3]
    assert chosen_to_show(pairs[:2], 1) == [0]


# Gold alignments.


def test_gold_is_read_and_the_error_is_that_of_och_and_ney(tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1 1p2\n\n2?0\n")
    gold = read_gold(tmp_path / "gold")
    sure = frozenset({(0, 0), (1, 1)})
    assert gold == [
        GoldAlignment(sure, sure | {(1, 2)}),
        GoldAlignment(frozenset(), frozenset()),
        GoldAlignment(frozenset(), frozenset({(2, 0)})),
    ]
    found = [{(0, 0), (1, 2), (0, 1)}, set(), {(2, 0)}]
    # by hand: |A ∩ S| = 1, |A ∩ P| = 2 + 1, |A| = 4, |S| = 2
    assert alignment_error(found, gold) == pytest.approx(1 - (1 + 3) / (4 + 2))
    assert alignment_error([set(sure), set(), set()], gold) == 0
    assert alignment_error([], []) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0 1:1\n0-0\n", "line 1: '1:1' is no link; write 0-1"),
        ("0-0\n", "gold has 1 lines for 2 pairs"),
        ("0-0\n0-2\n", "line 2: the link 0-2 is outside a source of 1 words and a target of 2"),
    ],
)
def test_bad_gold_is_named(tmp_path, text, message):
    (tmp_path / "gold").write_text(text)
    with pytest.raises(ValueError, match=message):
        check_gold(read_gold(tmp_path / "gold"), [("a b", "c d"), ("e", "f g")])


def test_what_a_tokenizer_parted_is_joined_again():
    weights = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    aligned = Aligned(["can", "'t", "go"], ["geht", "nicht", "."], weights)
    found = between_spaces(aligned, "can't go", "geht nicht.")
    assert (found.source, found.target) == (["can't", "go"], ["geht", "nicht."])
    assert_allclose(found.weights, [[0.75, 0.25], [(0.3 + 0.6) / 2, (0.7 + 0.4) / 2]])
    assert links_of(found) == {(0, 0), (1, 1)}
