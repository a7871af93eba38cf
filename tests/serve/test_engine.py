"""Between many clients and a model's process: batches, bad requests among good ones, death and lateness."""

import asyncio
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest
from torch.testing import assert_close

import glassformer as gf
from glassformer.serve import streaming
from glassformer.serve.inference import Inference
from glassformer.serve.limits import Limits
from glassformer.serve.messages import Call, Fault, Submit, WorkerSpec, WrittenText
from glassformer.serve.writing import StepwiseWriter, writer_of
from glassformer.zoo import folder_of
from serve.cases import broken_folder, running
from serve.test_other_faces import counters


def together(*works):
    """Results of some calls that are made at once."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [one.result() for one in [pool.submit(work) for work in works]]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server of its own, to be hurt; little room, and a second model that must not notice."""
    broken = broken_folder(tmp_path_factory.mktemp("broken") / "broken", "zoo:bert-mini-en-sentiment")
    limits = Limits(queue=3, deadline=20)
    with running(["zoo:gpt-mini-en", "zoo:embed-mini-en", broken], limits=limits, rows=2) as one:
        yield one


def test_batched_is_single_for_every_kind_of_request(served):
    """Law 11 over HTTP: many clients at once, each answered as if it came alone."""
    texts = [" ".join(["A warm film", "and more"][: 1 + number % 2]) + "." * (number % 5) for number in range(24)]
    embed = [lambda text=text: served.ask("/embed", {"inputs": text})[1][0] for text in texts]
    classes = [lambda text=text: served.ask("/models/bert-mini-en-sentiment", {"inputs": text})[1][0] for text in texts]
    found = together(*embed, *classes)
    embedder = gf.pipeline("sentence-embedding", "zoo:embed-mini-en")
    assert_close(found[:24], [embedder(text) for text in texts], rtol=1e-4, atol=1e-5)
    alone = gf.pipeline("text-classification", "zoo:bert-mini-en-sentiment")
    for text, one in zip(texts, found[24:], strict=True):
        expected = alone(text, top_k=None)
        assert [row["label"] for row in one] == [row["label"] for row in expected]
        assert [row["score"] for row in one] == pytest.approx([row["score"] for row in expected], abs=1e-5)
    sizes = counters(served.url)
    assert sizes['glassformer_batch_rows_sum{kind="embed",model="embed-mini-en"}'] >= 24


def test_texts_that_are_written_together_are_those_written_alone(served):
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    asked = [
        {"prompt": prompt, "max_tokens": 3 + 2 * number, "temperature": 0.8 * (number % 2), "seed": number}
        for number, prompt in enumerate(["The film", "A", "In 1990", "It was a", "No", "He"])
    ]

    def ask(one):
        _, told, _ = served.ask("/v1/completions", {"model": "gpt-mini-en", **one})
        return one["prompt"] + told["choices"][0]["text"]

    found = together(*(lambda one=one: ask(one) for one in asked))
    for one, text in zip(asked, found, strict=True):
        settings = {"max_new_tokens": one["max_tokens"], "seed": one["seed"]}
        settings |= {"do_sample": True, "temperature": one["temperature"]} if one["temperature"] else {}
        assert text == gf.generate(model, tok, one["prompt"], **settings)


@pytest.mark.parametrize(
    ("name", "task", "options", "batches"),
    [
        ("bert-mini-en-sentiment", "text-classification", {"top_k": None}, 1),
        ("bert-mini-en", "fill-mask", {"top_k": 2}, 1),
        ("en-de", "translation", {"top_k": 2, "do_sample": True}, 3),
        ("en-de", "no such task", {"top_k": 2}, 3),
    ],
)
def test_only_what_is_drawn_at_random_is_read_alone(name, task, options, batches, monkeypatch):
    inference, seen = Inference(WorkerSpec(f"zoo:{name}")), []
    together = inference._together
    monkeypatch.setattr(inference, "_together", lambda batch: seen.append(batch) or together(batch))
    calls = [Call("predict", task, [f"A [MASK] {number}."], options) for number in range(3)]
    answers = inference.answer([Submit(number, 0, call) for number, call in enumerate(calls)])
    assert len([batch for batch in seen if len(batch) < 3 or batches == 1]) == batches
    assert [isinstance(one, Fault) for one in answers] == [task not in inference.pipelines] * 3


def test_one_bad_request_fails_alone(served):
    good = {"inputs": "The cat [MASK] on the mat."}
    bad = {"inputs": "no mask at all"}
    bodies = [bad if number % 4 == 0 else good for number in range(16)]
    found = together(*(lambda body=body: served.ask("/models/bert-mini-en", body)[0] for body in bodies))
    assert found == [422 if body is bad else 200 for body in bodies]


def test_a_model_whose_scores_are_no_numbers_says_so(small):
    status, told, _ = small.ask("/models/broken", {"inputs": "A film."})
    assert status == 500
    assert "not numbers (NaN)" in told["error"]
    assert small.ask("/models/broken/health")[0] == 200  # the process lives, and so does its neighbour
    assert small.ask("/embed", {"inputs": "a"})[0] == 200


def long_stream(one, **more):
    body = {"model": "gpt-mini-en", "prompt": "The", "max_tokens": 150, "temperature": 0, "stream": True, **more}
    return httpx.stream("POST", f"{one.url}/v1/completions", json=body, timeout=60)


def until(true, seconds=30.0):
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


@contextmanager
def stopped(model):
    """The one worker of a model stands still, so that what it was to do is certainly not done yet."""
    (pid,) = model.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def begun_stream(one, model):
    """A stream that has begun, and its lines; of its text nothing is written: the worker stands still meanwhile."""
    with stopped(model) as pid, pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "KEEP_ALIVE", 0.05)
        with long_stream(one) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": keep-alive"
            yield pid, answer, lines


def test_too_many_are_sent_away_with_a_time_to_come_back(small):
    model = small.service.models["gpt-mini-en"]
    body = {"model": "gpt-mini-en", "prompt": "The", "max_tokens": 2}
    with ThreadPoolExecutor(3) as pool:
        with stopped(model):
            waiting = [pool.submit(small.ask, "/v1/completions", body) for _ in range(3)]
            until(lambda: model.open == 3)
            status, told, headers = small.ask("/v1/completions", body)
            assert (status, headers["retry-after"]) == (429, "1")
            assert told["error"]["message"] == "3 requests wait for gpt-mini-en, and 3 may; try later"
            assert small.ask("/embed", {"inputs": "a"})[0] == 200  # another model is not held up
        assert [one.result()[0] for one in waiting] == [200] * 3


def test_who_goes_away_is_forgotten(small):
    model = small.service.models["gpt-mini-en"]
    before = counters(small.url)['glassformer_requests_finished_total{model="gpt-mini-en",outcome="cancelled"}']
    with begun_stream(small, model) as (_, answer, _):
        answer.close()
        until(lambda: model.open == 0)
    after = counters(small.url)['glassformer_requests_finished_total{model="gpt-mini-en",outcome="cancelled"}']
    assert after == before + 1
    assert small.ask("/v1/completions", {"model": "gpt-mini-en", "prompt": "a", "max_tokens": 2})[0] == 200


def test_who_goes_away_before_his_answer_is_forgotten_too(small):
    model = small.service.models["embed-mini-en"]
    with stopped(model):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{small.url}/embed", json={"inputs": "a"}, timeout=0.3)
        until(lambda: model.open == 0)


def test_a_worker_that_is_killed_fails_its_own_requests_and_is_begun_anew(small):
    model = small.service.models["gpt-mini-en"]
    with begun_stream(small, model) as (pid, _, lines):
        os.kill(pid, signal.SIGKILL)
        rest = [line for line in lines if line]
    assert '"error"' in rest[-1]
    assert "has died" in rest[-1]
    assert small.ask("/embed", {"inputs": "a"})[0] == 200
    until(lambda: model.ready)
    assert model.pids != [pid]
    assert small.ask("/v1/completions", {"model": "gpt-mini-en", "prompt": "a", "max_tokens": 2})[0] == 200
    found = counters(small.url)
    assert found['glassformer_worker_restarts_total{model="gpt-mini-en"}'] >= 1


def test_while_it_is_begun_anew_it_is_503(small):
    model = small.service.models["gpt-mini-en"]
    os.kill(model.pids[0], signal.SIGKILL)
    until(lambda: not model.ready)
    status, told, headers = small.ask("/v1/completions", {"model": "gpt-mini-en", "prompt": "a"})
    assert (status, headers["retry-after"]) == (503, "1")
    assert "is being loaded" in told["error"]["message"]
    assert small.ask("/ready")[0] == 503
    until(lambda: model.ready)


@pytest.mark.slow
def test_a_model_whose_files_are_gone_is_410_until_they_are_back(tmp_path):
    folder = tmp_path / "embeds"
    shutil.copytree(folder_of("zoo:embed-mini-en"), folder)
    with running([folder, "zoo:bert-mini-en-ner"]) as one:
        folder.rename(tmp_path / "away")
        os.kill(one.service.models["embeds"].pids[0], signal.SIGKILL)
        until(lambda: one.ask("/embed", {"inputs": "a"})[0] == 410)
        status, told, _ = one.ask("/models/embeds", {"inputs": "a"})
        assert (status, told["error"]) == (410, "embeds was served here, and cannot be loaded any more")
        assert one.ask("/v2/models/embeds/ready")[0] == one.ask("/models/embeds/health")[0] == 410
        assert one.ask("/ready")[0] == 503
        assert one.ask("/models/bert-mini-en-ner", {"inputs": "a"})[0] == 200
        (tmp_path / "away").rename(folder)
        until(lambda: one.ask("/embed", {"inputs": "a"})[0] == 200)


@pytest.mark.slow
def test_what_takes_too_long_is_504_and_stops():
    with running(["zoo:gpt-mini-en"], limits=Limits(deadline=0.5)) as one:
        model = one.service.models["gpt-mini-en"]
        with stopped(model):
            status, told, _ = one.ask("/v1/completions", {"model": "gpt-mini-en", "prompt": "a"})
            assert (status, told["error"]["type"]) == (504, "timeout_error")
            assert "0.5 seconds" in told["error"]["message"]
            assert model.open == 0


@pytest.mark.slow
def test_when_it_ends_what_is_open_is_brought_to_an_end():
    """Readiness goes first; a short answer is finished, a long one is told; new ones are refused."""
    with running(["zoo:gpt-mini-en"], limits=Limits(shutdown_timeout=1.5)) as one:
        model = one.service.models["gpt-mini-en"]
        with begun_stream(one, model) as (_, _, lines):
            one.loop.call_soon_threadsafe(one.service.stop)
            until(lambda: model.draining)
            assert one.ask("/ready")[0] == 503
            assert one.ask("/health")[0] == 200
            status, told, _ = one.ask("/v1/completions", {"model": "gpt-mini-en", "prompt": "a"})
            assert (status, "shutting down" in told["error"]["message"]) == (503, True)
            rest = [line for line in lines if line]
        assert "the server is shutting down" in rest[-1]


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"), running([tmp_path / "nowhere"]):
        pass


def test_a_recurrent_language_model_writes_too(tmp_path):
    """Without keys and values to batch: each request by itself, as gf.generate writes it."""
    folder, small = tmp_path / "gru", {"hidden_size": 16, "num_layers": 1}
    gf.train(
        task="text-generation", arch="gru", config=small, data="microworld", limit=60, steps=2, out=folder, log=str
    )
    inference = Inference(WorkerSpec(str(folder)))
    writer = writer_of(inference)
    assert isinstance(writer, StepwiseWriter)
    options = [{"max_new_tokens": 6}, {"max_new_tokens": 9, "do_sample": True, "seed": 3, "num_return_sequences": 2}]
    for number, settings in enumerate(options):
        writer.add(Submit(number, 0, Call("generate", "text-generation", ["Anna"], settings)))
    writer.add(Submit(7, 0, Call("generate", "text-generation", ["Leo"], {"max_new_tokens": 50})))
    texts: dict[tuple[int, int], str] = {}
    while not writer.idle:
        writer.cancel(7)
        for one in writer.step():
            assert isinstance(one, WrittenText)
            texts[one.id, one.index] = texts.get((one.id, one.index), "Anna") + one.text
    model, tok = gf.load(folder), gf.load_tokenizer(folder)
    assert texts[0, 0] == gf.generate(model, tok, "Anna", **options[0])
    assert [texts[1, 0], texts[1, 1]] == gf.generate(model, tok, "Anna", **options[1])


def test_answers_are_awaited_by_many_without_a_thread_each(served):
    async def ask():
        async with httpx.AsyncClient(timeout=60) as client:
            posts = [client.post(f"{served.url}/embed", json={"inputs": f"{number}"}) for number in range(60)]
            return [one.status_code for one in await asyncio.gather(*posts)]

    assert asyncio.run(ask()) == [200] * 60
