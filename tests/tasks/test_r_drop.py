"""R-Drop: the paper's sum by hand, what is the same without dropout, and what is refused."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glassformer.tasks.r_drop import r_drop_loss, symmetric_kl
from glassformer.tasks.text_classification import TextClassification
from tasks.cases import case

NAMES = ("translation/transformer/r_drop", "text-classification/bert/r_drop")


def test_the_sum_by_hand():
    """Two passes over one target of two classes: shares (3/4, 1/4) and (1/2, 1/2), the first class right."""
    passes = iter([torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, 0.0]])])
    found = r_drop_loss(lambda: next(passes), lambda logits: -logits.log_softmax(-1)[0, 0], 2.0)
    there = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    back = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert_close(found, torch.tensor((math.log(4 / 3) + math.log(2)) / 2 + 2.0 / 4 * (there + back)))


def test_the_divergence_is_torchs():
    one, other = torch.randn(2, 5, 7).double()
    p, q = (torch.distributions.Categorical(logits=logits.float()) for logits in (one, other))
    kl = torch.distributions.kl_divergence
    assert_close(symmetric_kl(one, other), (kl(p, q) + kl(q, p)).sum())


@pytest.mark.parametrize("name", NAMES)
def test_dropout_makes_the_difference(name):
    """Resting it is the plain loss; training it is the mean of two plain losses and their divergence."""
    one, plain = case(name), case(name, r_drop=0.0)
    batch = one.task.batch(one.items, np.arange(6))
    assert_close(one.task.loss(one.model.eval(), batch), plain.task.loss(one.model, batch))
    one.model.train()
    torch.manual_seed(3)
    passes = [plain.task.loss(one.model, batch) for _ in range(2)]
    torch.manual_seed(3)
    found = one.task.loss(one.model, batch)
    assert found > sum(passes) / 2
    assert not torch.equal(*passes)


def test_only_shares_of_classes_can_disagree():
    one = case("text-classification/bert")
    with pytest.raises(ValueError, match="r_drop=1.0 compares shares of classes, which regression has not"):
        TextClassification(one.task.tokenizer, ["score"], problem_type="regression", r_drop=1.0)
