"""Laws of the RNN-era attentions: each equals its formula, and masked tokens do not exist."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.blocks.alignment import alignment
from glassformer.blocks.point import any_hooked
from glassformer.inspect.record import record

NAMES = ["additive", "dot", "general", "concat", "scaled_dot"]
every_name = pytest.mark.parametrize("name", NAMES)
half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def build(name, *, width=4, memory=None, **more):
    memory = width if memory is None or "dot" in name else memory
    torch.manual_seed(0)
    return alignment(name, width, memory, **more), memory


def formula(name, attention, q, m):
    """One score, from one query and one memory vector, as the papers write it."""
    weights = dict(attention.named_parameters())
    match name:
        case "dot":
            return q @ m
        case "scaled_dot":
            return q @ m / len(q) ** 0.5
        case "general":
            return q @ (weights["scorer.memory.weight"] @ m)
        case "concat":
            return weights["scorer.weigh.weight"][0] @ (weights["scorer.both.weight"] @ torch.cat([q, m])).tanh()
    mixed = weights["scorer.query.weight"] @ q + weights["scorer.memory.weight"] @ m
    return weights["scorer.weigh.weight"][0] @ mixed.tanh()


@every_name
@settings(deadline=None, max_examples=20)
@given(batch=st.integers(1, 3), targets=st.integers(1, 3), sources=st.integers(1, 4), seed=st.integers(0, 99))
def test_equals_its_formula(name, batch, targets, sources, seed):
    attention, memory_width = build(name, memory=6)
    torch.manual_seed(seed)
    query, memory = torch.randn(batch, targets, 4), torch.randn(batch, sources, memory_width)
    keep = torch.rand(batch, sources) < 0.7
    with record(attention, "*") as seen:
        context = attention(query, memory, keep)
    for b in range(batch):
        for t in range(targets):
            scores = torch.stack([formula(name, attention, query[b, t], m) for m in memory[b]])
            weights = torch.zeros(sources)
            weights[keep[b]] = scores[keep[b]].softmax(0)
            assert_close(seen["scores"][b, t], scores, atol=1e-5, rtol=1e-5)
            assert_close(seen["pattern"][b, t], weights, atol=1e-6, rtol=1e-5)
            assert_close(context[b, t], weights @ memory[b], atol=1e-5, rtol=1e-5)


@every_name
def test_without_a_mask_every_token_counts(name):
    attention, memory_width = build(name, memory=6)
    query, memory = torch.randn(2, 3, 4), torch.randn(2, 5, memory_width)
    with record(attention, "pattern") as seen:
        context = attention(query, memory)
    assert_close(seen["pattern"].sum(-1), torch.ones(2, 3))
    assert_close(context, attention(query, memory, torch.ones(2, 5)))


@every_name
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masked_memory_is_invisible_and_a_fully_masked_row_is_zero(name, dtype):
    attention, memory_width = build(name, memory=6)
    attention.to(dtype)
    query = torch.randn(2, 3, 4, dtype=dtype, requires_grad=True)
    memory = torch.randn(2, 5, memory_width, dtype=dtype, requires_grad=True)
    keep = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]])
    with record(attention, "pattern") as seen:
        context = attention(query, memory, keep)
    assert_close(seen["pattern"][1], torch.zeros(3, 5, dtype=dtype))
    assert_close(context[1], torch.zeros(3, memory_width, dtype=dtype))
    other = torch.where(keep.bool()[..., None], memory, torch.randn_like(memory) * 100)
    assert_close(attention(query, other, keep), context)
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
        attention(query, memory, keep).sum().backward()
    for gradient in (query.grad, memory.grad, *(weight.grad for weight in attention.parameters())):
        assert gradient.isfinite().all()
    assert_close(memory.grad[~keep.bool()], torch.zeros_like(memory.grad[~keep.bool()]))


class SoftmaxTypes(TorchDispatchMode):
    """Notes in which precision softmax was computed."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if "softmax" in str(func):
            self.seen.add(out.dtype)
        return out


@every_name
@half
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_is_fp32_where_inputs_are_half(name, dtype, masked):
    attention, memory_width = build(name, memory=6)
    attention.to(dtype)
    query, memory = torch.randn(2, 3, 4, dtype=dtype), torch.randn(2, 5, memory_width, dtype=dtype)
    with SoftmaxTypes() as types:
        context = attention(query, memory, torch.ones(2, 5).tril(3) if masked else None)
    assert types.seen == {torch.float32}
    assert context.dtype == dtype


@every_name
def test_step_by_step_shows_the_same_as_all_at_once(name):
    (whole, memory_width), (steps, _) = build(name, memory=6), build(name, memory=6, stepwise=True)
    steps.load_state_dict(whole.state_dict())
    query, memory = torch.randn(2, 3, 4), torch.randn(2, 5, memory_width)
    keep = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    with record(whole, ["scores", "pattern"]) as expected:
        contexts = whole(query, memory, keep)
    with record(steps, ["scores", "pattern"]) as seen:
        keys = steps.keys(memory)
        loop = [steps.forward(query[:, t : t + 1], memory, keep, keys) for t in range(3)]
    assert_close(torch.cat(loop, dim=1), contexts)
    for name_of_point in ("scores", "pattern"):
        assert seen[name_of_point].shape == (2, 3, 5)
        assert_close(seen[name_of_point], expected[name_of_point])


@every_name
@pytest.mark.parametrize("stepwise", [False, True])
def test_scores_and_pattern_can_be_edited(name, stepwise):
    attention, width = build(name, stepwise=stepwise)
    query, memory = torch.randn(2, 1, 4), torch.randn(2, 5, width)
    before = attention(query, memory)

    def first_only(value):
        return torch.zeros_like(value).index_fill(-1, torch.tensor([0]), 1.0)

    with record(attention, edit={"pattern": first_only}):
        assert_close(attention(query, memory), memory[:, :1])
    with record(attention, edit={"scores": torch.zeros_like}):
        assert_close(attention(query, memory), memory.mean(1, keepdim=True))
    assert not any_hooked(attention)
    assert_close(attention(query, memory), before, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_dot_needs_equal_widths(name):
    with pytest.raises(ValueError, match=f"{name} .* query of 4 and a memory of 8; use 'general'"):
        alignment(name, 4, 8)


def test_an_unknown_name_is_named():
    with pytest.raises(ValueError, match=r"'cosine'.*additive, dot, general, concat, scaled_dot"):
        alignment("cosine", 4, 4)


@pytest.mark.parametrize("name", ["additive", "concat"])
def test_the_width_of_the_comparison_can_be_chosen(name):
    assert alignment(name, 4, 6).scorer.weigh.in_features == 4
    assert alignment(name, 4, 6, width=9).scorer.weigh.in_features == 9
