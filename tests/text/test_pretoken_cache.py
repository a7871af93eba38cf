"""Pre-tokens found in C change nothing: a text's ids are those that Rust gives for the whole text."""

import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import pairwise, product
from string import ascii_lowercase
from time import sleep

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from text_unicode import pieces
from tokenizers import AddedToken, models, pre_tokenizers

from glassformer.hub.load import load_tokenizer
from glassformer.text import backend, pretokens
from glassformer.text.backend import RustBackend

pytestmark = pytest.mark.skipif(pretokens.functions() is None, reason="there is no C compiler")
ADDED = [
    "newtoken",
    AddedToken("<l>", lstrip=True, normalized=False),
    AddedToken("<r>", rstrip=True, normalized=False),
    AddedToken("two words", normalized=False),
    AddedToken("fox", single_word=True, normalized=False),
    AddedToken("a\nb", normalized=False),
]
tricky = st.sampled_from(["newtoken", "<l>", " <r> ", "two words", " fox ", "a\nb", "the", "x" * 130, "中" * 43, "'ve"])
texts = st.one_of(
    st.lists(st.one_of(pieces, tricky), max_size=12).map("".join),
    st.text(st.characters(exclude_categories=["Cs"])),
)


def whole(rust, batch):
    """Ids by Rust, without a cache."""
    return [one.ids for one in rust.encode_batch(batch, add_special_tokens=False)]


def found(cache, batch):
    return [row.tolist() for row in cache.rows(batch)]


def cache_of(rust):
    cache = RustBackend(rust)._pretokens
    assert cache is not None
    return cache


def byte_pairs():
    """A vocabulary of every byte and every pair of them, so that another cut gives other ids."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    merges = list(product(sorted(alphabet), repeat=2))
    random.Random(0).shuffle(merges)
    vocab = {token: number for number, token in enumerate([*sorted(alphabet), *map("".join, merges)])}
    rust = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return rust


@pytest.fixture(scope="module")
def rust():
    return byte_pairs()


@pytest.fixture(scope="module")
def caches(folders):
    """Two vocabularies, and one with every sort of added tokens."""
    more = byte_pairs()
    more.add_tokens(ADDED)
    return [cache_of(one) for one in (load_tokenizer(folders["gpt2"]).backend.rust, byte_pairs(), more)]


@settings(max_examples=200)
@given(batch=st.lists(texts, max_size=6))
def test_ids_are_those_of_whole_texts(caches, batch):
    for cache in caches:
        expected = whole(cache.rust, batch)
        assert found(cache, batch) == expected  # may be cold
        assert found(cache, batch) == expected  # surely warm


@pytest.mark.parametrize(("alphabet", "length"), [(" \n\ta1.é", 5), ("'srevmldt", 4), (" '\u00a0s“", 5)])
def test_every_short_text_is_cut_as_the_pattern_does(rust, alphabet, length):
    batch = ["".join(chars) for size in range(length + 1) for chars in product(alphabet, repeat=size)]
    assert found(cache_of(rust), batch) == whole(rust, batch)


def test_every_character_stands_beside_spaces(rust):
    chars = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    odd = [char for char in chars if char < "\u3100" or char.isspace() or not char.isprintable()][:20_000]
    batch = [text for c in odd for text in (f"a {c} b  {c}c", f"{c} {c}\n {c}")]
    assert all(char in odd for char in map(chr, (0x85, 0xA0, 0x180E, 0x2028, 0x3000, 0xFEFF)))
    assert found(cache_of(rust), batch) == whole(rust, batch)


@pytest.mark.parametrize(("capacity", "mean"), [(16, 16), (16, 4)])
def test_a_full_cache_starts_afresh(rust, monkeypatch, capacity, mean):
    monkeypatch.setattr(pretokens, "CAPACITY", capacity)
    monkeypatch.setattr(pretokens, "MEAN_BYTES", mean)
    cache, sizes = cache_of(rust), []
    batch = [f"the word{i} a{i % 3}, {'y' * i}" for i in range(50)]
    batch.insert(25, " ".join(f"a{i}b" for i in range(50)))  # more than there is place for at all
    assert found(cache, batch) == whole(rust, batch)
    for text in batch:
        assert found(cache, [text]) == whole(rust, [text])
        sizes.append(cache._struct.entries)
        assert cache._starts[sizes[-1]] <= capacity * mean
    assert 0 < max(sizes) <= capacity
    assert any(later < size for size, later in pairwise(sizes))


def test_words_of_one_hash_are_told_apart(rust):
    batch = ["declinate", "macallums"]  # FNV-1a in 32 bits gives both the same
    cache = cache_of(rust)
    assert found(cache, batch) == whole(rust, batch)
    assert cache._hashes[0] == cache._hashes[1]


@pytest.mark.parametrize(
    "token",
    [
        AddedToken("a\nb"),
        AddedToken("\n"),
        AddedToken("\n", rstrip=True),
        AddedToken("\n", lstrip=True, rstrip=True),
        AddedToken("\n", special=True),
        AddedToken("b\n", lstrip=True),
    ],
    ids=repr,
)
def test_no_added_token_is_made_of_two_words(token):
    rust = byte_pairs()
    rust.add_tokens([token])
    cache = cache_of(rust)
    for batch in (["a", "b"], ["hello a b"], ["a b", "b\n a", "\n"], ["a", "b?", "ab"]):
        assert found(cache, batch) == whole(rust, batch)


def test_where_many_tokens_were_added_python_looks_for_them(folders):
    """C looks for each at every place of a text."""
    tokenizer = load_tokenizer(folders["gpt2"])
    tokenizer.add_tokens([f"<{number}>" for number in range(pretokens.MOST_ADDED + 1)])
    assert tokenizer.backend._pretokens is None
    batch = ["the <3> quick <64>brown fox"] * pretokens.MANY
    assert tokenizer(batch)["input_ids"] == whole(tokenizer.backend.rust, batch)


def test_words_that_were_chosen_to_share_a_slot_are_not_all_looked_through(rust, monkeypatch):
    """What finds no slot near its own begins the cache afresh."""
    monkeypatch.setattr(pretokens, "CAPACITY", 256)
    cache = cache_of(rust)
    batch = ["".join(word) for word in product(ascii_lowercase, repeat=4) if slot(word, cache._struct.mask) == 7]
    assert len(batch) > 200
    assert found(cache, batch) == whole(rust, batch)
    assert 0 < cache._struct.entries <= 64


def slot(word, mask):
    """Where pretokens.c looks first."""
    hashed = 2166136261
    for char in word:
        hashed = (hashed ^ ord(char)) * 16777619 & 0xFFFFFFFF
    return (hashed ^ hashed >> 15) & mask


def test_what_is_long_is_not_remembered(rust):
    cache = cache_of(rust)
    batch = ["a " + "x" * 129, "é" * 65, "short"]
    assert found(cache, batch) == whole(rust, batch)
    remembered = cache._bytes[: cache._starts[cache._struct.entries]].tobytes()
    assert b"short" in remembered
    assert b"xxx" not in remembered
    assert "éé".encode() not in remembered


@pytest.mark.parametrize("unknown", [None, "<unk>"])
def test_a_vocabulary_need_not_know_newlines(unknown):
    vocab = {"a": 0, "b": 1, "Ġ": 2, **({"<unk>": 3} if unknown else {})}
    rust = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=unknown))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    batch = ["ab abc", "ba\n\nc", "c d", "", "é a"]
    assert found(cache_of(rust), batch) == whole(rust, batch)
    rust.add_tokens(["a\nb"])
    assert found(cache_of(rust), ["a", "b?", "ab"]) == whole(rust, ["a", "b?", "ab"])


def test_a_vocabulary_that_knows_neither_newlines_nor_what_is_unknown(rust):
    named = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "Ġ": 2}, merges=[], unk_token="<unk>"))
    named.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert found(cache_of(named), ["ab a"]) == whole(named, ["ab a"])


def test_threads_share_a_cache(rust, monkeypatch):
    cache = cache_of(rust)
    learn, learning, most = cache._ids_of_lines, [], []

    def slowly(words):
        learning.append(words)
        most.append(len(learning))
        sleep(0.02)
        learning.remove(words)
        return learn(words)

    monkeypatch.setattr(cache, "_ids_of_lines", slowly)
    batches = [[f"{chr(97 + k)}{i}x{k} {k}{i}" for i in range(500)] for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda batch: found(cache, batch), batches)) == [whole(rust, batch) for batch in batches]
    assert set(most) == {1}  # an entry without ids is never found by another


def test_who_holds_the_cache_holds_up_nobody(rust):
    """Nor a process that was forked meanwhile, in which nobody will ever let go of it."""
    cache = cache_of(rust)
    with cache._lock:
        assert found(cache, ["one two", "two"]) == whole(rust, ["one two", "two"])
        assert cache._struct.entries == 0
    assert found(cache, ["one two"]) == whole(rust, ["one two"])
    assert cache._struct.entries > 0


@pytest.mark.parametrize("copy", [deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_has_memory_of_its_own(rust, copy):
    cache = cache_of(rust)
    found(cache, ["one two"])
    twin = copy(cache)
    assert twin._struct.entries == 0
    assert found(twin, ["two three"]) == whole(rust, ["two three"])
    assert found(cache, ["three four"]) == whole(rust, ["three four"])


def test_large_batches_are_found_in_c_and_without_a_compiler_in_python(folders, monkeypatch):
    batch = ["the quick brown fox"] * pretokens.MANY
    rows = []
    for switch in ("1", "0"):
        monkeypatch.setenv("GLASSFORMER_NATIVE", switch)
        monkeypatch.setattr(backend, "functions", pretokens.functions.__wrapped__)
        tokenizer = load_tokenizer(folders["gpt2"])
        rows.append(tokenizer(batch)["input_ids"])
        assert (tokenizer.backend._pretokens._struct.entries > 0) == (switch == "1")
    assert rows[0] == rows[1] == whole(tokenizer.backend.rust, batch)


@pytest.mark.parametrize("kind", ["bert", "cased", "distilbert", "roberta"])
def test_other_pipelines_are_left_alone(folders, kind):
    assert load_tokenizer(folders[kind]).backend._pretokens is None


def test_lone_surrogates_are_refused(folders):
    with pytest.raises(ValueError, match="surrogate"):
        load_tokenizer(folders["gpt2"])("a \ud800 b" * pretokens.MANY)
