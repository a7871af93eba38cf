"""Many processes that tokenise give what one gives, in its order; one that dies is said in a line."""

import os
import signal

import numpy as np
import pytest

from glassformer.data import shard_writer, tokenising
from glassformer.data.examples import Document
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.text.train import train

TEXTS = [f"Anna gave the {colour} book number {number} to Tom ." for number in range(60) for colour in ("red", "")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    corpus = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    corpus.write_text("\n".join(TEXTS))
    return train([corpus], kind="bpe", vocab_size=300)


class Deadly:
    """A tokenizer that is killed by a certain text."""

    def rows(self, texts, *, split, target):
        if "deadly" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return [np.arange(len(text)) for text in texts]


def test_processes_write_the_same_shards(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_writer, "BATCH_DOCUMENTS", 7)
    documents, frame = [Document(text) for text in TEXTS], {"end_token_id": 0, "shard_tokens": 500}
    one, two = (
        tokenise_to_shards(iter(documents), tokenizer, tmp_path / str(jobs), jobs=jobs, **frame) for jobs in (1, 2)
    )
    assert len(one.shards) > 2
    contents = [{path.name: path.read_bytes() for path in made.folder.iterdir()} for made in (one, two)]
    assert contents[0] == contents[1]


def test_no_more_is_read_ahead_than_said(tokenizer):
    read, most = 0, 0

    def batches():
        nonlocal read
        for start in range(0, 100, 2):
            read += 1
            yield TEXTS[start : start + 2]

    for done, (batch, rows) in enumerate(tokenising.tokenised_batches(tokenizer.backend, batches(), 2), start=1):
        most = max(most, read - done)
        assert len(batch) == len(rows) == 2
    assert done == read == 50
    assert most < 2 * tokenising.AHEAD


def test_a_killed_process_is_one_line():
    batches = iter([["a text"], ["deadly"], ["another"]])
    with pytest.raises(ValueError, match="a process that tokenises was killed.*: start again with fewer jobs"):
        list(tokenising.tokenised_batches(Deadly(), batches, 2))


def test_empty_batches_and_texts(tokenizer):
    batches = [[""], ["", "Anna", ""], [TEXTS[0]]]
    for jobs in (1, 2):
        found = list(tokenising.tokenised_batches(tokenizer.backend, iter(batches), jobs))
        assert [batch for batch, _ in found] == batches
        assert [len(rows) for _, rows in found] == [1, 3, 1]
        assert [len(row) > 0 for _, rows in found for row in rows] == [False, False, True, False, True]
