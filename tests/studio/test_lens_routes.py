"""The lens of a trace: each family has one, its last row is the model itself, and its numbers are inspect's."""

import pytest
import torch
from fastapi.testclient import TestClient
from torch.testing import assert_close

import glassformer as gf
from glassformer.inspect.lens import head_layers, prefix_lens, scores
from glassformer.studio import lens as room
from glassformer.studio.app import create_app
from studio.cases import FAMILIES, MODELS, TEXT

KINDS = {
    "rnn": ["prefix"],
    "lstm": ["prefix"],
    "cnn": ["prefix"],
    "bow": ["prefix"],
    "gru-lm": ["time"],
    "seq2seq": ["time"],
    "transformer": ["logit", "decoder"],
    "gpt2": ["logit"],
}


@pytest.fixture(scope="module")
def api(studio):
    return TestClient(create_app(studio), base_url="http://127.0.0.1")


def looked(api, studio, name, top=3, **more):
    made = api.post("/api/v1/traces", json={"model": name, "inputs": TEXT, **more})
    assert made.status_code == 200, made.text
    trace = studio.traces[made.json()["trace_id"]]
    answer = api.get(f"/api/v1/traces/{trace.id}/lens?top={top}")
    assert answer.status_code == 200, answer.text
    return trace, answer.json()["lenses"]


def by_hand(trace, kind):
    """(rows, places, choices)"""
    model, inputs = trace.loaded.model, trace.reading.inputs
    match kind:
        case "logit":
            return gf.logit_lens(model, inputs).logits[:, 0]
        case "decoder":
            return gf.decoder_lens(model, inputs).logits[:, 0]
        case "head":
            return head_layers(model, inputs).together().logits[:, 0]
        case "prefix":
            return prefix_lens(model, inputs)[None]
        case "time":
            return scores(trace.loaded.model, list(trace.outputs.values()))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_its_lens(name, api, studio):
    pair = {"pair": TEXT} if name == "bert-qa" else {}
    trace, lenses = looked(api, studio, name, **pair)
    assert [one["kind"] for one in lenses] == KINDS.get(name, ["head"])
    for lens in lenses:
        logits = by_hand(trace, lens["kind"])
        assert (len(lens["rows"]), len(lens["columns"]), lens["count"]) == tuple(logits.shape)
        shares = logits.softmax(-1)
        final = scores(trace.loaded.model, list(trace.outputs.values()))[0]
        if lens["kind"] == "prefix":
            final = final.expand(logits.shape[1:])
        best = shares.topk(min(3, lens["count"]), dim=-1)
        for row, cell in enumerate(lens["cells"]):
            assert_close(torch.tensor(cell["shares"]), best.values[row])
            answers = final.argmax(-1)
            assert lens["answers"] == answers.tolist()
            wanted = shares[row].gather(-1, answers[:, None])[:, 0]
            assert_close(torch.tensor(cell["share"]), wanted)
            assert cell["rank"] == (shares[row] > wanted[:, None]).sum(-1).tolist()
            entropy = torch.distributions.Categorical(logits=logits[row].double()).entropy()
            assert_close(torch.tensor(cell["entropy"], dtype=torch.double), entropy, atol=1e-5, rtol=1e-5)
        if lens["kind"] != "prefix":
            assert max(lens["cells"][-1]["kl"]) < 1e-5, "the last row is the model itself"
        for number, text in lens["names"].items():
            assert isinstance(text, str), number


def test_what_comes_next_is_ranked(api, studio):
    trace, (lens,) = looked(api, studio, "gpt2")
    ids = trace.reading.inputs["input_ids"][0].tolist()
    assert lens["next"] == [*ids[1:], None]
    logits = trace.outputs["logits"][0]
    ranks = [int((logits[place] > logits[place, following]).sum()) for place, following in enumerate(ids[1:])]
    assert lens["cells"][-1]["next_rank"] == [*ranks, None]
    assert lens["asked"] == [len(ids) - 1]


def test_a_masked_model_is_asked_at_its_masks(api, studio):
    mask = studio.models["bert-mlm"].tokenizer.mask_token
    trace, (lens,) = looked(api, studio, "bert-mlm", inputs=f"Anna gave the {mask} book .")
    place = trace.reading.tokens["read"].texts.index(mask)
    assert lens["asked"] == [place]
    assert len(lens["columns"]) == len(trace.reading.tokens["read"].ids)


@pytest.mark.parametrize("kind", room.PYTHON)
def test_the_python_that_is_shown_runs(kind, api, studio):
    name = next(one for one in MODELS if kind in KINDS.get(one, ["head"]))
    trace, lenses = looked(api, studio, name)
    (python,) = (one["python"] for one in lenses if one["kind"] == kind)
    scope = {"gf": gf, "model": trace.loaded.model, "inputs": trace.reading.inputs}
    with torch.no_grad():
        scope["outputs"] = trace.loaded.model(**trace.reading.inputs)
        exec(python, scope)
    first = next(one for one in lenses if one["kind"] == kind)["cells"][0]["shares"][0]
    assert_close(scope["shares"].reshape(-1, scope["shares"].shape[-1])[0].topk(len(first)).values, torch.tensor(first))


@pytest.mark.parametrize("top", [0, 51])
def test_a_wrong_count_is_explained(top, api, studio):
    made = api.post("/api/v1/traces", json={"model": "gpt2", "inputs": TEXT}).json()
    answer = api.get(f"/api/v1/traces/{made['trace_id']}/lens?top={top}")
    assert (answer.status_code, answer.json()["detail"]) == (422, f"top={top}: ask for 1 to 50 predictions")


def test_of_a_long_text_some_beginnings_are_judged(api, studio, monkeypatch):
    monkeypatch.setattr(room, "MOST", 4)
    trace, (lens,) = looked(api, studio, "lstm")
    lengths = sorted({-(-len(trace.reading.tokens["read"].ids) * part // 4) for part in (1, 2, 3, 4)})
    wanted = prefix_lens(trace.loaded.model, trace.reading.inputs)[[length - 1 for length in lengths]].softmax(-1)
    assert lens["columns"] == [trace.reading.tokens["read"].texts[length - 1] for length in lengths]
    assert_close(torch.tensor(lens["cells"][0]["shares"]), wanted.sort(descending=True).values[:, :3])


def test_only_words_are_tagged(api, studio):
    trace, (lens,) = looked(api, studio, "bert-ner")
    assert lens["asked"] == list(range(1, len(trace.reading.tokens["read"].ids) - 1))
