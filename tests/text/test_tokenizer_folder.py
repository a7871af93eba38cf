"""Folders in and out: every format is read as transformers reads it, and so is what is saved here."""

import base64
import json
import os
import pickle
import shutil

import pytest
from text_folders import CORPUS, write

import glassformer as gf
from glassformer.hub.load import load_tokenizer
from glassformer.text import Tokenizer
from glassformer.text.rust import panics_unseen
from glassformer.text.train import train

TEXTS = [
    *CORPUS.splitlines(),
    "",
    " ",
    "a [MASK] b<mask>c <|endoftext|> </s>",
    "  two  spaces \n and lines\n",
]
PAIRS = list(reversed(TEXTS))


def assert_same_ids(ours, theirs):
    for tokenizer in (ours, theirs):
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    found, expected = ours(TEXTS, PAIRS, padding=True), theirs(TEXTS, PAIRS, padding=True)
    assert dict(found) == dict(expected)
    assert dict(ours(TEXTS)) == dict(theirs(TEXTS))
    assert [ours.decode(row) for row in ours(TEXTS)["input_ids"]] == [
        theirs.decode(row) for row in theirs(TEXTS)["input_ids"]
    ]


@pytest.mark.parametrize("kind", ["bert", "cased", "distilbert", "gpt2", "roberta"])
def test_old_folders_read_and_save_as_transformers_reads_them(folders, tmp_path, kind):
    from transformers import AutoTokenizer

    ours = load_tokenizer(folders[kind])
    assert_same_ids(ours, AutoTokenizer.from_pretrained(str(folders[kind])))
    ours = load_tokenizer(folders[kind])
    ours.save(tmp_path / "new")
    shutil.copy(folders[kind] / "config.json", tmp_path / "new")
    assert_same_ids(ours, AutoTokenizer.from_pretrained(str(tmp_path / "new")))
    again = load_tokenizer(tmp_path / "new")
    assert_same_ids(again, AutoTokenizer.from_pretrained(str(tmp_path / "new")))
    assert dict(again(TEXTS)) == dict(ours(TEXTS))
    assert again.settings.names == ours.settings.names
    assert again.model_max_length == ours.model_max_length
    assert not list((tmp_path / "new").glob(".*"))


def test_an_albert_names_its_special_tokens_by_its_vocabulary_alone(tmp_path):
    """As its folders on the hub do, whose tokenizer_config.json says no more than a length."""
    from transformers import AlbertTokenizer

    special = [(token, 0.0) for token in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")]
    words = ("▁the", "▁cat", "▁s", "at", "▁on", *"staehcon")
    pieces = [(piece, -float(place)) for place, piece in enumerate(words)]
    theirs = AlbertTokenizer(vocab=[*special, *pieces])
    theirs.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    ours = load_tokenizer(tmp_path)
    names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    assert [getattr(ours, f"{name}_token") for name in names] == [getattr(theirs, f"{name}_token") for name in names]
    texts = ["The cat sat on the [MASK].", "on the hat"]
    assert ours(texts, padding=True)["input_ids"] == theirs(texts, padding=True)["input_ids"]
    assert ours(*texts, return_token_type_ids=True)["token_type_ids"][-1] == 1  # the model has segments


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roberta"])
def test_folders_that_transformers_wrote(folders, tmp_path, kind):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(str(folders[kind]))
    theirs.add_tokens(["newtoken"])
    theirs.add_special_tokens({"additional_special_tokens": ["<ent>"]})
    theirs.model_max_length = 77
    theirs.save_pretrained(str(tmp_path))
    shutil.copy(folders[kind] / "config.json", tmp_path)
    ours = load_tokenizer(tmp_path)
    assert ours.model_max_length == 77
    assert_same_ids(ours, theirs)
    text = "a newtoken and<ent> newtokens"
    assert ours.encode(text) == theirs.encode(text)
    assert set(ours.all_special_ids) == set(theirs.all_special_ids)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roberta"])
def test_added_tokens_survive_saving(folders, tmp_path, kind):
    from transformers import AutoTokenizer

    ours = load_tokenizer(folders[kind])
    size = len(ours)
    assert ours.add_tokens(["newtoken", "the two"]) == 2
    assert ours.add_tokens("<ent>", special_tokens=True) == 1
    assert ours.add_tokens(["newtoken"]) == 0
    assert len(ours) == size + 3
    text = "a newtoken the two <ent> end"
    assert "newtoken" in ours.tokenize(text)
    ours.save(tmp_path)
    shutil.copy(folders[kind] / "config.json", tmp_path)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    again = load_tokenizer(tmp_path)
    assert ours.encode(text) == again.encode(text) == theirs.encode(text)
    assert set(again.all_special_tokens) == set(theirs.all_special_tokens) == set(ours.all_special_tokens)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "character"])
def test_trained_tokenizers_load_in_transformers(corpus, tmp_path, kind):
    from transformers import AutoTokenizer

    ours = train([corpus], kind=kind, vocab_size=400)
    ours.model_max_length = 99
    ours.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert" if kind == "wordpiece" else "gpt2"}))
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    assert theirs.model_max_length == 99
    assert_same_ids(ours, theirs)
    assert_same_ids(load_tokenizer(tmp_path), theirs)


def test_a_chinese_gpt2_has_berts_vocabulary(folders, tmp_path):
    from transformers import AutoTokenizer

    folder = write(
        tmp_path / "gpt",
        vocab_txt=(folders["bert"] / "vocab.txt").read_text(encoding="utf-8"),
        config_json={"model_type": "gpt2", "tokenizer_class": "BertTokenizer", "n_positions": 1024},
    )
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(str(folder))
    assert ours(TEXTS)["input_ids"] == theirs(TEXTS)["input_ids"]
    assert ours.model_max_length == 1024
    assert "token_type_ids" not in ours("a")  # GPT-2 would add them to its embeddings as if they were words


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "bert"}, int(1e30)),
    ],
)
def test_the_model_says_how_long_a_text_may_be(folders, tmp_path, model, limit):
    vocab = (folders["bert"] / "vocab.txt").read_text(encoding="utf-8")
    assert load_tokenizer(write(tmp_path / "x", vocab_txt=vocab, config_json=model)).model_max_length == limit


def test_special_tokens_may_be_objects_and_new(folders, tmp_path):
    from transformers import AutoTokenizer

    vocab, merges = ((folders["gpt2"] / name).read_text(encoding="utf-8") for name in ("vocab.json", "merges.txt"))
    folder = write(
        tmp_path / "x",
        vocab_json=vocab,
        merges_txt=merges,
        tokenizer_config_json={
            "pad_token": {"__type": "AddedToken", "content": "<pad>"},
            "padding_side": "left",
        },
        config_json={"model_type": "gpt2"},
    )
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(str(folder))
    assert ours.pad_token == "<pad>"
    assert ours.padding_side == "left"
    assert_same_ids(ours, theirs)


BROKEN = {
    "no folder": (None, "is not a folder"),
    "an empty folder": ({}, "holds no tokenizer"),
    "a corrupt tokenizer.json": ({"tokenizer_json": '{"model": '}, "tokenizer.json is not valid JSON"),
    "a tokenizer.json of something else": ({"tokenizer_json": {"a": 1}}, "tokenizer.json lacks model"),
    "a corrupt config": ({"vocab_txt": "[UNK]\n", "tokenizer_config_json": "{"}, "is not valid JSON"),
    "a list for a config": ({"vocab_txt": "[UNK]\n", "tokenizer_config_json": "[]"}, "it must be an object"),
    "an empty vocab.txt": ({"vocab_txt": "\n"}, "vocab.txt is empty"),
    "a vocab.txt without [UNK]": ({"vocab_txt": "a\nb\n"}, r"has no \[UNK\]"),
    "merges of another vocabulary": (
        {"vocab_json": {"a": 0, "b": 1}, "merges_txt": "a b\n"},
        "'ab' of merge 'a b'",
    ),
    "merges that are no pairs": ({"vocab_json": {"a": 0}, "merges_txt": "a\n"}, "line 1 is 'a'"),
}


@pytest.mark.parametrize(("files", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_folders_say_what_is_wrong(tmp_path, files, message):
    folder = tmp_path / "broken"
    if files is not None:
        write(folder, **files)
    with pytest.raises(ValueError, match=message) as error:
        Tokenizer.from_folder(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_tokenizer_can_be_sent_to_another_process(folders, kind):
    ours = load_tokenizer(folders[kind])
    assert dict(pickle.loads(pickle.dumps(ours))(TEXTS)) == dict(ours(TEXTS))


def whole_json() -> dict:
    """A tokenizer.json that is right."""
    model = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "model": model}


def charsmap(content: bytes) -> dict:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


PANICS = {
    "a trie beyond its table": (
        {"normalizer": charsmap((8).to_bytes(4, "little") + b"\xff" * 8 + b"ab")},
        "fails inside",
    ),
    "a merge that was never made": (
        {
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
            | {"continuing_subword_prefix": "abc"}
        },
        "fails inside",
    ),
    "a table cut short": ({"normalizer": charsmap(b"\xff")}, "1 bytes claims a trie of 255"),
    "a table of gigabytes": ({"normalizer": charsmap(b"\xfc\xff\xff\xff")}, "4 bytes claims a trie of 4,294,967,292"),
    "a table inside a sequence": (
        {"normalizer": {"type": "Sequence", "normalizers": [charsmap(b"")]}},
        "0 bytes claims a trie of 0",
    ),
    "an id of 2**31": (
        {"model": {"type": "WordLevel", "vocab": {"a": 2**31}, "unk_token": "a"}},
        "a is 2147483648; it must",
    ),
    "an added id of 2**31": ({"added_tokens": [{"id": 2**31, "content": "x"}]}, r"added_tokens\[0\].id is 2147483648"),
}


@pytest.mark.parametrize(("change", "message"), PANICS.values(), ids=PANICS)
def test_what_would_panic_or_abort_is_one_line(tmp_path, capfd, change, message):
    """The Rust library panics with a BaseException and prints frames, or takes the process with it."""
    folder = write(tmp_path / "odd", tokenizer_json=whole_json() | change)
    with pytest.raises(ValueError, match=message):
        gf.load_tokenizer(folder)
    assert capfd.readouterr().err == ""


def test_a_panic_at_a_text_is_an_error(tmp_path):
    """A pattern that gives up on some texts."""
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed", "invert": False}
    tokenizer = gf.load_tokenizer(write(tmp_path / "odd", tokenizer_json=whole_json() | {"pre_tokenizer": pattern}))
    with pytest.raises(ValueError, match="this text fails inside the tokenizers library"):
        tokenizer("a" * 40 + "b")


def test_what_was_on_its_way_to_stderr_still_comes(capfd):
    with panics_unseen():
        os.write(2, b"a word of somebody else")
    assert capfd.readouterr().err == "a word of somebody else"


ODD_FILES = {
    "a vocab.txt that is not UTF-8": (
        {"vocab_txt": "[UNK]\n"},
        "vocab.txt",
        "gr\xfcn".encode("latin-1"),
        "is not in UTF-8",
    ),
    "an id that is text": ({"merges_txt": "", "vocab_json": {"a": "0"}}, None, b"", "vocab.json: a is '0'; it must be"),
    "an id of 2**31": ({"merges_txt": "", "vocab_json": {"a": 2**31}}, None, b"", "vocab.json: a is 2147483648"),
    "a length that is text": (
        {"vocab_txt": "[UNK]\n", "tokenizer_config_json": {"model_max_length": "long"}},
        None,
        b"",
        "model_max_length is 'long'; it must be a number",
    ),
    "a key that is no id": (
        {"vocab_txt": "[UNK]\n", "tokenizer_config_json": {"added_tokens_decoder": {"x": {"content": "y"}}}},
        None,
        b"",
        "added_tokens_decoder has the key 'x'",
    ),
    "a token without its text": (
        {"vocab_txt": "[UNK]\n", "special_tokens_map_json": {"pad_token": {"lstrip": True}}},
        None,
        b"",
        "lacks content",
    ),
    "an empty source.spm": ({"vocab_json": {"a": 0}, "target_spm": ""}, "source.spm", b"", "source.spm.*it is empty"),
}


@pytest.mark.parametrize(("files", "name", "content", "message"), ODD_FILES.values(), ids=ODD_FILES)
def test_odd_files_are_named(tmp_path, files, name, content, message):
    folder = write(tmp_path / "odd", **files)
    if name is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        gf.load_tokenizer(folder)
    assert "\n" not in str(error.value)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    folder = write(tmp_path / "odd", vocab_txt="[UNK]\n")
    os.mkfifo(folder / "tokenizer_config.json")
    with pytest.raises(ValueError, match="tokenizer_config.json is no regular file"):
        gf.load_tokenizer(folder)
