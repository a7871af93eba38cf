"""Models with a NaN or an infinity among their weights: when one needs the studio most, every route must answer."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.studio.app import create_app
from glassformer.studio.app_state import ModelStore, Studio
from glassformer.studio.traces import Traces
from studio.cases import MODELS, TEXT

NAN = float("nan")


def broken(folder: Path, where: Path, bad: float) -> TestClient:
    """A studio of the model, of whose first weights some are broken."""
    shutil.copytree(folder, where)
    model = gf.load(where)
    with torch.no_grad():
        next(model.parameters())[:, 0] = bad
    gf.save(model, where, tokenizer=gf.load_tokenizer(where))
    return TestClient(create_app(Studio(ModelStore([str(where)]), Traces())), base_url="http://127.0.0.1:8421")


def strict(answer: Any, *statuses: int) -> list[Any]:
    """Lines of an answer that is JSON to the letter."""
    assert answer.status_code in (200, *statuses), answer.text
    return [json.loads(line, parse_constant=pytest.fail) for line in answer.text.splitlines()]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "bad"), [("bert", NAN), ("bert-qa", NAN), ("gpt2", NAN), ("transformer", NAN), ("rnn", float("inf"))]
)
def test_every_route_answers(name, bad, studio_folders, tmp_path):
    api = broken(studio_folders[name], tmp_path / name, bad)
    text = {"inputs": TEXT.replace("red", "[MASK]")} | ({"pair": "Tom slept ."} if name == "bert-qa" else {})
    target = {"target": "Anna"} if MODELS[name][1] == "text2text-generation" else {}
    (trace,) = strict(api.post("/api/v1/traces", json={"model": name, **text, **target}))
    where = f"/api/v1/traces/{trace['trace_id']}"
    for board in trace["boards"]:
        for other in ({}, {"minus": trace["trace_id"]}):
            assert api.get(f"{where}/mosaic", params={"board": board["name"], **other}).status_code == 200
        cell = board["cells"][-1]
        for dtype in ("f32", "u8"):
            asked = {"slice": cell["slice"], "dtype": dtype}
            assert api.get(f"{where}/tensors/{cell['tensor']}", params=asked).status_code == 200
    (listed,) = strict(api.get(f"{where}/tensors"))
    assert {one["mean"] for one in listed} & {"nan", "inf", "-inf"}
    (steps,) = strict(api.get(f"{where}/steps"))
    for step in [one["name"] for one in steps["rows"] if one["numbers"]][:3]:
        strict(api.get(f"{where}/explain", params={"step": step}))
    strict(api.get(f"{where}/lens"))
    strict(api.get(f"{where}/norms"))
    (editable,) = strict(api.get(f"{where}/editable"))
    off = [f"{one['name']}:0" if one["size"] else one["name"] for one in editable[:1]]
    strict(api.post(f"{where}/edits", json={"off": off}), 422)
    assert strict(api.post(f"{where}/edits/heads", json={}))[-1]["kind"] == "end"
    ways = ("greedy", "sample", "beam") if MODELS[name][1].endswith("generation") else (None,)
    for way in ways:
        options = {"strategy": way, "max_new_tokens": 3} if way else {}
        strict(api.post("/api/v1/results", json={"model": name, "options": options, **text}), 422)


def test_a_model_that_cannot_write_asks_for_a_target(studio_folders, tmp_path):
    api = broken(studio_folders["transformer"], tmp_path / "transformer", NAN)
    answer = api.post("/api/v1/traces", json={"model": "transformer", "inputs": TEXT})
    assert (answer.status_code, "give a target" in answer.json()["detail"]) == (422, True)
