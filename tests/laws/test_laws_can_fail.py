"""Each law catches the fault it is there for: a check that cannot fail proves nothing."""

import pytest
import torch

from families import SMALL_BERT, SMALL_GPT, random_model, sequences
from glassformer.blocks.batch_masks import CausalMask, DenseMask
from glassformer.blocks.cache import KVCache
from glassformer.blocks.packing import PackedBatch
from glassformer.engine import prepare
from glassformer.inspect import laws
from glassformer.jobs.laws import prepared_equals_model


@pytest.fixture
def gpt():
    return random_model("gpt2", "text-generation", SMALL_GPT)


@pytest.fixture
def bert():
    return random_model("bert", None, SMALL_BERT)


def test_padding_that_leaks_is_seen(bert, monkeypatch):
    monkeypatch.setattr(DenseMask, "from_keep", staticmethod(lambda *_: DenseMask()))
    assert laws.padding_is_invisible(bert, sequences()) > 1e-3


def test_sequences_that_see_each_other_are_seen(bert, monkeypatch):
    def attend(_self, query, key, value, options):
        return DenseMask().attend(query[None], key[None], value[None], options)[0]

    monkeypatch.setattr(PackedBatch, "attend", attend)
    assert laws.padding_is_invisible(bert, sequences()) > 1e-3


def test_looking_ahead_is_seen(gpt, monkeypatch):
    monkeypatch.setattr(CausalMask, "attend", DenseMask.attend)
    monkeypatch.setattr(CausalMask, "dense", None)
    assert laws.later_changes_nothing_earlier(gpt, sequences()) > 1e-3


def test_a_cache_that_miscounts_is_seen(gpt, monkeypatch):
    counted = KVCache.positions
    monkeypatch.setattr(KVCache, "positions", lambda self, tokens: counted(self, tokens) + 1)
    assert laws.cache_equals_no_cache(gpt, sequences()) > 1e-3


def test_a_readable_path_of_its_own_is_seen(bert):
    attend = bert.layers[0].attention.readable
    bert.layers[0].attention.readable = lambda *args: 1.01 * attend(*args)
    assert laws.readable_equals_fused(bert, sequences()) > 1e-4


def test_a_time_loop_of_its_own_is_seen():
    model = random_model("glassformer-rnn", "text-generation", {"vocab_size": 41, "kind": "gru", "hidden_size": 12})
    gates = model.recurrent.layers[0]["left_to_right"]
    step = gates.step
    gates.step = lambda *args: tuple(1.01 * part for part in step(*args))
    assert laws.stepwise_equals_fused(model, sequences()) > 1e-4


def test_a_hook_left_behind_is_seen(bert):
    bert.layers[0].register_forward_hook(lambda *_: None)
    assert laws.looking_changes_nothing(bert, sequences()) == float("inf")


def test_a_change_that_the_engine_misses_is_seen(gpt, monkeypatch):
    monkeypatch.setattr(prepare, "digest_of", lambda _: lambda: torch.zeros(1))
    assert prepared_equals_model(gpt, sequences()) > 1e-3


def test_an_engine_that_decodes_otherwise_is_seen(gpt, monkeypatch):
    step = prepare.PreparedDecoder.step
    monkeypatch.setattr(prepare.PreparedDecoder, "step", lambda *args: (1.01 * step(*args)[0], args[2]))
    assert prepared_equals_model(gpt, sequences()) > 1e-3


def test_not_a_number_is_a_breach():
    assert laws.error(torch.tensor([float("nan")]), torch.tensor([1.0])) == float("inf")
