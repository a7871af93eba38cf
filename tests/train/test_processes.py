"""While one process works the others wait, for as long as it takes, and hear that it lives; and how processes meet."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import pytest
import torch.distributed as dist

from glassformer.train import processes
from glassformer.train.processes import Processes, local_device


class Exchange:
    """What processes say to each other, between threads."""

    def __init__(self, count):
        self.barrier, self.values = Barrier(count, timeout=20), [None] * count
        self.rounds = []

    def all_gather(self, number, value):
        self.values[number] = value
        if self.barrier.wait() == 0:
            self.rounds.append(list(self.values))
        found = list(self.values)
        self.barrier.wait()
        return found


@pytest.mark.parametrize("signs", [0, 1, 5])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_go_on_when_the_first_is_done(signs, count, monkeypatch):
    monkeypatch.setattr(processes, "SECONDS_BETWEEN_SIGNS", -1.0)
    exchange, done = Exchange(count), []

    def work(still_at_it):
        for _ in range(signs):
            still_at_it()
        done.append(True)

    def one(number):
        process = Processes()
        process.rank, process.world_size = number, count
        process.all_gather = lambda value: exchange.all_gather(number, value)
        process.run_on_main(work)
        ended.append(list(done))

    ended = []
    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ended == [[True]] * count  # the work was done once, and nobody went on before
    assert len(exchange.rounds) == signs + 1


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert [local_device(name) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert [local_device(name) for name in ("cpu", "cuda", "cuda:0")] == ["cpu", "cuda:3", "cuda:3"]


def met(store, world_size):
    """What each of so many processes gets that meet in a store."""
    with ThreadPoolExecutor(world_size) as threads:
        return list(threads.map(lambda rank: processes._meet(store, rank, world_size), range(world_size)))


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_processes_meet_apart_from_those_of_earlier_attempts(world_size):
    """Whatever these have left in the store of torchrun, and however many of them had come."""
    store = dist.HashStore()
    for rank in range(1, world_size, 2):
        store.set(f"hello/{rank}", "of a process that was killed before it was answered")
    for attempt in ("first", "second"):
        found = met(store, world_size)
        assert not any(own.check(["word"]) for own, _ in found)
        found[0][0].set("word", attempt)
        assert {own.get("word").decode() for own, _ in found} == {attempt}
        assert len({tuple(names) for _, names in found}) == 1
        assert [name.split(" (")[0] for name in found[0][1]] == [f"rank {rank}" for rank in range(world_size)]


NAMES = ["rank 0 (on a)", "rank 1 (on b)", "rank 2 (on b)"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("Timed out waiting 3000ms for recv operation to complete", "rank 2 (on b) did not answer for 3 minutes"),
        ("[pair.cc:537] Read error [10.77.0.2]:745: Connection reset by peer.", "a process on 10.77.0.2 has ended"),
        ("[pair.cc:534] Connection closed by peer [fe80::2]:7451", "a process on fe80::2 has ended"),
        ("Broken pipe", "a process has ended before its time"),
        (
            "Gloo connectFullMesh failed with timed out connecting: remote=[127.0.1.1]:30$0",
            "no connection to 127.0.1.1",
        ),
        ("Gloo connectFullMesh failed with Connect timeout [none]", "no connection to the other processes"),
        ("mat1 and mat2 shapes cannot be multiplied", ""),
    ],
)
def test_errors_about_other_processes_are_told_in_a_line(monkeypatch, error, reason):
    """rank 1 has reported that it waits as well."""
    monkeypatch.setattr(processes, "SECONDS_TO_REPORT", 0.3)
    store = dist.HashStore()
    store.set("waited/1", "")
    found = processes._reason(error.lower(), store, NAMES, rank=0, minutes=3)
    assert (reason in found) if reason else found == ""
