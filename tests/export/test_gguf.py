"""GGUF: what is in the file is the model's, and llama.cpp, where it is installed, says what the model says."""

import json
import sys

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import glassformer as gf
from export.sources import small, source_of
from glassformer.export import to_gguf
from glassformer.export.formats import GGUF
from glassformer.export.gguf_vocab import SPLITS, vocabulary_of
from glassformer.export.samples import built_in_texts, samples

gguf = pytest.importorskip("gguf")
NO_WINDOW = {"sliding_window": None, "use_sliding_window": False, "max_position_embeddings": 64}
LLAMA = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8} | NO_WINDOW
LLAMA |= {"intermediate_size": 64}
GPT2 = {"n_embd": 32, "n_head": 4, "tie_word_embeddings": False}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
CASES = [
    ("gpt2", {}),
    ("gpt2", GPT2),
    ("llama", LLAMA),
    ("llama", LLAMA | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("llama", LLAMA | {"rope_parameters": LLAMA3}),
    ("mistral", LLAMA | {"rope_parameters": LINEAR}),
    ("qwen2", LLAMA | {"rope_parameters": LINEAR}),
    ("qwen3", LLAMA),
]


@pytest.mark.parametrize(("model_type", "settings"), CASES)
@pytest.mark.parametrize("quant", ["f32", "f16", "q8_0"])
def test_the_file_holds_the_models_numbers(model_type, settings, quant, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # as where it is not installed
    source = source_of(small(model_type, "text-generation", **settings), quant)
    to_gguf.write(source, tmp_path)
    found = to_gguf.compare(source, tmp_path)
    assert found.errors["tensors"] <= {"f32": 0.0, "f16": 1e-3, "q8_0": 1e-2}[quant]
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    assert reader.get_field("general.architecture").contents() == GGUF[model_type]
    expected = dict(to_gguf.tensors_of(source.model))
    assert {one.name for one in reader.tensors} == expected.keys()
    total = sum(one.numel() for one in source.model.parameters())
    assert sum(array.size for name, array in expected.items() if name != "rope_freqs.weight") == total


def test_without_llama_cpp_it_is_said_what_was_not_compared(glassformer, tmp_path, monkeypatch):
    """In what is printed and in the report beside the file; nothing reads as if inputs had been run."""
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    model = gf.save(small("gpt2", "text-generation"), tmp_path / "model")
    code, out, _ = glassformer("export", model, tmp_path / "out", "--to", "gguf")
    assert code == 0
    assert "only the numbers in the file were compared with the model's: largest error " in out
    assert "llama.cpp is not installed here, and was not asked" in " ".join(out.split())
    assert "glassformer[bench-llama]" in out
    assert "inputs" not in out
    compared = json.loads((tmp_path / "out" / "export.json").read_text("utf-8"))["compared"]
    assert compared.keys() == {"errors", "not_compared"}
    assert compared["not_compared"] == to_gguf.NOT_ASKED


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "settings"), CASES)
def test_llama_cpp_says_the_same(model_type, settings, tmp_path):
    pytest.importorskip("llama_cpp", reason="pip install 'glassformer[bench-llama]' to ask llama.cpp itself")
    source = source_of(small(model_type, "text-generation", **settings), "f32")
    to_gguf.write(source, tmp_path)
    found = to_gguf.compare(source, tmp_path)
    assert (found.inputs, found.prompts, found.same_texts) == (32, 8, 8)
    assert found.errors["logits"] <= (1e-3 if model_type == "gpt2" else 1e-5)


def trained(kind: str) -> Tokenizer:
    """A small tokenizer of a kind that llama.cpp has."""
    special = ["<unk>", "<s>", "</s>"]
    if kind == "sentencepiece":
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        special += [f"<0x{number:02X}>" for number in range(256)]
        letters = sorted(set("".join(built_in_texts()).replace(" ", "▁")) | {"▁"})
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, initial_alphabet=letters)
        words = pre_tokenizers.Metaspace(prepend_scheme="never")  # merges stay within words, as SentencePiece's do
        made.pre_tokenizer = words
        made.train_from_iterator(built_in_texts(), trainer)
        made.pre_tokenizer = None
        return made
    made = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt-2")
    split = [] if kind == "gpt-2" else [pre_tokenizers.Split(Regex(pattern_of(kind)), "isolated")]
    made.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level]) if split else byte_level
    made.decoder, made.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(built_in_texts(), trainer)
    return made


def pattern_of(kind: str) -> str:
    return next(pattern for pattern, name in SPLITS.items() if name == kind)


def tokenizer_of(kind: str, folder):
    folder.mkdir()
    raw = json.loads(trained(kind).to_str())
    if kind == "sentencepiece":  # bytes are tokens of the model, not special ones beside it
        raw["added_tokens"] = [one for one in raw["added_tokens"] if not one["content"].startswith("<0x")]
    (folder / "tokenizer.json").write_text(json.dumps(raw), "utf-8")
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    return gf.load_tokenizer(folder)


@pytest.mark.parametrize("kind", ["gpt-2", "llama-bpe", "qwen2", "sentencepiece"])
def test_a_tokenizer_is_told_by_its_steps(kind, tmp_path):
    found = vocabulary_of(tokenizer_of(kind, tmp_path / "tok"), 800)
    assert (found.model, found.pre) == (("llama", "default") if kind == "sentencepiece" else ("gpt2", kind))
    assert len(found.tokens) == len(found.types) == 800
    assert found.tokens[1] == "<s>"
    assert found.types[1] == 3
    assert found.tokens[-1] == "[UNUSED799]"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt-2", "llama-bpe", "qwen2", "sentencepiece"])
def test_llama_cpp_cuts_texts_into_the_same_tokens(kind, tmp_path):
    pytest.importorskip("llama_cpp", reason="pip install 'glassformer[bench-llama]' to ask llama.cpp itself")
    tokenizer = tokenizer_of(kind, tmp_path / "tok")
    model = small("llama", "text-generation", **LLAMA | {"vocab_size": 800, "max_position_embeddings": 256})
    source = to_gguf.ExportSource(model, tokenizer, samples(model, tokenizer), "f32")
    to_gguf.write(source, tmp_path)
    assert to_gguf.compare(source, tmp_path).same_texts == 8


def test_what_llama_cpp_does_not_have_is_refused(glassformer, tmp_path):
    """Before anything is written, in one line that says what it is."""
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    for settings, said in [
        (LLAMA | {"rope_parameters": dynamic}, "rotary positions of type dynamic"),
        (LLAMA | {"hidden_act": "relu"}, "hidden_act 'relu'"),
    ]:
        source = source_of(small("llama", "text-generation", **settings), "f16")
        with pytest.raises(ValueError, match=said):
            to_gguf.write(source, tmp_path)
    with pytest.raises(ValueError, match="windows of 3 tokens"):
        to_gguf.write(source_of(small("mistral", "text-generation"), "f16"), tmp_path)
    for model, said in [
        ("zoo:gpt-poems-zh", "no tokenizer of this kind (WordLevel)"),
        ("zoo:bert-mini-en", "cannot be exported to gguf; what can hold it: onnx, torch-export"),
        ("zoo:lstm-sentiment", "cannot be exported to gguf; what can hold it: none of the formats"),
    ]:
        code, _, err = glassformer("export", model, tmp_path / "out", "--to", "gguf")
        assert (code, err.count("\n")) == (1, 1)
        assert said in err
    assert not list(tmp_path.iterdir())
