"""A state carried from block to block: it is one long reading, however the text is cut and shared out."""

import copy
import pickle
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from language import tokenizer_of
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.batches import Budget, Schedule, contiguous
from glassformer.data.blocks import Windows
from glassformer.data.examples import Document
from glassformer.hub.registry import build
from glassformer.tasks.task import evaluate
from glassformer.tasks.text_generation import TextGeneration, go_on
from glassformer.text.folder import NO_LIMIT
from glassformer.train.layout import lay_out
from glassformer.train.optimiser import build_optimiser
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes
from glassformer.train.update import OptimizerStep, updates

KINDS = ["rnn", "gru", "lstm"]
TEXT = " = A title = \n\n The <unk> sat on the mat , and the cat saw it .\n It was \u00e9l\u00e9gant \n\n" * 9
ROWS = Budget(rows=3)


@pytest.fixture(scope="module")
def words():
    return tokenizer_of(TEXT.splitlines(), "word", 60)


def model_of(kind, tokenizer, **settings):
    torch.manual_seed(1)
    sizes = {"embedding_size": 8, "hidden_size": 8, "num_layers": 2, "initializer_range": 1.0}
    return build("glassformer-rnn", "text-generation", vocab_size=len(tokenizer), kind=kind, **sizes, **settings).eval()


def lesson(tokenizer, size=7):
    task = TextGeneration(tokenizer, block_size=size, carry_state=True)
    return task, task.encode([Document(TEXT)])


@torch.no_grad()
def whole_loss(model, stream):
    """The oracle: one pass over all."""
    ids = torch.from_numpy(stream.astype(np.int64))
    return F.cross_entropy(model(ids[None, :-1]).logits[0], ids[1:])


@given(count=st.integers(1, 60), rows=st.integers(1, 70))
def test_batches_go_on_where_the_ones_before_ended(count, rows):
    batches = contiguous(count, rows)
    assert sorted(np.concatenate(batches).tolist()) == list(range(count))
    for one, after in pairwise(batches):
        assert after.tolist() == (one + 1).tolist()[: len(after)]
    assert len(batches[0]) <= rows
    assert Schedule(np.full(count, 5), Budget(rows=rows), seed=0, ordered=True).steps(2) == 2 * len(batches)


@given(total=st.integers(2, 60), size=st.integers(1, 60), data=st.data())
def test_windows_follow_each_other_to_the_end(total, size, data):
    windows = Windows(np.arange(total), size)
    shift = data.draw(st.integers(0, windows.size - 1))
    ids, real = windows.follow(np.arange(len(windows)), shift)
    assert ids[:, 1:][real].tolist() == list(range(shift + 1, total))
    assert ids[:, :-1][real].tolist() == list(range(shift, total - 1))


def test_perplexity_is_over_every_word_and_line_end(words):
    """As the field counts WikiText: `<eos>` after each line, empty ones too; the end of the text is one more."""
    task, items = lesson(words)
    counted = sum(len(line.split()) + 1 for line in TEXT.splitlines())
    assert len(items.windows.ids) - 1 == counted + 1
    batches = task.eval_batches(items, ROWS)
    assert sum(task.batch(items, batch).count for batch in batches) == counted + 1
    assert words.tokenize("a <unk>\n\n b") == ["<unk>", "<unk>", "\n", "\n", "<unk>"]
    assert words.decode(words.encode("the cat \n It")) == "the cat \n It"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 500])
def test_a_carried_state_is_one_long_pass(words, kind, size):
    task, items = lesson(words, size)
    model = model_of(kind, words)
    scores = evaluate(model, task, items, budget=ROWS, final=True).compute()
    assert_close(torch.tensor(scores["loss"]), whole_loss(model, items.windows.ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_passes_of_their_own(words, kind):
    """While training, a text is scored at several places at once; two processes share them."""
    task, items = lesson(words)
    model = model_of(kind, words)
    sheets = [pickle.loads(pickle.dumps(evaluate(model, task, items, budget=ROWS, share=(n, 2)))) for n in (0, 1)]
    length = -(-len(items.lengths) // 3) * 7
    ids = items.windows.ids
    parts = [ids[start : start + length + 1] for start in range(0, len(ids) - 1, length)]
    total = sum(float(whole_loss(model, part)) * (len(part) - 1) for part in parts)
    sheets[0].merge(sheets[1])
    for sheet in (sheets[0], evaluate(model, task, items, budget=ROWS)):
        assert sheet.compute()["loss"] == pytest.approx(total / (len(ids) - 1), abs=1e-5)


def test_no_gradient_goes_back_over_the_start_of_a_block(words):
    task, items = lesson(words)
    model = model_of("lstm", words)
    _, carried = go_on(model, task.batch(items, np.array([0])), ())
    assert not any(part.requires_grad for part in carried)
    loss, after = task.carried_loss(model, task.batch(items, np.array([1])), carried)
    loss.backward()
    longer = task.batch(task.encode([Document(TEXT)]), np.array([0, 1]))
    ids = longer.inputs["input_ids"].reshape(1, -1)
    expected = model.hidden_step(ids, model.start(ids, length=14))[1].tensors
    assert_close(after, expected, rtol=1e-5, atol=1e-5)


def trained(words, accumulate, *, broken_at=None, steps=14):
    """A few steps over an epoch's end; broken off and gone on with, where asked."""
    task, items = lesson(words)
    model = model_of("lstm", words).double()
    plan = Plan(steps=steps, batch_size=4, accumulate=accumulate, lr=1e-2)
    alone = Processes()
    schedule = Schedule(items.lengths, plan.budget, seed=0, ordered=True)
    optimiser = build_optimiser(model, plan.lr)
    stepper = OptimizerStep(lay_out(model, task, plan, alone), plan, optimiser)
    for step, update in enumerate(islice(updates(task, items, schedule, plan, after=0, processes=alone), steps)):
        if step == broken_at:
            carried = copy.deepcopy(stepper.gather_carried())
            stepper = OptimizerStep(lay_out(model, task, plan, alone), plan, optimiser)
            stepper.carry(carried)
        stepper(update, update.count, 1.0)
    assert len(schedule.epoch(0)) < steps
    return model.state_dict()


@pytest.mark.parametrize("accumulate", [2, 3, 6])
def test_micro_batches_carry_what_the_batch_would(words, accumulate):
    assert_close(trained(words, accumulate), trained(words, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 3, 6])
@pytest.mark.parametrize("step", [3, 9, 12])
def test_what_is_carried_can_be_kept(words, accumulate, step):
    assert_close(trained(words, accumulate, broken_at=step), trained(words, accumulate), rtol=0, atol=0)


def test_training_depends_on_what_is_carried(words):
    """Or the tests above would hold of nothing."""
    task, items = lesson(words)
    model, batch = model_of("lstm", words), task.batch(items, np.array([3]))
    _, carried = go_on(model, task.batch(items, np.array([2])), ())
    fresh, carried_on = (task.carried_loss(model, batch, state)[0] for state in ((), carried))
    assert abs(float((fresh - carried_on).detach())) > 1e-3
    assert_close(fresh, task.loss(model, batch))


def test_blocks_begin_elsewhere_in_every_epoch(words):
    task, items = lesson(words)
    starts = {
        task.batch(items, np.array([2]), seed).inputs["input_ids"].tolist()[0][0:3].__str__() for seed in range(20)
    }
    assert len(starts) > 3
    assert torch.equal(
        task.batch(items, np.array([2]), 5).inputs["input_ids"], task.batch(items, np.array([2]), 5).inputs["input_ids"]
    )


def test_a_model_that_carries_its_state_has_no_longest_text(tmp_path, caplog):
    (tmp_path / "text.txt").write_text(TEXT)
    sizes = {"embedding_size": 8, "hidden_size": 8}
    kept = {"tokenizer": "word", "block_size": 7, "carry_state": True, "config": sizes, "device": "cpu"}
    run = gf.train(
        task="text-generation",
        arch="lstm",
        data=tmp_path / "text.txt",
        dev=tmp_path / "text.txt",
        out=tmp_path / "run",
        steps=1,
        log=[].append,
        **kept,
    )
    tokenizer = gf.load_tokenizer(run.folder)
    assert tokenizer.model_max_length == NO_LIMIT
    pipe = gf.pipeline("text-generation", run.folder)
    assert pipe.task.max_length == 7
    pipe("the cat sat on the mat , and it saw the cat", max_new_tokens=9)
    assert not [record.message for record in caplog.records if "the model reads" in record.message]


@pytest.mark.parametrize("wrong", [{"stride": 2}, {"random_windows": True}, {"packing": False}])
def test_what_reads_in_another_order_is_refused(words, wrong):
    with pytest.raises(ValueError, match="carry_state reads a stream in"):
        TextGeneration(words, block_size=7, carry_state=True, **wrong)


def test_a_model_without_such_a_state_is_refused(words):
    model = build("gpt2", "text-generation", vocab_size=len(words), n_embd=8, n_layer=1, n_head=2, n_positions=16)
    with pytest.raises(ValueError, match="a gpt2 has no state of one size to carry on: take an rnn, gru or lstm"):
        TextGeneration.for_model(words, model, carry_state=True)
