"""`glassformer verify MODEL "text"`: rows for people and machines, one cell in numbers, exit code 1 on a breach."""

import json

import pytest
import torch

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.text.train import train

KINDS = {
    "bert": ("bert", "text-classification", SMALL_BERT),
    "grade": ("bert", "text-classification", SMALL_BERT | {"num_labels": 1, "problem_type": "regression"}),
    "several": ("bert", "text-classification", SMALL_BERT | {"problem_type": "multi_label_classification"}),
    "words": ("bert", "fill-mask", SMALL_BERT),
    "spans": ("bert", "question-answering", SMALL_BERT),
    "gpt": ("gpt2", "text-generation", SMALL_GPT),
    "lstm": ("glassformer-rnn", "text-generation", {"kind": "lstm", "hidden_size": 12, "embedding_size": 8}),
    "seq2seq": ("glassformer-seq2seq", "text2text-generation", {"hidden_size": 12, "embedding_size": 8}
                | {"decoder_start_token_id": 2, "eos_token_id": 3}),
    "transformer": ("glassformer-transformer", "text2text-generation", {"d_model": 12, "encoder_layers": 1}
                    | {"decoder_layers": 1, "encoder_attention_heads": 3, "decoder_attention_heads": 3}
                    | {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pre_norm": True, "decoder_start_token_id": 2}),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    def build(kind):
        (tmp_path / "corpus.txt").write_text("the cat sat on the mat.\na dog ran to the cat!\n" * 20, encoding="utf-8")
        tokenizer = train([tmp_path / "corpus.txt"], kind="wordpiece", vocab_size=80)
        model_type, head, settings = KINDS[kind]
        model = random_model(model_type, head, settings | {"vocab_size": len(tokenizer)})
        return gf.save(model, tmp_path / kind, tokenizer=tokenizer)

    return build


EXPECTED = {
    "bert": ["embeddings.segment", "layers.1.attention.head.*.pattern", "pooler", "head.output", "logits"],
    "gpt": ["final_norm", "head", "loss"],
    "lstm": ["recurrent.layers.0.left_to_right.forget.step.*", "loss"],
    "seq2seq": ["decoder.attention.scores.step.*", "decoder.attention.context.step.*", "loss"],
    "transformer": [
        "encoder.layers.0.attention.head.*.scores",
        "decoder.layers.0.cross_attention.head.*.context",
        "loss",
    ],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_every_kind_of_model_has_its_rows(glassformer, folder, kind):
    where = folder(kind)
    second = "--target" if kind in ("seq2seq", "transformer") else "--pair"
    code, out, err = glassformer("verify", where, "the cat sat.", second, "a dog ran")
    assert (code, err) == (0, "")
    shown = {line.split()[0]: line for line in out.splitlines() if line.rstrip().endswith("holds")}
    assert set(EXPECTED[kind]) <= set(shown)
    code, out, _ = glassformer("verify", where, "the cat sat.", second, "a dog ran", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["holds"]
    assert len(report["steps"]) > len(shown)  # no head and no time step is folded away
    assert all(row["error"] is None or row["error"] <= 1e-5 for row in report["steps"])
    assert {"name", "shape", "formula", "error", "own_error", "verdict"} == set(report["steps"][0])


@pytest.mark.parametrize("kind", ["seq2seq", "transformer"])
def test_an_encoder_decoder_without_a_target_writes_its_own(glassformer, folder, kind):
    code, out, _ = glassformer("verify", folder(kind), "the cat", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["target"][0] == "[CLS]"


@pytest.mark.parametrize(("kind", "text", "label"), [
    ("bert", "the cat", "LABEL_1"), ("grade", "the cat", "2.5"), ("several", "the cat", "LABEL_1,LABEL_0"),
    ("words", "the [MASK] sat", "cat"), ("spans", "the cat sat", "1,2"),
])  # fmt: skip
def test_a_label_gives_a_loss(glassformer, folder, kind, text, label):
    where = folder(kind)
    code, out, _ = glassformer("verify", where, text, "--label", label)
    assert code == 0
    assert "loss" in [line.split()[0] for line in out.splitlines() if line]
    code, _, err = glassformer("verify", where, "the cat", "--label", "no such label")
    assert code == 1
    assert "no such label" in err


@pytest.mark.parametrize("text", ["the cat", "5 6"])
def test_a_masked_word_needs_a_mask(glassformer, tmp_path, text):
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat.\n" * 20, encoding="utf-8")
    tokenizer = train([tmp_path / "corpus.txt"], kind="bpe", vocab_size=280)  # it has no mask token
    model = random_model("bert", "fill-mask", SMALL_BERT | {"vocab_size": 300})
    where = gf.save(model, tmp_path / "model", tokenizer=tokenizer if text == "the cat" else None)
    code, _, err = glassformer("verify", where, text, "--label", "cat")
    assert (code, err) == (1, "error: --label 'cat' is a masked word, and there is no mask token: leave --label out\n")


def test_layers_and_heads_are_chosen(glassformer, folder):
    where = folder("bert")
    _, out, _ = glassformer("verify", where, "the cat", "--layer", 1, "--head", 2, "--json")
    names = [row["name"] for row in json.loads(out)["steps"]]
    parts = ("query", "key", "value", "scores", "pattern", "context")
    assert names == [f"layers.1.attention.head.2.{part}" for part in parts]
    _, _, err = glassformer("verify", where, "the cat", "--layer", 7)
    assert err == "error: there is no layer 7; there are 0 to 1\n"


def test_one_cell_in_numbers(glassformer, folder):
    where = folder("bert")
    words = ("verify", where, "the cat sat", "--step", "layers.1.attention.head.2", "--cell", "2,1")
    code, out, _ = glassformer(*words)
    assert code == 0
    assert "layers.1.attention.head.2[2,1]   'cat' looks at 'the'" in out
    explanation = json.loads(glassformer(*words, "--json")[1])
    model, tokenizer = gf.load(where), gf.load_tokenizer(where)
    with torch.no_grad(), gf.record(model, "*") as seen:
        model(**tokenizer(["the cat sat"], return_tensors="pt"))
    assert explanation["value"] == pytest.approx(float(seen["layers.1.attention.pattern"][0, 2, 2, 1]), abs=1e-6)
    assert sum(
        q * k for q, k in zip(explanation["operands"]["q"], explanation["operands"]["k"], strict=True)
    ) == pytest.approx(explanation["operands"]["q · k"])


def test_wrong_input_is_told_in_one_line(glassformer, folder):
    where = folder("bert")
    for words, reason in (
        (("the cat", "--step", "layers.1.atention"), "near it: layers.1.attention"),
        (("the cat", "--step", "layers.1.attention.head.2", "--cell", "x"), "--cell 'x' must be a row and a column"),
        (("the cat", "--step", "layers.1.attention.head.2", "--cell", "99,0"), "the cell 99,0 is outside"),
        (("the cat", "--cell", "1,1"), "--cell 1,1 is a place in a step; say in which: --step"),
        (("--layer", 1), "--layer is for one text"),
        (("",), "give a text that is not empty"),
        (("the cat", "--target", "a dog"), "a target is for an encoder-decoder"),
    ):
        code, _, err = glassformer("verify", where, *words)
        assert code == 1
        assert reason in err
        assert err.count("\n") == 1


def test_a_folder_without_a_tokenizer_reads_ids(glassformer, tmp_path):
    where = gf.save(
        random_model("glassformer-seq2seq", "text2text-generation", KINDS["seq2seq"][2] | {"vocab_size": 20}), tmp_path
    )
    code, out, _ = glassformer("verify", where, "5 17 3", "--target", "4 6", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["tokens"], report["target"]) == (["5", "17", "3"], ["2", "4"])
    for text, reason in (
        ("a cat", "has no tokenizer: give ids, such as '5 17 3'"),
        ("5 20", "id 20 is not in the vocabulary"),
    ):
        code, _, err = glassformer("verify", where, text)
        assert code == 1
        assert reason in err


def test_a_faulty_module_is_a_breach(glassformer, folder, monkeypatch):
    where, readable = folder("bert"), MultiHeadAttention.readable
    monkeypatch.setattr(MultiHeadAttention, "readable", lambda self, *args: 1.01 * readable(self, *args))
    code, out, err = glassformer("verify", where, "the cat sat")
    assert code == 1
    assert "broken: layers.0.attention.head.0.context" in err
    verdicts = {line.split()[0]: line.split()[-1] for line in out.splitlines() if line.count(" ") > 3}
    assert verdicts["layers.0.attention.head.*.context"] == "BREACH"
    assert verdicts["layers.0.attention.head.*.pattern"] == "holds"
