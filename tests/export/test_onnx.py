"""ONNX: the graphs, run by onnxruntime, say what the model says; what cannot be exported is said in one line."""

import json

import pytest
import torch

import glassformer as gf
from export.sources import small, source_of
from glassformer.export import to_onnx
from glassformer.export.formats import EXACT
from glassformer.export.onnx_model import OnnxModel
from glassformer.tasks.pooling import PoolingOptions

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
READERS = [
    ("modernbert", "token-classification"),
    ("deberta-v2", "question-answering"),
    ("bart", "text-classification"),
]
WRITERS = [("mistral", "text-generation"), ("t5", "text2text-generation")]


def exported(source, folder):
    to_onnx.write(source, folder)
    return to_onnx.compare(source, folder)


def test_a_classifier_in_onnx_says_what_it_says_here(glassformer, tmp_path):
    """The command, its report, the graph in plain onnxruntime, and in 8 bits."""
    model, folder = gf.save(small("bert", "text-classification"), tmp_path / "model"), tmp_path / "onnx"
    code, out, err = glassformer("export", model, folder, "--to", "onnx", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report == {"folder": str(folder), **json.loads((folder / "export.json").read_text("utf-8"))}
    assert report["compared"]["inputs"] == 32
    assert report["compared"]["padded"] >= 15
    assert report["compared"]["errors"]["logits"] < 1e-5
    assert set(report["files"]) == {"config.json", "model.onnx"}
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    assert session.get_inputs()[0].shape == ["batch_size", "sequence_length"]
    code, _, err = glassformer("export", model, folder, "--to", "onnx")
    assert (code, err.count("\n")) == (1, 1)
    assert "is there already; --force" in err


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "head"), READERS)
def test_other_families_in_onnx_say_what_they_say_here(model_type, head, tmp_path):
    exported(source_of(small(model_type, head)), tmp_path).require(EXACT, exact=True)


@pytest.mark.slow
def test_a_bare_encoder_in_onnx_gives_the_vector_of_each_text(tmp_path):
    source = source_of(small("distilbert", None), pooling=PoolingOptions("mean"))
    found = exported(source, tmp_path)
    assert "sentence_embedding" in found.errors
    found.require(EXACT, exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "head"), WRITERS)
def test_a_writer_in_onnx_writes_the_same_tokens(model_type, head, tmp_path):
    """With its cache in and out, prompts padded in front; and with beams, which gather rows of the cache."""
    source = source_of(small(model_type, head))
    found = exported(source, tmp_path)
    assert (found.prompts, found.same_texts) == (8, 8)
    found.require(EXACT, exact=True)
    name = "past_key_values.1.value" if head == "text-generation" else "past_key_values.0.encoder.value"
    graphs = OnnxModel(source.model, tmp_path).sessions.values()
    assert name in {one.name for graph in graphs for one in graph.get_inputs()}
    ours, theirs = (
        gf.generate(
            model,
            None,
            source.prompts["input_ids"],
            num_beams=3,
            max_new_tokens=6,
            attention_mask=source.prompts["attention_mask"],
        )
        for model in (source.model, OnnxModel(source.model, tmp_path))
    )
    assert torch.equal(ours, theirs)


@pytest.mark.slow
def test_eight_bits_are_scored_beside_thirty_two(glassformer, tmp_path):
    data = tmp_path / "data.csv"
    lines = [("a warm and funny film", "positive"), ("dull, slow and far too long", "negative")] * 8
    data.write_text("text,label\n" + "".join(f'"{text} {n}",{label}\n' for n, (text, label) in enumerate(lines)))
    folder = tmp_path / "onnx"
    options = ("--to", "onnx", "--quant", "int8", "--data", data)
    code, out, err = glassformer("export", "zoo:bert-mini-en-sentiment", folder, *options)
    assert code == 0, err
    report = json.loads((folder / "export.json").read_text("utf-8"))
    assert report["scores"]["examples"] == len(lines)
    assert abs(report["scores"]["float32"]["accuracy"] - report["scores"]["int8"]["accuracy"]) <= 0.25
    assert report["float32"]["errors"]["logits"] < 1e-4 < report["compared"]["errors"]["logits"]
    assert 3 * report["files"]["model.onnx"]["bytes"] < report["float32"]["bytes"]
    assert "accuracy" in out
    assert "int8" in out
