"""What `make test` takes of a product loses no value of it."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from quick import thinned


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_every_value_stays_and_few_cases_do(sizes):
    cases = {case: set(enumerate(case)) for case in product(*map(range, sizes))}
    kept = thinned(cases)
    assert set().union(*(cases[case] for case in kept)) == set().union(*cases.values())
    assert len(kept) == max(sizes)
