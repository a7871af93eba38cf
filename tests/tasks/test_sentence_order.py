"""ALBERT's pretraining: pairs of one document in either order, masks of whole n-grams, and the loss of the paper."""

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from language import ROWS, learn, small_bert, tokenizer_of
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.examples import Document
from glassformer.data.masking import ngram_numbers, sentence_order_pairs, sentences_of
from glassformer.tasks.sentence_order import SentenceOrder
from glassformer.tasks.task import evaluate

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = [
    "the cat sat on the mat. the dog saw the cat. it ran.\nnobody laughed.",
    "a dog barked! the cats and dogs ran away. why? the mat was red.",
]
DOCUMENTS = [Document(text) for text in TEXTS]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(TEXTS, "wordpiece")


documents_of_numbers = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=9)


@given(sizes=st.lists(documents_of_numbers, min_size=1, max_size=3), limit=st.integers(2, 40), seed=st.integers(0, 99))
def test_pairs_are_stretches_of_one_document_in_either_order(sizes, limit, seed):
    number, documents = 0, []
    for document in sizes:
        documents.append([np.arange(number := number + 100, number + len(one)) for one in document])
        number += 1000
    pairs = list(sentence_order_pairs(documents, limit=limit, seed=seed))
    assert pairs == [] or all(len(one.first) and len(one.second) for one in pairs)
    for one in pairs:
        assert len(one.first) + len(one.second) <= limit
        before, after = (one.first, one.second) if one.follows else (one.second, one.first)
        assert before[-1] < after[0], "what came first in the document is first, or second where they were swapped"
        assert after[-1] - before[0] < 1000, "both are of one document"
    tokens = [token for one in pairs for token in (*one.first, *one.second)]
    assert len(tokens) == len(set(tokens)), "every token is in one pair at most"


def test_half_of_the_pairs_are_swapped_and_one_document_is_enough():
    document = [np.arange(4 * number, 4 * number + 4) for number in range(2000)]
    pairs = list(sentence_order_pairs([document], limit=16))
    assert len(pairs) == 500
    assert 0.45 < np.mean([one.follows for one in pairs]) < 0.55
    assert sum(len(one.first) + len(one.second) for one in pairs) == 8000
    (alone,) = sentence_order_pairs([[np.arange(5)]], limit=16, short=0.0)  # one sentence is cut in two
    assert sorted(map(len, alone[:2])) == [2, 3]


def test_ngrams_have_one_to_three_words_with_chances_of_one_over_n():
    words = np.arange(20_000)[None]
    numbers = ngram_numbers(words, np.array([7]), longest=3, seed=5)[0]
    assert (np.diff(numbers) >= 0).all()
    _, sizes = np.unique(numbers, return_counts=True)
    shares = np.bincount(sizes[:-1], minlength=4)[1:] / len(sizes)
    assert_close(torch.tensor(shares), torch.tensor([6, 3, 2]) / 11, atol=0.02, rtol=0, check_dtype=False)


@given(st.integers(0, 2**40), st.integers(0, 30), st.integers(1, 4))
def test_ngrams_depend_on_the_example_and_not_on_its_batch(seed, index, longest):
    words = np.array([[0, 0, 1, 2, 2, 3, 4, 5, 5, 6]])
    alone = ngram_numbers(words, np.array([index]), longest=longest, seed=seed)
    padded = np.concatenate([words, [[7, 8, 9]]], axis=1)
    both = ngram_numbers(np.concatenate([padded, padded]), np.array([99, index]), longest=longest, seed=seed)
    np.testing.assert_array_equal(both[1, :10], alone[0])
    assert (np.diff(alone[0])[[0, 3, 7]] == 0).all(), "a word is not torn apart"


def test_every_sentence_is_used_once_and_the_answer_is_the_order(tokenizer):
    task = SentenceOrder(tokenizer, max_length=24, copies=2)
    items = task.encode(DOCUMENTS)
    sep, own, seen = tokenizer.sep_token_id, 0, set()
    for index in range(len(items.lengths)):
        row = items.rows[index]
        middle, end = np.flatnonzero(row == sep)
        own += end - 2
        first, second = (
            " ".join(tokenizer.convert_ids_to_tokens(part.tolist())) for part in (row[1:middle], row[middle + 1 : end])
        )
        seen.add((first, second) if items.follows[index] else (second, first))
        assert task.batch(items, np.array([index])).targets["answers"].tolist() == [0 if items.follows[index] else 1]
    whole = sum(len(tokenizer.encode(one, add_special_tokens=False)) for text in TEXTS for one in sentences_of(text))
    assert own + items.num_truncated == 2 * whole
    for before, after in seen:
        assert any(f"{before} {after}" in " ".join(tokenizer.tokenize(text)) for text in TEXTS) or items.num_truncated


def test_a_pairs_loss_is_that_of_transformers_and_of_the_formula(tokenizer, tmp_path):
    """- mean log p(masked word) - log p(order), as the paper adds them."""
    task = SentenceOrder(tokenizer, max_length=24)
    model = small_bert(len(tokenizer), "pretraining", "albert", embedding_size=16).eval()
    gf.save(model, tmp_path, tokenizer=tokenizer)
    theirs = transformers.AlbertForPreTraining.from_pretrained(tmp_path).eval()
    items = task.encode(DOCUMENTS)
    for index in range(len(items.lengths)):
        batch = task.batch(items, np.array([index]), seed=4)
        ids, targets = batch.inputs["input_ids"], batch.targets
        labels = torch.full(ids.shape, -100).flatten().index_copy(0, targets["places"], targets["words"])
        found = theirs(**batch.inputs, labels=labels.view_as(ids), sentence_order_label=targets["answers"])
        assert_close(task.loss(model, batch), found.loss)
        words, order = (one[0].softmax(-1) for one in model(**batch.inputs))
        likely = [words[place, word] for place, word in zip(targets["places"], targets["words"], strict=True)]
        by_hand = -sum(torch.log(one) for one in likely) / len(likely) - torch.log(order[targets["answers"][0]])
        assert_close(task.loss(model, batch), by_hand)


@pytest.mark.slow
def test_a_small_albert_learns_both_lessons(tokenizer):
    """By heart: every order is told, and far more tokens than the most frequent are guessed."""
    task = SentenceOrder(tokenizer, max_length=20, copies=4)
    items = task.encode(DOCUMENTS)
    model = small_bert(len(tokenizer), "pretraining", "albert", embedding_size=16)
    scores = evaluate(learn(model, task, items, steps=200, lr=4e-3, rows=16), task, items, budget=ROWS).compute()
    assert scores["sop_accuracy"] == 1
    assert scores["mlm_accuracy"] > 0.4
