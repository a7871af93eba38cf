"""A sweep over every route of the studio with what no page would send: one line of what is wrong, never a fault."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from glassformer.studio.app import API, create_app
from studio.cases import MODELS, TEXT

pytestmark = pytest.mark.slow

WORDS = [
    "",
    "x",
    "-1",
    "0",
    "1e999",
    "NaN",
    "9" * 25,
    "9" * 5000,
    "\x00",
    "é钥",
    "../..",
    "[",
    "0,0",
    "1:2:3",
    "0,0,0,0,0",
]
WORDS += ["9" * 25 + ",:", "nan,nan,nan", "inf,-inf,1", "1e400,0,0", "layers.0", "outputs.logits", "%", "a" * 9000]
VALUES: list[Any] = [None, True, -1, 0, 2**31, 10**30, 1e308, float("nan"), float("inf"), "", " ", "x", "\x00", "é钥"]
VALUES += ["\ud800", [], {}, [[1]], [None], [10**30], [-1], [True], ["x"], {"a": 1}, "9" * 5000, [1.5], [float("nan")]]
BODIES = [b"", b"{", b"null", b"[]", b"3", b'"x"', b"NaN", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000]
BODIES += [b'{"model": "bert", "inputs": "x", "inputs": 3}', b'{"\\ud800": 1}', b"{}" + b" " * 1000 + b"x"]
WHOLE: dict[str, dict[str, Any]] = {  # a body that is right, in which one value after another is replaced
    f"{API}/traces": {"model": "bert", "inputs": TEXT},
    f"{API}/results": {"model": "gpt2", "inputs": TEXT, "options": {"max_new_tokens": 2}},
    f"{API}/traces/{{trace_id}}/edits": {"off": ["layers.0"], "to": "zero", "place": 0},
    f"{API}/traces/{{trace_id}}/edits/heads": {"to": "zero"},
}


@pytest.fixture(scope="module")
def api(studio) -> Iterator[TestClient]:
    with TestClient(create_app(studio), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def trace(api) -> dict[str, Any]:
    return api.post(f"{API}/traces", json={"model": "bert", "inputs": TEXT}).json()


def judge(answer: Any, asked: object) -> None:
    """An answer, or one line that says what is wrong: with its status, or at the end of a stream that has begun."""
    said = f"{asked!r:.300}: {answer.status_code} {answer.text:.300}"
    assert answer.status_code < 500, said
    problems = []
    if answer.status_code >= 400:
        problems = [answer.json()["detail"]]
    elif answer.headers.get("content-type") == "application/x-ndjson":
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert lines[-1]["kind"] in ("end", "error", "problem"), said
        problems = [line["detail"] for line in lines if line["kind"] in ("error", "problem")]
    for problem in problems:
        assert isinstance(problem, str), said
        assert problem.strip(), said
        assert "\n" not in problem, said
        assert len(problem) < 1000, said


def operations(api: TestClient, method: str) -> list[tuple[str, dict[str, Any]]]:
    """Every route of a method, from the description that the application gives of itself."""
    paths = api.get(f"{API}/openapi.json").json()["paths"]
    return [(path, ways[method]) for path, ways in paths.items() if method in ways]


def filled(path: str, trace: dict[str, Any], **other: str) -> str:
    known = {"trace_id": trace["trace_id"], "name": "layers.0.attention.pattern", **other}
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path
    return path


def test_every_route_is_known_to_this_sweep(api):
    assert {path for path, _ in operations(api, "post")} == set(WHOLE)
    assert len(operations(api, "get")) >= 12


def test_queries(api, trace):
    usual = {"board": trace["boards"][0]["name"], "names": "layers.0", "step": "layers.0", "minus": trace["trace_id"]}
    for path, about in operations(api, "get"):
        queries = [one["name"] for one in about.get("parameters", []) if one["in"] == "query"]
        needed = {
            one["name"]: usual[one["name"]]
            for one in about.get("parameters", [])
            if one.get("required") and one["in"] == "query"
        }
        for name in queries:
            for word in WORDS:
                judge(api.get(filled(path, trace), params=needed | {name: word}), (path, name, word))
        for side in ("trace_id", "name") if "{" in path else ():
            for word in ("x", "%00", "%ff", "..%2f..", "9" * 3000, "%F0%9F%94%91"):
                judge(api.get(filled(path, trace, **{side: word}), params=needed), (path, side, word))


@pytest.mark.parametrize("path", WHOLE)
def test_bodies(api, trace, path):
    where = filled(path, trace)
    for body in BODIES:
        judge(api.post(where, content=body, headers={"content-type": "application/json"}), (path, body))
    judge(api.post(where, content=b"model=bert", headers={"content-type": "application/x-www-form-urlencoded"}), path)
    whole, names = WHOLE[path], [*WHOLE[path], "pair", "target", "capture", "options", "unheard-of"]
    for name in dict.fromkeys(names):
        for value in VALUES:
            sent = json.dumps(whole | {name: value}).encode()
            judge(api.post(where, content=sent, headers={"content-type": "application/json"}), (path, name, value))


@pytest.mark.parametrize("model", MODELS)
def test_options_of_every_task(api, model):
    options = ("strategy", "max_new_tokens", "num_beams", "seed", "temperature", "top_k", "top_p", "top_logprobs")
    options += ("aggregation_strategy", "max_answer_length", "handle_impossible_answer")
    text = {"bert-mlm": "Anna saw [MASK] ."}.get(model, TEXT)
    for name in options:
        for value in [*VALUES, 10**6, 10**9]:
            asked = {"max_new_tokens": 2} | {name: value}
            asked |= {"temperature": {"strategy": "sample"}, "top_k": {"strategy": "sample"}}.get(name, {})
            asked |= {"top_p": {"strategy": "sample"}, "num_beams": {"strategy": "beam"}}.get(name, {})
            asked |= {"seed": {"strategy": "sample"}}.get(name, {})
            if model in ("albert", "electra", "bert-qa", "bert-mlm", "bert-ner", "bert", "lstm", "rnn"):
                asked.pop("max_new_tokens", None), asked.pop("strategy", None)
                asked |= {name: value}
            body = {"model": model, "inputs": text, "options": asked} | ({"pair": TEXT} if model == "bert-qa" else {})
            answer = api.post(
                f"{API}/results", content=json.dumps(body).encode(), headers={"content-type": "application/json"}
            )
            judge(answer, (model, asked))
