"""Prepared = model: decoding with prepared weights is decoding with the model as it is now, whatever was done to it."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, padded_left
from glassformer.engine import kernels, native
from glassformer.engine.digest import digest_in_torch, digest_of
from glassformer.engine.linear import quantised, supports_int8
from glassformer.engine.prepare import prepared
from glassformer.jobs.laws import prepared_equals_model

LAYERED = [case for case in GENERATING if "rnn" not in case[0] and "seq2seq" not in case[0]]


def bits(tensor):
    """The tensor as whole numbers, in place."""
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def permute(tensor, chance):
    tensor.copy_(tensor[torch.randperm(len(tensor), generator=chance)])


def permute_columns(tensor, chance):
    tensor.copy_(tensor[..., torch.randperm(tensor.shape[-1], generator=chance)])


def swap_two(tensor, chance):
    flat = tensor.view(-1)
    one, other = torch.randint(flat.numel(), (2,), generator=chance).tolist()
    flat[[one, other]] = flat[[other, one]]


def flip_signs(tensor, chance):
    tensor.mul_(torch.where(torch.rand(tensor.shape, generator=chance) < 0.3, -1.0, 1.0))


def flip_one_bit(tensor, chance):
    place = int(torch.randint(tensor.numel(), (1,), generator=chance))
    bits(tensor.view(-1))[place] ^= 1


CHANGES = {
    "rows trade places": permute,
    "columns trade places": permute_columns,
    "upside down": lambda tensor, _: tensor.copy_(tensor.flip(0)),
    "two numbers trade places": swap_two,
    "some signs": flip_signs,
    "the last bit of one number": flip_one_bit,
}


@pytest.fixture(params=["kernels", "no kernels"])
def compiler(request, monkeypatch):
    if request.param == "no kernels":
        monkeypatch.setattr(native, "kernels", lambda: None)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("model_type", "head"), LAYERED)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 2**31))
@torch.no_grad()
def test_any_change_of_a_weight_is_seen(compiler, model_type, head, change, data, seed):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    first = prepared(model, 1)
    assert prepared(model, 1) is first, "nothing was changed"
    weight = data.draw(st.sampled_from([one for one in model.parameters() if one.dim()]))
    before = weight.clone()
    CHANGES[change](weight.data, torch.Generator().manual_seed(seed))
    if torch.equal(bits(before), bits(weight.detach().clone())):
        return
    again = prepared(model, 1)
    assert again is not first
    ids, mask = padded_left(sequences(0))
    first = ids[:, :2] if model.config.is_encoder_decoder else ids
    steps = [one.step(first, one.start(ids, mask, length=first.shape[1] + 1))[0] for one in (model, again)]
    assert_close(steps[1], steps[0], atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not supports_int8(), reason="8-bit weights need an x86 CPU")
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("part", ["layers.0.attention.query", "layers.1.attention.output", "head"])
@torch.no_grad()
def test_a_change_of_weights_in_eight_bits_is_seen(compiler, part, rows):
    """Joined with others and alone, by the kernels for few rows and for many."""
    model = quantised(random_model("gpt2", "text-generation", SMALL_GPT))
    ids = torch.arange(3).repeat(rows, 1)
    first = prepared(model, rows)
    before, _ = first.step(ids, first.start(ids, length=3))
    model.get_submodule(part).weight.data.neg_()
    again = prepared(model, rows)
    assert again is not first
    found = [one.step(ids, one.start(ids, length=3))[0] for one in (model, again)]
    assert (found[0] - before).abs().max() > 1e-3
    assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=3)
@given(data=st.data())
def test_the_law_holds_and_leaves_the_model_as_it_was(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert prepared_equals_model(model, sequences()) <= 1e-5
    assert all(torch.equal(bits(weight), bits(before[name])) for name, weight in model.state_dict().items())


@pytest.mark.gpu
@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_any_change_of_a_weight_is_seen_on_a_gpu(change):
    """Every tensor of a model in turn, by the recorded kernel."""
    model = random_model("gpt2", "text-generation", SMALL_GPT).to("cuda", torch.bfloat16)
    chance = torch.Generator("cpu").manual_seed(0)
    for number, weight in enumerate(model.parameters()):
        first, before = prepared(model, 1), weight.clone()
        assert prepared(model, 1) is first
        changed = weight.cpu()
        CHANGES[change](changed, chance)
        weight.data.copy_(changed)
        seen = prepared(model, 1) is not first
        assert seen == (not torch.equal(bits(before), bits(weight.detach()))), f"{change} of tensor {number}"


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 2, 8191, 8192, 8193, 100_000])
def test_the_kernels_digest_tells_every_word(size):
    tensors = [torch.randn(size, device="cuda"), torch.randn(7, 4, device="cuda", dtype=torch.bfloat16)]
    digest = digest_of(tensors)
    assert isinstance(digest, kernels.GpuDigest)
    before = digest()
    assert torch.equal(digest(), before)
    for place in {0, size // 2, size - 1}:
        bits(tensors[0])[place] ^= 1
        after = digest()
        assert (after != before).tolist() == [True, False]
        before = after


KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@given(shape=st.lists(st.integers(0, 40), max_size=3), seed=st.integers(0, 2**31))
def test_digests_tell_every_bit(dtype, shape, seed):
    chance = torch.Generator().manual_seed(seed)
    tensor = (torch.randn(shape, generator=chance) * 50).to(dtype)
    both = [digest_of([tensor]), lambda: digest_in_torch(tensor)[None]]
    before = [digest().clone() for digest in both]
    for digest, known in zip(both, before, strict=True):
        assert torch.equal(digest(), known), "the same twice"
    if tensor.numel():
        flip_one_bit(tensor, chance)
        for digest, known in zip(both, before, strict=True):
            assert not torch.equal(digest(), known)


@pytest.mark.parametrize("size", [1, 3, 1023, 4096, 65_536, 65_537, 300_000])
def test_digests_of_many_pieces_tell_where_things_stand(size):
    """Every piece of a large tensor counts, and so does its order."""
    tensor = torch.randn(size)
    for digest in (digest_of([tensor]), lambda: digest_in_torch(tensor)[None]):
        seen = {int(digest())}
        for place in (0, size // 2, size - 1):
            tensor[place] += 1.0
            seen.add(int(digest()))
        if size > 1:
            tensor.copy_(tensor.roll(1))
            seen.add(int(digest()))
        assert len(seen) == (5 if size > 1 else 4)


def test_views_that_begin_anywhere_have_digests():
    whole = torch.randn(20).bfloat16()
    assert int(digest_in_torch(whole[1:])) == int(digest_in_torch(whole[1:].clone()))
    assert int(digest_of([whole[1:]])()) == int(digest_of([whole[1:].clone()])())
    assert int(digest_of([whole.view(4, 5).t()])()) == int(digest_in_torch(whole.view(4, 5).t().contiguous()))
