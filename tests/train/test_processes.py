"""While one process works the others wait, for as long as it takes, and hear that it lives."""

from threading import Barrier, Thread

import pytest

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
