"""The routes of text-embeddings-inference, of KServe and of operators; and what the server tells of itself."""

import re
from urllib.request import urlopen

import pytest
from torch.testing import assert_close

import glassformer as gf
from serve.cases import running


def test_vectors_of_texts_and_of_tokens(served):
    _, pooled, _ = served.ask("/embed", {"inputs": ["A cat sat.", "No."]})
    assert_close(pooled, gf.embed(["A cat sat.", "No."], "zoo:embed-mini-en").tolist(), rtol=1e-4, atol=1e-5)
    _, each, _ = served.ask("/embed_all", {"inputs": "A cat sat."})
    expected = gf.pipeline("feature-extraction", "zoo:embed-mini-en")("A cat sat.")[0]
    assert_close(each[0], expected, rtol=1e-4, atol=1e-5)
    _, found, _ = served.ask("/similarity", {"inputs": {"source_sentence": "A cat sat.", "sentences": ["No."]}})
    assert found == pytest.approx([sum(a * b for a, b in zip(*pooled, strict=True))], abs=1e-4)


def test_a_text_that_is_too_long_is_cut_where_that_is_asked_for(served):
    long = "word " * 999
    status, told, _ = served.ask("/embed", {"inputs": long})
    assert (status, "1,001 tokens" in told["error"]) == (422, True)
    _, cut, _ = served.ask("/embed", {"inputs": long, "truncate": True})
    assert_close(cut[0], gf.embed(long, "zoo:embed-mini-en").tolist(), rtol=1e-4, atol=1e-5)


def test_a_text_that_is_refused_names_both_numbers_and_the_field(served):
    """Wherever a client can have it cut, it is told how; and it is cut on the side that it asks for."""
    long, asked = "good " * 300 + "bad " * 300, {"source_sentence": "good " * 300 + "bad", "sentences": ["bad"]}
    for path, body in (
        ("/embed", {"inputs": long}),
        ("/embed_all", {"inputs": long}),
        ("/predict", {"inputs": long}),
        ("/predict", {"inputs": [[long, "a"]]}),
        ("/similarity", {"inputs": asked, "parameters": {"truncate": False}}),
    ):
        status, told, _ = served.ask(path, body)
        assert status == 422, path
        assert re.fullmatch(
            r'a text has \d[\d,]* tokens and the model reads \d[\d,]*: shorten it, or send "truncate": true',
            told["error"],
        ), told
    assert (
        "truncate" not in served.ask("/v1/embeddings", {"model": "embed-mini-en", "input": long})[1]["error"]["message"]
    )


def test_a_text_is_cut_where_the_client_says(served):
    long = "good " * 300 + "bad " * 300
    for side, part in (("left", "bad"), ("Left", "bad"), ("right", "good"), ("Right", "good"), (None, "good")):
        same = f"{part} " * 300
        cut = {"truncate": True, "truncation_direction": side}
        for path in ("/embed", "/embed_all", "/predict"):
            found, expected = (served.ask(path, {"inputs": text, **cut}) for text in (long, same))
            assert (found[0], found[1]) == (200, expected[1]), (path, side, found)
        asked = {"source_sentence": long, "sentences": [same]}
        _, (cosine,), _ = served.ask("/similarity", {"inputs": asked, "parameters": cut})
        assert cosine == pytest.approx(1, abs=1e-5)
        _, vector, _ = served.ask("/models/embed-mini-en", {"inputs": long, "truncation_direction": side})
        assert_close(vector, served.ask("/embed", {"inputs": same, **cut})[1][0], rtol=1e-4, atol=1e-5)


def test_names_of_prompts_are_null_or_refused(served):
    comparison = {"source_sentence": "a", "sentences": ["b"]}
    for name, status in ((None, 200), ("query", 422)):
        for path in ("/embed", "/embed_all", "/tokenize"):
            assert served.ask(path, {"inputs": "a", "prompt_name": name})[0] == status, path
        assert served.ask("/similarity", {"inputs": comparison, "parameters": {"prompt_name": name}})[0] == status


def test_classes(served):
    one = served.ask("/predict", {"inputs": "A warm film."})[1]
    both = served.ask("/predict", {"inputs": [["A warm film."], ["A dull film."]]})[1]
    assert [row["label"] for row in one] == [row["label"] for row in both[0]]
    assert [row["score"] for row in one] == pytest.approx([row["score"] for row in both[0]], abs=1e-5)
    pair = served.ask("/predict", {"inputs": ["A warm film.", "A dull film."]})[1]
    assert [set(row) for row in pair] == [{"label", "score"}] * 2
    raw = served.ask("/predict", {"inputs": "A warm film.", "raw_scores": True})[1]
    assert sum(row["score"] for row in raw) != pytest.approx(1)


def test_no_inputs_are_refused(served):
    for path in ("/predict", "/embed", "/embed_all", "/tokenize"):
        assert served.ask(path, {"inputs": []})[0] == 422, path


def test_tokens_there_and_back(served):
    tok = gf.load_tokenizer("zoo:gpt-mini-en")
    body = {"inputs": ["A cat sat."], "model": "gpt-mini-en"}
    _, (row,), _ = served.ask("/tokenize", body)
    assert [one["id"] for one in row] == tok("A cat sat.")["input_ids"]
    assert "".join("A cat sat."[one["start"] : one["stop"]] for one in row).replace(" ", "") == "Acatsat."
    _, texts, _ = served.ask("/decode", {"ids": [one["id"] for one in row], "model": "gpt-mini-en"})
    assert texts == ["A cat sat."]
    assert served.ask("/decode", {"ids": [99999]})[0] == 422


def test_a_model_may_be_named(served):
    status, told, _ = served.ask("/embed", {"inputs": "a", "model": "gpt-mini-en"})
    assert (status, told["error"]) == (400, "gpt-mini-en is for text-generation, not for sentence-embedding")


def test_health(served):
    for path in ("/health", "/ready", "/v2/health/live", "/v2/health/ready", "/v2/models/chat/ready"):
        assert served.ask(path)[0] == 200, path
    assert served.ask("/v2/models/nowhere/ready")[0] == 404


def test_info_tells_models_and_limits(served):
    _, told, _ = served.ask("/info")
    assert [one["id"] for one in told["models"]] == list(served.service.models)
    assert told["limits"]["body_bytes"] == 2 << 20
    assert {"connections": 512, "queue": 256, "inputs": 2048, "n": 8, "logprobs": 20, "stop": 4}.items() <= told[
        "limits"
    ].items()
    assert told["limits"]["deadline"] == 60


def counters(url):
    """Every sample of /metrics, by its name with labels."""
    with urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_metrics_balance_and_have_no_label_of_a_client(served):
    served.ask("/v1/embeddings", {"model": "embed-mini-en", "input": "a"})
    served.ask("/v1/embeddings", {"model": "embed-mini-en", "input": "word " * 999})
    served.ask("/v1/embeddings", {"model": "nobody-knows-this", "input": "a"})
    found = counters(served.url)
    for name in served.service.models:
        accepted = found[f'glassformer_requests_accepted_total{{model="{name}"}}']
        ended = [
            found[f'glassformer_requests_finished_total{{model="{name}",outcome="{outcome}"}}']
            for outcome in ("done", "failed", "cancelled")
        ]
        assert accepted == sum(ended)
        assert found[f'glassformer_requests_in_flight{{model="{name}"}}'] == 0
    assert found['glassformer_requests_finished_total{model="embed-mini-en",outcome="failed"}'] > 0
    assert not any("nobody-knows-this" in name for name in found)


def test_the_page_of_routes_loads_nothing(served):
    _, page, headers = served.ask("/docs")
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<script|<link|<img|src=|https?://|@import|url\(", page)
    _, schema, _ = served.ask("/openapi.json")
    for path in schema["paths"]:
        assert path in page


def test_the_document_names_the_models_and_the_errors(served):
    _, schema, _ = served.ask("/openapi.json")
    named = schema["components"]["schemas"]["CompletionRequest"]["properties"]["model"]["enum"]
    assert "gpt-mini-en" in named
    assert "zoo:gpt-mini-en" in named
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert {"400", "401", "404", "413", "422", "429", "503", "504"} <= operation["responses"].keys(), path


@pytest.mark.slow
def test_replicas_share_the_work_of_a_model():
    with running(["zoo:embed-mini-en"], workers=2) as one:
        model = one.service.models["embed-mini-en"]
        assert len({*model.pids}) == 2
        texts = [f"{number} cats" for number in range(200)]
        _, found, _ = one.ask("/embed", {"inputs": texts})
        assert_close(found, gf.embed(texts, "zoo:embed-mini-en").tolist(), rtol=1e-4, atol=1e-5)
