"""What `make test` takes of a product loses no value of it."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from quick import spread, thinned


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_every_value_stays_and_few_cases_do(sizes):
    cases = {case: set(enumerate(case)) for case in product(*map(range, sizes))}
    kept = thinned(cases)
    assert set().union(*(cases[case] for case in kept)) == set().union(*cases.values())
    assert len(kept) == max(sizes)


@given(cases=st.lists(st.integers(), unique=True, max_size=20), count=st.integers(1, 9))
def test_few_cases_are_spread_over_all(cases, count):
    kept = spread(cases, count)
    places = [cases.index(one) for one in kept]
    assert len(kept) == min(count, len(cases))
    assert places == sorted(places)
    assert not kept or kept[0] == cases[0]
