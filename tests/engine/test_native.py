"""The kernels in C say what torch says, however they are compiled; and nothing is missing without a compiler."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from boards import SIZES
from families import SMALL_GPT, random_model
from glassformer.blocks.activations import tanh_gelu
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.batch_masks import AttentionOptions, DenseMask
from glassformer.blocks.masks import Window
from glassformer.blocks.packing import PackedBatch
from glassformer.blocks.rotary import Rotary, rotate
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer
from glassformer.engine import native
from glassformer.engine.cache import PreparedCache
from glassformer.engine.decoder import PreparedDecoder
from glassformer.engine.layers import prepared_layers
from glassformer.engine.linear import (
    DenseProjection,
    Int8Linear,
    Int8Projection,
    OneDnnProjection,
    fuse_linears,
    round_rows,
    small_batch_of,
)
from glassformer.engine.stack import ACTIVATIONS, StackKernel

pytestmark = pytest.mark.skipif(native.kernels() is None, reason="there is no C compiler")
KERNELS, OPENED = native.kernels.__wrapped__, native.opened.__wrapped__
OTHERS = [
    pytest.param(build, marks=pytest.mark.slow) for build in ("cc -mno-avx512f", "cc -mno-avx512f -mno-avx2 -mno-avx")
]
BUILDS = ["cc", *OTHERS]


@pytest.fixture(scope="module", params=BUILDS)
def build(request, tmp_path_factory):
    """The kernels as another processor would have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", request.param)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("native")))
        found = OPENED()
        assert isinstance(found, native.Kernels)
        patch.setattr(native, "kernels", lambda: found)
        yield


@pytest.mark.few(1)
@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    rows=st.integers(1, native.SMALL_BATCH),
    sizes=st.tuples(st.integers(1, 90), st.integers(1, 70)),
    parts=st.tuples(*[st.booleans()] * 4),
)
@torch.inference_mode()
def test_a_linear_layer_and_what_stands_around_it(build, data, rows, sizes, parts):
    (inputs, outputs), (bias, normed, adding, eight) = sizes, parts
    torch.manual_seed(data.draw(st.integers(0, 99)))
    layer, x = nn.Linear(inputs, outputs, bias=bias), torch.randn(rows, 1, inputs) * 3
    weight, shift, added = torch.randn(inputs), torch.randn(inputs), torch.randn(rows, 1, outputs)
    project = Int8Projection(Int8Linear.of(layer)) if eight else DenseProjection(layer.weight, layer.bias)
    few = small_batch_of(project if eight else OneDnnProjection(project, weight))
    centred = data.draw(st.booleans())  # or an RMS norm, which has no bias
    struct = native.NormStruct(weight.data_ptr(), shift.data_ptr() if centred else None, 1e-5, centred)
    norm = struct if normed else None
    found = few(x, norm=norm, added=added if adding else None)
    usual = F.layer_norm(x, (inputs,), weight, shift, 1e-5) if centred else F.rms_norm(x, (inputs,), weight, 1e-5)
    seen = usual if normed else x
    expected = project(seen) + (added if adding else 0)
    # what is half way between two steps may be rounded the other way after a norm of another order
    near = {"atol": 0.1, "rtol": 0.1} if eight and normed else {"atol": 2e-5, "rtol": 2e-5}
    assert_close(found, expected, **near)


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    shape=st.tuples(
        st.integers(1, native.SMALL_BATCH), st.integers(1, 40), st.integers(1, 5), st.sampled_from([3, 8, 24, 64])
    ),
    group=st.integers(1, 4),
)
@torch.inference_mode()
def test_the_next_token_looks_back(build, data, shape, group):
    """As far as a window reaches, turned by its place, each head of keys for a group of queries."""
    batch, length, heads, width = shape
    torch.manual_seed(data.draw(st.integers(0, 99)))
    room = torch.randn(2, batch, length + 2, heads, width)
    query, key, value = torch.randn(batch, 1, heads * (group + 2), width).split([heads * group, heads, heads], 2)
    reach = data.draw(st.sampled_from([None, 0, 3, 50]))
    rotation = None if width % 2 else Rotary(width)(torch.randint(0, 99, (data.draw(st.sampled_from([1, batch])), 1)))
    keep = torch.rand(batch, length + 3) < data.draw(st.sampled_from([0.0, 0.5]))  # a row may keep nothing
    keep = data.draw(st.sampled_from([None, keep[:, :length]]))
    keys, values = room[:, :, :length].clone()
    turned = (query, key) if rotation is None else (rotate(query, rotation), rotate(key, rotation))
    keys[:, -1:], values[:, -1:] = turned[1], value
    window = None if reach is None else Window(reach)
    expected = DenseMask.from_keep(keep).attend(turned[0], keys, values, AttentionOptions(0.3, window=window))
    mine = room[:, :, :length]
    first = 0 if reach is None else max(0, length - 1 - reach)
    found = native.attend_next(query, key, value, *mine, keep=keep, scale=0.3, rotation=rotation, first=first)
    assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert_close(mine, torch.stack([keys, values]), atol=1e-6, rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 300), width=st.integers(1, 90), scale=st.sampled_from([0.0, 1e-30, 1.0, 1e30]))
@torch.inference_mode()
def test_rows_over_their_largest_in_steps(build, rows, width, scale):
    x = torch.randn(rows, 1, width) * scale
    (found, sizes), (expected, largest) = native.round_rows(x), round_rows(x)
    assert_close(sizes, largest, atol=0, rtol=1e-6)
    assert (found.int() - expected.int()).abs().max() <= 1  # where a number stands between two steps
    assert (found == expected).float().mean() > 0.99


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=st.integers(1, 300), width=st.integers(1, 90))
@torch.inference_mode()
def test_what_comes_after_a_product(build, data, rows, width):
    gelu, with_bias, with_more = (data.draw(st.booleans()) for _ in range(3))
    y, largest = torch.randn(rows, 1, width) * 4, torch.rand(rows, 1, 1) * 3
    bias = torch.randn(width) if with_bias else None
    added = torch.randn(1, 1, width) if with_more else None
    expected = y * largest + (0 if bias is None else bias)
    expected = (F.gelu(expected) if gelu else expected) + (0 if added is None else added)
    native.finish_rows(y, largest, bias=bias, added=added, gelu=gelu)
    assert_close(y, expected, atol=2e-6, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 70), min_size=1, max_size=5).filter(any),
    heads=st.sampled_from([(1, 1), (4, 4), (4, 2), (6, 1)]),
    width=st.sampled_from([1, 5, 16, 32, 48, 64, 80]),
    window=st.sampled_from([None, Window(0, 0), Window(3, 0), Window(9, 9), Window(20, None)]),
    size=st.sampled_from([0.1, 1.0, 4.0]),
    causal=st.booleans(),
)
@torch.inference_mode()
def test_attention_within_sequences(build, lengths, heads, width, window, size, causal):
    """Queries, keys and values of one product, so that they stand beside one another."""
    keep = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    packed = PackedBatch.from_keep(keep, causal=causal)
    query, key, value = (torch.randn(sum(lengths), heads[0] + 2 * heads[1], width) * size).split(
        (heads[0], heads[1], heads[1]), 1
    )
    expected = packed.by_equal_lengths(query, key, value, AttentionOptions(0.3, window=window))
    places = {"boundaries": packed.boundaries, "longest": packed.longest}
    found = native.attend_packed(query, key, value, **places, scale=0.3, window=window, causal=causal)
    assert_close(found, expected, atol=2e-5 * size, rtol=2e-5)


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(), groups=st.integers(1, 5), within=st.integers(1, 5), used=st.integers(0, 9), width=st.integers(1, 9)
)
@torch.inference_mode()
def test_rows_trade_places_within_their_groups(build, data, groups, within, used, width):
    draws = st.lists(st.integers(0, within - 1), min_size=within, max_size=within)
    rows = torch.tensor([[group * within + row for row in data.draw(draws)] for group in range(groups)]).flatten()
    cache = torch.randn(2, 3, groups * within, 9, 2, width)
    expected = cache.clone()
    expected[:, :, :, :used] = cache[:, :, rows, :used]
    native.reorder_cache(*cache, rows, group_size=within, used=used)
    assert_close(cache, expected, atol=0, rtol=0)


@torch.inference_mode()
def test_long_texts_trade_places_piece_by_piece(build):
    cache, rows = torch.randn(2, 1, 4, 300, 2, 64), torch.tensor([1, 0, 0, 3])
    expected = cache[:, :, rows]
    native.reorder_cache(*cache, rows, group_size=4, used=300)
    assert_close(cache, expected, atol=0, rtol=0)


@torch.inference_mode()
def test_the_same_steps_as_torch_takes(build):
    """Inputs are rounded to the very same steps: what is left is the rounding of the last product."""
    layer, x = Int8Linear.of(nn.Linear(768, 300)), torch.randn(5, 768)
    assert_close(small_batch_of(Int8Projection(layer))(x, norm=None, added=None), layer(x), atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("eight", [False, True])
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@torch.inference_mode()
def test_what_is_not_finite_is_seen_in_its_own_row_alone(build, broken, eight):
    layer = nn.Linear(20, 6)
    few = small_batch_of(Int8Projection(Int8Linear.of(layer)) if eight else DenseProjection(layer.weight, layer.bias))
    x = torch.randn(3, 20)
    x[1, 4] = broken
    for y in (few(x, norm=None, added=None), native.round_rows(x)[1]):
        assert y.isfinite().all(1).tolist() == [True, False, True]


@pytest.mark.parametrize("threads", [1, 3])
@torch.inference_mode()
def test_any_number_of_threads(threads):
    before, layer, x = torch.get_num_threads(), nn.Linear(33, 501), torch.randn(2, 33)
    torch.set_num_threads(threads)
    try:
        found = native.SmallBatchLinear(layer.weight, layer.bias)(x, norm=None, added=None)
    finally:
        torch.set_num_threads(before)
    assert_close(found, layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("part", ["embeddings.token", "layers.0.attention_norm", "layers.1.feed_forward.up"])
def test_weights_of_other_kinds_are_left_to_torch(part):
    """It takes them or says what it cannot; the kernels would read them wrongly."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    model.get_submodule(part).bfloat16()
    with pytest.raises(RuntimeError, match="type"):
        gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=3)


def test_a_text_of_padding_alone_breaks_nothing():
    model, request = random_model("gpt2", "text-generation", SMALL_GPT), {"max_new_tokens": 4, "eos_token_id": [10**6]}
    ids, mask = torch.tensor([[5], [6]]), torch.tensor([[1], [0]])
    both = gf.generate(model, None, ids, attention_mask=mask, **request)
    assert_close(both[:1], gf.generate(model, None, ids[:1], **request), atol=0, rtol=0)


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", "broken", 'cc "'])
def test_without_a_compiler_everything_is_as_before(compiler, tmp_path, monkeypatch, caplog):
    (tmp_path / "broken").write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nothing > "$2"\n')
    (tmp_path / "broken").chmod(0o755)
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    expected = gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=8)
    monkeypatch.setenv("CC", str(tmp_path / "broken") if compiler == "broken" else compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "opened", OPENED)
    with caplog.at_level("INFO", logger="glassformer"):
        assert KERNELS() is None
    assert "without kernels of our own" in caplog.text
    assert not list(tmp_path.rglob("*.so"))
    assert "\n" not in (native.why_not() or "\n")
    monkeypatch.setattr(native, "kernels", lambda: None)
    again = random_model("gpt2", "text-generation", SMALL_GPT)
    again.load_state_dict(model.state_dict())
    assert_close(gf.generate(again, None, torch.tensor([[5, 6]]), max_new_tokens=8), expected, atol=0, rtol=0)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("rows", [1, 3, native.SMALL_BATCH])
@torch.inference_mode()
def test_all_layers_are_one_call_that_says_what_their_parts_say(build, model_type, rows):
    model = random_model(model_type, "text-generation", SIZES)
    decoder = PreparedDecoder(model, fuse_linears)
    ids = torch.randint(1, 30, (rows, 6))
    mask = torch.arange(6) >= torch.arange(rows)[:, None] % 4  # padded on the left
    assert decoder.stack is not None
    found = []
    for stack in (decoder.stack, None):
        decoder.stack = stack
        state = decoder.start(ids, mask, length=9)
        _, state = decoder.step(ids, state)
        for token in (5, 6):
            logits, state = decoder.step(torch.full((rows, 1), token), state)
        found.append(logits)
    assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(width=st.integers(1, 70), rows=st.integers(1, 3), gated=st.booleans(), data=st.data())
@torch.inference_mode()
def test_every_activation_of_a_layer(build, width, rows, gated, data):
    name = data.draw(st.sampled_from(ACTIVATIONS))
    activation = {"relu": F.relu, "gelu": F.gelu, "tanh_gelu": tanh_gelu, "silu": F.silu}[name]
    block = (GatedFeedForward if gated else FeedForward)(8, width, activation, bias=True)
    block.up.weight.mul_(data.draw(st.sampled_from([0.1, 1.0, 40.0])))
    pre_norm = data.draw(st.booleans())
    layer = Layer(MultiHeadAttention(8, 2), block, lambda: nn.LayerNorm(8), pre_norm=pre_norm).eval()
    x = torch.randn(rows, 1, 8)
    cache, stack = (
        PreparedCache.empty(1, rows, 2, 1, 4, keep=None, like=x),
        StackKernel.of(prepared_layers([layer], fuse_linears), None),
    )
    mask = cache.mask(1, cache.positions(1))
    expected = layer(x, mask, cache=cache.layers()[0], source=None, source_mask=None)
    assert_close(stack(x, cache, mask), expected, atol=2e-5, rtol=1e-5)
