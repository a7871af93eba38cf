"""`glassformer export` with what is wrong: one line, exit code 1, and nothing left behind."""

import json
import resource
import subprocess
import sys

import pytest

import glassformer as gf
from export.sources import small
from glassformer.export.formats import FORMATS

ZOO = "zoo:bert-mini-en-sentiment"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "tensorrt"), "there is no format 'tensorrt'; there are: onnx, ctranslate2, gguf, torch-export"),
        (("--to", "onnx", "--quant", "q8_0"), "onnx has no quant 'q8_0'; it has: float32, int8"),
        (("--to", "ctranslate2"), "cannot be exported to ctranslate2; what can hold it: onnx, torch-export"),
        (("--to", "torch-export", "--pooling", "mean"), "pooling is for an encoder without a head"),
        (("--to", "torch-export", "--data", "none.csv"), "none.csv"),
    ],
)
def test_what_cannot_be_is_one_line(words, said, glassformer, tmp_path):
    code, _, err = glassformer("export", ZOO, tmp_path / "new" / "out", *words)
    assert (code, err.count("\n")) == (1, 1), err
    assert said in err
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").iterdir())


def test_recurrent_models_are_refused_by_name(glassformer, tmp_path):
    for name, kind in (("zoo:lstm-sentiment", "glassformer-rnn"), ("zoo:gru-attention-en-de", "glassformer-seq2seq")):
        code, _, err = glassformer("export", name, tmp_path / "out", "--to", "onnx")
        assert code == 1
        assert f"a {kind} with" in err
        assert "what can hold it: none of the formats" in err


@pytest.mark.parametrize("form", [one for one in FORMATS.values() if one.packages], ids=lambda one: one.name)
def test_a_missing_package_names_its_extra(form, glassformer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, form.packages[-1], None)
    code, _, err = glassformer("export", ZOO, tmp_path / "out", "--to", form.name)
    assert code == 1
    assert (
        err == f"error: an export to {form.name} needs {form.packages[-1]}: pip install 'glassformer[{form.extra}]'\n"
    )


def test_what_is_there_is_not_written_over(glassformer, tmp_path):
    """An earlier export is with --force; a folder with other files never is."""
    model, out = gf.save(small("gpt2", "text-generation"), tmp_path / "model"), tmp_path / "out"
    assert glassformer("export", model, out, "--to", "gguf")[0] == 0
    first = (out / "export.json").read_text("utf-8")
    code, _, err = glassformer("export", model, out, "--to", "gguf", "--quant", "f32")
    assert (code, (out / "export.json").read_text("utf-8")) == (1, first)
    assert "--force replaces an earlier export" in err
    assert glassformer("export", model, out, "--to", "gguf", "--quant", "f32", "--force")[0] == 0
    assert json.loads((out / "export.json").read_text("utf-8"))["quant"] == "f32"
    code, _, err = glassformer("export", model, model, "--to", "gguf", "--force")
    assert (code, err.count("\n")) == (1, 1)
    assert "no earlier export" in err
    assert (model / "model.safetensors").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_an_export_that_differs_is_deleted(glassformer, tmp_path):
    """No error is below zero: what is asked for here cannot be had."""
    model = gf.save(small("gpt2", "text-generation"), tmp_path / "model")
    code, _, err = glassformer("export", model, tmp_path / "out" / "gguf", "--to", "gguf", "--tolerance", "-1")
    assert (code, err.count("\n")) == (1, 1)
    assert "the export differs from the model: " in err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["gguf", "torch-export"])
def test_a_full_disk_leaves_nothing(form, tmp_path):
    """A limit on the size of files stands for a disk that is full: the write fails in the middle."""
    model = gf.save(small("gpt2", "text-generation", n_embd=96, n_layer=3), tmp_path / "model")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    words = [sys.executable, "-m", "glassformer", "export", str(model), str(tmp_path / "out"), "--to", form]
    done = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "error: " in done.stderr.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
