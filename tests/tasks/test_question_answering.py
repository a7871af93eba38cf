"""Question answering: the loss, the best span over all windows, and scores; windows have a file of their own."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language import learn, tokenizer_of
from torch.testing import assert_close
from vocabularies import asked, small_tokenizer

from glassformer.data import microworld
from glassformer.data.batches import Budget
from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.hub.load import load, load_tokenizer
from glassformer.hub.registry import build
from glassformer.tasks.metrics import Answers
from glassformer.tasks.question_answering import QuestionAnswering
from glassformer.tasks.spans import answer_tokens, best_spans
from glassformer.tasks.task import evaluate

KINDS = ("wordpiece", "roberta")
TOLERANCE = {"atol": 1e-5, "rtol": 1e-4}


def small_model(kind="wordpiece", head="question-answering", **options):
    tokenizer = small_tokenizer(kind)
    sizes = {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    family = {"wordpiece": "bert", "roberta": "roberta"}[kind]
    torch.manual_seed(0)
    sizes |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "initializer_range": 0.5}
    return build(family, head, **sizes | options)


# The loss.


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(0, 99))
def test_the_loss_is_a_sum_over_windows_however_they_are_batched(kind, parts, seed):
    model = small_model(kind)
    task = QuestionAnswering.for_model(small_tokenizer(kind), model, max_length=40, doc_stride=10)
    items = task.encode(asked(seed))
    order = np.random.default_rng(seed).permutation(len(items.rows))
    batches = [task.batch(items, part) for part in np.array_split(order, parts) if len(part)]
    with torch.no_grad():
        found = sum(task.loss(model, batch) for batch in batches)
        assert_close(found, task.loss(model, task.batch(items, order)), **TOLERANCE)
    assert sum(batch.count for batch in batches) == len(items.rows)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A BERT with random weights, written by transformers: the model and its folder."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("answers")
    small_tokenizer("wordpiece").save(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(small_tokenizer("wordpiece")),
        hidden_size=12,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=16,
        initializer_range=0.7,
    )
    model = transformers.BertForQuestionAnswering(config).eval()
    model.save_pretrained(path)
    return model, path


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_that_of_transformers(theirs, seed):
    reference, folder = theirs
    model = load(folder)
    task = QuestionAnswering.for_model(load_tokenizer(folder), model)
    items = task.encode(asked(seed, count=1))
    batch = task.batch(items, np.arange(1))
    positions = {"start_positions": batch.targets["start"], "end_positions": batch.targets["end"]}
    with torch.no_grad():
        assert_close(task.loss(model, batch), reference(**batch.inputs, **positions).loss, **TOLERANCE)


# Predictions.


def brute_force(start, end, inside, longest):
    """Every span with its score, the best first."""
    size = len(start)
    spans = [(i, j) for i in range(size) for j in range(i, min(size, i + longest)) if inside[i] and inside[j]]
    return sorted(((float(start[i] + end[j]), i, j) for i, j in spans), reverse=True)


@given(st.integers(0, 9999), st.integers(1, 12), st.integers(1, 14), st.integers(1, 9))
def test_the_best_spans_are_those_of_an_exhaustive_search(seed, width, longest, count):
    torch.manual_seed(seed)
    start, end = torch.randn(3, width), torch.randn(3, width)
    first, size = torch.randint(1, width + 1, (3, 1)), torch.randint(0, width + 1, (3, 1))
    inside = (torch.arange(width) >= first) & (torch.arange(width) < first + size)
    found = best_spans(start, end, inside, count=count, longest=longest)
    for row in range(3):
        wanted = brute_force(start[row], end[row], inside[row], longest)[:count]
        real = found.scores[row] > -np.inf
        places = zip(found.firsts[row][real].tolist(), found.lasts[row][real].tolist(), strict=True)
        assert list(places) == [(i, j) for _, i, j in wanted]
        assert_close(found.scores[row][real].tolist(), [score for score, _, _ in wanted], **TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("impossible", [False, True])
def test_answers_of_one_window_are_those_of_the_classic_pipeline(theirs, seed, impossible):
    """Transformers' pipeline of this name is gone; it gave the product of two softmaxes over the context and [CLS]."""
    reference, folder = theirs
    model = load(folder)
    task = QuestionAnswering.for_model(load_tokenizer(folder), model)
    one = asked(seed, count=1)[0]
    items = task.encode([one])
    with torch.no_grad():
        out = reference(**task.batch(items, np.arange(1)).inputs)
    inside = items.inside(np.arange(1))[0]
    outside = ~inside
    outside[0] = False
    start, end = (
        logits[0].masked_fill(outside, -torch.inf).softmax(0) for logits in (out.start_logits, out.end_logits)
    )
    every = [(float(start[i] * end[j]), i, j) for _, i, j in brute_force(start, end, inside, 15)]
    wanted = [(score, *items.characters(0, i, j)) for score, i, j in every]
    wanted += [(float(start[0] * end[0]), 0, 0)] * impossible
    options = {"top_k": 7, "max_answer_length": 15, "handle_impossible_answer": impossible}
    (found,) = task.predict(model, [{"question": one.question, "context": one.context}], **options)
    for ours, (score, first, last) in zip(found, sorted(wanted, reverse=True), strict=False):
        assert_close(ours["score"], score, **TOLERANCE)
        assert (ours["start"], ours["end"], ours["answer"]) == (first, last, one.context[first:last])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.integers(0, 99), st.booleans(), st.integers(1, 3))
def test_every_question_is_answered_as_if_alone_with_a_part_of_its_context(kind, seed, impossible, top_k):
    model = small_model(kind)
    task = QuestionAnswering.for_model(small_tokenizer(kind), model, max_length=40, doc_stride=10)
    inputs = [*asked(seed, count=3), {"question": "Who?", "context": ""}, ("Anna?", "Anna  met  Anna")]
    options = {"top_k": top_k, "handle_impossible_answer": impossible}
    together = task.predict(model, inputs, **options)
    alone = [task.predict(model, [one], **options)[0] for one in inputs]
    contexts = [one.context for one in inputs[:3]] + ["", "Anna  met  Anna"]
    for context, one, other in zip(contexts, together, alone, strict=True):
        for mine, single in zip(*([each] if top_k == 1 else each for each in (one, other)), strict=True):
            assert mine["answer"] == context[mine["start"] : mine["end"]] == mine["answer"].strip()
            assert {**mine, "score": 0} == {**single, "score": 0}
            assert_close(mine["score"], single["score"], **TOLERANCE)


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_the_best_answer_over_windows_is_the_best_of_all_their_spans(seed):
    model = small_model()
    task = QuestionAnswering.for_model(small_tokenizer("wordpiece"), model, max_length=40, doc_stride=10)
    one = asked(seed, count=1)[0]
    items = task.encode([one])
    rows = np.arange(len(items.rows))
    with torch.no_grad():
        start, end = task.scores(model, task.batch(items, rows))
    every = [
        (score, *items.characters(row, i, j))
        for row in rows
        for score, i, j in brute_force(start[row], end[row], items.inside(rows)[row], 30)
    ]
    found = task.predict(model, [one])[0]
    assert (found["start"], found["end"]) == max(every)[1:]
    none = float((start[:, 0] + end[:, 0]).min())
    margin = none - max(every)[0]
    for threshold, empty in ((margin + 0.01, False), (margin - 0.01, True)):
        (said,) = task.predict(model, [one], handle_impossible_answer=True, null_threshold=threshold)
        assert (said["answer"] == "") == empty


# Scores.


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 4), st.sampled_from([0.0, 0.4]), st.sampled_from([-3.0, 0.0, 3.0]))
def test_scores_are_those_of_the_predictions_over_any_batches_and_processes(seed, processes, without, threshold):
    model = small_model()
    options = {"max_length": 40, "doc_stride": 10, "null_threshold": threshold}
    task = QuestionAnswering.for_model(small_tokenizer("wordpiece"), model, **options)
    examples = asked(seed, without=without)
    items = task.encode(examples)
    order = np.random.default_rng(seed).permutation(len(items.rows))
    sheets = [task.metrics() for _ in range(processes)]
    with torch.no_grad():
        for place, row in enumerate(order):
            sheets[place % processes].update(model, task.batch(items, np.array([row])))
        loss = task.loss(model, task.batch(items, order)) / len(items.rows)
    first, *others = [pickle.loads(pickle.dumps(sheet)) for sheet in sheets]
    for other in others:
        first.merge(other)
    may_be_none = any(not one.answers for one in examples)
    said = task.predict(model, examples, handle_impossible_answer=may_be_none)
    wanted = Answers()
    wanted.update([one["answer"] for one in said], [[answer.text for answer in one.answers] for one in examples])
    found = first.compute()
    assert_close(found.pop("loss"), float(loss), **TOLERANCE)
    assert_close(found, wanted.compute())
    assert first.meters["answers"].metric.count == len(examples)


def test_intervals_hold_the_scores():
    model = small_model()
    task = QuestionAnswering.for_model(small_tokenizer("wordpiece"), model)
    sheet = evaluate(model, task, task.encode(asked(3, count=30)), budget=Budget(rows=8), keep_examples=True)
    for name, interval in sheet.intervals().items():
        assert interval.low <= sheet.compute()[name] <= interval.high


# What cannot be used.


def _task(**options):
    return QuestionAnswering(small_tokenizer("wordpiece"), **options)


@pytest.mark.parametrize(
    ("act", "words_of_the_error"),
    [
        (lambda: QuestionAnswering(small_tokenizer("bpe")), "puts no \\[CLS\\] before two texts"),
        (lambda: _task(doc_stride=-1), "doc_stride=-1"),
        (lambda: _task(max_answer_length=0), "max_answer_length=0"),
        (lambda: _task(max_question_length=0), "max_question_length=0"),
        (lambda: _task(max_length=3).encode(asked(0)), "max_length=3 leaves no room"),
        (lambda: _task(max_length=4).encode(asked(0)), "max_length=4 has no room"),
        (lambda: QuestionAnswering.for_data(None, asked(0, without=1.0)), "no question of the training data"),
        (lambda: QuestionAnswering.for_model(small_tokenizer("wordpiece"), small_model(head="fill-mask")), "fill-mask"),
        (
            lambda: QuestionAnswering.read(["x.json"], columns={"query": "q"}),
            "no role .query.: use question, context, answers",
        ),
        (lambda: _task().predict(small_model(), ["Who?"]), "'question' and 'context'"),
        (lambda: _task().predict(small_model(), [("Who?", "Anna")], top_k=0), "top_k=0"),
    ],
)
def test_what_cannot_be_used_is_named(act, words_of_the_error):
    with pytest.raises(ValueError, match=words_of_the_error):
        act()


# Real data, and learning.


@pytest.mark.slow
def test_squad_answers_are_exact_but_for_those_inside_a_token(data, minilm):
    """Of 34726 gold answers, 32 start and 48 end inside a token (77 do either); all others are found to the letter."""
    examples = QuestionAnswering.read([str(data / "squad" / "dev-v1.1.json")]).examples
    items = QuestionAnswering(load_tokenizer(minilm)).encode(examples)
    late = early = either = answers = 0
    for number, one in enumerate(examples):
        context = items.contexts[number]
        for answer in one.answers:
            first, last = answer_tokens(context, answer)
            start, end = int(context.starts[first]), int(context.ends[last])
            assert start <= answer.start
            assert end >= answer.start + len(answer.text)
            late += start < answer.start
            early += end > answer.start + len(answer.text)
            either += one.context[start:end] != answer.text
            answers += 1
    assert (answers, late, early, either) == (34726, 32, 48, 77)
    owners = items.owners[items.targets[:, 0] > 0]
    assert len(set(owners.tolist())) == len(examples)  # each is whole in some window
    for row in np.flatnonzero(items.targets[:, 0])[::7]:
        start, end = items.characters(row, *items.targets[row])
        assert examples[items.owners[row]].answers[0].text in examples[items.owners[row]].context[start:end]


def test_a_fresh_head_on_a_real_model_answers_with_parts_of_the_context(minilm):
    model = load(minilm, head="question-answering")
    task = QuestionAnswering.for_model(load_tokenizer(minilm), model, max_length=24, doc_stride=6)
    context = "Ada Lovelace wrote notes on the Analytical Engine. " * 3
    for one in task.predict(model, [("Who wrote notes?", context)], top_k=5)[0]:
        assert one["answer"] == context[one["start"] : one["end"]]
        assert 0 < one["score"] < 1


def one_sentence(one):
    """The question with the sentence of its answer for a context; whole stories take longer to learn."""
    answer = one.answers[0]
    start = one.context.rfind(". ", 0, answer.start) + 1
    end = one.context.index(".", answer.start + len(answer.text)) + 1
    context = one.context[start:end].lstrip()
    return SquadExample(one.id, one.question, context, (SquadAnswer(answer.text, answer.start - end + len(context)),))


@pytest.mark.slow
def test_a_small_model_learns_the_micro_world():
    drawn = (microworld.examples("asked", count, seed=seed) for count, seed in ((1500, 0), (300, 1)))
    train, dev = ([one_sentence(one) for one in some if one.answers] for some in drawn)
    tokenizer = tokenizer_of(QuestionAnswering.texts(train), "wordpiece", 600)
    task = QuestionAnswering.for_data(tokenizer, train)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.05}
    model = build("bert", task.head, vocab_size=len(tokenizer), **sizes, **off)
    task = QuestionAnswering.for_model(tokenizer, model)
    learn(model, task, task.encode(train), steps=250, lr=3e-3, rows=32)
    scores = evaluate(model, task, task.encode(dev), budget=Budget(rows=50)).compute()
    assert scores["f1"] >= 0.8
