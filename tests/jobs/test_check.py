"""`train --check` and `heads` take as long as they say: a small batch, a time limit, an estimate, a limit on blocks."""

import numpy as np
import pytest

from glassformer.jobs import heads, preflight
from glassformer.jobs.predict import pipeline
from glassformer.jobs.preflight import OVERFIT_ROWS, OVERFIT_STEPS, OVERFIT_TOKENS, overfit
from tasks.cases import case


def test_one_batch_is_learnt_by_heart_and_its_progress_told():
    one, told = case("text-classification/gru"), []
    learnt = overfit(one.task, one.model, one.items, on_progress=lambda done, total: told.append(done / total))
    assert learnt.steps == OVERFIT_STEPS
    assert learnt.after < learnt.before
    assert (told[0] < 0.1, told[-1], told == sorted(told)) == (True, 1.0, True)
    assert str(learnt).endswith(f"after {OVERFIT_STEPS} steps")


def test_it_stops_when_its_time_is_over_and_says_what_was_reached():
    one = case("text-generation/gpt2")
    learnt = overfit(one.task, one.model, one.items, seconds=0)
    assert learnt.steps == 1
    assert learnt.after != learnt.before
    assert str(learnt).endswith("after 1 steps, for which there are 30 s")


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [([9] * 20, OVERFIT_ROWS), ([100] * 20, OVERFIT_TOKENS // 100), ([1024] * 20, 2), ([1024], 1), ([1024, 5, 400], 2)],
)
def test_a_small_batch_is_one_of_few_tokens(lengths, rows):
    chosen = preflight._few(np.array(lengths))
    assert len(chosen) == rows
    assert chosen[0] == int(np.argmin(lengths))


def test_heads_of_a_long_text_are_measured_on_some_of_its_blocks(trained, monkeypatch):
    monkeypatch.setattr(heads, "WORTH_SAYING", -1.0)
    pipe, said = pipeline("text-generation", trained("text-generation/gpt2")), []
    examples = pipe.read(["microworld"]).examples
    read = []
    batch = pipe.task.batch
    monkeypatch.setattr(pipe.task, "batch", lambda items, some, *rest: read.extend(some) or batch(items, some, *rest))
    found = heads.measure(pipe, examples, limit=3, log=said.append)
    assert len(pipe.task.encode(examples[:3]).lengths) > 3  # it has more than are read
    assert len(read) == 3
    (line,) = said
    assert line.startswith(f"{len(found.heads)} heads, each put out on 3 examples: about 0:0")
