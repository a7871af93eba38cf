"""Translations are scored as sacreBLEU scores the whole corpus, with its signatures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu import corpus_bleu, corpus_chrf
from sacrebleu.metrics import BLEU, CHRF

from glassformer.tasks.metrics import BleuChrf, bleu_tokenizer

tokens = st.sampled_from(["Ein", "ein", "Mann", "isst", ",", ".", "3,5", "über-", "我", "喜欢猫", "。", "it's", "$5"])
lines = st.lists(tokens, max_size=12).map(" ".join)
corpora = st.lists(st.tuples(lines, lines), min_size=1, max_size=8)
ways = st.fixed_dictionaries(
    {"tokenize": st.sampled_from(["13a", "intl", "zh", "char", "none"]), "lowercase": st.booleans()}
)


@given(corpora, ways, st.booleans())
def test_scores_equal_sacrebleu_on_the_corpus(pairs, way, copied):
    hypotheses, references = (list(side) for side in zip(*pairs, strict=True))
    if copied:  # long matches, as good translations have
        hypotheses[: len(pairs) // 2 + 1] = references[: len(pairs) // 2 + 1]
    metric = BleuChrf(**way)
    for pair in zip(hypotheses, references, strict=True):
        metric.update([pair[0]], [pair[1]])
    case = str.lower if way["lowercase"] else str
    expected = {
        "bleu": corpus_bleu(hypotheses, [references], force=True, **way).score,
        "chrf": corpus_chrf(list(map(case, hypotheses)), [list(map(case, references))]).score,
    }
    assert metric.compute() == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20)
@given(ways)
def test_signatures_are_sacrebleus_own(way):
    theirs = BLEU(**way), CHRF(lowercase=way["lowercase"])
    for scorer in theirs:
        scorer.corpus_score(["a b"], [["a b"]])
    signatures = BleuChrf(**way).signatures()
    assert signatures == dict(zip(("bleu", "chrf"), (str(scorer.get_signature()) for scorer in theirs), strict=True))
    assert f"|tok:{way['tokenize']}|" in signatures["bleu"]
    assert signatures["bleu"].startswith(f"nrefs:1|case:{'lc' if way['lowercase'] else 'mixed'}|")


def test_a_copy_is_perfect_and_silence_is_nothing():
    reference = ["Ein Mann isst einen Apfel ."]
    for hypothesis, score in ((reference, 100), ([""], 0)):
        metric = BleuChrf()
        metric.update(hypothesis, reference)
        assert metric.compute() == pytest.approx({"bleu": score, "chrf": score})


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (["我喜欢猫。", "OK，好的。"], "zh"),
        (["ein Mann", "我"], "13a"),
        (["ネコがすき"], "13a"),
        (["1, 2, 3"], "13a"),
        ([], "13a"),
    ],
)
def test_the_tokenizer_follows_the_language(references, tokenizer):
    assert bleu_tokenizer(references) == tokenizer


def test_chinese_needs_its_tokenizer(data):
    """A whole Chinese sentence is one word to 13a: one wrong character and BLEU sees nothing."""
    references = [line.split("\t")[1] for line in (data / "tatoeba" / "cmn.txt").read_text("utf-8").splitlines()[-200:]]
    way = bleu_tokenizer(references)
    hypotheses = [line[:-2] + line[-1] for line in references]
    scores = {}
    for tokenize in (way, "13a"):
        metric = BleuChrf(tokenize=tokenize)
        metric.update(hypotheses, references)
        scores[tokenize] = metric.compute()["bleu"]
    assert way == "zh"
    assert scores["zh"] > 80 > 20 > scores["13a"]


def test_what_cannot_be_scored_is_named():
    with pytest.raises(ValueError, match="^tokenize must be one of 13a, intl, zh, char, none, not 'flores200'$"):
        BleuChrf(tokenize="flores200")
    with pytest.raises(ValueError, match="^2 translations need as many references, not 1$"):
        BleuChrf().update(["a", "b"], ["a"])
