"""A model without values gets, tensor by tensor, the very values that it would have had."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from families import settings_of
from glassformer.hub.registry import ARCHITECTURES
from glassformer.jobs.assemble import assemble
from glassformer.jobs.recipe import Recipe
from glassformer.train.deferred import Deferred
from tasks.cases import ONE_OF_EACH_TASK, case, recipe_of

CPU = torch.device("cpu")
ADAPTED = {"lora": 2, "freeze": "embeddings"}


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


@pytest.mark.parametrize("changes", [{}, ADAPTED], ids=["plain", "adapted"])
@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_what_a_recipe_asks_for(name, changes):
    if changes and not any(isinstance(part, torch.nn.Linear) for part in case(name).model.layers.modules()):
        pytest.skip("nothing to adapt")
    recipe = Recipe.of(recipe_of(name, **changes))
    assert_same(lambda values: assemble(recipe, CPU, None, values).model)
