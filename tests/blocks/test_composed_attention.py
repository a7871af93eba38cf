"""What attention is composed of: grouped queries, rotary positions, scores by distance, windows, norms of heads."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from families import ROPES
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.batch_masks import AttentionOptions, CausalMask, DenseMask, fused
from glassformer.blocks.cache import KVCache
from glassformer.blocks.masks import Window, causal, distances, has_gaps, within
from glassformer.blocks.packing import PackedBatch, PackedCross
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import LinearScaling, Rotary, rotate
from glassformer.inspect.record import record
from glassformer.models.rope import build_rotary

WIDTH, LENGTH = 12, 7
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@st.composite
def attentions(draw, *, is_causal):
    """An attention of any composition."""
    torch.manual_seed(draw(st.integers(0, 99)))
    heads, key_heads = draw(st.sampled_from([(1, 1), (4, 4), (4, 2), (4, 1), (6, 3)]))
    width = draw(st.sampled_from([2, 4, 6]))
    rope = draw(st.none() | st.sampled_from(ROPES))
    ahead = None if is_causal else draw(st.integers(0, 3))
    bias = RelativeBias(heads, 8, 20, bidirectional=not is_causal)
    nn.init.normal_(bias.table.weight)
    norm = draw(st.booleans())
    return MultiHeadAttention(
        WIDTH,
        heads,
        key_heads=key_heads,
        head_width=width,
        bias=draw(st.booleans()),
        head_norm=(lambda: nn.RMSNorm(width)) if norm else None,
        rotary=None if rope is None else build_rotary(rope, width, 5),
        position_scores=draw(st.sampled_from([None, bias])),
        window=draw(st.none() | st.just(Window(draw(st.integers(0, 4)), ahead))),
    ).eval()


def some(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, LENGTH, WIDTH, generator=generator)


@settings(max_examples=60)
@given(data=st.data(), is_causal=st.booleans())
def test_fused_is_readable(data, is_causal):
    attention, x = data.draw(attentions(is_causal=is_causal)), some(2)
    places = torch.arange(LENGTH)[None]
    mask = CausalMask(LENGTH, x.device, positions=places) if is_causal else DenseMask(positions=places)
    fused = attention(x, mask)
    with record(attention, "scores"):
        assert_close(attention(x, mask), fused, **CLOSE)


@settings(max_examples=60)
@given(data=st.data(), is_causal=st.booleans(), lengths=st.lists(st.integers(1, LENGTH), min_size=1, max_size=4))
def test_packed_is_alone(data, is_causal, lengths):
    """By either way of the packed batch."""
    attention, x = data.draw(attentions(is_causal=is_causal)), some(len(lengths))
    keep = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    packed = PackedBatch.from_keep(keep, causal=is_causal)
    packed = replace(packed, positions=packed.pack(torch.arange(LENGTH).expand_as(keep)))
    together = packed.unpack(attention(packed.pack(x), packed))
    for row, length in enumerate(lengths):
        places = torch.arange(length)[None]
        mask = CausalMask(length, x.device, positions=places) if is_causal else DenseMask(positions=places)
        assert_close(together[row, :length], attention(x[row : row + 1, :length], mask)[0], **CLOSE)
    query, key, value = (packed.pack(some(len(lengths), seed)).unflatten(-1, (-1, 3)) for seed in range(3))
    options = AttentionOptions(0.5, window=attention.window)
    by_mask = PackedCross(packed, packed, is_causal).by_mask(query, key, value, options)
    assert_close(by_mask, packed.by_equal_lengths(query, key, value, options), **CLOSE)


@settings(max_examples=60)
@given(data=st.data(), cut=st.integers(1, LENGTH - 1))
def test_the_last_tokens_alone_see_what_they_see_in_the_whole(data, cut):
    """A causal mask of the queries behind a cut, with all keys: for torch's kernel, windows, and scores by distance."""
    attention, kernel = data.draw(attentions(is_causal=True)), AttentionOptions(0.5)
    if data.draw(st.booleans()):
        kernel = kernel._replace(window=attention.window, bias=attention.position_scores)
    query, key, value = (some(2, seed).repeat(1, 1, 2).unflatten(-1, (attention.heads, -1)) for seed in range(3))
    found = CausalMask(LENGTH - cut, query.device, cut).attend(query[:, cut:], key, value, kernel)
    assert_close(found, CausalMask(LENGTH, query.device).attend(query, key, value, kernel)[:, cut:], **CLOSE)


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_the_order_that_a_gpus_kernels_know_by_name_is_ours(key_heads):
    query, (key, value) = torch.randn(2, 4, 3, 8), torch.randn(2, 2, key_heads, LENGTH, 8)
    masks = causal_lower_right(3, LENGTH), causal(3, LENGTH)
    named, made = (fused(query, key, value, options=AttentionOptions(0.5), mask=mask) for mask in masks)
    assert_close(named, made, **CLOSE)


@settings(max_examples=40)
@given(data=st.data(), cut=st.integers(1, LENGTH - 1))
@torch.no_grad()
def test_a_cache_goes_on_where_it_stopped(data, cut):
    attention, x = data.draw(attentions(is_causal=True)), some(2)
    whole = attention(x, CausalMask(LENGTH, x.device, positions=torch.arange(LENGTH)[None]))
    if attention.rotary is not None and hasattr(attention.rotary.scaling, "frequencies_at"):
        return  # there the whole text decides what its beginning is turned by
    cache = KVCache.empty(1, 2, attention.key_heads, LENGTH, attention.head_width, keep=None, like=x)
    for part in (x[:, :cut], *x[:, cut:].split(1, dim=1)):
        tokens = part.shape[1]
        places = cache.positions(tokens)
        found = attention(part, cache.mask(tokens, places), cache=cache.layers()[0])
        assert_close(found, whole[:, cache.used : cache.used + tokens], **CLOSE)
        cache = cache.advance(tokens)


@given(place=st.integers(0, 500), other=st.integers(0, 500), shift=st.integers(0, 300))
def test_turned_vectors_see_their_distance_alone(place, other, shift):
    rotary, (query, key) = Rotary(8), torch.randn(2, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def score(*places):
        turned = [rotate(x, rotary(torch.tensor([p]))) for x, p in zip((query, key), places, strict=True)]
        return (turned[0] * turned[1]).sum()

    assert_close(score(place, other), score(place + shift, other + shift), atol=1e-3, rtol=1e-3)


def test_a_pair_is_turned_by_its_angle():
    """Of a head of four: pairs (0, 2) and (1, 3), at place 3, by 3 and 3 / 100."""
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    found = rotate(x, Rotary(4, theta=10000.0)(torch.tensor([3])))[0, 0]
    for pair, angle in (((0, 2), 3.0), ((1, 3), 0.03)):
        turned = complex(x[0, 0, pair[0]], x[0, 0, pair[1]]) * complex(math.cos(angle), math.sin(angle))
        assert_close(found[list(pair)], torch.tensor([turned.real, turned.imag]))


def test_frequencies_stay_in_32_bits_wherever_a_model_goes():
    rotary = nn.Sequential(Rotary(8, scaling=LinearScaling(3.0))).to(torch.bfloat16)[0]
    assert rotary.frequencies.dtype == torch.float32
    assert_close(rotary.frequencies, Rotary(8).frequencies / 3)


def test_buckets_of_distances_by_hand():
    """Of eight buckets both ways, four each: 0, 1, then 2 to … and the far ones by their logarithm up to 16."""
    bias = RelativeBias(1, 8, 16, bidirectional=True)
    assert bias.bucket(torch.tensor([0, -1, -2, -5, -6, -99, 1, 2, 6])).tolist() == [0, 1, 2, 2, 3, 3, 5, 6, 7]
    back = RelativeBias(1, 8, 16, bidirectional=False)
    assert back.bucket(torch.tensor([3, 0, -1, -3, -4, -16])).tolist() == [0, 0, 1, 3, 4, 7]


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize(
    "mask",
    [
        DenseMask(),
        DenseMask.from_keep(torch.arange(LENGTH).expand(2, -1) != 3),
        CausalMask(LENGTH, torch.device("cpu")),
        PackedCross(*[PackedBatch.from_keep(torch.ones(2, LENGTH, dtype=torch.bool))] * 2),
    ],
    ids=["whole", "gaps", "causal", "packed"],
)
def test_layers_that_add_the_same_share_one_mask_of_scores(mask, learning, monkeypatch):
    """T5's: as large as the scores of a layer, it is made once for a batch, and comes in the shape of quick kernels."""
    bias, kernel, given = RelativeBias(4, 8, 20, bidirectional=True), nn.functional.scaled_dot_product_attention, []

    def seen(query, key, value, mask, *options, **more):
        given.append(mask)
        return kernel(query, key, value, mask, *options, **more)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", seen)
    layers = [MultiHeadAttention(WIDTH, 4, position_scores=bias).eval() for _ in range(3)]
    x = some(2).flatten(0, 1) if isinstance(mask, PackedCross) else some(2)
    with torch.set_grad_enabled(learning):
        for layer in layers:
            x = layer(x, mask)
    assert len(given) == 3
    assert given[0] is given[1] is given[2]
    assert given[0].dim() == 4
    assert given[0].stride(-1) == 1
    if learning:
        x.square().sum().backward()
        assert bias.table.weight.grad.abs().sum() > 0


@given(targets=st.integers(1, 6), more=st.integers(0, 6), before=st.integers(0, 9), after=st.none() | st.integers(0, 5))
def test_a_window_that_spans_all_hides_nothing(targets, more, before, after):
    window, sources = Window(before, after), targets + more
    kept = within(distances(targets, sources, torch.device("cpu")), window)
    assert bool(kept.all()) == window.spans(targets, sources)
    if after is not None:
        ways = [
            [before_i - before <= j <= before_i + after for j in range(sources)]
            for before_i in range(more, more + targets)
        ]
        assert kept.tolist() == ways


@pytest.mark.parametrize(("row", "gaps"), [([0, 1, 1, 0], False), ([1, 0, 1], True), ([0, 0, 0], False), ([1], False)])
def test_gaps_are_seen(row, gaps):
    assert has_gaps(torch.tensor([row], dtype=torch.bool)) == gaps


def test_heads_that_cannot_share_their_keys():
    with pytest.raises(ValueError, match="4 heads cannot share 3 heads of keys; choose a divisor of 4"):
        MultiHeadAttention(8, 4, key_heads=3)
    with pytest.raises(ValueError, match="a head of width 3 has an odd number"):
        Rotary(3)
    assert causal(2, 2).tolist() == [[True, False], [True, True]]
