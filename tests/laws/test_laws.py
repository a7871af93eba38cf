"""Every law, for every family and head of the registry, on random configs and weights."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from families import CASES, random_model, sequences, settings_of
from glassformer.inspect.laws import LAWS


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=6)
@given(data=st.data())
def test_laws_hold(model_type, head, data):
    chosen = data.draw(settings_of(model_type))
    model = random_model(model_type, head, chosen)
    tokens = sequences(data.draw(st.integers(0, 9)))
    errors = {law.name: law.check(model, tokens) for law in LAWS if law.applies(model)}
    assert {"padding is invisible", "looking changes nothing"} <= errors.keys()
    assert max(errors.values()) <= 1e-5, errors
