"""The kernels for GPUs are their plain versions; without a GPU Triton's interpreter runs them, where it is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from engine.interpreted import DEVICE
from families import random_model, sequences, settings_of
from generators import GENERATING, padded_left
from glassformer.blocks.activations import tanh_gelu
from glassformer.blocks.rotary import rotate
from glassformer.engine import kernels
from glassformer.engine.decoder import PreparedDecoder
from glassformer.engine.graphs import StaticCache, cloned
from glassformer.engine.kernels import NormParameters, Past, Tiling
from glassformer.engine.linear import fuse_linears
from glassformer.generate import pick
from glassformer.generate.search import TokenCarry, TokenUpdate
from glassformer.generate.stop import Stop

pytestmark = [
    pytest.mark.gpu(interpreted=True),
    pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning"),  # an exponential may be infinite: it is divided by
]
LAYERED = [case for case in GENERATING if "rnn" not in case[0] and "seq2seq" not in case[0]]
ACTIVATIONS = {None: lambda x: x, "tanh_gelu": tanh_gelu, "relu": F.relu, "silu": F.silu, "gelu": F.gelu}
CLOSE = {torch.float32: {"atol": 1e-4, "rtol": 1e-4}, torch.bfloat16: {"atol": 3e-2, "rtol": 3e-2}}
CLOSE[torch.float16] = CLOSE[torch.bfloat16]
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # of bfloat16 the interpreter multiplies the bits
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


LAYERS = [(None, False, None), ("tanh_gelu", False, "layer"), ("relu", False, "rms")]
LAYERS += [("silu", True, "rms"), ("gelu", True, "layer"), ("tanh_gelu", True, None)]  # few: a GPU compiles each


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(DEVICE, dtype)


@DTYPES
@pytest.mark.parametrize(("activation", "gated", "norm"), LAYERS)
def test_a_linear_layer_with_all_that_stands_around_it(activation, gated, norm, dtype):
    """Odd sizes; in one piece, and in tiles that programs share out, the last of them not whole."""
    x, weight, bias = random(2, 1, 37, dtype=dtype), random(20, 37, dtype=dtype) / 6, random(20, dtype=dtype)
    gain, shift = random(37, dtype=dtype), random(37, dtype=dtype)
    parts, y = None, x.float()
    if norm == "rms":
        parts, y = NormParameters(gain, None, 1e-5, False), F.rms_norm(y, (37,), gain.float(), 1e-5)
    if norm == "layer":
        parts, y = NormParameters(gain, shift, 1e-5, True), F.layer_norm(y, (37,), gain.float(), shift.float(), 1e-5)
    y = F.linear(y, weight.float(), bias.float())
    act = ACTIVATIONS[activation]
    y = act(y[..., :10]) * y[..., 10:] if gated else act(y)
    added = random(*y.shape, dtype=dtype)
    more = {"norm": parts, "activation": activation, "gated": gated}
    for tiling in (None, Tiling(4, 2, 4)):
        found = kernels.linear(x, weight, bias, added=added, tiling=tiling, **more)
        assert_close(found.float(), y + added.float(), **CLOSE[dtype])
    assert_close(kernels.linear(x, weight, bias, **more).float(), y, **CLOSE[dtype])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gate(activation):
    both = random(3, 1, 2 * 1030)
    expected = ACTIVATIONS[activation](both[..., :1030]) * both[..., 1030:]
    assert_close(kernels.gate(both, activation), expected, **CLOSE[torch.float32])


def attended(query, key, value, past, *, scale, norms, rotation, before, bias):
    """The equation, and the cache after it."""
    if norms is not None:
        width = query.shape[-1:]
        query, key = (F.rms_norm(x, width, n.gain, n.eps) for x, n in zip((query, key), norms, strict=True))
    if rotation is not None:
        query, key = rotate(query, rotation), rotate(key, rotation)
    used, group = int(past.used), query.shape[2] // key.shape[2]
    keys, values = past.keys.clone(), past.values.clone()
    keys[:, used], values[:, used] = key[:, 0], value[:, 0]
    places = torch.arange(keys.shape[1], device=DEVICE)
    keep = (places >= past.padding[:, None]) & (places <= used) & (places >= used - (before or used))
    scores = torch.einsum("bhk,blhk->bhl", query[:, 0].float(), keys.repeat_interleave(group, 2).float()) * scale
    scores = scores if bias is None else scores + bias[:, 0]
    weights = scores.masked_fill(~keep[:, None], -torch.inf).softmax(-1)
    return torch.einsum("bhl,blhk->bhk", weights, values.repeat_interleave(group, 2).float())[:, None], keys, values


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("used", [0, 300])
@pytest.mark.parametrize("heads", [(4, 4, 6), (6, 2, 16), (7, 1, 64)], ids=str)
@pytest.mark.parametrize("kind", ["plain", "turned", "biased", "all"])
def test_the_next_token_attends(kind, heads, used, splits, dtype):
    """Grouped queries, odd widths, padding; the parts of a long cache are put together, and nothing is left behind."""
    (number, key_heads, width), batch, capacity = heads, 2, 320
    query, key, value = random(batch, 1, number + 2 * key_heads, width, dtype=dtype).split(
        [number, key_heads, key_heads], -2
    )
    angles = torch.rand(batch, 1, 1, width // 2, device=DEVICE) * 6
    norms = tuple(NormParameters(torch.rand(width, device=DEVICE).to(dtype) + 0.5, None, 1e-6, False) for _ in "qk")
    asked = {
        "scale": width**-0.5,
        "norms": norms if kind == "all" else None,
        "rotation": (angles.cos(), angles.sin()) if kind in ("turned", "all") else None,
        "before": 100 if kind == "all" else None,
        "bias": random(1, capacity, number).permute(2, 0, 1) if kind in ("biased", "all") else None,
    }
    counts = torch.tensor([used], device=DEVICE), torch.tensor([0, min(used, 2)], dtype=torch.int32, device=DEVICE)
    tickets = torch.zeros(batch * key_heads, dtype=torch.int32, device=DEVICE)
    cached = (random(batch, capacity, key_heads, width, dtype=dtype) for _ in range(2))
    past = Past(*cached, *counts, tickets)
    expected = attended(query, key, value, past, **asked)
    found = kernels.attend_next(query, key, value, past, **asked, splits=splits)
    for mine, theirs in zip((found, past.keys, past.values), expected, strict=True):
        assert_close(mine.float(), theirs.float(), **CLOSE[dtype])
    assert not tickets.any()


OPTIONS = [{}, {"top_k": 5}, {"top_p": 0.7}, {"top_k": 40, "top_p": 0.9}, {"top_k": 10**6, "top_p": 0.99}]
OPTIONS += [{"temperature": 0.7, "top_p": 0.5, "min_p": 0.02}, {"temperature": 2.0, "top_k": 3, "min_p": 0.5}]


@DTYPES
@pytest.mark.parametrize("asked", OPTIONS, ids=str)
@pytest.mark.parametrize("size", [50, 4097])
def test_a_token_is_drawn_as_by_filters_one_after_another(size, asked, dtype):
    """Equal scores, zeros of both signs and bans among them; rows that lie apart in memory."""
    logits = random(4, size + 14, dtype=dtype)[:, :size] * torch.tensor([[1.0], [1], [4], [9]], device=DEVICE)
    logits = F.pad(logits.to(dtype), (0, 14), value=99.0)[:, :size]
    logits[0, : size // 3], logits[0, 3], logits[1, 5:9] = 0.0, -0.0, -torch.inf
    noise = torch.empty(4, size).exponential_().to(DEVICE)
    filters = pick.warpers(asked)
    scores = pick.apply(filters, torch.zeros(4, 1, dtype=torch.long, device=DEVICE), logits.float())
    ids, highest = kernels.sample(logits, noise, **pick.kernel_options(filters))
    assert ids.tolist() == (scores.softmax(-1) / noise).argmax(-1).tolist()
    assert_close(highest, logits.float().amax(-1), atol=0, rtol=0)
    logits[2, 7] = torch.nan
    assert kernels.sample(logits, noise)[1].isnan().tolist() == [False, False, True, False]


def drawn(logits, asked):
    """The ids that the kernels draw, and those that the filters do."""
    noise, filters = torch.empty(logits.shape).exponential_().to(DEVICE), pick.warpers(asked)
    no_text = torch.zeros(len(logits), 1, dtype=torch.long, device=DEVICE)
    expected = (pick.apply(filters, no_text, logits.float()).softmax(-1) / noise).argmax(-1)
    return kernels.sample(logits, noise, **pick.kernel_options(filters))[0].tolist(), expected.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("asked", [{"top_k": 50, "top_p": 0.9}, {"top_p": 0.8}], ids=str)
def test_a_token_is_drawn_out_of_few_groups_of_scores(asked, dtype):
    """The best lie in many groups, all in one, at the very ends; are nearly all there is, or equal all others."""
    logits = random(6, 9001, dtype=dtype)
    logits[1, 300:400] += 20
    logits[2, -3:] += 9
    logits[3, 30:], logits[3, 8000:8009] = -torch.inf, 1.0
    logits[4] = (logits[4] * 2).round()
    logits[5] = 0.5
    found, expected = drawn(logits, asked)
    assert found == expected


@settings(max_examples=30)
@given(
    size=st.integers(1, 700),
    levels=st.integers(1, 9),
    spread=st.sampled_from([0.1, 1.0, 9.0]),
    banned=st.sampled_from([0.0, 0.9]),
    asked=st.fixed_dictionaries(
        {"temperature": st.sampled_from([0.6, 1.7])},
        optional={"top_k": st.integers(1, 700), "top_p": st.sampled_from([0.0513, 0.5137, 0.9331])},
    ),
)
def test_equals_of_the_last_of_the_best_stay_as_filters_keep_them(size, levels, spread, banned, asked):
    """Few levels of scores make many equals; of groups there are fewer than of the best, or just as many."""
    logits = torch.randint(levels, (2, size)).to(DEVICE) * spread - 1
    logits[:, 1:][torch.rand(2, size - 1, device=DEVICE) < banned] = -torch.inf
    found, expected = drawn(logits, asked)
    assert found == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [1, 50, 4097, 9000])
def test_the_best_of_a_row_is_the_first_of_the_highest(size, dtype):
    """Rows that lie apart, what lies between them higher than they are; all equal; NaN."""
    padded = random(5, size + 14, dtype=dtype)
    padded[:, size:], logits = 99.0, padded[:, :size]
    logits[1], logits[2, size // 2 :] = -torch.inf, 7.0
    ids, highest = kernels.best(logits)
    assert_close(highest, logits.float().amax(-1), atol=0, rtol=0)
    equal = logits == logits.amax(-1, keepdim=True)
    assert ids.tolist() == equal.int().argmax(-1).tolist()
    assert kernels.best(logits.T.contiguous().T)[0].tolist() == ids.tolist()
    logits[3, -1] = torch.nan
    ids, highest = kernels.best(logits)
    assert highest.isnan().tolist() == [False, False, False, True, False]
    assert ids.max() < size


@pytest.mark.parametrize(("rows", "ends"), [(1, [3]), (5, []), (130, [1, 5, 6])])
def test_texts_go_on_as_without_kernels(rows, ends):
    """Their words, which of them have ended, what is read next, and whether a score was NaN."""
    update = TokenUpdate(9, ends, None, Stop(torch.tensor(ends, dtype=torch.long, device=DEVICE)))
    logits = random(4, rows, 8, dtype=torch.bfloat16)
    logits[3, rows // 2, 2] = torch.nan
    word, running = torch.zeros(rows, dtype=torch.long, device=DEVICE), torch.ones(rows, dtype=bool, device=DEVICE)
    plain = TokenCarry(word, running, torch.zeros((), device=DEVICE), word[:, None])
    ours = cloned(plain)
    for scores in logits:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "on_current_gpu", lambda _: False)
            plain = update(scores, plain)
            for name in ("on_current_gpu", "available"):
                patch.setattr(kernels, name, lambda *_: True)
            assert update(scores, ours) is ours
        known = ~scores.isnan().any(-1)
        for mine, theirs in zip(
            (ours.token, ours.running, ours.new), (plain.token, plain.running, plain.new), strict=True
        ):
            assert_close(mine[known], theirs[known], atol=0, rtol=0)
        assert_close(ours.highest, plain.highest, atol=0, rtol=0, equal_nan=True)
    assert ours.highest.isnan()


def test_rows_of_a_cache_trade_places():
    keys, values = random(2, 6, 5, 2, 3), random(2, 6, 5, 2, 3)
    rows = torch.tensor([1, 0, 1, 5, 5, 3], device=DEVICE)
    expected = [torch.cat([x[:, rows, :4], x[:, :, 4:]], 2) for x in (keys, values)]
    kernels.reorder_cache(keys, values, rows, group_size=3, used=torch.tensor([4], device=DEVICE))
    assert_close([keys, values], expected, atol=0, rtol=0)


@pytest.mark.skipif(DEVICE == "cuda", reason="there every step is run by them")
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(("model_type", "head"), LAYERED)
@settings(max_examples=1)
@given(data=st.data())
@torch.inference_mode()
def test_decoders_over_kernels_step_as_their_models_do(model_type, head, few, data):
    """All of a step but what captures it: padded prompts, each family's positions, windows, norms and gates."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ids, mask = padded_left(sequences(0))
    first = ids[:, :2] if model.config.is_encoder_decoder else ids
    plain = model.step(first, model.start(ids, mask, length=first.shape[1] + 2))[1]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("on_current_gpu", "available"):
            patch.setattr(kernels, name, lambda *_: True)
        patch.setattr(kernels, "takes", lambda x, _: few and x.numel() <= 4 * x.shape[-1])
        ready = PreparedDecoder(model, fuse_linears)
        state = ready.step(first, ready.start(ids, mask, length=first.shape[1] + 2))[1]
        cache = StaticCache(state.cache)
        for number in range(2):
            new = torch.arange(4)[:, None] + 5 + number
            expected, plain = model.step(new, plain)
            hidden = ready.hidden(new, state, cache)
            cache.advance(1)
            assert_close(ready.logits(hidden), expected, atol=1e-4, rtol=1e-4)
    assert not cache.tickets.any()


@pytest.mark.skipif(DEVICE == "cuda", reason="there they are compiled to be run")
def test_the_compiler_takes_them():
    """In a process of its own: here they are interpreted."""
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = [sys.executable, str(Path(__file__).with_name("compile_kernels.py"))]
    done = subprocess.run(script, env=without, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    names = ("linear", "gate", "attend", "scan", "best", "sample", "draw", "winner", "token", "reorder", "digest")
    assert [name for name in names if f"{name}_kernel" not in done.stdout] == []
