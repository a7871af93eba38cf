"""Steps and explanations over HTTP: what Python recomputes, whole or one attention alone, and wrong questions."""

import json

import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.inspect.recompute import folded, recompute
from glassformer.jobs.reading import reading
from glassformer.studio import explain
from glassformer.studio.app import create_app
from studio.cases import FAMILIES, TEXT


@pytest.fixture(scope="module")
def ask(studio):
    """ask(model, route, **query): a fresh trace's answer."""
    client = TestClient(create_app(studio), base_url="http://127.0.0.1:8421")

    def go(model, route, **query):
        trace = client.post("/api/v1/traces", json={"model": model, "inputs": TEXT}).json()["trace_id"]
        return client.get(f"/api/v1/traces/{trace}/{route}", params=query)

    return go


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FAMILIES)
def test_steps_are_those_of_a_recomputed_pass(name, ask, studio_folders):
    model, tok = gf.load(studio_folders[name]), gf.load_tokenizer(studio_folders[name])
    found = recompute(model, reading(model, tok, TEXT).inputs)
    told = ask(name, "steps").json()
    rows = folded(found.rows())
    assert [row["name"] for row in told["rows"]] == [row.name for row in rows]
    assert [tuple(row["shape"]) for row in told["rows"]] == [row.shape for row in rows]
    assert sum(row["count"] for row in told["rows"]) == len(found.names)
    assert told["part"] is None
    assert {row["verdict"] for row in told["rows"]} <= {"holds", "-"}
    for many in [row for row in told["rows"] if row["count"] > 1][:1]:  # a bag of words has no such row
        inner = ask(name, "steps", of=many["name"]).json()["rows"]
        assert len(inner) == many["count"]
        assert max(row["error"] or 0 for row in inner) == pytest.approx(many["error"] or 0, abs=1e-7)


def test_a_whole_step_and_one_number_of_it(ask):
    whole = ask("bert", "explain", step="layers.0.feed_forward.down").json()
    by_symbol = {one["symbol"]: one for one in whole["operands"]}
    assert by_symbol["W"]["shape"] == [16, 20]
    assert whole["value"]["shape"][-1] == 16
    one = ask("bert", "explain", step="layers.0.feed_forward.down", cell="2,5").json()
    assert one["value"]["values"][0] == pytest.approx(whole["value"]["values"][2 * 16 + 5], rel=1e-12)
    parts = {part["symbol"]: part["values"] for part in one["operands"]}
    total = sum(x * w for x, w in zip(parts["x"], parts["W[5]"], strict=True)) + parts["b[5]"][0]
    assert total == pytest.approx(one["value"]["values"][0], rel=1e-12)
    assert one["seen"]["values"][0] == pytest.approx(total, rel=1e-5)
    json.dumps(one, allow_nan=False)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"step": "layers.7"}, "there is no step 'layers.7'"),
        (
            {"step": "layers.0.attention.head.0", "cell": "x"},
            "cell is two numbers, a row and a column, e.g. 4,2, not 'x'",
        ),
        ({"step": "layers.0.attention.head.0", "cell": "99,0"}, "the cell 99,0 is outside this head's"),
        ({}, "step"),
    ],
)
def test_wrong_questions_name_the_value(query, words, ask):
    answer = ask("bert", "explain", **query)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("limit", ["WORK", "WEIGHTS"])
def test_of_a_long_text_one_attention_is_recomputed(limit, ask, monkeypatch):
    whole = ask("transformer", "explain", step="decoder.layers.1.attention.head.1", cell="3,2").json()
    monkeypatch.setattr(explain, limit, 0)
    told = ask("transformer", "explain", step="decoder.layers.1.attention.head.1", cell="3,2").json()
    assert whole["part"] is None
    assert told["part"] == "decoder.layers.1.attention"
    assert told["seen"]["values"] == pytest.approx(whole["seen"]["values"], abs=1e-6)  # other layers ran fused
    assert told["value"]["values"][0] == pytest.approx(whole["value"]["values"][0], abs=1e-5)
    rows = ask("transformer", "steps", block="decoder.layers.1.attention.head.1").json()
    assert {row["name"].rsplit(".head", 1)[0] for row in rows["rows"] if ".head" in row["name"]} == {told["part"]}
    assert ask("transformer", "steps").json()["part"] == "encoder.layers.0.attention"
    refused = ask("transformer", "explain", step="decoder.layers.1.feed_forward.up")
    assert refused.status_code == 422
    assert "too long to recompute" in refused.json()["detail"]


def test_networks_without_attention_are_always_recomputed_whole(ask, monkeypatch):
    monkeypatch.setattr(explain, "WORK", 0)
    assert ask("lstm", "steps").json()["part"] is None
