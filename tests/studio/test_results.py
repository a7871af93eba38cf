"""Results: every task says what gf.pipeline says, line by line; what is wrong with a question comes before any line."""

import json
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio, WorkQueue
from glassformer.studio.limits import MOST
from glassformer.studio.traces import Traces
from glassformer.web.safe import dump
from studio.cases import serving

TEXT, CONTEXT = "Paul is glad .", "Anna , who is sad , was in the old house ."
FOLDERS = (
    *("text-classification/bert", "text-classification/gru/multi-label", "text-classification/bert/regression"),
    *("token-classification/bert", "token-classification/lstm", "question-answering/bert", "fill-mask/bert"),
    *("pretraining/bert", "text-generation/gpt2", "text-generation/gru", "translation/gru", "translation/transformer"),
    *("sentence-similarity/bert/mean", "feature-extraction/distilbert", "copy/gru", "parity/bert", "parity/gpt2"),
)


@pytest.fixture(scope="module")
def studio(trained) -> Studio:
    return Studio(ModelStore([str(trained(name)) for name in FOLDERS]), Traces())


@pytest.fixture(scope="module")
def ask(studio):
    """The lines of an answer."""
    client = TestClient(create_app(studio), base_url="http://127.0.0.1")

    def lines(name, inputs, pair=None, **options):
        body = {"model": name.replace("/", "-"), "inputs": inputs, "pair": pair, "options": options}
        answer = client.post("/api/v1/results", json=body)
        if answer.status_code != 200:
            return answer.status_code, answer.json()["detail"]
        assert answer.headers["content-type"] == "application/x-ndjson"
        found = [json.loads(line) for line in answer.text.splitlines()]
        assert found[0]["kind"] == "begin"
        assert found[-1] == {"kind": "end"}
        return found[1:-1]

    return lines


@pytest.fixture(scope="module")
def pipe(trained):
    """The pipeline that a user would make."""
    return lambda name: gf.pipeline(name.split("/")[0], trained(name))


@pytest.mark.parametrize("pair", [None, CONTEXT])
@pytest.mark.parametrize("name", FOLDERS[:3])
def test_classes(ask, pipe, name, pair):
    (line,) = ask(name, TEXT, pair)
    inputs = {"text": TEXT, "text_pair": pair} if pair else TEXT
    task = pipe(name).task
    wanted = {"problem": task.problem, "labels": task.labels, "classes": pipe(name)(inputs, top_k=None)}
    assert line == {"kind": "classes", **wanted}


@pytest.mark.parametrize("name", FOLDERS[3:5])
@pytest.mark.parametrize("strategy", ["simple", "first", "max"])
def test_entities_and_the_tokens_of_words(ask, pipe, name, strategy):
    (line,) = ask(name, CONTEXT, aggregation_strategy=strategy)
    assert line["entities"] == pipe(name)(CONTEXT, aggregation_strategy=strategy)
    words = pipe(name).task.tokenizer(CONTEXT, add_special_tokens=False).word_ids()
    assert [token["number"] for token in line["tokens"]] == words
    assert "".join(CONTEXT[token["start"] : token["end"]] for token in line["tokens"]) == CONTEXT.replace(" ", "")


def test_answers(ask, pipe):
    name = "question-answering/bert"
    (line,) = ask(name, "Who is sad?", CONTEXT)
    assert line["answers"] == pipe(name)({"question": "Who is sad?", "context": CONTEXT}, top_k=5)
    (line,) = ask(name, "Who is sad?", CONTEXT, top_k=1, max_answer_length=2)
    wanted = pipe(name)({"question": "Who is sad?", "context": CONTEXT}, max_answer_length=2)
    assert line["answers"] == [wanted]


@pytest.mark.parametrize("name", ["fill-mask/bert", "pretraining/bert"])
def test_fills_of_one_mask_and_of_several(ask, pipe, name):
    (line,) = ask(name, "Paul is [MASK] .", top_k=3)
    assert line["masks"] == [pipe(name)("Paul is [MASK] .", top_k=3)]
    (line,) = ask(name, "[MASK] is [MASK] .", top_k=3)
    assert line["masks"] == pipe(name)("[MASK] is [MASK] .", top_k=3)


def test_likeness_and_vectors(ask, pipe):
    (line,) = ask("sentence-similarity/bert/mean", TEXT, CONTEXT)
    assert line["cosine"] == pipe("sentence-similarity/bert/mean")((TEXT, CONTEXT))
    (line,) = ask("feature-extraction/distilbert", TEXT)
    assert line["values"] == pipe("feature-extraction/distilbert")(TEXT, pooled=True)
    (line,) = ask("feature-extraction/distilbert", TEXT, CONTEXT)
    first, second = np.array(pipe("feature-extraction/distilbert")([TEXT, CONTEXT], pooled=True))
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert line["cosine"] == pytest.approx(cosine, abs=1e-5)


STREAMS = {
    "greedy": ({}, {"do_sample": False}),
    "sample": ({"strategy": "sample", "temperature": 1.3, "top_k": 20, "seed": 5}, {"do_sample": True}),
    "nucleus": ({"strategy": "sample", "top_p": 0.9, "seed": 7}, {"do_sample": True}),
}


@pytest.mark.parametrize("name", ["text-generation/gpt2", "text-generation/gru"])
@pytest.mark.parametrize("strategy", STREAMS)
def test_a_text_comes_token_by_token(ask, pipe, name, strategy):
    options, preset = STREAMS[strategy]
    *tokens, last = ask(name, TEXT, max_new_tokens=9, **options)
    request = {key: value for key, value in options.items() if key != "strategy"} | preset | {"max_new_tokens": 9}
    (wanted,) = pipe(name)(TEXT, return_full_text=False, **request)
    assert last == {"kind": "texts", "texts": [{"text": wanted["generated_text"]}]}
    assert "".join(token["piece"] for token in tokens) == wanted["generated_text"].rstrip("\ufffd")
    told = {"return_dict_in_generate": True, "top_logprobs": 8, **request}
    model, tokenizer = pipe(name).model, pipe(name).task.tokenizer
    steps = gf.generate(model, tokenizer, [TEXT], **told).steps(0, tokenizer)
    assert [token["id"] for token in tokens] == [step["id"] for step in steps]
    for token, step in zip(tokens, steps, strict=True):
        assert token["logprob"] == pytest.approx(step["logprob"], abs=1e-4)
        logprobs = [other["logprob"] for other in step["top"]]
        assert [other["logprob"] for other in token["top"]] == pytest.approx(logprobs, abs=1e-4)


@pytest.mark.parametrize("name", ["translation/gru", "translation/transformer"])
def test_translations_come_with_their_beams(ask, pipe, name):
    *steps, last = ask(name, TEXT, strategy="beam", num_beams=3)
    request = {"num_beams": 3, "num_return_sequences": 3, "return_dict_in_generate": True}
    wanted = pipe(name)(TEXT, **request)
    assert [one["text"] for one in last["texts"]] == [one["translation_text"] for one in wanted]
    scores = [one["score"] for one in wanted]
    assert [one["score"] for one in last["texts"]] == pytest.approx(scores, abs=1e-4)
    nodes = [steps[level]["nodes"][place] for level, place in enumerate(last["path"])]
    assert {node["fate"] for node in nodes[:-1]} <= {"kept"}
    assert nodes[-1]["score"] / len(nodes) == pytest.approx(last["texts"][0]["score"], abs=1e-4)
    *tokens, last = ask(name, TEXT)
    assert last["texts"][0]["text"] == pipe(name)(TEXT, num_beams=1)[0]["translation_text"]
    assert {token["kind"] for token in tokens} == {"token"}


def test_a_language_model_has_beams_as_well(ask, pipe):
    *steps, last = ask("text-generation/gpt2", TEXT, strategy="beam", num_beams=2, max_new_tokens=5)
    wanted = pipe("text-generation/gpt2")(TEXT, num_beams=2, num_return_sequences=2, max_new_tokens=5)
    assert [TEXT + one["text"] for one in last["texts"]] == [one["generated_text"] for one in wanted]
    assert len(steps) == 5


@pytest.mark.parametrize("name", ["copy/gru", "parity/bert", "parity/gpt2"])
def test_lessons_answer(ask, pipe, name):
    *_, last = ask(name, "1234")
    found = last["classes"][0]["label"] if name == "parity/bert" else last["texts"][0]["text"]
    assert {"answer": found} == pipe(name)("1234")


WRONG = {
    "no text": (("text-classification/bert", "  "), {}, "there is nothing to read"),
    "unknown": (("text-classification/bert", TEXT), {"top_k": 3}, "has no option 'top_k'; it has: none"),
    "strategy": (("text-generation/gpt2", TEXT), {"strategy": "best"}, "there is no strategy 'best' here"),
    "not its own": (("text-generation/gpt2", TEXT), {"top_p": 0.5}, "top_p is for another strategy; choose sample"),
    "range": (("text-generation/gpt2", TEXT), {"strategy": "sample", "top_p": 2}, "top_p must be above 0"),
    "type": (
        ("text-generation/gpt2", TEXT),
        {"max_new_tokens": "many"},
        "max_new_tokens is 'many'; it must be a whole number",
    ),
    "true": (
        ("text-generation/gpt2", TEXT),
        {"max_new_tokens": True},
        "max_new_tokens is True; it must be a whole number",
    ),
    "room": (("text-generation/gpt2", TEXT), {"max_new_tokens": 99}, "do not fit into the model's 32 positions"),
    "no beam": (
        ("translation/gru", TEXT),
        {"strategy": "beam", "num_beams": 0},
        "num_beams is 0; it must be a whole number from 1",
    ),
    "no context": (("question-answering/bert", TEXT), {}, "question-answering reads a context as well"),
    "no second": (("sentence-similarity/bert/mean", TEXT), {}, "reads a second text as well"),
    "pair": (("translation/gru", TEXT, CONTEXT), {}, "translation reads one text: leave the pair out"),
    "no mask": (
        ("fill-mask/bert", TEXT),
        {},
        "there is no [MASK] in 'Paul is glad .'; write it where a word is missing",
    ),
    "no fill": (("fill-mask/bert", "[MASK]"), {"top_k": 0}, "top_k is 0; it must be a whole number from 1"),
    "grouping": (("token-classification/bert", TEXT), {"aggregation_strategy": "all"}, "aggregation_strategy is 'all'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_before_anything_else(ask, what):
    question, options, message = WRONG[what]
    status, detail = ask(*question, **options)
    assert status == 422
    assert message in detail


@pytest.mark.parametrize("name", FOLDERS)
def test_the_python_shown_gives_the_same(studio, name, capsys):
    """It runs as it stands."""
    client = TestClient(create_app(studio), base_url="http://127.0.0.1")
    text = "[MASK] is glad ." if name.startswith(("fill", "pre")) else "1234" if "/" in name[:7] else TEXT
    pair = CONTEXT if name.startswith(("question", "sentence")) else None
    options = {"strategy": "beam", "num_beams": 2} if name.startswith("translation") else {}
    body = {"model": name.replace("/", "-"), "inputs": text, "pair": pair, "options": options}
    begin, *lines = map(json.loads, client.post("/api/v1/results", json=body).text.splitlines())
    exec(begin["python"], {})
    printed = capsys.readouterr().out
    for best in [line["texts"][0]["text"] for line in lines if "texts" in line]:
        assert repr(best)[1:-1] in printed
    for classes in [line["classes"] for line in lines if "classes" in line]:
        assert classes[0]["label"] in printed


def test_a_model_without_a_tokenizer_writes_ids(tmp_path, capsys):
    torch.manual_seed(0)
    bare = {"gpt": gf.build("gpt2", "text-generation", **SMALL_GPT), "bert": gf.build("bert", None, **SMALL_BERT)}
    for name, model in bare.items():
        gf.save(model, tmp_path / name)
    app = create_app(Studio(ModelStore([str(tmp_path / name) for name in bare]), Traces()))
    client = TestClient(app, base_url="http://127.0.0.1")
    ask = {"model": "gpt", "inputs": [5, 6, 7], "options": {"max_new_tokens": 4, "strategy": "beam", "num_beams": 2}}
    begin, *_, texts, _ = map(json.loads, client.post("/api/v1/results", json=ask).text.splitlines())
    exec(begin["python"], {})
    wanted = gf.generate(bare["gpt"].eval(), None, torch.tensor([[5, 6, 7]]), max_new_tokens=4, num_beams=2)
    assert texts["texts"][0]["text"] == " ".join(map(str, wanted[0, 3:].tolist()))
    assert ",".join(map(str, wanted[0].tolist())) in capsys.readouterr().out.replace(" ", "")
    for question, detail in (
        ({"model": "gpt", "inputs": [5, 99]}, "id 99 is not in the vocabulary, whose ids go from 0 to 40"),
        ({"model": "gpt", "inputs": "a text"}, "is for no task that can be run here"),
        ({"model": "bert", "inputs": [5]}, "does not generate"),
    ):
        answer = client.post("/api/v1/results", json=question)
        assert (answer.status_code, detail in answer.json()["detail"]) == (422, True), answer.text


def test_numbers_that_json_has_not_are_named():
    line = {"scores": [float("nan"), float("-inf"), 1.5], "deep": [{"x": float("inf")}]}
    assert json.loads(dump(line)) == {"scores": ["nan", "-inf", 1.5], "deep": [{"x": "inf"}]}


class Counted(WorkQueue):
    """Counts the queue that are taken."""

    def __init__(self):
        super().__init__()
        self.taken = 0

    def __call__(self):
        self.taken += 1
        return super().__call__()


def test_a_reader_that_goes_away_stops_the_work(studio, monkeypatch):
    monkeypatch.setitem(MOST, "max_new_tokens", 10**6)
    queue, seen = Counted(), -1
    body = {"model": "text-generation-gru", "inputs": TEXT, "options": {"max_new_tokens": 10**6}}
    with serving(create_app(replace(studio, work=queue))) as url:
        with httpx.stream("POST", f"{url}/api/v1/results", json=body) as answer:
            lines = answer.iter_lines()
            assert [json.loads(next(lines))["kind"] for _ in range(3)] == ["begin", "token", "token"]
        for _ in range(50):
            before, seen = seen, queue.taken
            if before == seen:
                break
            time.sleep(0.3)
    assert before == seen
    assert 2 < seen < 10**6
