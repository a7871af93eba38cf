"""The readable WordPiece and BPE give the same ids as the Rust path."""

import pytest
from hypothesis import given, settings
from text_unicode import known, texts

from glassformer.hub.load import load_tokenizer
from glassformer.text.bpe import BytePairEncoding
from glassformer.text.folder import read_vocab
from glassformer.text.wordpiece import WordPiece
from quick import is_quick

GOLDEN = {
    "albums sold 124443286539 copies": [101, 4042, 2853, 13412, 22932, 16703, 20842, 22275, 2683, 4809, 102],
    "today is not that bad": [101, 2651, 2003, 2025, 2008, 2919, 102],
}


@pytest.fixture(scope="module")
def pairs(folders):
    """A readable tokenizer beside the fast one, by kind."""
    bpe = BytePairEncoding.from_files(folders["gpt2"] / "vocab.json", folders["gpt2"] / "merges.txt")
    return {
        "uncased": (
            WordPiece.from_file(folders["bert"] / "vocab.txt"),
            load_tokenizer(folders["bert"]),
        ),
        "cased": (
            WordPiece.from_file(folders["cased"] / "vocab.txt", lowercase=False),
            load_tokenizer(folders["cased"]),
        ),
        "accents": (
            WordPiece(read_vocab(folders["bert"] / "vocab.txt"), strip_accents=False),
            load_tokenizer(folders["distilbert"]),
        ),
        "gpt2": (bpe, load_tokenizer(folders["gpt2"])),
    }


@settings(max_examples=100)
@given(text=texts)
def test_any_text_gives_the_same_ids(pairs, text):
    for kind, (readable, fast) in pairs.items():
        assert readable.encode(text) == fast.backend.rust.encode(text).ids, kind
        assert readable.encode(text) == fast.encode(text), kind


@pytest.mark.parametrize("kind", ["uncased", "cased", "accents", "gpt2"])
@pytest.mark.parametrize("between", ["", "a"])
def test_every_character_gives_the_same_ids(pairs, kind, between):
    readable, fast = pairs[kind]
    characters = known()
    step = 50 * (4 if is_quick() else 1)
    blocks = [between.join(characters[start : start + 50]) for start in range(0, len(characters), step)]
    found = [readable.encode(block) for block in blocks]
    expected = [one.ids for one in fast.backend.rust.encode_batch(blocks)]
    wrong = [block for block, ids, other in zip(blocks, found, expected, strict=True) if ids != other]
    assert wrong == []


@settings(max_examples=80)
@given(text=texts)
def test_bpe_words_join_to_the_text_and_ids_decode_to_it(pairs, text):
    bpe, fast = pairs["gpt2"]
    assert "".join(bpe.words(text)) == text
    assert bpe.decode(bpe.encode(text)) == text
    assert fast.decode(fast.encode(text)) == text


def test_unknown_words_and_long_words():
    readable = WordPiece({"[UNK]": 0, "a": 1, "##a": 2, "ab": 3, "##c": 4})
    assert readable.tokenize("abc ac q aq") == ["ab", "##c", "a", "##c", "[UNK]", "[UNK]"]
    assert readable.tokenize("a" * 100) == ["a"] + ["##a"] * 99
    assert readable.tokenize("a" * 101) == ["[UNK]"]


def test_golden_examples(data):
    vocab = data / "tokenizers" / "bert-base-uncased"
    readable, fast = WordPiece.from_file(vocab / "vocab.txt"), load_tokenizer(vocab)
    for text, ids in GOLDEN.items():
        assert readable.encode(text) == fast.encode(text) == ids
    for text, tokens in {"unheard": ["un", "##heard"], "best-selling": ["best", "-", "selling"]}.items():
        assert readable.tokenize(text) == fast.tokenize(text) == tokens
