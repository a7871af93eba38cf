"""What one request may ask of the studio is asked before the work, and its time really ends."""

import json
from itertools import count

import pytest
from fastapi.testclient import TestClient

from glassformer.studio import limits, sizes
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio, WorkQueue
from glassformer.studio.limits import LONGEST, MOST, Deadline, Late
from glassformer.studio.traces import Traces, traced
from studio.cases import FAMILIES, MODELS, TEXT

LONG = "the red book . " * LONGEST
RECURRENT = ("rnn", "lstm", "gru-lm", "seq2seq")


def client(studio):
    return TestClient(create_app(studio), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def store(studio_folders):
    return ModelStore([str(folder) for folder in studio_folders.values()])


@pytest.fixture
def api(store):
    return client(Studio(store, Traces()))


@pytest.fixture
def lengths(store):
    """How many tokens each model was given, in order."""
    found: list[int] = []
    parts = [store[name].model for name in MODELS]
    hooks = [
        part.register_forward_pre_hook(
            lambda _module, _args, kwargs: found.append(kwargs["input_ids"].shape[1]), with_kwargs=True
        )
        for part in parts
    ]
    yield found
    for hook in hooks:
        hook.remove()


def lines_of(api, **body):
    answer = api.post("/api/v1/results", json=body)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


# --- lengths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "route"),
    [*((name, "traces") for name in RECURRENT), ("rnn", "results"), ("lstm", "results"), ("gru-lm", "results")],
)
def test_a_text_without_end_is_refused_before_it_is_read(api, lengths, name, route):
    answer = api.post(f"/api/v1/{route}", json={"model": name, "inputs": LONG})
    assert answer.status_code == 422
    assert f"tokens, and the studio reads {LONGEST:,} at once: give a shorter one" in answer.json()["detail"]
    assert not lengths


def test_a_target_without_end_is_refused_too(api, lengths):
    answer = api.post("/api/v1/traces", json={"model": "seq2seq", "inputs": TEXT, "target": LONG})
    assert (answer.status_code, "at once" in answer.json()["detail"], lengths) == (422, True, [])


# --- searches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("num_beams", 33), ("num_beams", 10**6), ("max_new_tokens", 10**9)])
def test_a_search_too_wide_or_too_long_is_one_line(api, name, value):
    strategy = {"strategy": "beam"} if name == "num_beams" else {}
    answer = api.post("/api/v1/results", json={"model": "gru-lm", "inputs": TEXT, "options": {name: value, **strategy}})
    assert answer.status_code == 422
    assert name in answer.json()["detail"]
    assert str(value) in answer.json()["detail"]


def test_what_a_folder_wishes_is_cut_to_the_limits(api, store, monkeypatch):
    monkeypatch.setitem(MOST, "max_new_tokens", 7)
    monkeypatch.setattr(
        store["gru-lm"].model, "generation_config", {"max_new_tokens": 10**9, "eos_token_id": 10**6}, False
    )
    lines = lines_of(api, model="gru-lm", inputs=TEXT)
    assert sum(line["kind"] == "token" for line in lines) == 7
    monkeypatch.setattr(
        store["seq2seq"].model, "generation_config", {"max_length": 10**9, "eos_token_id": 10**6}, False
    )
    trace = api.post("/api/v1/traces", json={"model": "seq2seq", "inputs": TEXT}).json()
    assert len(trace["tokens"]["written"]) == 7
    monkeypatch.setattr(store["seq2seq"].model, "generation_config", {"num_beams": 100}, False)
    answer = api.post("/api/v1/traces", json={"model": "seq2seq", "inputs": TEXT})
    assert answer.status_code == 422
    assert "num_beams=100: the studio goes up to 32" in answer.json()["detail"]


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_the_size_of_a_trace_is_known_from_three_short_ones(store, name):
    found = [sizes._probed(store[name], ["*"], length) for length in sizes.PROBES]
    for which, real in enumerate(sizes._probed(store[name], ["*"], 40)):
        assert sizes._scaled([one[which] for one in found], 40) == real


@pytest.mark.parametrize("name", RECURRENT)
def test_a_trace_that_will_not_fit_is_refused_before_the_work(store, lengths, name):
    loaded, text = store[name], "the red book . " * 100
    size = traced(loaded, text, target=TEXT if name == "seq2seq" else None).sizes["recorded"]
    lengths.clear()
    answer = client(Studio(store, Traces(budget=size // 2))).post(
        "/api/v1/traces", json={"model": name, "inputs": text}
    )
    assert answer.status_code == 422
    assert "would hold about" in answer.json()["detail"]
    assert "--memory" in answer.json()["detail"]
    assert max(lengths) <= max(sizes.PROBES)
    assert (
        client(Studio(store, Traces())).post("/api/v1/traces", json={"model": name, "inputs": text}).status_code == 200
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_worked_out_counts_into_the_memory(store, name):
    """What is no tensor as well; and of lenses with more or fewer choices one alone is kept."""
    studio = Studio(store, Traces())
    api = client(studio)
    trace = api.post("/api/v1/traces", json={"model": name, "inputs": TEXT}).json()
    where, held = f"/api/v1/traces/{trace['trace_id']}", []
    for top in (1, 50, 2):
        answer = api.get(f"{where}/lens?top={top}")
        assert answer.status_code == 200, answer.text
        held.append(api.get(where).json()["bytes"])
        assert held[-1] - trace["bytes"] >= len(answer.content)
        assert studio.traces[trace["trace_id"]].sizes["lens"] < len(answer.content) + 1000
    assert held[2] <= held[1]
    assert list(studio.traces[trace["trace_id"]].kept["lens"]) == [2]


def test_a_lens_that_cannot_be_kept_is_refused_before_the_work(store, lengths):
    trace = traced(store["gpt2"], TEXT)
    traces = Traces(budget=trace.bytes + 1000)
    traces.add(trace)
    lengths.clear()
    answer = client(Studio(store, traces)).get(f"/api/v1/traces/{trace.id}/lens")
    assert answer.status_code == 422
    assert "the lens of this trace would hold about" in answer.json()["detail"]
    assert not lengths


def test_room_is_made_before_the_work_and_the_oldest_makes_it(store):
    first, second = traced(store["bert"], TEXT), traced(store["bert"], TEXT)
    traces = Traces(budget=3 * first.bytes)
    traces.add(first)
    traces.add(second)
    traces.reserve(second, 2 * first.bytes - 1, "it")
    assert traces[second.id] is second
    with pytest.raises(LookupError, match="expired"):
        traces[first.id]


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second whenever somebody looks at it."""
    ticks = count()
    monkeypatch.setattr(limits, "monotonic", lambda: float(next(ticks)))


def test_the_time_ends_a_search_between_its_steps(store, ticking):
    api = client(Studio(store, Traces(), work=WorkQueue(seconds=50)))
    options = {"max_new_tokens": 1000, "strategy": "sample", "seed": 1}
    lines = lines_of(api, model="gru-lm", inputs=TEXT, options=options)
    assert lines[-1]["kind"] == "error"
    assert "took longer than the 50 seconds" in lines[-1]["detail"]
    assert 2 < len(lines) < 60


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_time_ends_a_pass_between_its_layers(store, ticking, name):
    """Whoever asks next is answered, and no hook is left."""
    model, called = store[name].model, []
    hooks = [part.register_forward_pre_hook(lambda *_: called.append(1)) for part in model.modules()]
    api = client(Studio(store, Traces(), work=WorkQueue(seconds=8)))
    target = {"target": TEXT} if model.config.is_encoder_decoder else {}
    answer = api.post("/api/v1/traces", json={"model": name, "inputs": TEXT, **target})
    for hook in hooks:
        hook.remove()
    assert answer.status_code == 422
    assert "took longer than the 8 seconds" in answer.json()["detail"]
    assert len(called) < 12
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.modules())
    assert client(Studio(store, Traces(), work=WorkQueue(seconds=1e9))).post(
        "/api/v1/traces", json={"model": name, "inputs": TEXT}
    ).status_code == 200  # fmt: skip


@pytest.mark.parametrize("route", ["lens", "norms", "steps", "explain?step=layers.0"])
def test_the_time_ends_what_is_worked_out_from_a_trace(store, ticking, route):
    trace, traces = traced(store["bert"], TEXT, capture=["layers.0"]), Traces()
    trace.kept["boards"] = []
    traces.add(trace)
    answer = client(Studio(store, traces, work=WorkQueue(seconds=1))).get(f"/api/v1/traces/{trace.id}/{route}")
    assert answer.status_code == 422
    assert "took longer than the 1 seconds" in answer.json()["detail"]


def test_the_time_ends_an_edit_and_a_trial_of_all_heads(store, ticking):
    trace, traces = traced(store["bert"], TEXT), Traces()
    traces.add(trace)
    api = client(Studio(store, traces, work=WorkQueue(seconds=1)))
    answer = api.post(f"/api/v1/traces/{trace.id}/edits", json={"off": ["layers.0"]})
    assert (answer.status_code, "took longer" in answer.json()["detail"]) == (422, True)
    answer = api.post(f"/api/v1/traces/{trace.id}/edits/heads", json={})
    assert json.loads(answer.text.splitlines()[-1])["kind"] == "problem"


def test_a_task_is_ended_before_its_next_pass(store, ticking):
    api = client(Studio(store, Traces(), work=WorkQueue(seconds=2)))
    answer = api.post("/api/v1/results", json={"model": "bert-qa", "inputs": "Who?", "pair": "Anna saw Tom . " * 300})
    assert (answer.status_code, "took longer" in answer.json()["detail"]) == (422, True)


def test_a_deadline_says_what_is_left(ticking):
    deadline = Deadline.after(3)  # at 3, for it looked at 0
    assert deadline.left == 2
    deadline.check()
    with pytest.raises(Late, match="3 seconds"):
        deadline.check()
    assert deadline.left == 1e-3
