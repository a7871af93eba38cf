"""Entities equal seqeval's strict and default modes and a search through all spans; where the readings differ."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.metrics import Entities
from glassformer.tasks.metrics.entities import conlleval_entities, strict_entities

TYPES = ["PER", "LOC", "work-of-art"]
any_tags = st.lists(st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in TYPES)]), max_size=9)


def as_tags(spans):
    """Well-formed IOB2 for a list of (type or None, length)."""
    return [
        tag
        for kind, length in spans
        for tag in (["O"] * length if kind is None else [f"B-{kind}"] + [f"I-{kind}"] * (length - 1))
    ]


good_tags = st.lists(st.tuples(st.sampled_from([None, *TYPES]), st.integers(1, 3)), max_size=5).map(as_tags)


def paired(tags):
    """Sentences of predicted and gold tags, as many of the one as of the other."""
    one = st.tuples(tags, tags).map(lambda pair: tuple(side[: min(map(len, pair))] for side in pair))
    return st.lists(one, min_size=1, max_size=6)


def spans_by_search(tags, opens):
    """All entities, by trying every span: it opens, goes on inside, and cannot go on further."""
    found = set()
    for start in range(len(tags)):
        for stop in range(start + 1, len(tags) + 1):
            kind = tags[start].partition("-")[2]
            inside = all(tag == f"I-{kind}" for tag in tags[start + 1 : stop])
            more = stop < len(tags) and tags[stop] == f"I-{kind}"
            if opens(tags, start) and inside and not more:
                found.add((kind, start, stop))
    return found


def opens_strictly(tags, place):
    return tags[place].startswith("B-")


def opens_for_conlleval(tags, place):
    """startOfChunk of conlleval, for the tags of IOB: a B, or an I after an O or after another type."""
    prefix, _, kind = tags[place].partition("-")
    before, _, kind_before = (tags[place - 1] if place else "O").partition("-")
    return prefix == "B" or (prefix == "I" and (before == "O" or kind_before != kind))


@given(any_tags)
def test_entities_are_those_found_by_search(tags):
    assert strict_entities(tags) == spans_by_search(tags, opens_strictly)
    assert conlleval_entities(tags) == spans_by_search(tags, opens_for_conlleval)


def scored(sentences):
    metric = Entities()
    metric.update(*zip(*sentences, strict=True))
    return metric


@given(paired(any_tags))
def test_both_readings_equal_seqeval(sentences):
    """seqeval's default mode reads tags as conlleval does."""
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.scheme import IOB2

    predicted, gold = ([list(tags) for tags in side] for side in zip(*sentences, strict=True))
    scores = scored(sentences).compute()
    strict = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
    for name, theirs in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, at the age of seqeval
            assert scores[f"{name}_conlleval"] == pytest.approx(theirs(gold, predicted, zero_division=0))
            if any(any(tag[0] == "B" for tag in tags) for tags in gold + predicted):  # else it fails by itself
                assert scores[name] == pytest.approx(theirs(gold, predicted, **strict))
            else:
                assert scores[name] == 0


@given(
    paired(any_tags).filter(lambda sentences: any(map(strict_entities, (tags for pair in sentences for tags in pair))))
)
def test_each_type_equals_seqeval(sentences):
    from seqeval.metrics.v1 import precision_recall_fscore_support
    from seqeval.scheme import IOB2

    predicted, gold = ([list(tags) for tags in side] for side in zip(*sentences, strict=True))
    report = scored(sentences).report()
    present = sorted({kind for tags in gold + predicted for kind, _, _ in strict_entities(tags)})
    theirs = precision_recall_fscore_support(gold, predicted, scheme=IOB2, zero_division=0)
    for place, kind in enumerate(present):
        assert list(report[kind].values()) == pytest.approx([column[place] for column in theirs])


@given(paired(good_tags))
def test_the_readings_agree_on_well_formed_tags(sentences):
    metric = scored(sentences)
    assert metric.report() == metric.report(conlleval=True)
    assert metric.compute()["f1"] == metric.compute()["f1_conlleval"]


DIFFERENT = [
    (["O", "I-PER", "I-PER"], set(), {("PER", 1, 3)}),
    (["I-PER", "B-PER"], {("PER", 1, 2)}, {("PER", 0, 1), ("PER", 1, 2)}),
    (["B-PER", "I-LOC"], {("PER", 0, 1)}, {("PER", 0, 1), ("LOC", 1, 2)}),
    (["B-PER", "I-LOC", "I-PER"], {("PER", 0, 1)}, {("PER", 0, 1), ("LOC", 1, 2), ("PER", 2, 3)}),
]


@pytest.mark.parametrize(
    ("tags", "strict", "conlleval"),
    DIFFERENT,
    ids=lambda value: " ".join(map(str, sorted(value) if isinstance(value, set) else value)),
)
def test_where_the_readings_differ(tags, strict, conlleval):
    assert strict_entities(tags) == strict
    assert conlleval_entities(tags) == conlleval


def test_a_guess_that_opens_with_i_counts_for_conlleval_only():
    metric = scored([(["I-PER", "O", "B-LOC"], ["B-PER", "O", "B-LOC"])])
    assert metric.compute() == pytest.approx(
        {
            "precision": 1.0,
            "recall": 0.5,
            "f1": 2 / 3,
            "precision_conlleval": 1.0,
            "recall_conlleval": 1.0,
            "f1_conlleval": 1.0,
            "accuracy": 2 / 3,
        }
    )
    assert metric.report()["PER"] == {"precision": 0, "recall": 0, "f1": 0, "support": 1}
    assert metric.report(conlleval=True)["PER"] == {"precision": 1, "recall": 1, "f1": 1, "support": 1}


def test_no_entity_at_all_scores_nothing_but_its_tags():
    scores = scored([(["O", "O"], ["O", "O"]), ([], [])]).compute()
    assert scores.pop("accuracy") == 1.0
    assert set(scores.values()) == {0.0}


def test_bad_tags_and_lengths_are_named():
    with pytest.raises(ValueError, match="^the tag 'E-PER' is not IOB2; give O, B-TYPE or I-TYPE$"):
        scored([(["E-PER"], ["O"])])
    with pytest.raises(
        ValueError, match="^a sentence of 2 words has 1 predicted tags; give each word one, O for none$"
    ):
        scored([(["O"], ["O", "O"])])
