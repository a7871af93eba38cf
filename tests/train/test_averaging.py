"""Averages equal torch's own, come and go without a trace, and survive being written down."""

import copy
import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.testing import assert_close

from families import CASES, SMALL_BERT, SMALL_GPT, random_model, same_outputs, settings_of, shake
from glassformer.train.averaging import Ema, average_states

EXACT = {"atol": 0, "rtol": 0}


def written_and_read(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data(), decay=st.sampled_from([0.0, 0.5, 0.999]), steps=st.integers(1, 4))
def test_a_moving_average_is_torchs(model_type, head, data, decay, steps):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    next(model.parameters()).requires_grad_(data.draw(st.booleans()))  # what is frozen needs no average
    ours, theirs = Ema(model, decay), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    for step in range(steps):
        shake(model, seed=step)
        ours.update(model)
        theirs.update_parameters(model)
    own, tensors = copy.deepcopy(model.state_dict()), [id(tensor) for tensor in model.parameters()]
    with ours.swapped(model):
        assert_close(model.state_dict(), theirs.module.state_dict())
        same_outputs(model, theirs.module)
    assert_close(model.state_dict(), own, **EXACT)
    assert [id(tensor) for tensor in model.parameters()] == tensors


@given(cut=st.integers(0, 4))
def test_an_average_resumed_goes_on_as_if_unbroken(cut):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    unbroken, broken = Ema(model, 0.9), Ema(model, 0.9)
    for step in range(5):
        if step == cut:
            state = written_and_read(broken.state())
            broken = Ema(shake(copy.deepcopy(model), seed=99), 0.9)
            broken.restore(state)
        shake(model, seed=step)
        unbroken.update(model)
        broken.update(model)
    assert_close(broken.state(), unbroken.state(), **EXACT)


def test_weights_come_back_when_an_evaluation_fails():
    model = random_model("bert", None, SMALL_BERT)
    ema = Ema(model, 0.9)
    own = copy.deepcopy(shake(model).state_dict())

    def evaluate():
        assert not torch.equal(model.pooler.dense.weight, own["pooler.dense.weight"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), ema.swapped(model):
        evaluate()
    assert_close(model.state_dict(), own, **EXACT)


def test_small_moves_of_half_precision_weights_are_not_lost():
    layer = torch.nn.Linear(4, 4).to(torch.bfloat16)
    torch.nn.init.ones_(layer.weight)
    ema = Ema(layer, 0.999)
    ema.update(layer)
    torch.nn.init.constant_(layer.weight, 2.0)
    for _ in range(500):  # each move is too small for bfloat16 to see
        ema.update(layer)
    assert ema.weights["weight"].dtype == torch.float32
    assert_close(ema.weights["weight"], torch.full((4, 4), 2 - 0.999**500), atol=1e-4, rtol=0)
    with ema.swapped(layer):
        assert_close(layer.weight.detach(), ema.weights["weight"].bfloat16(), **EXACT)


@pytest.mark.few(6)
@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data(), count=st.integers(1, 4))
def test_the_mean_of_checkpoints_is_torchs(model_type, head, data, count):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    theirs, states = AveragedModel(model), []
    for step in range(count):
        shake(model, seed=step)
        theirs.update_parameters(model)
        states.append(copy.deepcopy(model.state_dict()))
    mean = average_states(iter(states))
    assert_close(mean, dict(theirs.module.state_dict()), atol=1e-6, rtol=1e-5)
    assert_close(average_states(states[::-1]), mean, atol=1e-7, rtol=0)
    model.load_state_dict(mean)
    assert_close(average_states([mean] * 3), mean)


def test_integers_are_the_lasts_and_types_are_kept():
    states = [
        {"weight": torch.tensor([1.0, 2.0]).to(torch.bfloat16), "seen": torch.tensor(3)},
        {"weight": torch.tensor([2.0, 4.0]).to(torch.bfloat16), "seen": torch.tensor(8)},
    ]
    mean = average_states(states)
    assert_close(mean, {"weight": torch.tensor([1.5, 3.0]).to(torch.bfloat16), "seen": torch.tensor(8)}, **EXACT)
    assert_close(states[0]["weight"].float(), torch.tensor([1.0, 2.0]))  # what was averaged is left as it was


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "no checkpoint to average"),
        ([{"a": torch.ones(2)}, {"a": torch.ones(3)}], r"a is \(2,\) in one and \(3,\) in the other"),
        ([{"a": torch.ones(2)}, {"b": torch.ones(2)}], r"a is \(2,\) in one and absent"),
        ([{"a": torch.ones(2)}, {"a": torch.ones(2), "b": torch.ones(1)}], "b is absent in one"),
    ],
)
def test_what_cannot_be_averaged_is_named(states, message):
    with pytest.raises(ValueError, match=message):
        average_states(states)


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_a_decay_that_averages_nothing_is_refused(decay):
    with pytest.raises(ValueError, match=f"below 1, not {decay}"):
        Ema(torch.nn.Linear(1, 1), decay)
