"""`glassformer tokenizer`: what a user types and sees."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from glassformer.cli.tokenizer import app
from glassformer.text import Tokenizer


def run(*words, typed=None):
    result = CliRunner().invoke(app, [str(word) for word in words], input=typed)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "character"])
def test_train_encode_decode(corpus, tmp_path, kind):
    out = tmp_path / "tok"
    trained = run("train", corpus, "--kind", kind, "--vocab-size", 400, "--out", out, "--lowercase", "--json")
    assert json.loads(trained.stdout) == {
        "out": str(out),
        "kind": kind,
        "vocab_size": len(Tokenizer.from_folder(out)),
    }
    text = "the quick brown fox"
    shown = json.loads(run("encode", out, text, "--json").stdout)
    assert shown["ids"] == Tokenizer.from_folder(out).encode(text)
    assert len(shown["ids"]) == len(shown["tokens"]) == len(shown["offsets"])
    decoded = run("decode", out, *shown["ids"], "--skip-special-tokens")
    assert decoded.stdout == text + "\n"
    assert json.loads(run("decode", out, ",".join(map(str, shown["ids"])), "--json").stdout)["text"]


def test_encode_shows_a_line_a_token_and_reads_stdin(folders):
    table = run("encode", folders["cased"], "the fox", "--pair", "dog").stdout.splitlines()
    assert [line.split()[0] for line in table] == Tokenizer.from_folder(folders["cased"]).tokenize(
        "the fox", "dog", add_special_tokens=True
    )
    assert table[1].split()[-1] == "0:3"
    lines = run("encode", folders["cased"], "--json", typed="the fox\nthe dog\n").stdout.splitlines()
    assert [json.loads(line)["tokens"][1] for line in lines] == ["the", "the"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("encode", "nowhere", "a"), "nowhere is neither a folder nor whole in the cache"),
        (("decode", "BERT", "999999"), "id 999999 is not in the vocabulary"),
        (("decode", "BERT", "12x"), "'12x' is not an id"),
        (("train", "nowhere.txt", "--out", "x"), "nowhere.txt is not a file"),
        (("train", "CORPUS", "--out", "x", "--kind", "words"), "kind='words'"),
        (("train", "CORPUS", "--out", "x", "--special", "pad"), "ROLE=TOKEN"),
    ],
)
def test_mistakes_are_named(folders, corpus, words, message):
    known = {"BERT": str(folders["bert"]), "CORPUS": str(corpus)}
    with pytest.raises(ValueError, match=message):
        run(*(known.get(word, word) for word in words))


@pytest.mark.parametrize("command", ["train", "encode", "decode"])
def test_help_has_an_example(command):
    assert f"Example: glassformer tokenizer {command}" in " ".join(run(command, "--help").stdout.split())


def test_the_module_is_cheap_to_import():
    heavy = "('torch', 'numpy', 'tokenizers', 'rich.progress')"
    code = f"import glassformer.cli.tokenizer, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
