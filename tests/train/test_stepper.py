"""A step is the textbook's: loss, gradient, clip_grad_norm_ and AdamW, however its gradients are kept and clipped."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from glassformer.data.batches import Schedule
from glassformer.train import tables
from glassformer.train.optimiser import build_optimiser
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes
from glassformer.train.tables import Tables
from glassformer.train.update import Stepper, sow, updates
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


@pytest.mark.parametrize("clip", [0.01, 1e9])
@pytest.mark.parametrize("name", [*ONE_OF_EACH_TASK, "text-classification/bert", "translation/transformer"])
def test_steps_are_the_textbooks(name, clip, monkeypatch):
    monkeypatch.setattr(tables, "LARGE", 1)
    one, other = case(name), case(name)
    plan = Plan(steps=1, batch_size=6, accumulate=2, clip=clip, lr=RATE)
    optimiser = build_optimiser(other.model, RATE, eps=EPS)
    stepper = Stepper(one.model, one.task, plan, build_optimiser(one.model, RATE, eps=EPS), Processes())
    schedule = Schedule(one.items.lengths, plan.budget, seed=0)
    for update in islice(updates(one.task, one.items, schedule, plan, after=0, processes=Processes()), 3):
        ours = stepper(update, update.count, 1.0)
        theirs = textbook_step(other.model, other.task, update, optimiser, clip)
        assert_close(ours, theirs, **CLOSE)
        assert_close(one.model.state_dict(), other.model.state_dict(), **CLOSE)


class Bag(nn.Module):
    """Reads a large table, and in some cases the same weights elsewhere."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table, self.small = nn.Embedding(30, 4), nn.Embedding(3, 4)
        self.output = nn.Linear(4, 30, bias=False)
        if tied:
            self.output.weight = self.table.weight


def test_tables_are_the_large_untied_trained_ones(monkeypatch):
    monkeypatch.setattr(tables, "LARGE", 100)
    free, tied, frozen = Bag(tied=False), Bag(tied=True), Bag(tied=False)
    frozen.table.weight.requires_grad_(False)
    assert Tables(free).embeddings == [free.table]
    assert Tables(tied).embeddings == Tables(frozen).embeddings == []


@settings(max_examples=30)
@given(parts=st.lists(st.lists(st.integers(0, 29), max_size=8), min_size=1, max_size=3), also_used=st.booleans())
def test_a_gradient_of_rows_is_the_whole_gradient(parts, also_used):
    bag = Bag(tied=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGE", 100)
        kept = Tables(bag)

    def backward() -> None:
        for ids in parts:
            loss = (bag.table(torch.tensor(ids, dtype=torch.long)) * torch.arange(4)).sum()
            (loss + bag.table.weight.sin().sum() if also_used else loss).backward()

    backward()
    expected = bag.table.weight.grad
    for _ in range(2):  # the second time into a gradient that was used before
        bag.table.weight.grad = None
        with kept.as_rows():
            backward()
        kept.fill()
        assert_close(bag.table.weight.grad, expected, **CLOSE)
        assert bag.table.weight.grad.layout == torch.strided
        assert not bag.table.sparse
        kept.clear()
    assert not any(gradient.any() for gradient in kept.kept.values())


def test_seeds_of_a_step_are_torchs():
    torch.manual_seed(7)
    expected = torch.rand(5)
    sow(7, torch.device("cpu"))
    assert_close(torch.rand(5), expected, atol=0, rtol=0)
