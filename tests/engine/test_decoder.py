"""The engine says what the model says: straight lines for modules, prepacked weights, and weights that change."""

import gc
import sys
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from engine.parts import Adapted
from families import SMALL_GPT, random_model, sequences, settings_of
from generators import GENERATING, padded_left
from glassformer.engine import native
from glassformer.engine.decoder import PreparedDecoder
from glassformer.engine.graphs import GraphDecoder, StaticCache, cloned, copy, shapes
from glassformer.engine.linear import fuse_linears, quantised
from glassformer.engine.prepare import prepared
from glassformer.engine.search_step import step_eager
from glassformer.generate.beams import beams
from glassformer.generate.job import Job, Prompt
from glassformer.generate.search import collect, tokens
from glassformer.generate.settings import GenerationSettings
from glassformer.generate.top import SPAN, top_by_spans

WAYS = [{}, {"num_beams": 3}, {"penalty_alpha": 0.4, "top_k": 3}]
LAYERED = [case for case in GENERATING if "rnn" not in case[0] and "seq2seq" not in case[0]]


@pytest.fixture(params=["kernels", "no kernels"])
def compiler(request, monkeypatch):
    """With the kernels for few rows where they can be built, and without."""
    if request.param == "no kernels":
        monkeypatch.setattr(native, "kernels", lambda: None)


@pytest.mark.parametrize("prepacked", [False, True])
@pytest.mark.parametrize(("model_type", "head"), LAYERED)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@torch.inference_mode()
def test_a_decoder_steps_as_its_model_does(compiler, model_type, head, prepacked, data):
    """A padded prompt at once, rows moved, then token by token."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ready = PreparedDecoder(model, partial(fuse_linears, prepacked=prepacked))
    ids, mask = padded_left(sequences(0))
    first = ids[:, :2] if model.config.is_encoder_decoder else ids
    states = [one.start(ids, mask, length=first.shape[1] + 3) for one in (model, ready)]
    rows, new = torch.tensor([0, 0, 1, 1, 3, 3, 2, 2]), torch.arange(8)[:, None] + 5
    for fed in (first, new, new + 9):
        steps = [one.step(fed, state) for one, state in zip((model, ready), states, strict=True)]
        assert_close(steps[1][0], steps[0][0], atol=1e-5, rtol=1e-5)
        states = [state.select(rows) if len(fed) == 4 else state for _, state in steps]


@pytest.mark.parametrize(("model_type", "head"), LAYERED)
@settings(max_examples=10)
@given(data=st.data())
@torch.inference_mode()
def test_a_cache_that_counts_on_its_device_is_the_same_cache(model_type, head, data):
    """What a CUDA graph records, here step by step: fixed shapes, and as far as the counter says."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ids, mask = padded_left(sequences(0))
    first = ids[:, :2] if model.config.is_encoder_decoder else ids
    plain, static = (model.step(first, model.start(ids, mask, length=first.shape[1] + 3))[1] for _ in range(2))
    cache = StaticCache(static.cache)
    for number in range(3):
        new = torch.arange(4)[:, None] + 5 + number
        expected, plain = model.step(new, plain)
        hidden = model.decoder_parts.hidden(new, static, cache)
        cache.advance(1)
        assert_close(model.logits(hidden), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_looking_less_often_changes_nothing(way, monkeypatch):
    """On a GPU a search asks only now and then what has ended; here it is made to do so on the CPU."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    ids, mask = padded_left(sequences(2, lengths=(5, 3, 7, 2)))
    request = {"max_new_tokens": 20, "eos_token_id": [*range(0, 41, 3)], "pad_token_id": 0, **way}
    often = gf.generate(model, None, ids, attention_mask=mask, **request)
    monkeypatch.setattr(Job, "patience", 7)
    assert gf.generate(model, None, ids, attention_mask=mask, **request).tolist() == often.tolist()


@pytest.mark.parametrize(("model_type", "head"), GENERATING)
@settings(max_examples=5)
@given(data=st.data())
def test_beams_may_read_the_prompts_last_word_themselves(model_type, head, data):
    """As on a GPU, where all steps are alike."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ids, mask = padded_left(sequences(0))
    request = {"max_new_tokens": 6, "num_beams": 3, "pad_token_id": 0, "return_dict_in_generate": True}
    often = gf.generate(model, None, ids, attention_mask=mask, **request)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "patience", 4)
        seldom = gf.generate(model, None, ids, attention_mask=mask, **request)
    assert seldom.sequences.tolist() == often.sequences.tolist()
    assert_close(seldom.sequences_scores, often.sequences_scores, atol=1e-5, rtol=1e-5)


class Captured:
    """Steps as a graph replays them: the carry stays in one memory, and the update is that of the first step."""

    def __init__(self, model):
        self.model, self.first = model, None

    def __getattr__(self, name):
        return getattr(self.model, name)

    def step_search(self, ids, state, search):
        if ids.shape[1] > 1:
            return step_eager(self.model, ids, state, search)
        if self.first is None or shapes(self.first.carry) != shapes(search.carry):
            self.first = replace(search, carry=cloned(search.carry))
        assert search.update == self.first.update
        copy(search.carry, self.first.carry)
        carry, state = step_eager(self.model, ids, state, replace(self.first, rows=search.rows))
        copy(carry, self.first.carry)
        return self.first.carry, state


CAPTURED = [{}, {"num_beams": 3}, {"num_beams": 3, "length_penalty": 0.3, "early_stopping": "never"}]
CAPTURED += [{"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "early_stopping": True}]
CAPTURED += [{"do_sample": True, "seed": 3}, {"seed": 3, "temperature": 1.3, "top_k": 30, "top_p": 0.9, "min_p": 0.01}]
CAPTURED += [{"seed": 3, "typical_p": 0.8}]


@pytest.mark.parametrize("way", CAPTURED)
@pytest.mark.parametrize("ends", [[5], [*range(0, 41, 3)], [10**6]])
@torch.inference_mode()
def test_a_search_can_be_captured(way, ends, monkeypatch):
    """Its steps are the same sums whatever their number, and texts that leave are no exception."""
    monkeypatch.setattr(Job, "patience", 3)
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    ids, mask = padded_left(sequences(2, lengths=(5, 3, 7, 2)))
    asked = GenerationSettings.of({"max_new_tokens": 14, "eos_token_id": ends, "pad_token_id": 0, **way})
    found = []
    for one in (model, Captured(model)):
        job = Job.of(Prompt(ids, mask), asked)
        found.append(beams(one, job) if "num_beams" in way else collect(tokens(one, job), ids))
    assert_close(found[1].sequences, found[0].sequences, atol=0, rtol=0)
    assert_close(found[1].lengths, found[0].lengths, atol=0, rtol=0)
    assert_close(found[1].scores, found[0].scores)


@settings(max_examples=30)
@given(size=st.integers(SPAN, 12 * SPAN), number=st.integers(1, 9), seed=st.integers(0, 99))
def test_the_best_of_spans_are_the_best_of_all(size, number, seed):
    scores = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(seed))
    number = min(number, size // SPAN)
    values, places = top_by_spans(scores, number)
    assert_close(values, scores.topk(number).values, atol=0, rtol=0)
    assert_close(scores.gather(-1, places), values, atol=0, rtol=0)


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3), bias=st.booleans(), prepacked=st.booleans())
@torch.inference_mode()
def test_joined_layers_give_their_outputs_one_after_another(sizes, bias, prepacked):
    linears = [nn.Linear(6, size, bias=bias) for size in sizes]
    x = torch.randn(2, 3, 6)
    expected = torch.cat([linear(x) for linear in linears], dim=-1)
    assert_close(fuse_linears(linears, prepacked=prepacked)(x), expected, atol=1e-6, rtol=1e-6)
    others = [nn.Sequential(linear) for linear in linears]  # what is no plain linear layer is asked as it is
    assert_close(fuse_linears(others, prepacked=prepacked)(x), expected, atol=1e-6, rtol=1e-6)


CHANGES = {
    "loaded": lambda model, other: model.load_state_dict(other.state_dict()),
    "assigned": lambda model, other: model.load_state_dict(other.state_dict(), assign=True),
    "through data": lambda model, other: [
        mine.data.copy_(theirs) for mine, theirs in zip(model.parameters(), other.parameters(), strict=True)
    ],
    "by a fused optimiser": lambda model, other: stepped_to(model, other),
}


def stepped_to(model, other):
    """One step of a size that leads from one model's weights to the other's; it leaves none of torch's marks."""
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        mine.grad = (mine - theirs).detach()
    torch.optim.SGD(model.parameters(), lr=1.0, fused=True).step()


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_are_seen(rows, change):
    model, other = (random_model("gpt2", "text-generation", SMALL_GPT, seed) for seed in (0, 1))
    prompt = torch.arange(4)[None].repeat(rows, 1) + 5
    request = {"max_new_tokens": 8, "eos_token_id": [10**6]}
    before, after = (gf.generate(one, None, prompt, **request).tolist() for one in (model, other))
    assert before != after
    CHANGES[change](model, other)
    assert gf.generate(model, None, prompt, **request).tolist() == after


EDITS = {
    "a head": lambda model: model.decoder.layers[0].attention.output.weight.data[:, 4:8].zero_(),
    "a neuron": lambda model: model.decoder.layers[0].feed_forward.up.weight.data[3].zero_(),
    "a word": lambda model: model.head.output.weight.data[17].zero_(),
    "a buffer": lambda model: model.head.bias[0, 17].fill_(9.0),
}


@pytest.mark.parametrize("edit", EDITS)
def test_small_edits_are_seen(edit):
    model = random_model("marian", "text2text-generation", small("marian"))
    first = prepared(model, 2)
    assert prepared(model, 2) is first
    EDITS[edit](model)
    assert prepared(model, 2) is not first


@pytest.mark.parametrize("multiple", [1, 64])
@torch.inference_mode()
def test_output_layers_of_any_kind_and_size(multiple):
    """Adapters are asked themselves; sizes that are padded are cut again."""
    model = random_model("marian", "text2text-generation", small("marian"))
    hidden = torch.randn(2, 12)
    for _ in range(2):
        ready = PreparedDecoder(model, fuse_linears, vocab_multiple=multiple)
        assert_close(ready.logits(hidden), model.logits(hidden), atol=1e-5, rtol=1e-5)
        model.head.output = Adapted(model.head.output).eval()


def test_autocast_is_left_to_the_model():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with torch.autocast("cpu", torch.bfloat16):
        assert prepared(model, 2) is model


@pytest.mark.parametrize("way", [{}, {"num_beams": 2}])
@pytest.mark.parametrize("first", [1, 4])
def test_scores_that_are_no_numbers_stop_a_search_that_looks_seldom(way, first, monkeypatch):
    monkeypatch.setattr(Job, "patience", 8)
    model, steps = random_model("glassformer-rnn", "text-generation", {"vocab_size": 9, "hidden_size": 8}), []
    logits = model.logits

    def broken(hidden):
        steps.append(1)
        return logits(hidden) * (float("nan") if len(steps) == first else 1.0)

    model.logits = broken
    with pytest.raises(ValueError, match="not numbers"):
        gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=6, eos_token_id=[10**6], **way)


def test_padding_need_not_be_a_word(monkeypatch):
    """A pad token may have been added to the tokenizer alone."""
    monkeypatch.setattr(Job, "patience", 8)
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    request = {"max_new_tokens": 12, "eos_token_id": [*range(0, 41, 2)], "pad_token_id": 41}
    found = gf.generate(model, None, torch.tensor([[5, 6], [7, 8], [9, 10]]), **request)
    assert found.shape[0] == 3


def test_a_mask_with_holes_is_read_without_them():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    request = {"max_new_tokens": 5, "eos_token_id": [10**6], "pad_token_id": 0}
    ids, mask = torch.tensor([[5, 30, 6, 7]]), torch.tensor([[1, 0, 1, 1]])
    found = gf.generate(model, None, ids, attention_mask=mask, **request)[0, -5:]
    assert found.tolist() == gf.generate(model, None, torch.tensor([[5, 6, 7]]), **request)[0, -5:].tolist()


def test_room_without_end_takes_no_memory():
    model = random_model("glassformer-rnn", "text-generation", {"vocab_size": 9, "hidden_size": 8})
    found = gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=10**12, eos_token_id=[*range(9)])
    assert found.shape == (1, 3)


def test_the_same_engine_is_used_again_and_one_for_many_rows_serves_one():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    for_one = prepared(model, 1)
    assert prepared(model, 1) is for_one
    for_many = prepared(model, 9)
    assert for_many is not for_one
    assert prepared(model, 1) is for_many


def test_beams_leave_the_scores_as_they_are_for_those_who_listen():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    with gf.record(model, "head") as seen:
        gf.generate(model, None, torch.arange(50)[:, None] % 9 + 5, num_beams=3, max_new_tokens=3)
    assert len(seen["head"]) == 150
    assert not torch.allclose(seen["head"].exp().sum(-1), torch.ones(()))


def test_an_engine_does_not_keep_its_model_alive():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    gf.generate(model, None, torch.tensor([[5, 6]]), max_new_tokens=3)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_a_model_that_learns_or_is_listened_to_is_taken_as_it_is():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    assert isinstance(prepared(model, 1), PreparedDecoder)
    assert prepared(model.train(), 1) is model
    model.eval().layers[1].train()
    assert prepared(model, 1) is model
    model.eval()
    with gf.record(model, "layers.0.attention.pattern") as seen:
        gf.generate(model, None, torch.tensor([[5, 6, 7]]), max_new_tokens=3)
    assert seen["layers.0.attention.pattern"].shape[1] == SMALL_GPT["n_head"]
    assert isinstance(prepared(model, 1), PreparedDecoder)


@pytest.mark.parametrize(("model_type", "head"), LAYERED)
def test_eight_bits_generate_alone_what_they_generate_in_a_batch(model_type, head):
    """Inputs are rounded row by row, so neighbours cannot matter."""
    model = quantised(random_model(model_type, head, small(model_type)))
    assert isinstance(prepared(model, 2), PreparedDecoder)
    rows = sequences(3, lengths=(5, 11, 2, 8))
    ids, mask = padded_left(rows)
    request = {"max_new_tokens": 8, "eos_token_id": [10**6], "pad_token_id": 0}
    together = gf.generate(model, None, ids, attention_mask=mask, **request)
    for row, text in zip(rows, together, strict=True):
        alone = gf.generate(model, None, torch.tensor([row]), **request)[0]
        assert text[-8:].tolist() == alone[-8:].tolist()


def small(model_type):
    if model_type in ("gpt2", "glassformer-decoder"):
        return SMALL_GPT
    chosen = {"vocab_size": 41, "max_position_embeddings": 40, "forced_eos_token_id": None}
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    start = {"decoder_start_token_id": 1, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 2}
    sizes |= {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    sizes |= {"d_kv": 5, "d_ff": 8, "num_layers": 2, "num_heads": 2, "intermediate_size": 8, "head_dim": 8}
    return {"d_model": 12, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, **chosen, **sizes, **start}


GPU_WAYS = [
    *WAYS,
    {"prompt_lookup_num_tokens": 3},
    {"seed": 3, "top_k": 20, "top_p": 0.9},
    {"seed": 3, "typical_p": 0.9},
]


@pytest.mark.gpu
@pytest.mark.parametrize("way", GPU_WAYS)
@pytest.mark.parametrize(("model_type", "head"), LAYERED)
def test_a_graph_replays_what_the_model_does(model_type, head, way, monkeypatch):
    """Padded prompts, texts that leave, beams that trade places; twice, since a recording is used again.

    In float32: the kernels round bfloat16 in other places, and a random model has many words that are as good.
    """
    wide = {"n_embd": 32, "n_head": 2} if model_type == "gpt2" else {"d_model": 32, "hidden_size": 32, "head_dim": 16}
    model = random_model(model_type, head, small(model_type) | wide).to("cuda")
    batches = [padded_left(sequences(2, lengths=lengths)) for lengths in ((5, 3, 7, 2), (7, 1, 1, 6))]
    request = {"max_new_tokens": 33, "eos_token_id": [5, 9], "pad_token_id": 0, **way}

    def texts():
        return [gf.generate(model, None, ids, attention_mask=mask, **request).tolist() for ids, mask in batches]

    replayed = texts()
    monkeypatch.setattr(GraphDecoder, "can_capture", False)
    monkeypatch.setattr(sys.modules[prepared.__module__], "_prepared", {})
    assert replayed == texts()
