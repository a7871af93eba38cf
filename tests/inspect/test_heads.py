"""Heads: their worth is the loss without them, and their statistics are what they look at."""

import copy
import math

import pytest
import torch

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.inspect.heads import importance, pruning
from inspect_cases import hooked, inputs_of, small


def loss_of(model, inputs):
    def loss():
        with torch.no_grad():
            return float(model(**inputs).logits.square().mean())

    return loss


@pytest.mark.parametrize(
    ("model_type", "head"),
    [("bert", "text-classification"), ("gpt2", "text-generation"), ("marian", "text2text-generation")],
)
def test_a_heads_worth_is_the_loss_after_surgery(model_type, head):
    model = small(model_type, head)
    inputs = inputs_of(model)
    base, ranked = importance(model, loss_of(model, inputs))
    assert base == pytest.approx(loss_of(model, inputs)(), rel=1e-5)
    assert [head.delta for head in ranked] == sorted(head.delta for head in ranked)
    for found in ranked:
        operated = copy.deepcopy(model)
        part = operated.get_submodule(found.attention)
        width = part.output.in_features // part.heads
        with torch.no_grad():
            part.output.weight[:, found.number * width : (found.number + 1) * width] = 0.0
        assert loss_of(operated, inputs)() - base == pytest.approx(found.delta, abs=1e-5)
    assert not hooked(model)


def test_the_pruning_report_goes_from_none_to_all():
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model)
    base, ranked = importance(model, loss_of(model, inputs))
    cuts = pruning(model, loss_of(model, inputs), ranked, points=3)
    assert [cut.heads for cut in cuts] == [0, 2, 4, 6]
    assert cuts[0].loss == pytest.approx(base)
    one_head = 4 * (3 * 13 + 12)  # rows of query, key and value with their bias, columns of the output
    assert [cut.parameters for cut in cuts] == [0, 2 * one_head, 4 * one_head, 6 * one_head]
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.output.weight.zero_()
    assert cuts[-1].loss == pytest.approx(loss_of(model, inputs)(), abs=1e-5)


def looking(offset):
    """A pattern in which every token looks `offset` further, or at the first where there is none."""

    def edit(pattern):
        length = pattern.shape[-1]
        there = torch.arange(length) + offset
        there[(there < 0) | (there >= length)] = 0
        return torch.nn.functional.one_hot(there, length).to(pattern).expand_as(pattern)

    return edit


def spread(pattern):
    """All tokens alike, which sum to one."""
    return torch.full_like(pattern, 1 / pattern.shape[-1])


def statistics(model, inputs, edit):
    with gf.record(model, edit={"*attention.pattern": edit}):
        return gf.attention_statistics(model, inputs)


def test_habits_of_heads_are_told():
    model = random_model("bert", None, SMALL_BERT)
    inputs = inputs_of(model, lengths=(8,))
    even = statistics(model, inputs, spread)[0]
    assert even.entropy == pytest.approx(math.log(8))
    assert even.first == even.sink == pytest.approx(1 / 8)
    assert even.previous == even.next == pytest.approx(7 / 64)
    assert even.distance == pytest.approx(sum(abs(i - j) for i in range(8) for j in range(8)) / 64)
    assert even.induction is None


def test_a_previous_token_head():
    model = random_model("bert", None, SMALL_BERT)
    inputs = inputs_of(model, lengths=(8,))

    def mostly(offset):
        return lambda pattern: 0.9 * looking(offset)(pattern) + 0.1 * spread(pattern)

    back, ahead = (statistics(model, inputs, mostly(offset))[4] for offset in (-1, 1))
    assert (back.attention, back.number) == ("layers.1.attention", 1)
    assert back.previous == pytest.approx(0.9 * 7 / 8 + 0.1 * 7 / 64)
    assert ahead.next == pytest.approx(0.9 * 7 / 8 + 0.1 * 7 / 64)
    to_first = statistics(model, inputs, mostly(-99))[0]
    assert to_first.first == to_first.sink == pytest.approx(0.9 + 0.1 / 8)


def test_an_induction_head():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    inputs = inputs_of(model, lengths=(8,))
    half = SMALL_GPT["n_positions"] // 2
    assert statistics(model, inputs, looking(1 - half))[0].induction == pytest.approx(1.0)
    assert statistics(model, inputs, looking(-half))[0].induction == pytest.approx(0.0)
    plain = gf.attention_statistics(model, inputs)
    assert all(0 < one.induction < 0.5 for one in plain)


def test_padding_does_not_count():
    model = random_model("bert", None, SMALL_BERT)
    inputs = inputs_of(model, lengths=(5,))
    alone = gf.attention_statistics(model, inputs)
    for side in ("left", "right"):
        extra = (3, 0) if side == "left" else (0, 3)
        padded = {name: torch.nn.functional.pad(value, extra) for name, value in inputs.items()}
        for one, other in zip(alone, gf.attention_statistics(model, padded), strict=True):
            for kind in ("entropy", "distance", "previous", "next", "first", "sink"):
                assert getattr(other, kind) == pytest.approx(getattr(one, kind), abs=1e-5)


def test_looks_across_have_no_distance():
    model = small("marian", "text2text-generation")
    found = {one.attention: one for one in gf.attention_statistics(model, inputs_of(model))}
    assert found["decoder.layers.0.cross_attention"].distance is None
    assert found["decoder.layers.0.attention"].next == 0
    assert found["decoder.layers.0.attention"].distance > 0
    assert found["encoder.layers.0.attention"].next > 0


def test_models_without_heads():
    model = small("glassformer-rnn", "text-generation")
    with pytest.raises(ValueError, match="no attention heads"):
        gf.attention_statistics(model, inputs_of(model))
