"""The numbers of the States screen: norms and saturation of every family, as plain torch makes them of the tensors."""

import pytest
import torch
from fastapi.testclient import TestClient
from torch.testing import assert_close

from glassformer.studio.app import create_app
from studio.cases import MODELS, TEXT

TRANSFORMERS = [
    name
    for name, (kind, _, _) in MODELS.items()
    if kind not in ("glassformer-rnn", "glassformer-seq2seq", "glassformer-cnn", "glassformer-bow")
]
RECURRENT = [name for name, (kind, _, _) in MODELS.items() if kind in ("glassformer-rnn", "glassformer-seq2seq")]


@pytest.fixture(scope="module")
def api(studio):
    return TestClient(create_app(studio), base_url="http://127.0.0.1")


def looked(api, studio, name, **more):
    made = api.post("/api/v1/traces", json={"model": name, "inputs": TEXT, **more})
    assert made.status_code == 200, made.text
    trace = studio.traces[made.json()["trace_id"]]
    answer = api.get(f"/api/v1/traces/{trace.id}/norms")
    assert answer.status_code == 200, answer.text
    return trace, answer.json()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_norms_are_those_of_the_tensors(name, api, studio):
    trace, found = looked(api, studio, name)
    assert found["gates"] == []
    assert len(found["stacks"]) == (2 if name == "transformer" else 1)
    for stack in found["stacks"]:
        for layer, values in zip(stack["rows"], stack["stream"], strict=True):
            assert_close(torch.tensor(values), trace.seen[layer][0].norm(dim=-1))
        for part, rows in stack["added"].items():
            for number, values in enumerate(rows):
                assert_close(torch.tensor(values), trace.seen[f"{stack['name']}.{number}.{part}"][0].norm(dim=-1))
        assert len(trace.reading.tokens[stack["side"]].ids) == len(stack["stream"][0])
        shown = eval(stack["python"], {"seen": trace.seen})
        assert_close(torch.tensor(stack["stream"][-1]), shown)


def test_norms_of_a_trace_that_captured_little(api, studio):
    _, whole = looked(api, studio, "bert")
    _, little = looked(api, studio, "bert", capture=["layers.0"])
    assert little["stacks"] == whole["stacks"]


@pytest.mark.parametrize("name", RECURRENT)
def test_saturation_is_that_of_the_tensors(name, api, studio):
    trace, found = looked(api, studio, name)
    assert found["stacks"] == []
    boards = api.get(f"/api/v1/traces/{trace.id}").json()["boards"]
    shown = {cell["tensor"] for board in boards if board["kind"] == "states" for cell in board["cells"]}
    assert {gate["tensor"] for gate in found["gates"]} == shown
    for gate in found["gates"]:
        value = trace.seen[gate["tensor"]][0]
        low = {"gate": value < 0.05, "tanh": value < -0.95, "cell": value.tanh() < -0.95}[gate["rule"]]
        high = {"gate": value > 0.95, "tanh": value > 0.95, "cell": value.tanh() > 0.95}[gate["rule"]]
        assert_close(torch.tensor(gate["low"]), low.float().mean(0))
        assert_close(torch.tensor(gate["high"]), high.float().mean(0))
        assert gate["share"] == pytest.approx(float((low | high).double().mean()), abs=1e-6)
