"""The word cache changes nothing: a text's ids are those that Rust gives for the whole text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_unicode import pieces
from tokenizers import AddedToken, normalizers

from glassformer.hub.load import load_tokenizer
from glassformer.text import cache

KINDS = ["bert", "cased", "distilbert", "gpt2", "roberta"]
ADDED = {
    "plain": ["newtoken", "wortspiel"],
    "special": [AddedToken("<ent>", special=True, normalized=False)],
    "eats spaces": [
        AddedToken("<l>", lstrip=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
    ],
    "holds a space": [AddedToken("two words", normalized=False)],
    "ideographs": [AddedToken("今天", normalized=False)],
    "single word": [AddedToken("fox", single_word=True, normalized=False)],
    "after normalisation": [AddedToken("Two Words", normalized=True), AddedToken("世界", normalized=True)],
}
words = [str(token.content if isinstance(token, AddedToken) else token) for group in ADDED.values() for token in group]
tricky = st.one_of(pieces, st.sampled_from([*words, "<mask>", " <mask> ", "the", " fox ", "TWO WORDS", "x" * 50]))
# any Unicode at all: both sides are Rust here
texts = st.one_of(st.lists(tricky, max_size=12).map("".join), st.text(st.characters(exclude_categories=["Cs"])))


def whole(tokenizer, batch):
    """Ids by Rust, without the cache."""
    return [one.ids for one in tokenizer.backend.rust.encode_batch(batch, add_special_tokens=False)]


def cached(tokenizer, batch):
    """Ids as a call gives them."""
    return tokenizer(batch, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module")
def tokenizers(folders):
    """Every kind with every sort of added token."""
    found = []
    for kind in KINDS:
        for tokens in [[], *ADDED.values()]:
            found.append(load_tokenizer(folders[kind]))
            found[-1].add_tokens(tokens)
    return found


@settings(max_examples=60)
@given(batch=st.lists(texts, max_size=4))
def test_cached_ids_are_whole_ids(tokenizers, batch):
    for tokenizer in tokenizers:
        expected = whole(tokenizer, batch)
        assert cached(tokenizer, batch) == expected  # may be cold
        assert cached(tokenizer, batch) == expected  # surely warm


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_stays_small_and_forgets_long_chunks(folders, monkeypatch, kind):
    monkeypatch.setattr(cache, "CACHE_SIZE", 20)
    tokenizer = load_tokenizer(folders[kind])
    batch = [f"the {'x' * 41} word{i} a{i % 3}" for i in range(50)]
    for text in batch:
        assert cached(tokenizer, [text]) == whole(tokenizer, [text])
    assert cached(tokenizer, batch) == whole(tokenizer, batch)
    tails = tokenizer.backend._cache._tails
    assert 0 < len(tails) <= 60
    assert max(map(len, tails)) <= cache.LONGEST_CHUNK


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_that_is_not_understood_has_no_cache(folders, kind):
    tokenizer = load_tokenizer(folders[kind])
    assert tokenizer.backend._cache is not None
    tokenizer.backend.rust.normalizer = normalizers.Replace(" ", "")
    tokenizer.refresh()
    assert tokenizer.backend._cache is None
    assert cached(tokenizer, ["the dog"]) == whole(tokenizer, ["the dog"])


def test_lone_surrogates_are_refused(folders):
    with pytest.raises(ValueError, match="surrogate"):
        load_tokenizer(folders["bert"])("a \ud800 b")
