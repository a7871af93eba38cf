"""Training: the same text gives the same vocabulary, in bounded memory, with the right special tokens."""

import logging
import subprocess
import sys
import tracemalloc

import pytest
from text_folders import CORPUS

from glassformer.text import train as training
from glassformer.text.train import read_lines, train

KINDS = ["wordpiece", "bpe", "unigram", "word", "wordpunct", "character"]
SCRIPT = """
import sys
from glassformer.text.train import train
train([sys.argv[1]], kind=sys.argv[2], vocab_size=300).save(sys.argv[3])
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_learn_the_same(corpus, tmp_path, kind):
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", SCRIPT, str(corpus), kind, str(tmp_path / name)], check=True)
    one, two = ((tmp_path / name / "tokenizer.json").read_text() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowercase", [False, True])
def test_the_text_comes_back(corpus, kind, lowercase):
    tokenizer = train([corpus], kind=kind, vocab_size=400, lowercase=lowercase)
    assert len(tokenizer) <= 400
    text = "the quick brown fox jumps over the lazy dog"
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text
    if lowercase:
        assert tokenizer.encode(text.upper()) == tokenizer.encode(text)


@pytest.mark.parametrize(
    ("kind", "names", "tokens"),
    [
        ("wordpiece", {"pad", "unk", "cls", "sep", "mask"}, ["[CLS]", "the", "[SEP]"]),
        ("bpe", {"bos", "eos", "unk", "pad"}, ["the"]),
        ("unigram", {"pad", "unk", "bos", "eos"}, ["▁the", "</s>"]),
        ("word", {"pad", "unk", "bos", "eos"}, ["the"]),
        ("wordpunct", {"pad", "unk", "bos", "eos"}, ["the"]),
        ("character", {"pad", "unk", "bos", "eos"}, ["t", "h", "e"]),
    ],
)
def test_special_tokens(corpus, kind, names, tokens):
    tokenizer = train([corpus], kind=kind, vocab_size=500)
    assert {name.removesuffix("_token") for name, token in tokenizer.settings.names.items() if token} == names
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("the")) == tokens


def test_special_tokens_can_be_chosen(corpus):
    tokenizer = train([corpus], kind="bpe", vocab_size=300, special={"pad_token": "<pad>", "eos_token": "<end>"})
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<pad>", "<end>")
    assert tokenizer.tokenize("a<end>") == ["a", "<end>"]


def test_punctuation_is_cut_off_words_but_not_out_of_them(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text('a first-rate film , isn\'t it ... " wait " -- no ! \n', encoding="utf-8")
    tokenizer = train([path], kind="wordpunct", vocab_size=50)
    written = 'A first-rate film, isn\'t it..."wait"--no!'
    assert " ".join(tokenizer.tokenize(written.lower())) == 'a first-rate film , isn\'t it ... " wait " -- no !'
    assert train([path], kind="word", vocab_size=50).tokenize("film, no!") == ["<unk>", "<unk>"]


def test_characters_are_counted_and_cut_off(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("aaaa bbb cc d", encoding="utf-8")
    tokenizer = train([path], kind="character", vocab_size=7)
    assert tokenizer.tokenize("abcd") == ["a", "b", "<unk>", "<unk>"]


def test_a_giant_line_is_broken_at_spaces_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "LONGEST_LINE", 50)
    path = tmp_path / "line.txt"
    words = " ".join(f"word{i}" for i in range(200)) + "x" * 120
    path.write_text(words + "\n" + CORPUS, encoding="utf-8")
    lines = [line for line, _ in read_lines(path)]
    assert max(map(len, lines)) < 150
    assert "".join(lines).split() == path.read_text(encoding="utf-8").split()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "big.txt"
    path.write_text("the quick brown fox " * 500_000, encoding="utf-8")  # 10 MB in one line
    tracemalloc.start()
    assert sum(len(line.split()) for line, _ in read_lines(path)) == 4 * 500_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000


def test_files_over_the_cap_are_sampled_and_it_is_said(corpus, caplog):
    seen = []
    with caplog.at_level(logging.WARNING, "glassformer"):
        train(
            [corpus],
            kind="bpe",
            vocab_size=300,
            max_bytes=corpus.stat().st_size // 2,
            progress=lambda *state: seen.append(state),
        )
    assert "one line in 3 is used" in caplog.text or "one line in 2 is used" in caplog.text
    assert {what for what, _, _ in seen} == {"reading", "learning"}
    assert all(0 <= done <= total == corpus.stat().st_size for _, done, total in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_input_says_what_is_wrong(tmp_path, corpus, kind):
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.write_text(" \n\n")
    latin.write_bytes("caf\xe9 ".encode("latin-1") * 10)
    with pytest.raises(ValueError, match="no text"):
        train([empty], kind=kind, vocab_size=300)
    with pytest.raises(ValueError, match="no file"):
        train([], kind=kind, vocab_size=300)
    with pytest.raises(ValueError, match="is not a file"):
        train([tmp_path / "nowhere"], kind=kind, vocab_size=300)
    with pytest.raises(ValueError, match="not UTF-8"):
        train([corpus, latin], kind=kind, vocab_size=300)
    with pytest.raises(ValueError, match="too small"):
        train([corpus], kind=kind, vocab_size=2)
    with pytest.raises(ValueError, match="kind='words'"):
        train([corpus], kind="words", vocab_size=300)
    with pytest.raises(ValueError, match="special token padding="):
        train([corpus], kind=kind, vocab_size=300, special={"padding": "x"})
