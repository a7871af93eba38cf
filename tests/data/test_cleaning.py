"""Cleaning a corpus: what is there twice or nearly so is found, the rest stays, and all of it is counted."""

import json
import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.cleaning import Cleaner, Cleaning
from glassformer.data.documents import read_documents
from glassformer.data.duplicates import NearDuplicates, digest, likeness, shingles, signature
from glassformer.data.examples import Document
from glassformer.data.language import language_of

WORDS = [f"word{number}" for number in range(3000)]


def story(chance, length=200):
    return chance.choices(WORDS, k=length)


def changed(chance, words, count):
    """The same words with some others in their places, far apart."""
    found = list(words)
    for place in range(0, count * (len(words) // max(1, count)), len(words) // max(1, count)):
        found[place] = f"other{chance.randrange(10**6)}"
    return found


def is_new(near, text):
    """Whether it is unlike those before it; then it is remembered."""
    new = signature(text) not in near
    if new:
        near.add(signature(text))
    return new


def jaccard(one, other):
    ours, theirs = (set(shingles(text).tolist()) for text in (one, other))
    return len(ours & theirs) / len(ours | theirs)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 25))
def test_signatures_tell_how_alike_two_texts_are(seed, count):
    chance = random.Random(seed)
    words = story(chance)
    one, other = " ".join(words), " ".join(changed(chance, words, count))
    assert abs(likeness(signature(one), signature(other)) - jaccard(one, other)) < 0.22  # five times its error


def test_near_duplicates_are_found_and_others_stay():
    chance, near = random.Random(1), NearDuplicates(0.8)
    stories = [story(chance) for _ in range(150)]
    assert all(is_new(near, " ".join(words)) for words in stories)
    copies = [" ".join(changed(chance, words, 2)) for words in stories]
    assert 0.9 < jaccard(" ".join(stories[0]), copies[0]) < 0.96
    assert sum(is_new(near, text) for text in copies) <= 3
    halves = [" ".join(words[:100] + story(chance, 100)) for words in stories]  # a third alike
    assert all(is_new(near, text) for text in halves)


def test_case_punctuation_and_blanks_make_no_difference():
    near = NearDuplicates(0.95)
    text = "The quick brown fox jumps over the lazy dog and runs into the dark wood."
    assert is_new(near, text)
    assert not is_new(near, text.upper().replace(" ", ",  "))
    assert digest(text) == digest(f"  {text.lower()}\n")
    assert digest(text) != digest(text[:-1])


@pytest.mark.parametrize("text", ["", "one", "two words", "今天天气很好，我们去公园吧。", "\x00"])
def test_short_texts_have_signatures(text):
    near = NearDuplicates(1.0)
    assert is_new(near, text)
    assert not is_new(near, text)


def test_chinese_is_compared_by_characters():
    near = NearDuplicates(0.7)
    text = "今天天气很好我们一起去公园散步然后在湖边吃午饭下午去看电影晚上回家做饭读书休息准备明天的工作和学习"
    assert is_new(near, text)
    assert not is_new(near, text.replace("午饭", "早饭", 1))
    assert is_new(near, "李白乘舟将欲行忽闻岸上踏歌声桃花潭水深千尺不及汪伦送我情")


LANGUAGES = {
    "en": "The king of the country was not there when they came with the book for which he had asked.",
    "de": "Der König des Landes war nicht da, als sie mit dem Buch kamen, das er sich gewünscht hatte.",
    "fr": "Le roi du pays n'était pas là quand ils sont venus avec le livre qui était pour lui.",
    "es": "El rey del país no estaba cuando los hombres llegaron con el libro que había pedido para su hijo.",
    "it": "Il re del paese non era là quando sono arrivati con il libro che aveva chiesto per il figlio.",
    "pt": "O rei do país não estava lá quando eles chegaram com o livro que ele tinha pedido para o filho.",
    "nl": "De koning van het land was er niet toen ze kwamen met het boek dat hij voor zijn zoon wilde.",
    "zh": "国王不在，他们带着书来了。",
    "ja": "王様はいませんでした。彼らは本を持って来ました。",
    "ko": "왕은 없었다. 그들은 책을 가지고 왔다.",
    "ru": "Короля не было, когда они пришли с книгой.",
}


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_sentence_tells_its_language(code):
    assert language_of(LANGUAGES[code]) == code


@pytest.mark.parametrize("text", ["", "12345 !!!", "xyzzy plugh", " \n"])
def test_what_tells_no_language(text):
    assert language_of(text) is None


@pytest.mark.slow
def test_paragraphs_of_real_text_tell_their_language(data):
    """Five sentences each; docs/scale.md states the figures."""
    pairs = [line.split("\t") for line in (data / "tatoeba" / "fra.txt").read_text("utf-8").splitlines()[-20000:]]
    german = (data / "multi30k" / "train.de").read_text("utf-8").splitlines()[-20000:]
    for code, texts in {"en": [one[0] for one in pairs], "fr": [one[1] for one in pairs], "de": german}.items():
        some = [" ".join(texts[start : start + 5]) for start in range(0, len(texts), 5)]
        assert sum(language_of(text) == code for text in some) / len(some) > 0.98, code


def test_every_document_is_kept_or_counted_with_a_reason():
    texts = [LANGUAGES["en"], LANGUAGES["en"].upper(), "Too short.", LANGUAGES["de"], " ".join(["the", "of"] * 40)]
    cleaner = Cleaner(Cleaning(min_words=5, max_words=50, languages=("en",), near=0.8))
    found = list(cleaner(map(Document, texts)))
    assert [reason for _, reason in found] == [None, "duplicate", "too short", "another language", "too long"]
    assert [one.text for one, _ in found] == texts
    assert (cleaner.kept, cleaner.left_out.total()) == (1, 4)


def test_without_a_wish_only_copies_go():
    cleaner = Cleaner(Cleaning())
    assert [reason for _, reason in cleaner(map(Document, ["a b", "A  b", "a c"]))] == [None, "duplicate", None]
    cleaner = Cleaner(Cleaning(exact=False))
    assert [reason for _, reason in cleaner(map(Document, ["a b", "a b"]))] == [None, None]


def test_documents_are_streamed():
    read = 0

    def documents():
        nonlocal read
        for number in range(1000):
            read += 1
            yield Document(f"text {number}")

    assert len(list(islice(Cleaner(Cleaning())(documents()), 3))) == 3
    assert read == 3


# The command line.


@pytest.fixture
def crawl(tmp_path):
    copy = LANGUAGES["en"].replace("king", "queen")
    blocks = [LANGUAGES["en"] * 3, "Menu", copy * 3, LANGUAGES["de"], LANGUAGES["en"] * 3]
    (tmp_path / "crawl.txt").write_text("\n\n".join(blocks), "utf-8")
    return tmp_path / "crawl.txt"


def test_the_command_writes_what_stays_and_says_why_the_rest_does_not(glassformer, crawl, tmp_path):
    out, dropped = tmp_path / "out" / "clean.jsonl", tmp_path / "dropped.jsonl"
    words = ["data", "clean", crawl, "--out", out, "--near", 0.5, "--min-words", 3, "--language", "en,fr"]
    code, text, _ = glassformer(*words, "--dropped", dropped)
    assert code == 0
    left = "too short 1, near duplicate 1, another language 1, duplicate 1"
    assert text == f"{out}: 1 of 5 documents; left out: {left}\n"
    assert [json.loads(line) for line in out.read_text("utf-8").splitlines()] == [{"text": LANGUAGES["en"] * 3}]
    reasons = [json.loads(line)["reason"] for line in dropped.read_text("utf-8").splitlines()]
    assert reasons == ["too short", "near duplicate", "another language", "duplicate"]
    code, _, err = glassformer(*words)
    assert code == 1
    assert "clean.jsonl is there already" in err
    found = glassformer("data", "clean", crawl, "--out", tmp_path / "b.jsonl", "--json")
    assert json.loads(found[1])["left_out"] == {"duplicate": 1}
    assert [one.text for one in read_documents([str(out)]).examples] == [LANGUAGES["en"] * 3]  # as training reads it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x.txt"], "x.txt is to be a jsonl file"),
        (["--out", "x.jsonl", "--dropped", "x.jsonl"], "x.jsonl is named twice"),
        (["--out", "x.jsonl", "--near", "1.5"], "lies above 0 and at most at 1, not at 1.5"),
        (["--out", "x.jsonl", "--language", "en,xx"], "language 'xx' is not told from others; those that are: en, de"),
        (["--out", "x.jsonl", "--min-words", "9", "--max-words", "3"], "words from 9 to 3: give 1 <= min-words"),
        (["--out", "x.jsonl", "--unit", "page"], "--unit page is not known: use one of file, article, block, line"),
    ],
)
def test_wrong_wishes_are_one_line_and_leave_nothing(glassformer, crawl, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = glassformer("data", "clean", crawl, *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.txt"]


def test_a_file_that_is_not_there(glassformer, tmp_path):
    code, _, err = glassformer("data", "clean", tmp_path / "nowhere.txt", "--out", tmp_path / "x.jsonl")
    assert code == 1
    assert "nowhere.txt" in err
