"""A step is the textbook's: loss, gradient, clip_grad_norm_ and AdamW."""

from itertools import islice

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glassformer.data.batches import Schedule
from glassformer.train.layout import lay_out
from glassformer.train.optimiser import build_optimiser
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes
from glassformer.train.update import OptimizerStep, seed_step, updates
from tasks.cases import ONE_OF_EACH_TASK, case

CLOSE = {"atol": 1e-6, "rtol": 1e-5}
RATE, EPS = 1e-2, 1e-3  # a large eps: nothing is made of gradients that are rounding errors


def textbook_step(model, task, update, optimiser, clip):
    loss = sum(task.loss(model, batch) * weight for batch, weight in update.parts) / update.count
    loss.backward()
    norm = nn.utils.clip_grad_norm_([tensor for tensor in model.parameters() if tensor.requires_grad], clip)
    optimiser.step()
    optimiser.zero_grad()
    return loss.detach() * update.count, norm


@pytest.mark.few(8)
@pytest.mark.parametrize("clip", [0.01, 1e9])
@pytest.mark.parametrize("name", [*ONE_OF_EACH_TASK, "text-classification/bert", "translation/transformer"])
def test_steps_are_the_textbooks(name, clip):
    one, other = case(name), case(name)
    plan = Plan(steps=1, batch_size=6, accumulate=2, clip=clip, lr=RATE)
    optimiser = build_optimiser(other.model, RATE, eps=EPS)
    layout = lay_out(one.model, one.task, plan, Processes())
    stepper = OptimizerStep(layout, plan, build_optimiser(one.model, RATE, eps=EPS))
    schedule = Schedule(one.items.lengths, plan.budget, seed=0)
    for update in islice(updates(one.task, one.items, schedule, plan, after=0, processes=Processes()), 3):
        ours = stepper(update, update.count, 1.0)
        theirs = textbook_step(other.model, other.task, update, optimiser, clip)
        assert_close(ours, theirs, **CLOSE)
        assert_close(one.model.state_dict(), other.model.state_dict(), **CLOSE)


def test_seeds_of_a_step_are_torchs():
    torch.manual_seed(7)
    expected = torch.rand(5)
    seed_step(7, torch.device("cpu"))
    assert_close(torch.rand(5), expected, atol=0, rtol=0)
