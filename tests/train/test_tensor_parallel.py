"""Tensor parallelism: which blocks are dealt out, the loss over words that are, and what is refused."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing import assert_close

import glassformer as gf
from families import CASES, random_model, settings_of
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.transformer import FeedForward, GatedFeedForward
from glassformer.hub.registry import ARCHITECTURES
from glassformer.jobs.preflight import Preflight, _processes
from glassformer.train.layout import lay_out
from glassformer.train.lora import add_lora
from glassformer.train.processes import Processes
from glassformer.train.tensor_parallel import OwnDraws, block_styles, parallelise, vocabulary_styles
from glassformer.train.vocabulary_scores import VocabularyScores
from tasks.cases import case

WORDS = {"glassformer-transformer": {"vocab_size": 64, "decoder_vocab_size": 64}}
DEALT = (MultiHeadAttention, FeedForward, GatedFeedForward)


@pytest.fixture(scope="module")
def mesh():
    """Of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_attention_and_feed_forward_of_every_family_has_a_plan(name):
    """In the sizes of a model from nothing, which are even."""
    architecture = ARCHITECTURES[name]
    with torch.device("meta"):
        model = gf.build(
            name, next(iter(architecture.heads)), **{**architecture.small, **WORDS.get(name, {"vocab_size": 64})}
        )
    blocks = [part for part in model.modules() if isinstance(part, DEALT)]
    assert [*block_styles(model, 2)] == blocks
    for block, styles in block_styles(model, 2).items():
        inside = {one for part in styles for one in block.get_submodule(part).parameters()}
        matrices = {one for name, one in block.named_parameters() if one.dim() > 1 and "positions." not in name}
        assert matrices <= inside  # but for DeBERTa's table, which all layers share
    assert vocabulary_styles(model, 2)


def test_what_does_not_come_out_even_stays_whole():
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 10, "vocab_size": 31}
    model = gf.build("bert", "fill-mask", num_hidden_layers=1, **sizes)
    assert {type(block) for block in block_styles(model, 2)} == {FeedForward}
    assert {type(block) for block in block_styles(model, 3)} == {MultiHeadAttention}
    assert block_styles(model, 4) == {}
    assert vocabulary_styles(model, 2) == {}
    assert len(vocabulary_styles(model, 31)) == 2


def test_a_model_of_which_nothing_comes_out_even_is_refused(mesh):
    model = gf.build("glassformer-rnn", None, vocab_size=31, embedding_size=4, hidden_size=4)
    with pytest.raises(ValueError, match="no heads, neurons or words of this model come out even"):
        parallelise(model, type("Two", (), {"size": lambda _: 2})())


@given(
    places=st.integers(1, 7),
    words=st.integers(2, 9),
    smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    reduction=st.sampled_from(["none", "sum", "mean"]),
    seed=st.integers(0, 99),
)
def test_the_loss_over_words_that_are_dealt_out_is_torchs(mesh, places, words, smoothing, reduction, seed):
    """Values and gradients; on several processes tests/train/test_parallel.py looks."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(places, words, generator=generator, dtype=torch.float64) * 9
    target = torch.randint(words, (places,), generator=generator)
    target[1::3] = -100
    found = []
    for wrapped in (False, True):
        own = scores.clone().requires_grad_()
        given_scores = VocabularyScores(DTensor.from_local(own, mesh, [Shard(-1)])) if wrapped else own
        loss = F.cross_entropy(given_scores, target, reduction=reduction, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss.sum(), own)
        found.append((loss, gradient))
    assert_close(*found)


def test_whatever_else_is_asked_of_scores_is_answered_of_all_of_them(mesh):
    whole = torch.randn(2, 3, 6)
    scores = VocabularyScores(distribute_tensor(whole, mesh, [Shard(-1)]))
    assert scores.shape == whole.shape
    assert_close(scores[:, 1], whole[:, 1])
    assert_close(scores.argmax(-1), whole.argmax(-1))
    assert_close(torch.softmax(scores, -1), whole.softmax(-1))
    assert_close((scores + torch.arange(6.0)).whole, whole + torch.arange(6.0))
    assert_close(scores + torch.ones(1), whole + 1)
    replicated = VocabularyScores(distribute_tensor(whole, mesh, [Replicate()]))
    assert_close(replicated.whole, whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "tensor_parallel is 2, and 1 processes of a machine do not fall into groups of that"),
        ({"compile": True}, "layers that are dealt out are not compiled: leave compile or tensor_parallel out"),
        ({"optimiser": "adafactor"}, "take adamw, or parallel = ddp without tensor_parallel"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused_in_one_line(mesh, changes, words):
    one = case("text-classification/bert")
    with pytest.raises(ValueError, match=words):
        lay_out(one.model, one.task, replace(one.plan, tensor_parallel=2, **changes), Processes())


@pytest.mark.parametrize(("name", "head"), CASES)
@settings(max_examples=2)
@given(data=st.data())
def test_what_is_frozen_stays_frozen(mesh, name, head, data):
    model = random_model(name, head, data.draw(settings_of(name)))
    for number, tensor in enumerate(model.parameters()):
        tensor.requires_grad_(number % 2 == 0)
    before = {name: tensor.requires_grad for name, tensor in model.named_parameters(remove_duplicate=False)}
    parallelise(model, mesh)
    assert before == {name: tensor.requires_grad for name, tensor in model.named_parameters(remove_duplicate=False)}


def test_a_table_of_a_block_may_have_as_many_rows_as_there_are_words(mesh):
    sizes = {"vocab_size": 32, "relative_attention_num_buckets": 32, "num_heads": 2, "d_model": 8, "d_ff": 16}
    model = gf.build("t5", "text2text-generation", num_layers=1, d_kv=4, **sizes).eval()
    inputs = {"input_ids": torch.arange(6)[None], "decoder_input_ids": torch.arange(4)[None]}
    before = model(**inputs).logits
    parallelise(model, mesh)
    assert_close(model(**inputs).logits.whole, before)


def test_ids_and_targets_that_are_no_words_are_refused(mesh):
    model = gf.build("gpt2", "text-generation", vocab_size=32, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    parallelise(model, mesh)
    with pytest.raises(ValueError, match="a token has the id 40, and the model's table 32 rows"):
        model(input_ids=torch.tensor([[1, 40]]))
    scores = model(input_ids=torch.tensor([[1, 2]])).logits[0]
    assert scores.shape == (2, 32)
    whole = VocabularyScores(DTensor.from_local(scores, mesh, [Shard(-1)]))
    with pytest.raises(IndexError):
        F.cross_entropy(whole, torch.tensor([1, 32]))
    assert torch.isfinite(F.cross_entropy(whole, torch.tensor([1, -100])))


def test_each_process_draws_its_own_dropout_in_a_block_and_all_draw_alike_after_it():
    def drawn(rank, *, train):
        block = nn.Dropout(0.5).train(train)
        block.weight = nn.Parameter(torch.ones(1))  # a block has a device
        OwnDraws(block, rank)
        torch.manual_seed(3)
        return block(torch.ones(64)), torch.rand(8), block(torch.ones(64))

    first, second, again, still = (
        drawn(0, train=True),
        drawn(1, train=True),
        drawn(1, train=True),
        drawn(1, train=False),
    )
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(second[0], second[2])
    assert_close(first[1], second[1])
    assert_close(second, again)
    assert_close(still[0], torch.ones(64))


def test_a_process_that_is_alone_says_that_it_holds_everything():
    found = Preflight()
    with patch.object(dist, "is_initialized", lambda: False):
        for changes in ({}, {"parallel": "fsdp"}, {"tensor_parallel": 2}, {"context_parallel": 3}):
            _processes(found, replace(case("text-classification/bert").plan, **changes))
    asked = ["parallel = fsdp", "tensor_parallel = 2", "context_parallel = 3"]
    assert [line.split(" is for")[0] for line in found.warnings] == asked


def test_adapters_are_refused(mesh):
    model = case("text-classification/bert").model
    add_lora(model, rank=2)
    with pytest.raises(ValueError, match="adapters train too little to be dealt out"):
        parallelise(model, mesh)
