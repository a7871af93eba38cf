"""Edits over the wire equal gf.record done by hand, for every family, in logits and in words."""

import io
import json

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch.testing import assert_close

import glassformer as gf
from glassformer.inspect import edits
from glassformer.inspect.lens import scores
from glassformer.studio.app import create_app
from glassformer.studio.app_state import Busy, ModelStore, Studio
from glassformer.studio.traces import Traces
from studio.cases import FAMILIES, TEXT

OFF = {  # some parts of each family, and the same edits by hand
    "rnn": (["recurrent.layers.0.left_to_right.hidden:3"], edits.neuron("recurrent.layers.0.left_to_right.hidden", 3)),
    "lstm": (
        ["recurrent.layers.0.right_to_left.forget:1", "recurrent.layers.0.right_to_left.forget:4"],
        edits.neurons("recurrent.layers.0.right_to_left.forget", [1, 4]),
    ),
    "cnn": (["features:3", "features:5"], edits.neurons("features", [3, 5])),
    "bow": (["features:1"], edits.neuron("features", 1)),
    "gru-lm": (
        ["recurrent.layers.1.left_to_right.hidden:0"],
        edits.neuron("recurrent.layers.1.left_to_right.hidden", 0),
    ),
    "seq2seq": (
        [f"decoder.recurrent.layers.0.left_to_right.cell:{unit}" for unit in range(8)],
        edits.neurons("decoder.recurrent.layers.0.left_to_right.cell", range(8)),
    ),
    "transformer": (
        ["encoder.layers.0.attention:1", "decoder.layers.1"],
        edits.head("encoder.layers.0.attention", 1) | edits.layer("decoder.layers.1"),
    ),
    "gpt2": (["layers.0.attention:0", "layers.0.attention:1"], edits.heads({"layers.0.attention": [0, 1]})),
}
BERT = (
    ["layers.1.attention:0", "layers.0.feed_forward.neurons:7"],
    edits.head("layers.1.attention", 0) | edits.neuron("layers.0.feed_forward.neurons", 7),
)


@pytest.fixture(scope="module")
def api(studio):
    return TestClient(create_app(studio), base_url="http://127.0.0.1")


def traced(api, studio, name):
    more = {"bert-qa": {"pair": TEXT}, "bert-mlm": {"inputs": "Anna gave the [MASK] book ."}}.get(name, {})
    made = api.post("/api/v1/traces", json={"model": name, "inputs": TEXT, **more})
    assert made.status_code == 200, made.text
    return studio.traces[made.json()["trace_id"]]


def ask(api, trace, status=200, **order):
    answer = api.post(f"/api/v1/traces/{trace.id}/edits", json=order)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("name", FAMILIES)
def test_an_edit_is_the_same_by_hand(name, api, studio):
    trace = traced(api, studio, name)
    names, by_hand = OFF.get(name, BERT)
    found = ask(api, trace, off=names)
    model, inputs = trace.loaded.model, trace.reading.inputs
    with torch.no_grad():
        before = scores(model, model(**inputs))[0]
        with gf.record(model, edit=by_hand):
            after = scores(model, model(**inputs))[0]
    place = found["place"]
    assert len(found["places"]) == len(before)
    for one in found["changes"]:
        number = one["id"]
        wanted = torch.stack([before[place, number], after[place, number], (after - before)[place, number]])
        assert_close(torch.tensor([one["before"], one["after"], one["delta"]]), wanted, atol=2e-5, rtol=1e-4)
        assert one["share_after"] == pytest.approx(float(after[place].softmax(-1)[number]), abs=1e-5)
    kl = torch.nn.functional.kl_div(
        after.double().log_softmax(-1), before.double().log_softmax(-1), reduction="none", log_target=True
    ).sum(-1)
    assert_close(torch.tensor(found["kl"], dtype=torch.double), kl.clamp(min=0), atol=1e-5, rtol=1e-3)
    assert found["largest"] > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_the_words_are_those_of_the_edited_model(name, api, studio):
    trace = traced(api, studio, name)
    names, by_hand = OFF.get(name, BERT)
    found = ask(api, trace, off=names)["said"]
    pipe, options = trace.loaded.pipeline, {}
    given = {"question": TEXT, "context": TEXT} if name == "bert-qa" else trace.text
    if trace.loaded.task == "text-classification":
        options = {"top_k": None}
    elif trace.loaded.task == "token-classification":
        options = {"aggregation_strategy": "first"}
    elif trace.loaded.task in ("text-generation", "translation"):
        options = {"max_new_tokens": 40, "do_sample": False, "num_beams": 1}
        options |= {"return_full_text": False} if trace.loaded.task == "text-generation" else {}
    assert found["before"] == pipe(given, **options)
    with gf.record(trace.loaded.model, edit=by_hand):
        assert found["after"] == pipe(given, **options)
    assert found["after"] != found["before"]


@pytest.mark.parametrize("name", ["bert", "gpt2", "lstm"])
def test_a_mean_is_kept_while_a_text_is_written(name, api, studio):
    trace = traced(api, studio, name)
    part = "recurrent.layers.0.left_to_right.hidden:0" if name == "lstm" else "layers.0.attention:0"
    zero, mean = (ask(api, trace, off=[part], to=to) for to in ("zero", "mean"))
    assert mean["largest"] != zero["largest"]
    scope = {"gf": gf, "model": trace.loaded.model, "inputs": trace.reading.inputs}
    with torch.no_grad():
        exec(mean["python"], scope)
    edited = scores(scope["model"], scope["edited"])[0, mean["place"]]
    for one in mean["changes"]:
        assert one["after"] == pytest.approx(float(edited[one["id"]]), abs=1e-5)


def test_before_and_after_can_be_downloaded(api, studio):
    trace = traced(api, studio, "bert")
    found = ask(api, trace, off=["layers.0"])
    names = ["outputs.logits", "edited.logits"]
    file = np.load(io.BytesIO(api.get(f"/api/v1/traces/{trace.id}/npz", params={"names": names}).content))
    before, after = (file[name][0] for name in names)
    for one in found["changes"]:
        assert (one["before"], one["after"]) == (before[one["id"]], after[one["id"]])


def test_nothing_off_changes_nothing(api, studio):
    found = ask(api, traced(api, studio, "gpt2"), off=[])
    assert found["largest"] == 0
    assert found["said"]["before"] == found["said"]["after"]


def test_a_place_can_be_asked_for(api, studio):
    trace = traced(api, studio, "bert-ner")
    assert ask(api, trace, off=["layers.0"], place=2)["place"] == 2
    assert "the places go from 0 to" in ask(api, trace, 422, off=["layers.0"], place=99)["detail"]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"off": ["layers.7.attention:0"]}, "nothing called 'layers.7.attention' can be put out; near it: layers."),
        ({"off": ["layers.0.attention:9"]}, "layers.0.attention has the heads 0 to 1"),
        ({"off": ["layers.0"], "to": "one"}, "Input should be 'zero' or 'mean'"),
    ],
)
def test_wrong_orders_are_explained(order, words, api, studio):
    assert words in ask(api, traced(api, studio, "bert"), 422, **order)["detail"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_can_be_switched_off(name, api, studio):
    trace = traced(api, studio, name)
    found = api.get(f"/api/v1/traces/{trace.id}/editable").json()
    kinds = {one["kind"] for one in found}
    units = name in ("rnn", "lstm", "cnn", "bow", "gru-lm", "seq2seq")
    alignment = {"alignment"} if name == "seq2seq" else set()
    assert kinds == ({"unit"} | alignment if units else {"head", "layer", "neuron"})
    for one in found:
        assert one["name"] in dict(trace.loaded.model.named_modules())


@pytest.fixture(scope="module")
def odd(studio_folders, tmp_path_factory):
    """Models that choose nothing, choose several, or read ids."""
    where, tok = tmp_path_factory.mktemp("odd"), gf.load_tokenizer(studio_folders["bert"])
    bert = {"vocab_size": tok.vocab_size, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    for name, more in {
        "score": {"num_labels": 1, "problem_type": "regression"},
        "several": {"num_labels": 3, "problem_type": "multi_label_classification"},
    }.items():
        gf.save(gf.build("bert", "text-classification", **bert, **more), where / name, tokenizer=tok)
    gpt = {"vocab_size": 20, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8}
    gf.save(gf.build("gpt2", "text-generation", **gpt, eos_token_id=None, bos_token_id=None), where / "ids")
    gf.save(gf.build("bert", None, **bert), where / "headless", tokenizer=tok)
    return Studio(ModelStore([str(folder) for folder in sorted(where.iterdir())]), Traces(), runs=where)


def test_a_score_and_several_classes_have_no_entropy(odd):
    api = TestClient(create_app(odd), base_url="http://127.0.0.1")
    for name in ("score", "several"):
        trace = traced(api, odd, name)
        found = ask(api, trace, off=["layers.0"])
        assert found["kl"] is None
        logits = trace.outputs["logits"][0]
        shares = logits if name == "score" else logits.sigmoid()
        for one in found["changes"]:
            assert one["share_before"] == pytest.approx(float(shares[one["id"]]), abs=1e-6)
        (lens,) = api.get(f"/api/v1/traces/{trace.id}/lens").json()["lenses"]
        assert lens["cells"][-1]["kl"] == [None]
        assert_close(torch.tensor(lens["cells"][-1]["share"]), shares.amax(-1, keepdim=True), atol=1e-5, rtol=1e-5)


def test_ids_are_written_as_far_as_there_is_room(odd):
    api = TestClient(create_app(odd), base_url="http://127.0.0.1")
    made = api.post("/api/v1/traces", json={"model": "ids", "inputs": [3, 4, 5]}).json()
    trace = odd.traces[made["trace_id"]]
    found = ask(api, trace, off=["layers.0.attention:1"])["said"]["after"]
    with gf.record(trace.loaded.model, edit=edits.head("layers.0.attention", 1)):
        ids = gf.generate(trace.loaded.model, None, torch.tensor([[3, 4, 5]]), max_new_tokens=5)
    assert found == [{"generated_text": " ".join(map(str, ids[0, 3:].tolist()))}]
    full = api.post("/api/v1/traces", json={"model": "ids", "inputs": [1] * 8}).json()
    assert ask(api, odd.traces[full["trace_id"]], off=["layers.0"])["said"] == {"before": None, "after": None}


def test_a_model_without_a_head_says_nothing(odd):
    api = TestClient(create_app(odd), base_url="http://127.0.0.1")
    trace = traced(api, odd, "headless")
    assert "has no head" in ask(api, trace, 422, off=[])["detail"]
    for path in ("lens", "norms"):
        answer = api.get(f"/api/v1/traces/{trace.id}/{path}")
        assert answer.status_code == (422 if path == "lens" else 200)


def lines(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_head_is_tried(api, studio):
    trace = traced(api, studio, "transformer")
    first, *heads, last = lines(api.post(f"/api/v1/traces/{trace.id}/edits/heads", json={}))
    assert (first["total"], len(heads), last["kind"], last["done"]) == (12, 12, "end", 12)
    for one in (heads[0], heads[-1]):
        attention, number = one["name"].split(":")
        with torch.no_grad(), gf.record(trace.loaded.model, edit=edits.head(attention, int(number))):
            after = trace.loaded.model(**trace.reading.inputs).logits[0]
        before = trace.outputs["logits"][0]
        best = before.argmax(-1, keepdim=True)
        assert one["delta"] == pytest.approx(float((after - before).gather(-1, best).mean()), abs=1e-5)
        kl = (before.softmax(-1) * (before.log_softmax(-1) - after.log_softmax(-1))).sum(-1).mean()
        assert one["kl"] == pytest.approx(float(kl), abs=1e-5)


def test_a_busy_server_ends_the_stream_with_a_reason(studio):
    def busy():
        raise Busy("too many requests are waiting; try again in a moment")

    full = Studio(studio.models, studio.traces, studio.runs)
    api = TestClient(create_app(full), base_url="http://127.0.0.1")
    trace = traced(api, studio, "bert")
    object.__setattr__(full, "work", busy)
    found = lines(api.post(f"/api/v1/traces/{trace.id}/edits/heads", json={}))
    assert [line["kind"] for line in found] == ["start", "problem"]
    assert found[1]["status"] == 429
