"""Windows over a context: none of its tokens is left out, and every answer is an exact part of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from vocabularies import TEXT, asked, small_tokenizer

from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.tasks.question_answering import QuestionAnswering
from glassformer.tasks.spans import answer_tokens

KINDS = ("wordpiece", "roberta")
odd = st.sampled_from(
    ["Anna", "New York", "  ", "\n", "\u200b", "北京", "naïve", "unbelievably", "😀", "1984-85", "\x07"]
)
texts = st.lists(odd | st.text(max_size=6), max_size=40).map(" ".join)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3), st.integers(8, 40), st.integers(0, 50))
def test_no_token_of_a_context_is_left_out(kind, pairs, max_length, doc_stride):
    tokenizer = small_tokenizer(kind)
    task = QuestionAnswering(tokenizer, max_length=max_length, doc_stride=doc_stride)
    items = task.encode([SquadExample("", question, context) for question, context in pairs])
    assert items.lengths.max() <= max_length
    for number, (_, context) in enumerate(pairs):
        ids = tokenizer(context, add_special_tokens=False)["input_ids"]
        rows = np.flatnonzero(items.owners == number)
        seen = [token for row in rows for token in range(*items.spans[row])]
        assert sorted(set(seen)) == list(range(len(ids)))
        for row in rows:
            start, stop = items.spans[row]
            first = items.before[row]
            assert items.rows[row][first : first + stop - start].tolist() == ids[start:stop]
        for one, next_one in pairwise(rows):
            space = items.spans[one, 1] - items.spans[one, 0]
            assert items.spans[one, 1] - items.spans[next_one, 0] >= min(doc_stride, space // 2)


@pytest.mark.parametrize("kind", KINDS)
@given(texts, texts, st.integers(8, 40))
def test_the_mask_and_the_characters_are_those_of_the_context(kind, question, context, max_length):
    """Every token of a window, and every span of them, is an exact part of the context."""
    task = QuestionAnswering(small_tokenizer(kind), max_length=max_length, doc_stride=4)
    items = task.encode([SquadExample("", question, context)])
    offsets = task.tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    inside = items.inside(np.arange(len(items.rows)))
    for row in range(len(items.rows)):
        places = inside[row].nonzero()[:, 0].tolist()
        tokens = range(*items.spans[row])
        assert len(places) == len(tokens)
        for place, token in zip(places, tokens, strict=True):
            for last, last_token in zip(places, tokens, strict=True):
                if place <= last:
                    start, end = items.characters(row, place, last)
                    whole = context[offsets[token][0] : offsets[last_token][1]]
                    assert context[start:end] == whole.strip()


@given(st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=30), st.integers(10, 40))
def test_a_token_is_spelt_as_its_characters(words, max_length):
    context = " ".join(words)
    task = QuestionAnswering(small_tokenizer("wordpiece"), max_length=max_length, doc_stride=5)
    items = task.encode([SquadExample("", "Who?", context)])
    for row in range(len(items.rows)):
        first, size = int(items.before[row]), int(np.diff(items.spans[row])[0])
        for place, token in enumerate(task.tokenizer.convert_ids_to_tokens(items.rows[row][first : first + size])):
            start, end = items.characters(row, first + place, first + place)
            assert token in ("[UNK]", context[start:end], f"##{context[start:end]}")


@pytest.mark.parametrize("kind", KINDS)
@given(texts, st.data())
def test_an_answer_is_covered_by_the_fewest_tokens(kind, context, data):
    assume(context)
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    task = QuestionAnswering(small_tokenizer(kind), max_length=40)
    items = task.encode([SquadExample("", "Who?", context, (SquadAnswer(context[start:end], start),))])
    starts, ends = items.contexts[0].starts, items.contexts[0].ends
    touching = [token for token in range(len(starts)) if starts[token] < end and ends[token] > start]
    wanted = (touching[0], touching[-1]) if touching else None
    assert answer_tokens(items.contexts[0], SquadAnswer(context[start:end], start)) == wanted
    for row, (first, last) in enumerate(items.targets.tolist()):
        held = wanted is not None and items.spans[row, 0] <= wanted[0] and wanted[1] < items.spans[row, 1]
        shift = items.before[row] - items.spans[row, 0]
        assert (first, last) == ((wanted[0] + shift, wanted[1] + shift) if held else (0, 0))


@given(st.integers(0, 999))
def test_a_short_answer_is_whole_in_some_window(seed):
    task = QuestionAnswering(small_tokenizer("wordpiece"), max_length=64, doc_stride=25)
    examples = asked(seed, without=0.0)
    items = task.encode(examples)
    for number, one in enumerate(examples):
        rows = [row for row in np.flatnonzero(items.owners == number) if items.targets[row, 0]]
        first, last = answer_tokens(items.contexts[number], one.answers[0])
        assert rows or last - first + 1 > 25
        for row in rows:
            start, end = items.characters(row, *items.targets[row])
            assert one.context[start:end] == one.answers[0].text


def test_an_answer_that_is_no_token_is_reported(caplog):
    task = QuestionAnswering(small_tokenizer("wordpiece"))
    items = task.encode([SquadExample("", "Who?", "Anna \u200b met", (SquadAnswer("\u200b", 5),))])
    assert items.targets.tolist() == [[0, 0]]
    assert "1 questions have answers that are no tokens" in caplog.text


def test_a_long_question_is_cut_and_counted():
    task = QuestionAnswering(small_tokenizer("wordpiece"), max_length=30, max_question_length=5)
    question = "Anna met Anna met Anna met"
    items = task.encode([SquadExample("", question, "Anna met")])
    assert items.num_truncated == len(task.tokenizer(question, add_special_tokens=False)["input_ids"]) - 5
