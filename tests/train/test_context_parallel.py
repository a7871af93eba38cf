"""Context parallelism: which texts are dealt out and how, and what is refused; what many processes compute is in
test_parallel.py."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh

import glassformer as gf
from glassformer.hub.registry import ARCHITECTURES
from glassformer.jobs.mesh import mesh_report
from glassformer.jobs.recipe import Recipe
from glassformer.models.decoder import CausalDecoder
from glassformer.train.context_parallel import ContextObjective, dealt_out, pieces_of
from glassformer.train.layout import lay_out
from glassformer.train.mesh import Mesh
from glassformer.train.processes import Processes
from tasks.cases import case, recipe_of
from train.context_cases import DECODERS, batch_of, worst_of

sizes, lengths = st.integers(1, 9), st.integers(1, 200)


@pytest.fixture(scope="module")
def mesh():
    """Of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@given(length=lengths, size=sizes)
def test_each_place_is_dealt_to_one_process_and_all_have_as_much_to_look_at(length, size):
    dealt = [pieces_of(length, rank, size) for rank in range(size)]
    places = [place for starts, width in dealt for start in starts for place in range(start, start + width)]
    assert sorted(places) == [*range(len(places))]
    assert length <= len(places) < length + 2 * size
    assert len({sum(start + width for start in starts) for starts, width in dealt}) == 1


@pytest.mark.parametrize("name", DECODERS)
def test_in_pieces_a_decoder_learns_what_it_learns_of_the_whole(mesh, name):
    """By one process, which has both pieces of each text."""
    found = worst_of(name, case("text-generation/gpt2").task, mesh)
    assert found.keys() == {"loss", "gradients"}, found
    assert found["loss"] < 1e-7  # which is summed in float32
    assert found["gradients"] < 1e-12


def test_every_family_that_is_a_causal_decoder_is_tried():
    generates = {name: one.small for name, one in ARCHITECTURES.items() if "text-generation" in one.heads}
    with torch.device("meta"):
        built = {name: gf.build(name, "text-generation", **small, vocab_size=64) for name, small in generates.items()}
    assert {name for name, model in built.items() if isinstance(model, CausalDecoder)} == {*DECODERS}


@pytest.mark.parametrize("ragged", [False, True])
def test_every_target_stands_in_one_place(mesh, ragged):
    batch = batch_of(11, 30, ragged=ragged)
    own, mask = dealt_out(batch, mesh)
    assert own.inputs["input_ids"].shape == (3, 12)  # in two pieces
    assert (own.targets["labels"] != -100).sum() == batch.count
    assert mask.lengths.tolist() == ([[11], [5], [1]] if ragged else [[11]])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text-generation/lstm", "for text-generation by glassformer-rnn leave it at 1"),
        ("text-classification/bert", "for text-classification by bert leave it at 1"),
        ("fill-mask/bert", "for fill-mask by bert leave it at 1"),
        ("translation/transformer", "for translation by marian leave it at 1"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused(mesh, name, words):
    one = case(name)
    with pytest.raises(ValueError, match=f"is for text-generation by decoders such as gpt2 and llama; {words}"):
        ContextObjective(one.model, one.task, mesh)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "context_parallel is 2, and 1 processes do not fall into groups of that"),
        ({"parallel": "fsdp"}, "context_parallel is 2, and 1 processes do not fall into groups of that"),
        ({"compile": True}, "are not compiled: leave compile or context_parallel out"),
    ],
)
def test_plans_that_do_not_go_with_it_are_refused(mesh, changes, words):
    one = case("text-generation/gpt2")
    with pytest.raises(ValueError, match=words):
        lay_out(one.model, one.task, replace(one.plan, context_parallel=2, **changes), Processes())


def test_a_dry_run_says_that_it_does_not_count_it():
    settings = recipe_of("text-generation/gpt2", out="run", context_parallel=2)
    with pytest.raises(ValueError, match="what context_parallel exchanges is not counted: leave it out of a dry run"):
        mesh_report(Recipe.of(settings), Mesh(2, 8))
