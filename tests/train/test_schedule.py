"""Every schedule equals its peer in transformers or torch at every step, and forgets nothing across a resume."""

import json
import math

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.train.schedule import SHAPES, Plateau, Rate, warmup_steps

PEAK = 0.5


def an_optimiser():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)


def rates_of(scheduler, optimiser, steps):
    """The rate that each update would use."""
    found = []
    for _ in range(steps):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return found


def peer(name, optimiser, *, warmup, total, final):
    match name:
        case "linear":
            ends = {"lr_end": final * PEAK, "power": 1.0}
            return transformers.get_polynomial_decay_schedule_with_warmup(optimiser, warmup, total, **ends)
        case "cosine":
            build = transformers.get_cosine_with_min_lr_schedule_with_warmup
            return build(optimiser, warmup, total, min_lr_rate=final)
        case "inverse_sqrt":
            return transformers.get_inverse_sqrt_schedule(optimiser, warmup)
        case _:
            return transformers.get_constant_schedule_with_warmup(optimiser, warmup)


@pytest.mark.parametrize("name", SHAPES)
@given(total=st.integers(1, 60), data=st.data(), final=st.sampled_from([0.0, 0.1, 0.9]))
def test_every_step_as_in_transformers(name, total, data, final):
    warmup = data.draw(st.integers(0, total - 1))
    optimiser = an_optimiser()
    expected = rates_of(peer(name, optimiser, warmup=warmup, total=total, final=final), optimiser, total)
    rate = Rate(name, total=total, warmup=warmup, final=final)
    assert_close([PEAK * rate(step) for step in range(total)], expected, atol=1e-12, rtol=1e-12)


@given(total=st.integers(1, 60), data=st.data())
def test_plain_linear_and_cosine_as_in_transformers(total, data):
    warmup = data.draw(st.integers(0, total - 1))
    builders = {
        "linear": transformers.get_linear_schedule_with_warmup,
        "cosine": transformers.get_cosine_schedule_with_warmup,
    }
    for name, build in builders.items():
        optimiser = an_optimiser()
        expected = rates_of(build(optimiser, warmup, total), optimiser, total)
        rate = Rate(name, total=total, warmup=warmup)
        assert_close([PEAK * rate(step) for step in range(total)], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", [*SHAPES, "plateau"])
@given(total=st.integers(2, 200), data=st.data(), final=st.floats(0, 1))
def test_the_rate_rises_to_its_peak_and_never_again(name, total, data, final):
    warmup = data.draw(st.integers(0, total - 1))
    rate = Rate(name, total=total, warmup=warmup, final=final)
    factors = [rate(step) for step in range(total + 10)]
    assert factors[warmup] == 1.0
    assert factors[: warmup + 1] == sorted(factors[: warmup + 1])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    if name in ("linear", "cosine"):
        assert_close(factors[total:], [final] * 10)


@given(share=st.floats(0, 1, exclude_max=True), total=st.integers(1, 10**6))
def test_a_share_is_that_many_steps(share, total):
    steps = warmup_steps(share, total)
    assert 0 <= steps <= total
    assert steps - 1 <= share * total <= steps
    assert warmup_steps(total, 1) == total  # a whole number counts steps


values = st.lists(st.floats(0.01, 10) | st.just(math.nan), min_size=1, max_size=40)


@given(values=values, lower=st.booleans(), patience=st.integers(0, 3), floor=st.sampled_from([0.0, 0.2]))
def test_plateau_as_in_torch(values, lower, patience, floor):
    optimiser = an_optimiser()
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, "min" if lower else "max", factor=0.5, patience=patience, min_lr=floor * PEAK, eps=0.0
    )
    ours = Plateau(lower=lower, shrink=0.5, patience=patience, floor=floor)
    for value in values:
        theirs.step(value)
        ours.observe(value)
        assert_close(PEAK * ours.factor, optimiser.param_groups[0]["lr"], atol=1e-15, rtol=1e-12)


@given(values=values, cut=st.integers(0, 40), lower=st.booleans())
def test_a_plateau_resumed_goes_on_as_if_unbroken(values, cut, lower):
    unbroken, before, after = (Rate("plateau", total=100, warmup=3, lower=lower) for _ in range(3))
    for value in values[:cut]:
        before.observe(value)
    after.restore(json.loads(json.dumps(before.state())))
    for value in values[cut:]:
        after.observe(value)
    for value in values:
        unbroken.observe(value)
    assert after.state() == unbroken.state()
    assert [after(step) for step in range(9)] == [unbroken(step) for step in range(9)]


@pytest.mark.parametrize("name", SHAPES)
def test_the_others_have_nothing_to_remember(name):
    heard, fresh = Rate(name, total=20, warmup=0.1), Rate(name, total=20, warmup=0.1)
    for value in (1.0, 2.0, 2.0, 2.0, 2.0):
        heard.observe(value)
    assert heard.state() == {}
    assert [heard(step) for step in range(20)] == [fresh(step) for step in range(20)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "cosin"}, "no schedule 'cosin'.*cosine"),
        ({"warmup": -1}, "warmup.*-1"),
        ({"warmup": math.nan}, "warmup.*nan"),
        ({"warmup": 2.5}, "warmup=2.5"),
        ({"final": 1.5}, "between 0 and 1, not at 1.5"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Rate(**{"name": "linear", "total": 10, **settings})
