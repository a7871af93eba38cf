"""BERT's pretraining: pairs and masks, a loss that adds up, and the two scores."""

import pickle

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from language import ROWS, gradients, learn, small_bert, tokenizer_of
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.examples import Document
from glassformer.data.masking import sentences_of
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.tasks.pretraining import BertPretraining
from glassformer.tasks.task import evaluate

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = [
    "the cat sat on the mat. the dog saw the cat. it ran.\nnobody laughed.",
    "a dog barked! the cats and dogs ran away. why? the mat was red.",
    "one two three four five six seven eight nine ten eleven twelve. thirteen.",
]
DOCUMENTS = [Document(text) for text in TEXTS]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(TEXTS, "wordpiece")


@given(max_length=st.integers(5, 60), copies=st.integers(1, 3))
def test_rows_are_pairs_with_their_segments(tokenizer, max_length, copies):
    task = BertPretraining(tokenizer, max_length=max_length, copies=copies)
    items = task.encode(DOCUMENTS)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    own = 0
    for index in range(len(items.lengths)):
        row, kinds = items.rows[index], items.segments[index]
        assert len(row) == len(kinds) == items.lengths[index] <= max_length
        (middle, end), (start,) = np.flatnonzero(row == sep), np.flatnonzero(row == cls)
        assert (start, end) == (0, len(row) - 1)
        assert kinds.tolist() == [0] * (middle + 1) + [1] * (end - middle)
        own += middle - 1 + (end - middle - 1) * items.follows[index]
    whole = sum(len(tokenizer.encode(one, add_special_tokens=False)) for text in TEXTS for one in sentences_of(text))
    assert own + items.num_truncated == copies * whole


@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 99))
def test_parts_of_a_batch_add_up(tokenizer, data, seed):
    """Although a pair has many masked tokens or few, and one answer."""
    task, model = BertPretraining(tokenizer, max_length=20), small_bert(len(tokenizer), "pretraining")
    items = task.encode(DOCUMENTS)
    order = data.draw(st.permutations(range(len(items.lengths))))
    cut = data.draw(st.integers(1, len(order) - 1))
    whole = gradients(model, task, items, [order], seed)
    parts = gradients(model, task, items, [order[:cut], order[cut:]], seed)
    assert whole[1] == parts[1] == len(order)
    assert_close(parts[0], whole[0])
    assert_close(parts[2], whole[2], atol=1e-4, rtol=1e-4)


def test_a_pairs_loss_is_that_of_transformers(tokenizer, tmp_path):
    task, model = BertPretraining(tokenizer, max_length=24), small_bert(len(tokenizer), "pretraining").eval()
    gf.save(model, tmp_path, tokenizer=tokenizer)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path).eval()
    items = task.encode(DOCUMENTS)
    for index in range(len(items.lengths)):
        batch = task.batch(items, np.array([index]), seed=4)
        ids, targets = batch.inputs["input_ids"], batch.targets
        labels = torch.full(ids.shape, -100).flatten().index_copy(0, targets["places"], targets["words"])
        assert targets["answers"].tolist() == [0 if items.follows[index] else 1]
        found = theirs(**batch.inputs, labels=labels.view_as(ids), next_sentence_label=targets["answers"])
        assert_close(task.loss(model, batch), found.loss)


@torch.no_grad()
def test_scores_are_the_loss_and_its_parts_and_merge(tokenizer):
    task, model = BertPretraining(tokenizer, max_length=20), small_bert(len(tokenizer), "pretraining").eval()
    items = task.encode(DOCUMENTS)
    batch = task.batch(items, np.arange(len(items.lengths)))
    out = model(**batch.inputs)
    words = out.prediction_logits.flatten(0, 1)[batch.targets["places"]]
    expected = {
        "loss": task.loss(model, batch) / batch.count,
        "mlm_loss": torch.nn.functional.cross_entropy(words, batch.targets["words"]),
        "mlm_accuracy": (words.argmax(-1) == batch.targets["words"]).float().mean(),
        "nsp_accuracy": (out.seq_relationship_logits.argmax(-1) == batch.targets["answers"]).float().mean(),
    }
    sheet = evaluate(model, task, items, budget=ROWS, keep_examples=True, final=True)
    scores = sheet.compute()
    assert {name: scores[name] for name in expected} == pytest.approx({k: float(v) for k, v in expected.items()})
    assert all(low <= scores[name] <= high for name, (low, high) in sheet.intervals().items())
    shares = [pickle.loads(pickle.dumps(evaluate(model, task, items, budget=ROWS, share=(n, 2)))) for n in (0, 1)]
    shares[0].merge(shares[1])
    assert shares[0].compute() == pytest.approx(scores)


def test_masks_are_filled_by_the_head_of_words(tokenizer):
    model = small_bert(len(tokenizer), "pretraining").eval()
    (found,) = BertPretraining(tokenizer).predict(model, ["the [MASK] sat"], top_k=2)
    scores = model(**tokenizer("the [MASK] sat", return_tensors="pt")).prediction_logits[0, 2].softmax(-1)
    assert [one["token"] for one in found] == scores.topk(2).indices.tolist()


def test_shards_and_a_single_document_are_refused(tokenizer, tmp_path):
    task = BertPretraining(tokenizer)
    with pytest.raises(ValueError, match="shards do not tell where a sentence ends"):
        task.encode(tokenise_to_shards(DOCUMENTS, tokenizer, tmp_path))
    with pytest.raises(ValueError, match="to take a text from another one, give 2 or more"):
        task.encode(DOCUMENTS[:1])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["One. Two.\n\nThree.\n"], ["One. Two.", "Three."]),  # a file of blocks
        (["\n = A = \n\nOne.\n\nTwo.\n\n = B = \n\nThree.\n"], ["= A = \n\nOne.\n\nTwo.", "= B = \n\nThree."]),
        (["One.\n\nTwo.\n", "Three.\n"], ["One.\n\nTwo.", "Three."]),  # files that are documents
    ],
)
def test_documents_are_found_where_no_unit_is_asked_for(tmp_path, texts, found):
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    assert [one.text.strip() for one in BertPretraining.read([str(tmp_path)]).examples] == found
    lines = BertPretraining.read([str(tmp_path)], unit="line").examples
    assert len(lines) == sum(bool(line.strip()) for text in texts for line in text.splitlines())


@pytest.mark.slow
def test_a_small_bert_learns_both_lessons(tokenizer):
    """By heart: every pair's second text is judged rightly, and far more tokens than the most frequent are guessed."""
    task = BertPretraining(tokenizer, max_length=20, copies=2)
    items = task.encode(DOCUMENTS)
    model = learn(small_bert(len(tokenizer), "pretraining"), task, items, steps=200, lr=4e-3, rows=16)
    scores = evaluate(model, task, items, budget=ROWS).compute()
    assert scores["nsp_accuracy"] == 1
    assert scores["mlm_accuracy"] > 0.4
