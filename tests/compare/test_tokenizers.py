"""Tokenizers side by side: facts by hand, bits a byte against an independent pass over the model."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.compare.experiment import compare, experiment_of
from glassformer.compare.experiments.tokenizers import cut, facts_of, unknown_bytes, words
from glassformer.data import microworld
from tasks.language import tokenizer_of

pytestmark = pytest.mark.slow  # a grid of trainings; those of test_ladder stand for them in the quick suite

TINY = {"config": {"n_embd": 16, "n_layer": 1, "n_head": 2}, "batch_tokens": 512}
UNSEEN = "Żółw — 龜!"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Text in two languages, and some of it held out with letters that training lacks."""
    folder = tmp_path_factory.mktemp("texts")
    for language in ("en", "zh"):
        for split, seed in (("train", 0), ("dev", 1)):
            texts = [one.text for one in microworld.examples("documents", 30, seed=seed, language=language)]
            lines = "\n".join([*texts, *([UNSEEN] if split == "dev" else [])])
            (folder / f"{split}.{language}.txt").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def found(files, tmp_path_factory):
    names = {split: [str(files / f"{split}.{one}.txt") for one in ("en", "zh")] for split in ("train", "dev")}
    return compare(
        "tokenizers", data=names["train"], dev=names["dev"], out=tmp_path_factory.mktemp("out") / "tokenizers",
        seeds=1, budget="4steps", sizes=[400], kinds=["characters", "wordpiece", "bpe"], set=TINY, jobs=0,
    )  # fmt: skip


def test_bits_a_byte_are_those_of_the_model(found, files):
    """Each piece between two end tokens, by a plain loop, unknown bytes at 8 bits each."""
    text = (files / "dev.en.txt").read_text(encoding="utf-8")
    pieces = [piece for line in text.splitlines() for piece in cut(line)]
    for cell in found.results.at(language="train.en.txt").done:
        folder = found.folder / "cells" / cell.folder / "run"
        model, tokenizer = gf.load(folder), gf.load_tokenizer(folder)
        end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
        nats = 0.0
        for piece in pieces:
            ids = torch.tensor([end, *tokenizer(piece, add_special_tokens=False)["input_ids"], end])
            with torch.no_grad():
                logits = model(input_ids=ids[None, :-1]).logits[0]
            nats += float(F.cross_entropy(logits, ids[1:], reduction="sum"))
        lost = sum(unknown_bytes(tokenizer, piece) for piece in pieces)
        expected = (nats / math.log(2) + 8 * lost) / sum(len(piece.encode()) for piece in pieces)
        assert cell.scores["dev"]["bits_per_byte"] == pytest.approx(expected, rel=1e-4)
        assert (lost > 0) == (cell.contestant != "bpe 400")


def test_all_are_judged_on_the_same_pieces(found):
    here = found.results.at(language="train.en.txt")
    assert here.metric == "bits_per_byte"
    assert here.contestants == ["characters", "wordpiece 400", "bpe 400"]
    assert here.difference("characters", "bpe 400").interval is not None
    assert len({here.examples(cell).data for cell in here.done}) == 1


def test_the_report_has_a_section_for_each_language(found):
    titles = [section.title.en for section in found.report.sections]
    assert titles == ["Tokens a word by language", "train.en.txt", "train.zh.txt"]
    *findings, caution = found.report.findings
    assert all(one.en.startswith(("train.en.txt: ", "train.zh.txt: ")) for one in findings)
    assert caution.en.startswith("There is no test data")
    told = [one.en for one in found.report.findings if "come back" in one.en]
    assert len(findings) == 2 * (2 + 1)
    assert all("wordpiece 400 (" in one and "bpe" not in one for one in told)  # which drops spaces, as BPE does not
    assert len(told) == 2
    rows = found.report.sections[1].tables[0].rows
    characters = found.results.at(language="train.en.txt").of("characters")[0].facts
    assert [entry.text for entry in rows[0].entries][2] == f"{characters['tokens_per_word']:.3g}"
    assert "scores-train.en.txt.svg" in {path.name for path in found.folder.iterdir()}


def test_facts_are_counted_by_hand():
    tokenizer = tokenizer_of(["ab ab", "ba"], "character", 10)
    facts = facts_of(tokenizer, ["ab ba", "aé"])
    assert facts["tokens_per_word"] == 7 / 3
    assert facts["bytes_per_token"] == 8 / 7
    assert facts["unknown_rate"] == 1 / 7
    assert facts["restored_rate"] == 1 / 2
    assert unknown_bytes(tokenizer, "aé猫") == 2 + 3
    assert [words(text) for text in ("a bc  d", "北京 ab", "a猫b", " ")] == [3, 3, 3, 0]


@given(st.text(max_size=200), st.integers(1, 20))
def test_pieces_are_the_text_and_fit(text, longest):
    line = " ".join(text.split())
    found = list(cut(line, longest))
    assert all(0 < len(piece) <= longest for piece in found)
    assert "".join(found).replace(" ", "") == line.replace(" ", "")


def test_languages_are_files(tmp_path):
    def languages(**files):
        return experiment_of("tokenizers", {"out": str(tmp_path), **files}).languages()

    assert languages(data="a/x.txt") == [("x.txt", {"data": "a/x.txt"})]
    assert languages(data=["a.en", "a.de"], dev=["b.en", "b.de"])[1] == ("a.de", {"data": "a.de", "dev": "b.de"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ["sentencepiece"]}, "no kind of tokenizer 'sentencepiece'; there are: characters, wordpiece"),
        ({"sizes": []}, "at least one size"),
        ({"dev": ["x", "y"]}, "2 files of dev and 1 of data"),
        ({"data": ["a/x.txt", "b/x.txt"]}, "same name"),
        ({"budget": "3tokens"}, "too small for one step"),
    ],
)
def test_wrong_requests_are_named(files, tmp_path, settings, message):
    known = {"data": str(files / "train.en.txt"), "kinds": ["characters"], "out": tmp_path / "out", "seeds": 1}
    if "budget" in settings:
        found = compare("tokenizers", **known, **settings, jobs=0)
        assert message in found.results.cells[0].error
        return
    with pytest.raises(ValueError, match=message):
        compare("tokenizers", **{**known, **settings}, jobs=0)
