"""Masking: the right shares, the same in any batch, never a special token, never half a word; and pairs that tell."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import microworld
from glassformer.data.masking import (
    Masking,
    mask_tokens,
    next_sentence_pairs,
    philox,
    sentences_of,
    truncate_pair,
    word_numbers,
    word_starts,
)
from glassformer.text.train import train

MASK, VOCAB, LENGTH = 4, 60, 40
ORDINARY = np.arange(5, VOCAB)
MASKING = Masking(mask_id=MASK, replacements=ORDINARY)


def sample(rows, *, seed=3, length=LENGTH):
    """Rows of ordinary tokens between two special ones, and which are which."""
    ids = np.random.default_rng(seed).integers(5, VOCAB, (rows, length))
    ids[:, 0], ids[:, -1] = 2, 3
    return ids, ids >= 5


@pytest.mark.parametrize(
    ("counter", "key", "numbers"),
    [  # the known answers of Philox's authors
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(counter, key, numbers):
    found = philox([np.array([part], np.uint64) for part in counter], key)
    assert tuple(int(part[0]) for part in found) == numbers


@pytest.mark.parametrize("seed", [0, 1, 2**70, -1])
def test_the_shares_are_those_asked_for(seed):
    from scipy.stats import chisquare

    ids, maskable = sample(3000)
    plain = Masking(mask_id=MASK, replacements=ORDINARY, at_least_one=False)
    spoilt, chosen = mask_tokens(ids, maskable, np.arange(3000), masking=plain, seed=seed)
    total, picked = maskable.sum(), chosen.sum()
    assert chisquare([picked, total - picked], [0.15 * total, 0.85 * total]).pvalue > 1e-3
    masked, same = spoilt[chosen] == MASK, spoilt[chosen] == ids[chosen]
    kept = 0.1 + 0.1 / len(ORDINARY)  # a random token may be the old one
    counts = [masked.sum(), same.sum(), (~masked & ~same).sum()]
    assert chisquare(counts, np.array([0.8, kept, 0.2 - kept]) * picked).pvalue > 1e-3
    others = np.bincount(spoilt[chosen & (spoilt != MASK) & (spoilt != ids)], minlength=VOCAB)[5:]
    assert chisquare(others).pvalue > 1e-3
    assert chisquare(chosen[:, 1:-1].sum(0)).pvalue > 1e-3, "every place is as likely"


def test_epochs_and_examples_are_masked_independently():
    from scipy.stats import chisquare

    ids, maskable = sample(2000)
    plain = Masking(mask_id=MASK, replacements=ORDINARY, at_least_one=False, rate=0.3)
    inside = [
        mask_tokens(ids, maskable, indices, masking=plain, seed=seed, epoch=epoch).chosen[:, 1:-1].ravel()
        for indices, seed, epoch in (
            (np.arange(2000), 0, 0),
            (np.arange(2000), 0, 1),
            (np.arange(2000), 1, 0),
            (np.arange(2000) + 1, 0, 0),
        )
    ]
    for number, one in enumerate(inside):
        for other in inside[:number]:
            table = np.bincount(2 * one + other, minlength=4)
            assert chisquare(table, np.array([0.49, 0.21, 0.21, 0.09]) * len(one)).pvalue > 1e-3


@given(st.permutations(range(12)), st.integers(1, 12), st.integers(0, 6), st.booleans(), st.booleans())
def test_an_example_is_masked_the_same_in_any_batch(order, size, padding, left, whole_words):
    ids, maskable = sample(12, length=20)
    words = np.cumsum(ids % 3 > 0, axis=1)
    options = {"masking": MASKING, "seed": 7, "epoch": 2}
    whole = mask_tokens(ids, maskable, np.arange(12) + 100, words=words if whole_words else None, **options)
    edges = ((0, 0), (padding, 0) if left else (0, padding))
    for start in range(0, 12, size):
        some = np.array(order[start : start + size])
        rows, flags, numbers = (np.pad(table[some], edges) for table in (ids, maskable, words))
        batch = mask_tokens(rows, flags, some + 100, words=numbers if whole_words else None, **options)
        real = slice(padding, None) if left else slice(0, 20)
        np.testing.assert_array_equal(batch.ids[:, real], whole.ids[some])
        np.testing.assert_array_equal(batch.chosen[:, real], whole.chosen[some])
        assert batch.chosen.sum() == whole.chosen[some].sum()


ROWS = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed))


@given(ROWS, st.integers(0, 5), st.integers(0, 12), st.booleans())
def test_what_is_not_maskable_is_never_touched(chance, rows, length, whole_words):
    ids, maskable = chance.integers(0, VOCAB, (rows, length)), chance.random((rows, length)) < 0.5
    words = np.cumsum(chance.random((rows, length)) < 0.5, axis=1) if whole_words else None
    before = ids.copy()
    spoilt, chosen = mask_tokens(ids, maskable, np.arange(rows), masking=MASKING, seed=1, words=words)
    np.testing.assert_array_equal(ids, before)
    np.testing.assert_array_equal(spoilt[~chosen], ids[~chosen])
    assert not (chosen & ~maskable).any()
    assert set(spoilt[chosen]) <= {MASK, *ORDINARY, *ids[chosen]}
    np.testing.assert_array_equal(chosen.any(1), maskable.any(1), "at least one in each row that has any")


@given(ROWS, st.floats(0.05, 0.9), st.booleans())
def test_a_word_is_chosen_as_a_whole(chance, rate, at_least_one):
    ids, maskable = sample(8, seed=int(chance.integers(99)), length=24)
    maskable &= chance.random(maskable.shape) < 0.95
    words = np.cumsum(chance.random(ids.shape) < 0.5, axis=1)
    masking = Masking(mask_id=MASK, replacements=ORDINARY, rate=rate, at_least_one=at_least_one)
    chosen = mask_tokens(ids, maskable, np.arange(8), masking=masking, seed=1, words=words).chosen
    for row in range(8):
        for place in range(1, 24):
            if maskable[row, place] and maskable[row, place - 1] and words[row, place] == words[row, place - 1]:
                assert chosen[row, place] == chosen[row, place - 1]


def test_whole_words_keep_their_share_and_know_nothing_of_each_other():
    from scipy.stats import chisquare

    ids, maskable = sample(4000)
    words = np.cumsum(ids % 2, axis=1)
    plain = Masking(mask_id=MASK, replacements=ORDINARY, at_least_one=False)
    chosen = mask_tokens(ids, maskable, np.arange(4000), masking=plain, seed=5, words=words).chosen
    starts = maskable & (np.diff(words, axis=1, prepend=-1) > 0)
    picked = chosen[starts]  # word after word
    table = np.bincount(2 * picked[:-1] + picked[1:], minlength=4)
    assert chisquare(table, np.array([0.85**2, 0.85 * 0.15, 0.85 * 0.15, 0.15**2]) * (len(picked) - 1)).pvalue > 1e-3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "stories.txt"
    path.write_text("\n".join(one.text for one in microworld.examples("documents", 60)), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_words_are_found_in_the_vocabulary(corpus, kind):
    """No word reaches over a blank; unless a piece itself does (unigram), punctuation is a word of its own."""
    tokenizer = train([corpus], kind=kind, vocab_size=350)
    starts = word_starts(tokenizer)
    sentences = [one for one in sentences_of(corpus.read_text(encoding="utf-8")) if "'" not in one][:50]
    for sentence in sentences:
        ids = np.array([tokenizer.encode(sentence, add_special_tokens=False)])
        numbers = word_numbers(ids, starts)[0]
        words = [tokenizer.decode(ids[0][numbers == number]).strip() for number in np.unique(numbers)]
        if kind == "unigram":
            assert "".join(words) == sentence.replace(" ", "")
        else:
            assert words == re.findall(r"\w+|[^\w\s]", sentence)


def test_replacements_are_the_tokens_that_are_not_special(corpus):
    tokenizer = train([corpus], kind="wordpiece", vocab_size=200)
    masking = Masking.of(tokenizer, rate=0.4)
    assert masking.rate == 0.4
    assert masking.mask_id == tokenizer.mask_token_id
    special = set(tokenizer.all_special_ids)
    assert set(masking.replacements) == set(range(len(tokenizer))) - special
    assert tokenizer.mask_token_id in special
    with pytest.raises(ValueError, match="has no mask token"):
        Masking.of(train([corpus], kind="bpe", vocab_size=300))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate=0.0: the share"),
        ({"rate": 1.5}, "rate=1.5: the share"),
        ({"masked": 0.8, "replaced": 0.3}, "masked=0.8 and replaced=0.3: give shares"),
    ],
)
def test_shares_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Masking(mask_id=MASK, replacements=ORDINARY, **options)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?\nFour", ["One.", "Two!", "Three?", "Four"]),
        ("她来了。他走了！为什么？\n不知道", ["她来了。", "他走了！", "为什么？", "不知道"]),
        ("It cost 3.50 euros.  Really.", ["It cost 3.50 euros.", "Really."]),
        (" \n\n", []),
    ],
)
def test_a_text_comes_apart_into_sentences(text, sentences):
    assert sentences_of(text) == sentences


def numbered_documents(sizes):
    """Documents in which token 1000 d + i is the i-th of document d."""
    documents = []
    for number, sentences in enumerate(sizes):
        ends = np.cumsum(sentences)
        documents.append(
            [1000 * number + np.arange(end - size, end) for size, end in zip(sentences, ends, strict=True)]
        )
    return documents


SIZES = st.lists(st.lists(st.integers(0, 15), max_size=8), min_size=2, max_size=6).filter(
    lambda sizes: sum(any(document) for document in sizes) >= 2
)


@given(SIZES, st.integers(2, 40), st.integers(0, 3), st.sampled_from([0.0, 0.1, 1.0]))
def test_a_pair_is_what_it_says(sizes, limit, epoch, short):
    documents = numbered_documents(sizes)
    pairs = list(next_sentence_pairs(documents, limit=limit, epoch=epoch, short=short))
    for first, second, follows in pairs:
        assert len(first) >= 1
        assert len(second) >= 1
        assert len(first) + len(second) <= limit
        assert (np.diff(first) == 1).all()
        assert (np.diff(second) == 1).all()
        assert (first[0] // 1000 == second[0] // 1000) == follows
        assert not follows or first[-1] < second[0]
    firsts = {int(first[0]) // 1000 for first, _, _ in pairs}
    assert firsts == {number for number, document in enumerate(sizes) if any(document)}


def test_every_sentence_is_read_where_nothing_need_be_cut():
    """What another document's text displaced comes in the next pair."""
    documents = numbered_documents([[3] * 40 for _ in range(20)])
    read = set()
    for first, second, follows in next_sentence_pairs(documents, limit=30, short=0.0):
        read |= {*first.tolist(), *(second.tolist() if follows else ())}
    assert read == {int(token) for document in documents for sentence in document for token in sentence}


def test_half_of_the_pairs_follow_and_partners_come_from_everywhere():
    from scipy.stats import chisquare

    documents = numbered_documents([[4] * 60 for _ in range(40)])
    pairs = list(next_sentence_pairs(documents, limit=24, short=0.1))
    follow = sum(pair.follows for pair in pairs)
    forced = 40  # at most one pair a document has no sentence left to follow
    assert abs(follow - len(pairs) / 2) < forced / 2 + 3 * (len(pairs) / 4) ** 0.5
    partners = np.bincount([pair.second[0] // 1000 for pair in pairs if not pair.follows], minlength=40)
    assert chisquare(partners).pvalue > 1e-3
    lengths = [len(pair.first) + len(pair.second) for pair in pairs]
    assert max(lengths) == 24
    assert min(lengths) < 12


def test_pairs_depend_on_seed_and_epoch_alone():
    documents = numbered_documents([[5, 3, 8, 2, 9] for _ in range(8)])

    def made(**options):
        return [
            (pair.first.tolist(), pair.second.tolist(), pair.follows)
            for pair in next_sentence_pairs(documents, limit=20, **options)
        ]

    assert made(seed=1, epoch=2) == made(seed=1, epoch=2)
    assert made(seed=1, epoch=2) != made(seed=1, epoch=3)
    assert made(seed=1, epoch=2) != made(seed=2, epoch=2)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(2, 60), st.randoms(use_true_random=False))
def test_the_longer_text_is_cut_from_both_ends(first, second, limit, chance):
    one, other = truncate_pair(np.arange(first), np.arange(second), limit, chance)
    assert len(one) + len(other) == min(limit, first + second)
    assert len(one) == first or len(one) >= len(other) - 1
    assert len(other) == second or len(other) >= len(one) - 1


@pytest.mark.parametrize(
    ("documents", "limit", "message"),
    [
        ([[np.arange(3)]], 10, "1 document with text: to take a text from another one, give 2 or more"),
        ([[np.arange(3)], [np.arange(0)]], 10, "1 document with text"),
        ([[np.arange(3)], [np.arange(3)]], 1, "limit=1: a pair needs at least 2 tokens"),
    ],
)
def test_pairs_that_cannot_be_made_are_refused(documents, limit, message):
    with pytest.raises(ValueError, match=message):
        list(next_sentence_pairs(documents, limit=limit))
