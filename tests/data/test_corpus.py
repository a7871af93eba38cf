"""Corpora larger than memory: the stream is what is read at once, and nothing is lost where its end is held out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_checks import one_line_error

from glassformer.data import corpus as corpora
from glassformer.data.blocks import Reframed
from glassformer.data.corpus import Corpus, Tail, account_of, is_labelled, is_large
from glassformer.data.documents import read_documents
from glassformer.data.examples import Document
from glassformer.data.shards import DocumentFrame
from glassformer.text.train import train

TEXT = "".join(f"Line {number} of a text that goes on.\n\n" for number in range(400))


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def tokenizer(file):
    return train([file], kind="bpe", vocab_size=300)


@given(st.lists(st.text("abc é", min_size=1, max_size=12), max_size=12), st.integers(0, 60))
def test_an_end_of_any_size_is_held_out_and_nothing_is_lost(texts, size):
    documents = [Document(text) for text in texts]
    before, after = list(Tail(documents, size)), list(Tail(documents, size).last())
    whole = "".join(texts)
    assert "".join(one.text for one in after) == whole[max(0, len(whole) - size) :]
    assert "".join(one.text for one in [*before, *after]) == whole
    assert all(one.text for one in [*before, *after])
    assert len(texts) <= len(before) + len(after) <= len(texts) + 1  # at most one document is cut


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.lists(st.integers(0, 9), max_size=3),
    st.integers(0, 12),
    st.slices(15),
)
def test_a_reframed_stream_is_sliced_as_the_list_would_be(ids, before, without, part):
    without = min(without, len(ids))
    part = slice(part.start, part.stop, abs(part.step or 1))
    stream = Reframed(np.array(ids, np.uint16), before=before, without=without)
    whole = [*before, *ids[: len(ids) - without]]
    assert len(stream) == len(whole)
    assert stream[part].tolist() == whole[part]


@pytest.mark.parametrize("unit", ["file", "block", "line"])
def test_the_stream_is_what_is_read_at_once(file, unit):
    seen = []
    found = list(Corpus((str(file),), unit=unit).documents(lambda done, total: seen.append((done, total))))
    assert found == read_documents([file], unit=unit).examples
    assert seen == sorted(seen)
    assert seen[-1] == (sum(len(one.text) for one in found), len(TEXT))
    assert list(Corpus((str(file),), unit=unit, limit=2)) == found[:2]
    assert "".join(line + "\n" for line in Corpus((str(file),)).lines(1 << 30)) == TEXT + "\n"
    assert len(list(Corpus((str(file),)).lines(-(-len(TEXT) // 4)))) == -(-(TEXT.count("\n") + 1) // 4)


def test_both_parts_are_tokenised_once(file, tokenizer, monkeypatch):
    train_part, dev_part = Corpus((str(file),), unit="block").split()
    texts = ["".join(one.text for one in part) for part in (train_part, dev_part)]
    assert len(texts[1]) == dev_part.held == len(TEXT) // 10
    assert "".join(texts) == TEXT.replace("\n", "")
    made = [part.to_shards(tokenizer, DocumentFrame(end_token_id=0)) for part in (train_part, dev_part)]
    assert [shards.bytes for shards in made] == [len(text) for text in texts]
    assert account_of(made[0]).lines == read_documents([file], unit="block").report.lines()
    monkeypatch.setattr(corpora, "stream_documents", lambda *_, **__: iter(()))  # which would give nothing
    again = [part.to_shards(tokenizer, DocumentFrame(end_token_id=0)) for part in (train_part, dev_part)]
    assert [shards[:].tolist() for shards in again] == [shards[:].tolist() for shards in made]


def test_whatever_changes_the_stream_changes_its_home(file, tokenizer):
    one = Corpus((str(file),))
    others = [replace(one, unit="line"), replace(one, limit=3), replace(one, columns={"text": "0"}), *one.split()]
    homes = {corpus.home(tokenizer, DocumentFrame(end_token_id=0)) for corpus in [one, *others]}
    homes |= {one.home(tokenizer, DocumentFrame()), one.home(tokenizer, DocumentFrame(bos_token_id=1, end_token_id=0))}
    file.write_text(TEXT + "more", encoding="utf-8")
    homes |= {one.home(tokenizer, DocumentFrame(end_token_id=0))}
    assert len(homes) == len(others) + 4


def test_large_is_a_matter_of_all_files_together(file, monkeypatch):
    for size, large in ((len(TEXT) * 2, True), (len(TEXT) * 2 + 1, False)):
        monkeypatch.setattr(corpora, "LARGE", size)
        assert is_large([str(file), str(file)]) is large
    monkeypatch.setattr(corpora, "LARGE", 0)
    assert not is_large([str(file), "-"])  # which can be read only once
    assert is_labelled([f"good={file}"], None)
    assert is_labelled([str(file)], {"label": "kind"})
    assert not is_labelled([str(file)], {"text": "body"})
    with one_line_error("stdin", "save it to a file"):
        Corpus(("-",)).split()
