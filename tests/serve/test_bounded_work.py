"""No request is more work than its limits say, and what nobody waits for any more is dropped in the middle."""

import threading
from multiprocessing import Pipe

import httpx
import pytest

from glassformer.serve.inference import Inference
from glassformer.serve.limits import Limits
from glassformer.serve.messages import Answer, Batched, Call, Cancel, Submit, WorkerSpec
from glassformer.serve.worker import Worker
from serve.cases import running
from serve.test_engine import until

LABELS = "nli/pipeline/zero-shot-classification"
QUESTION = {"question": "a", "context": "b"}
MANY = {"candidate_labels": ["b"] * 2000}


@pytest.mark.parametrize(
    ("name", "inputs", "parameters", "status", "said"),
    [
        ("bert-mini-en", "[MASK] " * 90, {"top_k": 6000}, 422, "top_k is 6,000, and this server goes up to 100"),
        ("bert-mini-en", "[MASK] " * 90, {"top_k": 100}, 422, "9,000 words, and it may have 2,048"),
        ("bert-mini-en", "[MASK]", {"targets": ["a"] * 3000}, 413, "targets holds 3,000 inputs"),
        ("bert-mini-en-qa", QUESTION, {"top_k": 10**5}, 422, "top_k is 100,000, and this"),
        ("bert-mini-en-qa", QUESTION, {"max_seq_len": 9}, 422, "max_seq_len is 9, and a window"),
        ("bert-mini-en-qa", QUESTION, {"doc_stride": 300}, 422, "doc_stride is 300, and windows"),
        ("bert-mini-en-ner", "a", {"stride": 120}, 422, "stride is 120, and windows of"),
        ("embed-mini-en", {"source_sentence": "a", "sentences": ["b"] * 50_000}, {}, 413, "holds 50,000 inputs"),
        (LABELS, "a", {"candidate_labels": ["b"] * 20_000}, 413, "20,000 inputs, and a request may hold 2,048"),
        (LABELS, "a", {"candidate_labels": "b," * 20_000}, 413, "20,001 inputs, and a request may hold 2,048"),
        (LABELS, ["a"] * 100, {"candidate_labels": ["b"] * 100}, 413, "100 candidate_labels each are 10,000"),
        (LABELS, "a" * 10_000, MANY, 413, "characters to read, and a request may hold"),
        (LABELS, "a", {**MANY, "hypothesis_template": "{}" * 9000}, 413, "characters to read"),
        ("en-de", "a", {"bad_words_ids": [[1]] * 3000}, 413, "bad_words_ids holds 3,000 inputs"),
    ],
)
def test_what_is_much_work_in_a_small_request_is_refused_with_both_numbers(
    served, name, inputs, parameters, status, said
):
    found, told, _ = served.ask(f"/models/{name}", {"inputs": inputs, "parameters": parameters})
    assert (found, said in told["error"]) == (status, True), told


def test_what_is_within_the_limits_is_done(served):
    found = served.ask("/models/bert-mini-en", {"inputs": "[MASK] " * 20, "parameters": {"top_k": 100}})
    assert (found[0], [len(words) for words in found[1]]) == (200, [100] * 20)
    body = {"inputs": {"question": "Who?", "context": "Anna met Leo."}, "parameters": {"top_k": 100}}
    assert served.ask("/models/bert-mini-en-qa", body)[0] == 200


def test_vectors_of_tokens_have_a_size():
    with running(["zoo:embed-mini-en"], limits=Limits(answer_bytes=1 << 20)) as one:
        status, told, _ = one.ask("/embed_all", {"inputs": ["word " * 50] * 100})
        assert (status, "and 1,048,576 may be sent" in told["error"]) == (413, True), told
        assert one.ask("/embed_all", {"inputs": "word " * 50})[0] == 200
        assert one.ask("/embed", {"inputs": ["word " * 50] * 100})[0] == 200


def parts_of(messages):
    return [one.id for some in messages for one in some if isinstance(one, Answer)]


class Between:
    """A worker whose messages are handed to it, and which is told more between the steps of a batch."""

    def __init__(self, source, *then):
        self.ours, theirs = Pipe()
        self.worker = Worker(theirs, Inference(WorkerSpec(source, batch_tokens=64, threads=1)), None)
        self.steps, self.then = 0, list(then)
        told = self.worker.inference.on_progress

        def on_progress(batch):
            self.steps += 1
            for message in self.then:
                self.worker.inbox.put(message)
            self.then = []
            told(batch)

        self.worker.inference.on_progress = on_progress

    def answer(self, *messages):
        for message in messages:
            self.worker.inbox.put(message)
        self.worker._take_in(None)
        while batch := self.worker.waiting.take():
            self.worker._answer(batch)
        return [self.ours.recv() for _ in iter(self.ours.poll, False)]


LONG = Call("predict", "sentence-similarity", [{"source_sentence": "a", "sentences": [f"b {n}" for n in range(200)]}])
SHORT = Call("predict", "sentence-similarity", [{"source_sentence": "a", "sentences": ["b"]}])


def test_what_nobody_waits_for_is_dropped_in_the_middle_of_its_batch():
    one = Between("zoo:embed-mini-en", Cancel(1))
    (found,) = one.answer(Submit(1, 0, LONG))
    assert [type(message) for message in found] == [Batched]
    assert one.steps == 1
    whole = Between("zoo:embed-mini-en")
    assert parts_of(whole.answer(Submit(1, 0, LONG))) == [1]
    assert whole.steps > 10
    assert not one.worker.cancelled


def test_who_comes_during_a_long_batch_need_not_wait_for_its_end():
    one = Between("zoo:embed-mini-en", Submit(2, 0, SHORT))
    assert parts_of(one.answer(Submit(1, 0, LONG))) == [2, 1]


@pytest.mark.slow
def test_a_deadline_frees_the_model():
    """What is late is 504, and the worker has dropped it: the next one is answered at once."""
    with running(["zoo:bert-mini-en-ner"], limits=Limits(deadline=1.0)) as one:
        body = {"inputs": "Anna met Leo in Paris on Monday. " * 50_000}
        assert one.ask("/models/bert-mini-en-ner", body)[0] == 504
        assert one.ask("/models/bert-mini-en-ner", {"inputs": "Anna met Leo."})[0] in (200, 504)
        until(lambda: one.ask("/models/bert-mini-en-ner", {"inputs": "Anna met Leo."})[0] == 200)


@pytest.mark.slow
def test_small_requests_pass_by_a_large_one(served):
    def large():
        text = "Anna met Leo in Paris on Monday. " * 20_000
        done.append(httpx.post(f"{served.url}/models/bert-mini-en-ner", json={"inputs": text}, timeout=120).status_code)

    done: list[int] = []
    thread = threading.Thread(target=large)
    thread.start()
    until(lambda: served.service.models["bert-mini-en-ner"].open == 1)
    for _ in range(3):
        assert served.ask("/models/bert-mini-en-ner", {"inputs": "Anna met Leo."})[0] == 200
    assert not done
    thread.join()
    assert done == [200]
