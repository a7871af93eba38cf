"""Attention: the textbook equation, the masks, and what happens at their edges."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.blocks.attention import MultiHeadAttention, masked_softmax
from glassformer.blocks.batch_masks import AttentionOptions, CausalMask, DenseMask
from glassformer.blocks.masks import as_keep, causal, combine, positions, real_positions
from glassformer.blocks.packing import PackedBatch, PackedCross
from glassformer.engine import kernels
from glassformer.inspect.record import record

masks = st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5).map(torch.tensor)


@settings(max_examples=40)
@given(keep=masks, heads=st.sampled_from([1, 2, 4]), is_causal=st.booleans(), seed=st.integers(0, 99))
def test_fused_equals_readable_for_any_mask(keep, heads, is_causal, seed):
    """Rows that may look nowhere included: they are zero in both."""
    torch.manual_seed(seed)
    attention, x = MultiHeadAttention(8, heads).eval(), torch.randn(len(keep), 6, 8)
    mask = DenseMask.from_keep(keep, causal(6, 6) if is_causal else None)
    fused = attention(x, mask)
    with record(attention, "pattern") as seen:
        readable = attention(x, mask)
    assert_close(fused, readable, atol=1e-6, rtol=1e-5)
    assert_close(seen["pattern"].sum(-1), mask.dense.any(-1).expand(-1, heads, 6).float())


@settings(max_examples=40)
@pytest.mark.parametrize("equal_lengths", [True, False])
@given(keep=masks, is_causal=st.booleans())
def test_packed_attention_equals_masked_attention(equal_lengths, keep, is_causal):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, len(keep), 6, 2, 4)
    packed = PackedBatch.from_keep(keep, causal=is_causal)
    way = packed.by_equal_lengths if equal_lengths else PackedCross(packed, packed, is_causal).by_mask
    context = way(*(packed.pack(x) for x in (query, key, value)), AttentionOptions(0.5))
    dense = DenseMask.from_keep(keep, causal(6, 6) if is_causal else None)
    expected = dense.attend(query, key, value, AttentionOptions(0.5))
    assert_close(packed.unpack(context), expected * keep[..., None, None])


@given(keep=masks, seed=st.integers(0, 99))
def test_packed_queries_over_packed_keys_equal_masked_attention(keep, seed):
    """Rows of other lengths, in the order of the queries."""
    torch.manual_seed(seed)
    source_keep = torch.rand(len(keep), 9) < 0.6
    query, (key, value) = torch.randn(len(keep), 6, 2, 4), torch.randn(2, len(keep), 9, 2, 4)
    queries = PackedBatch.from_keep(keep)
    keys = PackedBatch.from_keep(source_keep, rows=queries.rows)
    packed = (queries.pack(query), keys.pack(key), keys.pack(value))
    context = PackedCross(queries, keys).attend(*packed, AttentionOptions(0.5))
    expected = DenseMask.from_keep(source_keep).attend(query, key, value, AttentionOptions(0.5))
    assert_close(queries.unpack(context), expected * keep[..., None, None])


@given(keep=masks)
def test_packing_and_unpacking_loses_only_padding(keep):
    x = torch.randn(*keep.shape, 3)
    packed = PackedBatch.from_keep(keep)
    assert packed.pack(x).shape[0] == int(keep.sum())
    assert packed.lengths == sorted(keep.sum(1).tolist(), reverse=True)
    assert_close(packed.unpack(packed.pack(x)), x * keep[..., None])


def test_a_fully_masked_row_is_zero_and_has_a_finite_gradient():
    scores = torch.randn(2, 3, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False, False], [True, False, True]]))
    assert_close(weights.sum(-1), torch.tensor([0.0, 1.0]))
    weights.square().sum().backward()
    assert_close(scores.grad[0], torch.zeros(3))
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softmax_of_half_precision_is_taken_in_single(dtype):
    scores = torch.linspace(-8, 8, 500).to(dtype)
    assert_close(
        masked_softmax(scores, None), scores.float().softmax(-1).to(dtype), atol=0, rtol=torch.finfo(dtype).eps
    )
    assert masked_softmax(scores.double(), None).dtype == torch.float64


def test_causal_masks_are_aligned_at_the_end():
    """A later chunk of queries sees all the keys before it (torch's own flag would align at the start)."""
    assert causal(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_combined_masks_keep_what_both_keep():
    keep, order = torch.tensor([[True, True, False]]), causal(3, 3)
    assert_close(combine(keep, order)[0, 0], keep & order)
    assert combine(None, None) is None


def test_positions_count_from_the_first_real_token():
    keep = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]]).bool()
    assert positions(keep, 4, keep.device).tolist() == [[0, 0, 0, 1], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert real_positions(keep, 4, keep.device).tolist() == [[0, 0, 0, 1], [0, 1, 1, 2], [0, 1, 2, 3]]
    assert real_positions(keep, 2, keep.device, start=2).tolist() == [[0, 1], [1, 2], [2, 3]]


@pytest.mark.parametrize("kind", [torch.bool, torch.long, torch.float32])
def test_a_mask_of_any_type_means_one_is_keep(kind):
    ids = torch.zeros(1, 3, dtype=torch.long)
    assert as_keep(torch.tensor([[1, 1, 0]]).to(kind), ids).tolist() == [[True, True, False]]
    assert as_keep(torch.ones(1, 3).to(kind), ids) is None


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(1, 2\) but the ids have \(1, 3\)"):
        as_keep(torch.ones(1, 2), torch.zeros(1, 3))


def test_scores_to_add_are_not_taken_for_a_mask():
    with pytest.raises(ValueError, match="negative values; give 1 for keep"):
        as_keep(torch.tensor([[0.0, -1e4]]), torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"the shape \(texts, tokens\), not \(3,\)"):
        as_keep(None, torch.zeros(3))


@pytest.mark.gpu
@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("head_width", [5, 8, 64])
def test_packed_attention_on_a_gpu(head_width, heads):
    keep = torch.rand(6, 30, device="cuda") < 0.7
    query = torch.randn(6, 30, heads, head_width, device="cuda", dtype=torch.bfloat16)
    key, value = torch.randn(2, 6, 30, 2, head_width, device="cuda", dtype=torch.bfloat16)
    for is_causal in (False, True):
        packed = PackedBatch.from_keep(keep.cpu(), causal=is_causal, device=keep.device)
        context = packed.attend(*(packed.pack(x) for x in (query, key, value)), AttentionOptions(0.5))
        order = causal(30, 30, keep.device) if is_causal else None
        expected = DenseMask.from_keep(keep, order).attend(query, key, value, AttentionOptions(0.5))
        assert_close(packed.unpack(context), expected * keep[..., None, None], atol=2e-2, rtol=2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("heads", [2, 6])
def test_the_last_tokens_of_a_text_on_a_gpu(heads, kind):
    """Gradients, too, of the kernel that is aligned with the last key."""
    query = torch.randn(2, 40, heads, 64, device="cuda", dtype=kind, requires_grad=True)
    key, value = (torch.randn(2, 40, 2, 64, device="cuda", dtype=kind, requires_grad=True) for _ in range(2))
    found = CausalMask(25, query.device, 15).attend(query[:, 15:], key, value, AttentionOptions(0.5))
    order = causal(40, 40, query.device)
    expected = DenseMask.from_keep(None, order).attend(query, key, value, AttentionOptions(0.5))[:, 15:]
    assert_close(found, expected, atol=2e-2, rtol=2e-2)
    gradients = (torch.autograd.grad(one.square().sum(), (query, key, value)) for one in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs, atol=5e-2, rtol=5e-2)


@pytest.mark.gpu
@pytest.mark.parametrize(("group_size", "batch", "heads", "width"), [(4, 8, 2, 16), (3, 9, 3, 5), (2, 4, 8, 64)])
def test_the_kernel_for_beams_moves_what_is_used(group_size, batch, heads, width):
    keys, values = torch.randn(2, 2, batch, 10, heads, width, device="cuda")
    rows = torch.cat([torch.randint(group_size, (group_size,)) + start for start in range(0, batch, group_size)]).cuda()
    expected = [x.clone() for x in (keys, values)]
    for x in expected:
        x[:, :, :6] = x[:, rows, :6]
    kernels.reorder_cache(keys, values, rows, group_size=group_size, used=torch.tensor([6], device="cuda"))
    assert_close([keys, values], expected, atol=0, rtol=0)


def test_cross_attention_looks_at_the_source_alone():
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2).eval()
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    keep = torch.tensor([[True, True, True, False, False]])
    context = attention(x, DenseMask.from_keep(keep), source=attention.keys_and_values(memory))
    shorter = attention(x, DenseMask(), source=attention.keys_and_values(memory[:, :3]))
    assert_close(context, shorter)


def test_multi_head_attention_equals_torch():
    torch.manual_seed(0)
    ours = MultiHeadAttention(12, 3).eval()
    weights = [ours.query, ours.key, ours.value]
    x = torch.randn(2, 5, 12)
    expected, pattern = F.multi_head_attention_forward(
        *[x.transpose(0, 1)] * 3,
        12,
        3,
        torch.cat([part.weight for part in weights]),
        torch.cat([part.bias for part in weights]),
        None,
        None,
        False,
        0.0,
        ours.output.weight,
        ours.output.bias,
        training=False,
        average_attn_weights=False,
    )
    with record(ours, "pattern") as seen:
        assert_close(ours(x, DenseMask()), expected.transpose(0, 1))
    assert_close(seen["pattern"], pattern)
