"""Law 7: the parts of a batch, however it is cut and padded, give the loss and the gradient of the whole.

In double precision and without dropout, which is another draw in every part. Contrastive similarity is left out: its
question is which of the texts of a micro-batch belongs to another, so it is a different question in every part.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families import shake
from glassformer.data.batches import Schedule
from glassformer.train.layout import lay_out
from glassformer.train.optimiser import build_optimiser
from glassformer.train.processes import Processes
from glassformer.train.update import OptimizerStep, updates
from tasks.cases import NAMES, Case, case

ADDING_UP = [name for name in NAMES if "contrastive" not in name]
MASKED = ("fill-mask", "pretraining", "sentence-order", "replaced-token", "span-corruption")
DYNAMIC = [name for name in NAMES if name.startswith(MASKED) or name.endswith(("rows", "drawn", "bpe_dropout"))]
CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # losses are summed in float32


def exact(name: str) -> Case:
    found = case(name)
    return replace(found, model=shake(found.model).double().eval())


def loss_and_gradients(one: Case, parts: list[list[int]], seed: int) -> tuple[float, int, dict[str, torch.Tensor]]:
    one.model.zero_grad(set_to_none=True)
    loss, count = 0.0, 0
    for part in parts:
        batch = one.task.batch(one.items, np.array(part), seed)
        summed = one.task.loss(one.model, batch)
        summed.backward()
        loss, count = loss + float(summed.detach()), count + batch.count
    return loss, count, {name: tensor.grad for name, tensor in one.model.named_parameters() if tensor.grad is not None}


@st.composite
def cut_up(draw: st.DrawFn, size: int) -> tuple[list[int], list[list[int]]]:
    """A batch, and the same examples in another order and in parts."""
    batch = draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=9, unique=True))
    other = draw(st.permutations(batch))
    cuts = sorted(draw(st.sets(st.integers(1, len(batch) - 1), min_size=1, max_size=4)))
    return batch, [other[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True)]


@pytest.mark.few(20)
@pytest.mark.parametrize("name", ADDING_UP)
@settings(max_examples=3)
@given(data=st.data(), seed=st.integers(0, 2**60))
def test_parts_add_up_to_the_whole(name, data, seed):
    one = exact(name)
    batch, parts = data.draw(cut_up(len(one.items.lengths)))
    loss, count, gradients = loss_and_gradients(one, [batch], seed)
    in_parts, counted, summed = loss_and_gradients(one, parts, seed)
    assert counted == count
    assert_close(in_parts, loss, **CLOSE)
    scale = max(1.0, *(float(tensor.abs().max()) for tensor in gradients.values()))
    assert summed.keys() == gradients.keys()
    for tensor, whole in gradients.items():
        assert_close(summed[tensor] / scale, whole / scale, **CLOSE, msg=lambda text, at=tensor: f"{at}: {text}")


@pytest.mark.few(20)
@pytest.mark.parametrize("name", ADDING_UP)
def test_an_update_in_micro_batches_is_the_same_update(name):
    weights = []
    for accumulate in (1, 3):
        one = exact(name)
        plan = replace(one.plan, batch_size=7, batch_tokens=None, accumulate=accumulate)
        optimiser = build_optimiser(one.model, 1e-2, eps=1e-3)  # a tensor whose gradient is nothing shall stay at rest
        stepper = OptimizerStep(lay_out(one.model, one.task, plan, Processes()), plan, optimiser)
        schedule = Schedule(one.items.lengths, plan.budget, seed=plan.seed)
        feed = updates(one.task, one.items, schedule, plan, after=0, processes=Processes())
        for _, update in zip(range(2), feed, strict=False):
            stepper(update, update.count, 1.0)
        weights.append(one.model.state_dict())
    assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)
    began = exact(name).model.state_dict()
    assert any(not torch.equal(weights[0][tensor], began[tensor]) for tensor in began)


@pytest.mark.parametrize("name", DYNAMIC)
@settings(max_examples=5)
@given(data=st.data(), seed=st.integers(0, 2**60))
def test_what_is_drawn_for_an_example_depends_on_the_seed_and_not_on_the_batch(name, data, seed):
    one = case(name)
    batch, _ = data.draw(cut_up(len(one.items.lengths)))
    together = one.task.batch(one.items, np.array(batch), seed).inputs["input_ids"]
    for row, index in zip(together, batch, strict=True):
        (alone,) = one.task.batch(one.items, np.array([index]), seed).inputs["input_ids"]
        assert_close(row[: len(alone)], alone, rtol=0, atol=0)
    every = np.arange(min(30, len(one.items.lengths)))
    ours, others = (one.task.batch(one.items, every, draw).inputs["input_ids"] for draw in (seed, seed + 1))
    assert ours.shape != others.shape or bool((ours != others).any())


def test_contrastive_parts_do_not_add_up_by_design():
    one = exact("sentence-similarity/bert/contrastive")
    whole, parts = (loss_and_gradients(one, cut, 0)[0] for cut in ([[0, 1, 2, 3]], [[0, 1], [2, 3]]))
    assert parts < whole  # fewer texts to choose among
