"""A model without values gets, tensor by tensor, the very values that it would have had."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from families import CASES, settings_of
from glassformer.hub.registry import ARCHITECTURES
from glassformer.train.deferred import Deferred

CPU = torch.device("cpu")


def tensors(model):
    return dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])


def both(make, seed=0):
    """A model, and the same without values; both leave the generator in the same state."""
    values, states = Deferred(CPU), []
    torch.manual_seed(seed)
    plain = make()
    states.append(torch.get_rng_state())
    torch.manual_seed(seed)
    with values.building():
        hollow = make()
    states.append(torch.get_rng_state())
    assert torch.equal(*states)
    return plain, hollow, values


def assert_same(plain, hollow, values):
    """To the bit: the same operations in the same order."""
    theirs = tensors(hollow)
    assert theirs.keys() == tensors(plain).keys()
    for name, tensor in tensors(plain).items():
        assert theirs[name].is_meta, name
        assert theirs[name].dtype == tensor.dtype, name
        assert torch.equal(values.value(theirs[name]).to(tensor.dtype), tensor), name


@pytest.mark.parametrize(("name", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_a_new_model_of_every_family_and_head(name, head, data):
    drawn = data.draw(settings_of(name))
    architecture = ARCHITECTURES[name]
    config = architecture.config.from_hf({"model_type": name, **drawn})
    assert_same(*both(lambda: architecture.build(config, head)))
