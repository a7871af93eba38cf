"""What waits goes together where it may, within the budget, in a fair order, and nothing is lost or given twice."""

from hypothesis import given
from hypothesis import strategies as st

from glassformer.serve.batch_queue import BatchQueue, cost
from glassformer.serve.messages import Call, Submit

calls = st.builds(
    Call,
    kind=st.sampled_from(["predict", "embed"]),
    task=st.sampled_from(["a", "b"]),
    inputs=st.lists(st.text(max_size=90), min_size=1, max_size=4),
    options=st.sampled_from([{}, {"top_k": 1}]),
)
requests = st.lists(st.lists(calls, min_size=1, max_size=4), max_size=12)


def pushed(queue, parts):
    rows = [Submit(number, place, call) for number, row in enumerate(parts) for place, call in enumerate(row)]
    for one in rows:
        queue.push(one)
    return rows


@given(requests, st.integers(1, 200))
def test_everything_comes_once_in_batches_of_equal_calls_within_the_budget(parts, budget):
    queue, found = BatchQueue(budget), []
    count = len(pushed(queue, parts))
    while len(queue):
        batch = queue.take()
        assert batch
        assert len({one.call.key for one in batch}) == 1
        assert len(batch) == 1 or sum(map(cost, batch)) <= budget
        found += [(one.id, one.part) for one in batch]
    assert len(found) == len({*found}) == count
    assert queue.take() == []


@given(requests, st.sets(st.integers(0, 12)))
def test_what_is_cancelled_is_in_no_batch(parts, gone):
    queue = BatchQueue(64)
    pushed(queue, parts)
    for request in gone:
        queue.cancel(request)
    found = set()
    while batch := queue.take():
        found |= {one.id for one in batch}
    assert found == {number for number, row in enumerate(parts) if row} - gone


@given(st.integers(2, 60), st.integers(0, 50))
def test_one_text_does_not_wait_for_a_crowd_nor_a_crowd_for_ever(crowd, after):
    """A request of one part is answered in the next round; one of many loses no more than a round to each newcomer."""
    queue, call = BatchQueue(1), Call("embed", "a", ["x"])
    for part in range(crowd):
        queue.push(Submit(1, part, call))
    for _ in range(min(after, crowd - 1)):
        queue.take()
    queue.push(Submit(2, 0, call))
    assert 2 in {queue.take()[0].id, queue.take()[0].id}
    left, found = crowd - min(after, crowd - 1), []
    for newcomer in range(100, 100 + 3 * crowd):  # however many come behind it
        queue.push(Submit(newcomer, 0, call))
        found += [one.id for one in queue.take()]
    assert found.count(1) >= left - 2
