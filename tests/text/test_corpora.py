"""Readable, fast and Rust tokenizers agree on 10,000 real lines of every corpus, or all that it has."""

import io
import json
import lzma
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from glassformer.hub.load import load_tokenizer
from glassformer.text.bpe import BytePairEncoding
from glassformer.text.wordpiece import WordPiece

pytestmark = pytest.mark.slow

LINES = 10_000


def plain(*names: str, encoding: str = "utf-8"):
    """The lines of text files."""

    def read(data: Path) -> Iterator[str]:
        for name in names:
            yield from (data / name).read_text(encoding=encoding).split("\n")

    return read


def jsonl(name: str):
    """The sentences of the poems."""

    def read(data: Path) -> Iterator[str]:
        for line in (data / name).read_text(encoding="utf-8").splitlines():
            yield from json.loads(line)["paragraphs"]

    return read


def squad(name: str):
    """Questions, and the paragraphs they are about."""

    def read(data: Path) -> Iterator[str]:
        for article in json.loads((data / name).read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]
                yield from (one["question"] for one in paragraph["qas"])

    return read


def sentences(name: str):
    """The sentences of a CoNLL file, words joined by spaces."""

    def read(data: Path) -> Iterator[str]:
        for block in (data / name).read_text(encoding="utf-8").split("\n\n"):
            yield " ".join(line.split(" ")[0] for line in block.split("\n"))

    return read


def reviews(name: str):
    """The sentences of reviews from inside a compressed archive, as far as they are asked for."""

    def read(data: Path) -> Iterator[str]:
        with tarfile.open(fileobj=io.BufferedReader(lzma.open(data / name)), mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield from re.split("(?<=[.!?]) ", content.read().decode("utf-8"))

    return read


# Each corpus with its vocabularies: only the first is used, to be quick; all of them with $GLASSFORMER_ALL.
CORPORA = {
    "multi30k en": (plain("multi30k/train.en"), ("uncased", "gpt2")),
    "multi30k de": (plain("multi30k/train.de"), ("gpt2", "cased")),
    "multi30k fr": (plain("multi30k/train.fr"), ("cased", "uncased", "gpt2")),
    "tatoeba fr": (plain("tatoeba/fra.txt"), ("uncased", "cased", "gpt2")),
    "tatoeba zh": (plain("tatoeba/cmn.txt"), ("chinese", "gpt2")),
    "SST-2": (plain("glue/SST-2/train.tsv"), ("gpt2", "uncased")),
    "CoLA": (plain("glue/CoLA/train.tsv"), ("cased", "gpt2")),
    "MRPC": (plain("glue/MRPC/msr_paraphrase_train.txt", "glue/MRPC/test.tsv"), ("uncased", "gpt2")),
    "RTE": (plain("glue/RTE/train.tsv", "glue/RTE/test.tsv"), ("gpt2", "cased")),
    "STS-B": (plain("glue/STS-B/train.tsv", "glue/STS-B/dev.tsv"), ("uncased", "gpt2")),
    "rt-polarity": (plain("rt-polarity/rt-polarity.neg", "rt-polarity/rt-polarity.pos"), ("uncased", "gpt2")),
    "trec": (plain("trec/TREC.train", "trec/TREC.test", encoding="latin-1"), ("gpt2", "cased")),
    "conll": (sentences("conll2003/eng.train"), ("cased", "gpt2")),
    "squad": (squad("squad/dev-v1.1.json"), ("uncased", "gpt2")),
    "wikitext2": (plain("wikitext2/train.txt"), ("cased", "gpt2")),
    "tinyshakespeare": (plain("tinyshakespeare/input.txt"), ("gpt2", "uncased")),
    "imdb": (reviews("imdb.tar.xz"), ("uncased", "gpt2")),
    "chnsenticorp": (plain("chnsenticorp/train.tsv", "chnsenticorp/dev.tsv"), ("chinese", "gpt2")),
    "chinese_poetry": (jsonl("chinese_poetry/tang.jsonl"), ("gpt2", "chinese")),
}
KINDS = slice(None) if os.environ.get("GLASSFORMER_ALL") else slice(1)
CASES = [(corpus, kind) for corpus, (_, kinds) in CORPORA.items() for kind in kinds[KINDS]]


@pytest.fixture(scope="module")
def tokenizers(data, tmp_path_factory):
    """The readable and the fast tokenizer of each real vocabulary."""
    found = {}
    for kind in ("uncased", "cased", "chinese"):
        folder = tmp_path_factory.mktemp(kind)
        shutil.copy(data / "tokenizers" / f"bert-base-{kind}" / "vocab.txt", folder)
        lowercase = kind != "cased"
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
        found[kind] = (
            WordPiece.from_file(folder / "vocab.txt", lowercase=lowercase),
            load_tokenizer(folder),
        )
    folder = tmp_path_factory.mktemp("gpt2")
    shutil.copy(data / "tokenizers" / "gpt2" / "encoder.json", folder / "vocab.json")
    shutil.copy(data / "tokenizers" / "gpt2" / "vocab.bpe", folder / "merges.txt")
    found["gpt2"] = (
        BytePairEncoding.from_files(folder / "vocab.json", folder / "merges.txt"),
        load_tokenizer(folder),
    )
    return found


@pytest.mark.parametrize(("corpus", "kind"), CASES)
def test_all_three_agree(data, tokenizers, corpus, kind):
    lines = list(islice(CORPORA[corpus][0](data), LINES))
    readable, fast = tokenizers[kind]
    found = [readable.encode(line) for line in lines]
    rust = [one.ids for one in fast.backend.rust.encode_batch_fast(lines)]
    fast.model_max_length = 10**9  # no warnings: nothing is fed to a model
    assert len(lines) >= 5000
    assert found == rust
    assert fast(lines)["input_ids"] == rust
