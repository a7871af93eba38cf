"""The loop: what a plan asks for is what happens."""

import copy
import json
import math
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from runs import SOON, Run, Steep, in_a_process
from torch.testing import assert_close

from glassformer.data.batches import Budget, in_order
from glassformer.tasks.task import evaluate
from glassformer.train import checkpoint
from glassformer.train.loop import Fit
from glassformer.train.schedule import Rate
from glassformer.train.transforms import compiled, recomputing
from tasks.cases import NAMES, ONE_OF_EACH_TASK, case

EXACT = {"rtol": 0, "atol": 0}


@pytest.mark.parametrize("schedule", ["linear", "cosine", "inverse_sqrt", "constant"])
def test_the_rate_follows_the_schedule(tmp_path, schedule):
    run = Run("text-classification/gru", tmp_path, schedule=schedule, warmup=4, final_lr=0.1)
    rate = Rate(schedule, total=12, warmup=4, final=0.1)
    assert run.column("lr") == [pytest.approx(1e-2 * rate(step)) for step in range(12)]
    assert run.column("lr")[0] == 0
    (first, *_), began = run.fit.optimiser.param_groups, case("text-classification/gru").model
    assert first["lr"] == pytest.approx(1e-2 * rate(11))  # what is told is what is used
    assert any(not torch.equal(a, b) for a, b in zip(began.parameters(), run.case.model.parameters(), strict=True))


def test_a_step_at_rate_nothing_changes_nothing(tmp_path):
    run = Run("text-classification/gru", tmp_path, steps=1, warmup=4.0)
    assert_close(run.last_state(), case("text-classification/gru").model.state_dict(), **EXACT)


def test_clipping_can_be_left_out_and_bounds_what_is_taken(tmp_path):
    """A recipe says 0. An eps of 1 makes Adam's step follow the size of the gradient."""
    runs = {
        clip: Run("text-classification/gru", tmp_path / str(clip), clip=clip, eps=1.0, weight_decay=0.0).last_state()
        for clip in (None, 0.0, 1e-3)
    }
    assert_close(runs[0.0], runs[None])
    began = case("text-classification/gru").model.state_dict()
    moved = {
        clip: sum(float((state[name] - began[name]).abs().sum()) for name in began) for clip, state in runs.items()
    }
    assert moved[1e-3] < 0.1 * moved[None]


def test_a_plateau_lowers_the_rate(tmp_path):
    run = Run("text-classification/gru", tmp_path, schedule="plateau", lr=1e-9, eval_every=1)
    assert run.column("lr") == [pytest.approx(1e-9 * 0.5 ** (max(0, step - 1) // 3)) for step in range(12)]


def test_patience_ends_a_run(tmp_path):
    run = Run("text-classification/gru", tmp_path, lr=1e-9, eval_every=2, patience=3)
    assert run.outcome.progress.step == 8  # the first is the best, three are not better
    assert not run.outcome.stopped
    assert run.outcome.progress.best_step == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("metric", ["-loss", "accuracy", "f1"])
def test_the_best_by_any_metric_is_kept(tmp_path, metric):
    run = Run("text-classification/lstm", tmp_path, metric=metric, lr=0.3, steps=27, schedule="constant")
    name = "dev_" + metric.removeprefix("-")
    values = run.column(name)
    best = min(values) if metric.startswith("-") else max(values)
    steps = [line["step"] for line in run.lines if name in line]
    assert run.outcome.progress.best == best
    assert run.outcome.progress.best_step == steps[values.index(best)]
    assert run.outcome.progress.best_step < 27  # or the next lines would prove nothing
    model = copy.deepcopy(run.case.model)
    model.load_state_dict(run.saved[-1])
    again = evaluate(model, run.case.task, run.dev, budget=SOON.budget).compute()
    assert again[metric.removeprefix("-")] == pytest.approx(best)


def test_the_last_is_kept_if_asked_for(tmp_path):
    run = Run("text-classification/lstm", tmp_path, keep="last", lr=0.3)
    assert len(run.saved) == 1
    assert_close(run.saved[0], run.last_state(), **EXACT)


def test_without_dev_data_the_last_is_kept(tmp_path):
    run = Run("text-classification/lstm", tmp_path, dev=False)
    assert len(run.saved) == 1
    assert_close(run.saved[0], run.last_state(), **EXACT)


def test_a_score_that_is_no_number_is_never_the_best(tmp_path, monkeypatch):
    scores = iter([math.nan, 0.25, math.nan, 0.2])
    monkeypatch.setattr(Fit, "_score", lambda *_: {"accuracy": next(scores)})
    run = Run("text-classification/gru", tmp_path)
    assert (run.outcome.progress.best, run.outcome.progress.best_step) == (0.25, 6)
    assert run.column("dev_accuracy") == [None, 0.25, None, 0.2]  # as json has it


def test_nothing_but_such_scores_leaves_the_last_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(Fit, "_score", lambda *_: {"accuracy": math.nan})
    run = Run("text-classification/gru", tmp_path)
    assert_close(run.saved, [run.last_state()], **EXACT)


def test_averages_are_what_is_kept(tmp_path):
    run = Run("text-classification/gru", tmp_path / "mean", average=3, keep="last")
    states = [checkpoint.load(path)["model"] for path in checkpoint.found(run.folder)]
    assert [path.stem[-2:] for path in checkpoint.found(run.folder)] == ["06", "09", "12"]
    mean = {name: torch.stack([state[name].double() for state in states]).mean(0).float() for name in states[0]}
    assert_close(run.saved[-1], mean)
    assert run.lines[-1].keys() >= {"averaged_accuracy", "averaged_loss"}
    moving = Run("text-classification/gru", tmp_path / "moving", ema=0.5, keep="last")
    assert any(not torch.equal(moving.saved[0][name], tensor) for name, tensor in moving.last_state().items())


def test_what_metrics_jsonl_holds(tmp_path):
    run = Run("text-classification/gru", tmp_path, log_every=5, eval_every=4, epochs=2.4)
    trained = [line for line in run.lines if "loss" in line]
    judged = [line for line in run.lines if "dev_loss" in line]
    assert [line["step"] for line in trained] == [5, 10, 12]
    assert [line["step"] for line in judged] == [4, 8, 12]
    assert [line["epoch"] for line in trained] == [0, 1, 2]
    assert all(line.keys() == {"step", "epoch", "loss", "lr", "grad_norm", "tokens"} for line in trained)
    assert {"dev_accuracy", "dev_f1", "dev_mcc"} <= judged[0].keys()
    tokens = run.case.items.lengths.sum() * 2
    assert run.outcome.progress.examples == 40 * 2 + 16
    assert tokens < trained[-1]["tokens"] == run.outcome.progress.tokens < 1.5 * tokens


def test_losses_in_the_file_are_means_over_targets(tmp_path):
    """With a rate of next to nothing the first epoch's mean is the loss on the training data."""
    for name in ("token-classification/gru", "text-generation/gru", "translation/gru"):
        one = case(name, config={"dropout": 0.0})
        run = Run(name, tmp_path / name, one=one, lr=1e-12, steps=None, epochs=1, log_every=10**6, eval_every=10**6)
        whole = evaluate(one.model, one.task, one.items, budget=SOON.budget).compute()
        assert run.column("loss") == [pytest.approx(whole["loss"], rel=1e-4)]


@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_a_metric_that_there_is_not_is_found_out_before_the_first_step(tmp_path, name):
    with pytest.raises(ValueError, match="there is no metric 'acuracy' to judge by; this task has: \\w+"):
        Run(name, tmp_path, metric="acuracy")
    assert not (tmp_path / "metrics.jsonl").exists()


# Ways to compute.


@pytest.mark.parametrize("name", ["text-classification/bert", "text-generation/gpt2", "translation/transformer"])
def test_recomputed_activations_give_the_same_gradients(name):
    gradients = []
    for transform in (lambda model: model, recomputing):
        one = case(name)
        model = transform(one.model).train()
        torch.manual_seed(3)  # dropout is drawn again as it was
        one.task.loss(model, one.task.batch(one.items, np.arange(5), 1)).backward()
        gradients.append({name: tensor.grad for name, tensor in model.named_parameters()})
    assert_close(gradients[1], gradients[0])


def test_recomputing_needs_layers():
    with pytest.raises(ValueError, match="leave checkpointing out"):
        recomputing(case("text-classification/lstm").model)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["text-classification/lstm", "text-classification/bert", "text-generation/gpt2"])
def test_half_precision_learns_what_single_precision_does(tmp_path, name):
    half = Run(name, tmp_path / "half", precision="fp16", dev=False)
    single = Run(name, tmp_path / "single", dev=False)
    assert half.column("loss") == [pytest.approx(loss, rel=0.02) for loss in single.column("loss")]
    assert half.column("loss") != single.column("loss")
    assert checkpoint.load(checkpoint.newest(half.folder))["scaler"]["scale"] > 0
    assert {tensor.dtype for tensor in half.last_state().values()} == {torch.float32}


def test_gradients_beyond_half_precision_are_left_out_and_the_scale_lowered(tmp_path, monkeypatch):
    one, poisons = case("text-classification/gru"), iter([Steep.apply])
    sound = type(one.task).loss

    def poisoned(task, model, batch):
        return next(poisons, lambda loss: loss)(sound(task, model, batch))

    monkeypatch.setattr(type(one.task), "loss", poisoned)
    run = Run("", tmp_path, one=one, precision="fp16", dev=False, steps=3)
    state = checkpoint.load(checkpoint.newest(run.folder))
    assert state["scaler"]["scale"] == 2.0**15
    assert all(tensor.isfinite().all() for tensor in state["model"].values())


@pytest.mark.slow
def test_bf16_in_a_process_of_its_own(tmp_path):
    """Some CPUs claim bfloat16 kernels that they do not have, so the instruction set is kept plain."""
    code, _, complaint = in_a_process(
        tmp_path, "text-generation/gpt2", precision="bf16", steps=3, env={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    )
    assert code == 0, complaint
    losses = [json.loads(line).get("loss") for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[0] == pytest.approx(math.log(330), rel=0.05)  # of a model that knows nothing


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler has much to say about itself
def test_compiled_layers_give_the_same_losses(tmp_path, monkeypatch):
    """The graphs are ours to prove; what a C++ compiler makes of them would take half a minute."""
    graphs = []

    def counted(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counted))
    still = {"config": dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)}
    plain = Run("", tmp_path / "plain", one=case("text-generation/gpt2", **still), steps=3, eval_every=2)
    one = case("text-generation/gpt2", **still)
    compiled(one.model)
    one.task.compile()
    fast = Run("", tmp_path / "fast", one=one, steps=3, eval_every=2)
    assert graphs
    for name in ("loss", "dev_loss"):
        assert fast.column(name) == [pytest.approx(loss, rel=1e-5) for loss in plain.column(name)]
    assert_close(fast.last_state(), plain.last_state())


STREAMING = ("text-classification", "token-classification", "fill-mask", "pretraining", "sentence-order")
STREAMING += ("replaced-token", "span-corruption", "text-generation")


@pytest.mark.few(8)
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(STREAMING) and "regression" not in name])
def test_a_score_sheet_does_not_grow_with_the_data(name):
    one, sizes = case(name), []
    sheet = one.task.metrics()
    batches = [one.task.batch(one.items, some) for some in in_order(one.items.lengths, Budget(rows=16))[:8]]
    with torch.inference_mode():
        for _ in range(4):
            for batch in batches:
                sheet.update(one.model.eval(), batch)
            sizes.append(len(pickle.dumps(sheet)))
    assert sizes[-1] <= sizes[0] + 64  # the digits of larger numbers
