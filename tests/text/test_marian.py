"""Marian's tokenizer gives what transformers' gives, for source and target, and survives saving."""

import json
import sys

import pytest
import sentencepiece
from text_folders import CORPUS

from glassformer.text import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TEXTS = [
    *CORPUS.splitlines(),
    "",
    "  spaces  and\ttabs ",
    ">>fr<< The quick brown fox",
    ">>de<<dog >>fr<< dog",
    ">> not a code",
    "the</s>dog <unk> and <pad>.",
    "the dog ₿ 🜁",
]


def learn(lines, prefix, size):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(prefix),
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    prefix.with_suffix(".model").rename(prefix.with_suffix(".spm"))
    return sentencepiece.SentencePieceProcessor(model_file=str(prefix.with_suffix(".spm")))


@pytest.fixture(scope="module", params=["one vocabulary", "separate vocabularies"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("marian")
    lines = CORPUS.splitlines()
    source, target = learn(lines[:4], path / "source", 120), learn(lines[3:], path / "target", 150)
    codes = ["</s>", "<unk>", ">>fr<<", ">>de<<"]
    sides = [[model.id_to_piece(i) for i in range(3, len(model))] for model in (source, target)]
    config = {"source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"}
    separate = request.param == "separate vocabularies"
    vocabs = {"vocab": sides[0] if separate else sides[0] + sides[1][5:]}
    if separate:
        vocabs["target_vocab"] = sides[1]
        config["separate_vocabs"] = True
    for name, pieces in vocabs.items():
        tokens = dict.fromkeys([*codes, *pieces, "<pad>"])
        (path / f"{name}.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    (path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    return path


def assert_same(ours, theirs):
    assert dict(ours(TEXTS)) == dict(theirs(TEXTS))
    assert dict(ours(TEXTS, padding=True)) == dict(theirs(TEXTS, padding=True))
    assert dict(ours(text_target=TEXTS)) == dict(theirs(text_target=TEXTS))
    both = ours(TEXTS, text_target=TEXTS, padding=True, return_tensors="pt")
    expected = theirs(TEXTS, text_target=TEXTS, padding=True, return_tensors="pt")
    assert {name: value.tolist() for name, value in both.items()} == {
        name: value.tolist() for name, value in expected.items()
    }
    assert (
        ours(TEXTS, truncation=True, max_length=6)["input_ids"]
        == theirs(TEXTS, truncation=True, max_length=6)["input_ids"]
    )
    for row in ours(text_target=TEXTS)["input_ids"]:
        for skip in (False, True):
            assert ours.decode(row, skip_special_tokens=skip) == theirs.decode(
                row, skip_special_tokens=skip, use_source_tokenizer=False
            )


def test_source_and_target_ids_and_text(folder, tmp_path):
    from transformers import MarianTokenizer

    ours, theirs = Tokenizer.from_folder(folder), MarianTokenizer.from_pretrained(str(folder))
    assert_same(ours, theirs)
    assert ours.model_max_length == 512
    ours.save(tmp_path)
    assert_same(Tokenizer.from_folder(tmp_path), MarianTokenizer.from_pretrained(str(tmp_path)))
    assert (tmp_path / "source.spm").read_bytes() == (folder / "source.spm").read_bytes()


def test_language_codes_are_one_token(folder):
    ours = Tokenizer.from_folder(folder)
    assert ours.tokenize(">>fr<< The dog")[0] == ">>fr<<"
    assert ours.encode("the dog")[-1] == ours.eos_token_id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"return_offsets_mapping": True}, "knows no offsets"),
        ({"is_split_into_words": True}, "join them with spaces"),
    ],
)
def test_what_sentencepiece_cannot_do(folder, options, message):
    text = ["the", "dog"] if "is_split_into_words" in options else "the dog"
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_folder(folder)(text, **options)
    with pytest.raises(ValueError, match="fixed"):
        Tokenizer.from_folder(folder).add_tokens(["x"])


def test_without_sentencepiece_the_error_names_the_command(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ValueError, match=r"pip install 'glassformer\[marian\]'"):
        Tokenizer.from_folder(folder)


def test_a_corrupt_model_is_named(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "source.spm").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"source\.spm is not a SentencePiece model"):
        Tokenizer.from_folder(tmp_path)
