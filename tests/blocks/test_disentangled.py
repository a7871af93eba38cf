"""Scores between content and position, and the convolution beside a layer: the same by hand, packed and alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from glassformer.blocks.batch_masks import AttentionOptions, DenseMask
from glassformer.blocks.convolved import TextConvolution
from glassformer.blocks.disentangled import DisentangledScores, RelativePositions, skew
from glassformer.blocks.packing import PackedBatch, PackedCross

WIDTH, HEADS = 12, 3
texts = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(
    lambda lengths: torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
)


def disentangled(terms, buckets=None):
    torch.manual_seed(0)
    positions = RelativePositions(WIDTH, 6, buckets=buckets, norm=nn.LayerNorm(WIDTH))
    key, query = (nn.Linear(WIDTH, WIDTH) if term in terms else None for term in ("c2p", "p2c"))
    return DisentangledScores(positions, HEADS, key=key, query=query, scale=0.3)


@given(rows=st.integers(1, 6), width=st.integers(1, 6))
def test_skewing_picks_the_distance_of_each_pair(rows, width):
    x = torch.arange(2.0 * rows * (rows + width - 1)).view(2, rows, rows + width - 1)
    expected = [[x[:, i, j - i + rows - 1] for j in range(width)] for i in range(rows)]
    assert_close(skew(x, width), torch.stack([torch.stack(row, -1) for row in expected], -2))


@pytest.mark.parametrize("buckets", [None, 2, 5, 8])
@pytest.mark.parametrize("terms", [("c2p",), ("p2c",), ("c2p", "p2c")])
def test_each_pair_of_tokens_by_hand(terms, buckets):
    scores, length = disentangled(terms, buckets), 9
    torch.manual_seed(1)
    query, key = torch.randn(2, 2, HEADS, length, WIDTH // HEADS)
    found = DenseMask().position_bias(scores, query, key)
    table = scores.positions()
    for i, j in [(0, 0), (0, 8), (8, 0), (3, 5), (5, 3), (2, 3)]:
        away = i - j if buckets is None else int(scores.positions.bucket(torch.tensor(i - j)))
        row = min(max(away + scores.positions.reach, 0), len(table) - 1)
        total = torch.zeros(2, HEADS)
        if scores.key is not None:
            total += (query[:, :, i] * scores.key(table[row]).view(HEADS, -1)).sum(-1)
        if scores.query is not None:
            total += (key[:, :, j] * scores.query(table[row]).view(HEADS, -1)).sum(-1)
        assert_close(found[:, :, i, j], 0.3 * total)


def test_far_distances_share_buckets_that_grow():
    positions = RelativePositions(4, 512, buckets=256)
    away = torch.tensor([0, 1, -5, 127, 128, 129, 130, 131, 200, 511, 600, -511])
    assert positions.bucket(away).tolist() == [0, 1, -5, 127, 128, 129, 130, 131, 169, 255, 270, -255]
    assert positions.rows(torch.tensor([0, 600, -600, 1])).tolist() == [256, 0, 511, 255]


@settings(max_examples=20)
@given(keep=texts, equal_lengths=st.booleans())
def test_packed_scores_equal_padded_ones(keep, equal_lengths):
    scores = disentangled(("c2p", "p2c"))
    query, key, value = torch.randn(3, *keep.shape, HEADS, WIDTH // HEADS, generator=torch.Generator().manual_seed(0))
    packed = PackedBatch.from_keep(keep)
    way = packed.by_equal_lengths if equal_lengths else PackedCross(packed, packed).by_mask
    context = way(*(packed.pack(x) for x in (query, key, value)), AttentionOptions(0.5, bias=scores))
    expected = DenseMask.from_keep(keep).attend(query, key, value, AttentionOptions(0.5, bias=scores))
    assert_close(packed.unpack(context), expected * keep[..., None, None])


@pytest.mark.parametrize("groups", [1, 3])
@settings(max_examples=20)
@given(keep=texts, left=st.booleans(), kernel=st.sampled_from([1, 3, 5]))
def test_a_convolution_sees_neither_padding_nor_neighbours(groups, keep, left, kernel):
    torch.manual_seed(0)
    convolution = TextConvolution(WIDTH, kernel, torch.tanh, groups=groups)
    keep = keep.flip(1) if left else keep
    x = torch.randn(*keep.shape, WIDTH)
    packed = PackedBatch.from_keep(keep)
    found = packed.unpack(convolution(packed.pack(x), packed))
    padded = convolution(x, DenseMask.from_keep(keep))
    for row, one in enumerate(keep):
        alone = convolution(x[row, one][None], DenseMask())[0]
        assert_close(found[row, one], alone)
        assert_close(padded[row, one], alone)


def test_what_cannot_be_built_is_said():
    with pytest.raises(ValueError, match="a convolution over 4 tokens has none in its middle; give an odd number"):
        TextConvolution(WIDTH, 4, torch.tanh)
    with pytest.raises(ValueError, match="a width of 12 cannot be shared by 5 groups"):
        TextConvolution(WIDTH, 3, torch.tanh, groups=5)
    with pytest.raises(ValueError, match="256 buckets cannot hold distances up to 100"):
        RelativePositions(4, 100, buckets=256)
