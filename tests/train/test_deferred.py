"""A model without values gets, tensor by tensor, the very values that it would have had."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import settings_of
from glassformer.hub.registry import ARCHITECTURES
from glassformer.jobs.assemble import assemble
from glassformer.jobs.models import loaded
from glassformer.jobs.recipe import Recipe
from glassformer.models.init import fill_tables
from glassformer.text.train import train
from glassformer.train.deferred import Deferred
from glassformer.train.lora import add_lora, train_new_tokens
from tasks.cases import ONE_OF_EACH_TASK, SMALL, recipe_of

CPU = torch.device("cpu")


def assert_same(make):
    """A model, and the same without values: to the bit, and the generator goes on alike."""
    values, states = Deferred(CPU), []
    torch.manual_seed(0)
    plain = make(None)
    states.append(torch.get_rng_state())
    torch.manual_seed(0)
    hollow = make(values)
    states.append(torch.get_rng_state())
    assert torch.equal(*states)
    theirs = dict(hollow.named_parameters(remove_duplicate=False))
    assert all(tensor.is_meta for tensor in theirs.values())
    for name, tensor in plain.named_parameters(remove_duplicate=False):
        one = theirs.pop(name)
        assert (one.shape, one.dtype, one.requires_grad) == (tensor.shape, tensor.dtype, tensor.requires_grad), name
        assert torch.equal(values.value(one).to(tensor.dtype), tensor), name
    assert theirs == {}
    fill_tables(hollow, CPU, torch.float32)
    values.fill_buffers(hollow)
    for (name, ours), tensor in zip(hollow.named_buffers(), plain.buffers(), strict=True):
        assert torch.equal(ours, tensor), name


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=4)
@given(data=st.data())
def test_new_models_of_every_family(name, data):
    architecture = ARCHITECTURES[name]
    head, drawn = data.draw(st.sampled_from([*architecture.heads])), data.draw(settings_of(name))
    if (name, head) == ("glassformer-rnn", "text-generation"):
        drawn["bidirectional"] = False  # it would read the future
    config = architecture.config.from_hf({"model_type": name, **drawn})

    def make(values):
        if values is None:
            return architecture.build(config, head)
        with values.building():
            return architecture.build(config, head)

    assert_same(make)


@pytest.mark.parametrize("name", [*ONE_OF_EACH_TASK, "text-generation/gpt2"])
def test_what_a_recipe_asks_for(name):
    recipe = Recipe.of(recipe_of(name))
    assert_same(lambda values: assemble(recipe, CPU, None, values).model)


@pytest.mark.parametrize(
    ("kind", "saved", "head"), [("gpt2", *2 * ["text-generation"]), ("bert", None, "text-classification")]
)
def test_a_folder_in_16_bits_with_a_new_head_new_tokens_and_adapters(tmp_path, kind, saved, head):
    """GPT-2's tensors are turned and split; with tokens that it did not know a table is drawn anew and written over."""
    (tmp_path / "texts.txt").write_text("a b c")
    tokenizer = train([tmp_path / "texts.txt"], kind="bpe", vocab_size=300)
    model = gf.build(kind, saved, vocab_size=len(tokenizer), **SMALL[kind]).bfloat16()
    folder = str(gf.save(model, tmp_path / "model", tokenizer=tokenizer))
    more = tokenizer.adapted(special_tokens=("<new>", "<newer>"))

    def make(values):
        with nullcontext() if values is None else values.building():
            found = loaded(folder, head, {}, more, {})
            add_lora(found, rank=2)
            train_new_tokens(found, range(len(tokenizer), len(more)))
        return found

    assert_same(make)


def test_what_nothing_has_filled_has_no_value():
    values = Deferred(CPU)
    with values.building():
        tensor = torch.empty(3)
    with pytest.raises(AssertionError, match="nothing has filled it"):
        values.value(tensor)
    tensor.normal_()  # which nobody sees
    with pytest.raises(AssertionError, match="nothing has filled it"):
        values.value(tensor)
