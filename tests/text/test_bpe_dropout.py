"""BPE-dropout: without chance it is the tokenizer, with all of it characters; the text is always the same."""

import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import microworld
from glassformer.text.bpe_dropout import NO_WORD, BpeDropout
from glassformer.text.train import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "corpus.txt"
    path.write_text("\n".join(one.text for one in microworld.examples("labelled", 300)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train([corpus], kind="bpe", vocab_size=400)


def encoded(tokenizer, text):
    found = tokenizer([text])
    return found["input_ids"][0], [NO_WORD if word is None else word for word in found.word_ids(0)]


texts = st.text(st.sampled_from(string.ascii_letters + " .,'7é中"), max_size=40)


@given(text=texts, seed=st.integers())
def test_without_chance_it_is_the_tokenizer_and_the_text_never_changes(tokenizer, text, seed):
    ids, words = encoded(tokenizer, text)
    assert BpeDropout.of(tokenizer, 0.0).row(ids, words, Random(seed)) == ids
    for dropout in (0.1, 0.5, 1.0):
        cut = BpeDropout.of(tokenizer, dropout).row(ids, words, Random(seed))
        assert tokenizer.decode(cut) == tokenizer.decode(ids)
        assert cut == BpeDropout.of(tokenizer, dropout).row(ids, words, Random(seed))
    assert all(len(tokenizer.convert_ids_to_tokens(one)) == 1 for one in cut if one not in tokenizer.all_special_ids)


def test_merges_are_left_out_as_often_as_asked():
    """One word of one merge: it stays whole in nine cases of ten."""
    cut = BpeDropout({"a": 0, "b": 1, "ab": 2}, [("a", "b")], 0.1)
    chance = Random(0)
    whole = sum(cut.pieces("ab", chance) == ["ab"] for _ in range(4000))
    assert abs(whole / 4000 - 0.9) < 0.02  # four standard deviations


def test_what_has_no_merges_is_refused(corpus):
    with pytest.raises(ValueError, match="bpe_dropout needs a BPE tokenizer, and this one is Unigram; leave it out"):
        BpeDropout.of(train([corpus], kind="unigram", vocab_size=120), 0.1)
