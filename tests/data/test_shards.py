"""Shards: the ids of a stream on disk are those in memory, whatever the sizes, and however often the work is killed."""

import os
import pickle
import signal
import subprocess
import sys
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import microworld, shard_writer
from glassformer.data.examples import Document
from glassformer.data.shard_writer import fingerprint, identity_of, tokenise_to_shards
from glassformer.data.shards import Shards
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train

FOLDERS = count()


@pytest.fixture(scope="module")
def stories():
    return microworld.examples("documents", 60)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory, stories):
    folder = tmp_path_factory.mktemp("tokenizer")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(story.text for story in stories), encoding="utf-8")
    train([corpus], kind="bpe", vocab_size=400).save(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    return Tokenizer.from_folder(tokenizer_folder)


def in_memory(documents, tokenizer, end=None):
    rows = [tokenizer.encode(one.text, add_special_tokens=False) + ([] if end is None else [end]) for one in documents]
    return np.array([token for row in rows for token in row]), np.cumsum([len(row) for row in rows])


TEXTS = st.lists(st.text("ab é文\n", max_size=30), max_size=25)


@settings(max_examples=60)
@given(TEXTS, st.integers(1, 60), st.sampled_from([None, 0, 5]), st.integers(1, 4))
def test_no_token_is_lost_or_doubled_at_a_border(tokenizer, tmp_path, texts, shard_tokens, end, batch):
    documents = [Document(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "BATCH_DOCUMENTS", batch)
        found = tokenise_to_shards(
            iter(documents), tokenizer, tmp_path / str(next(FOLDERS)), shard_tokens=shard_tokens, end_token_id=end
        )
    ids, ends = in_memory(documents, tokenizer, end)
    assert len(found) == len(ids)
    np.testing.assert_array_equal(found.tokens(0, len(found)), ids)
    np.testing.assert_array_equal(found.ends(), ends)
    assert (found.documents, found.bytes) == (len(texts), sum(len(text.encode()) for text in texts))
    for start in range(0, len(ids) + 1, 7):
        for stop in range(start, len(ids) + 1, 5):
            np.testing.assert_array_equal(found.tokens(start, stop), ids[start:stop])
            np.testing.assert_array_equal(found[start:stop], ids[start:stop])
    longest = max(np.diff(ends, prepend=0), default=0)
    assert all(shard.tokens < shard_tokens + longest for shard in found.shards)
    assert all(shard.tokens >= shard_tokens for shard in found.shards[:-1])


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


KILLED = """
import os, pickle, signal, sys
from glassformer.data import shard_writer as shards
from glassformer.text.tokenizer import Tokenizer
tokenizer_folder, documents, folder, moment, left = sys.argv[1:]
left = int(left)
def die_in_time(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
replace, save = os.replace, shards.save
def killed_replace(*paths):
    if moment == "before":
        die_in_time()
    replace(*paths)
    if moment == "after":
        die_in_time()
def killed_save(path, array):
    with path.open("wb") as file:
        file.write(b"half")
    if moment == "amid":
        die_in_time()
    save(path, array)
os.replace, shards.save = killed_replace, killed_save
shards.BATCH_DOCUMENTS = 3
shards.tokenise_to_shards(
    iter(pickle.load(open(documents, "rb"))), Tokenizer.from_folder(tokenizer_folder), folder, identity="stories",
    shard_tokens=900, progress=die_in_time if moment == "reading" else None,
)
"""


@pytest.mark.parametrize(
    "moment", ["amid", "reading", *(pytest.param(moment, marks=pytest.mark.slow) for moment in ("before", "after"))]
)
def test_killed_again_and_again_it_ends_with_the_same_bytes(tokenizer_folder, tokenizer, stories, tmp_path, moment):
    (tmp_path / "documents").write_bytes(pickle.dumps(stories))
    chance = np.random.default_rng(len(moment))
    kills = 0
    while True:
        arguments = [tokenizer_folder, tmp_path / "documents", tmp_path / "killed", moment, 2 + chance.integers(12)]
        run = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments)], capture_output=True)
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr.decode()
        kills += 1
    assert kills > 0
    whole = tokenise_to_shards(stories, tokenizer, tmp_path / "whole", identity="stories", shard_tokens=900)
    assert len(whole.shards) > 3
    assert contents(tmp_path / "killed" / whole.folder.name) == contents(whole.folder)


def test_finished_shards_are_not_tokenised_again(tokenizer, stories, tmp_path, monkeypatch):
    first = tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=900)
    (first.folder / shard_writer.INDEX).unlink()
    for ending in (".npy", ".ends.npy", ".json"):
        shard_writer.file_of(first.folder, len(first.shards) - 1, ending).unlink()
    kept = contents(first.folder)
    tokenised = []
    rows = type(tokenizer.backend).rows
    monkeypatch.setattr(
        type(tokenizer.backend), "rows", lambda self, texts, **how: tokenised.extend(texts) or rows(self, texts, **how)
    )
    seen = []
    again = tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=900, progress=lambda *done: seen.append(done))
    assert len(tokenised) == first.shards[-1].documents
    assert {name: contents(first.folder)[name] for name in kept} == kept
    np.testing.assert_array_equal(again.tokens(0, len(again)), first.tokens(0, len(first)))
    assert seen == sorted(seen)
    assert seen[-1] == (again.bytes, len(again))


def nothing():
    raise AssertionError("the stream was read")
    yield


def test_the_same_data_and_tokenizer_are_reused_and_others_are_not(tokenizer, tokenizer_folder, stories, tmp_path):
    found = tokenise_to_shards(stories, tokenizer, tmp_path, identity="a")
    assert tokenise_to_shards(nothing(), tokenizer, tmp_path, identity="a").folder == found.folder
    changed = Tokenizer.from_folder(tokenizer_folder)
    changed.add_tokens(["Anna"])
    others = [
        tokenise_to_shards(stories, tokenizer, tmp_path, identity="b"),
        tokenise_to_shards(stories, tokenizer, tmp_path, identity="a", end_token_id=0),
        tokenise_to_shards(stories, tokenizer, tmp_path, identity="a", shard_tokens=500),
        tokenise_to_shards(stories, changed, tmp_path, identity="a"),
    ]
    assert len({found.folder, *(other.folder for other in others)}) == 5
    np.testing.assert_array_equal(others[0][:], found[:])


def test_the_identity_of_files_changes_when_they_do(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a")
    two.write_text("b")
    before = identity_of([one, two])
    assert identity_of([str(one), two]) == before != identity_of([two, one])
    os.utime(two, ns=(1, 1))
    assert identity_of([one, two]) != before


def written(path, text):
    """A file of one and the same time."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(1, 1))
    return path


def test_files_of_one_name_size_and_time_are_told_apart(tmp_path):
    one, other = (written(tmp_path / folder / "train.txt", "the same") for folder in "ab")
    assert identity_of([one]) != identity_of([other])  # by where they are
    (tmp_path / "link.txt").symlink_to(one)
    assert identity_of([tmp_path / "link.txt"]) == identity_of([one])


@pytest.mark.parametrize("place", [0, 400_000, 3_000_000, 4_999_999])
def test_a_file_that_was_changed_without_a_trace_is_told_by_its_samples(tmp_path, place):
    text = "a" * 5_000_000
    path = written(tmp_path / "train.txt", text)
    before = identity_of([path])
    assert identity_of([written(path, text)]) == before
    width = 400_000  # wider than what lies between two samples
    first = max(0, min(place, len(text) - width))
    assert identity_of([written(path, text[:first] + "b" * width + text[first + width :])]) != before
    assert identity_of([written(path, "b" + text[1:])]) != before
    assert identity_of([written(path, text[:-1] + "b")]) != before


def test_the_fingerprint_is_the_same_in_every_process(tokenizer, tokenizer_folder):
    script = (
        "import sys; from glassformer.data.shard_writer import fingerprint;"
        "from glassformer.text.tokenizer import Tokenizer;"
        "print(fingerprint(Tokenizer.from_folder(sys.argv[1])))"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tokenizer_folder)], capture_output=True, check=True)
    assert run.stdout.decode().strip() == fingerprint(tokenizer)


@pytest.mark.slow
def test_the_vocabulary_decides_the_bytes_of_an_id(tokenizer, tokenizer_folder, stories, tmp_path):
    assert tokenise_to_shards(stories, tokenizer, tmp_path).dtype == np.uint16
    large = Tokenizer.from_folder(tokenizer_folder)
    large.add_tokens([f"<{number}>" for number in range(1 << 16)])
    last = f"<{(1 << 16) - 1}>"
    found = tokenise_to_shards([Document(last)], large, tmp_path)
    assert found.dtype == np.uint32
    assert found.tokens(0, 1).tolist() == [large.convert_tokens_to_ids(last)]


@pytest.mark.parametrize("ending", [".npy", ".ends.npy"])
@pytest.mark.parametrize(("damage", "reason"), [("cut", "bytes, not"), ("changed", "its checksum is wrong")])
@pytest.mark.parametrize("complete", [True, False])
def test_a_damaged_file_is_named_and_once_deleted_made_again(
    tokenizer, stories, tmp_path, ending, damage, reason, complete
):
    found = tokenise_to_shards(stories, tokenizer, tmp_path, identity="stories", shard_tokens=900)
    whole = contents(found.folder)
    if not complete:
        (found.folder / shard_writer.INDEX).unlink()
    path = shard_writer.file_of(found.folder, 1, ending)
    content = path.read_bytes()
    path.write_bytes(content[:-3] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=rf"{path.name} is damaged \(.*{reason}.*\): delete it and tokenise again"):
        tokenise_to_shards(stories, tokenizer, tmp_path, identity="stories", shard_tokens=900)
    path.unlink()
    tokenise_to_shards(stories, tokenizer, tmp_path, identity="stories", shard_tokens=900)
    assert contents(found.folder) == whole


def test_a_damaged_description_is_named(tokenizer, stories, tmp_path):
    found = tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=900)
    (found.folder / "shard-00001.json").write_text("{")
    with pytest.raises(ValueError, match="shard-00001.json is damaged: delete it and tokenise again"):
        tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=900)


@pytest.mark.parametrize("others", [slice(1, None), slice(0, 5)])
def test_other_text_under_the_same_identity_is_found_out(tokenizer, stories, tmp_path, others):
    tokenise_to_shards(stories, tokenizer, tmp_path)
    with pytest.raises(ValueError, match="were made from other text: delete that folder and tokenise again"):
        tokenise_to_shards(stories[others], tokenizer, tmp_path)


def test_shards_travel_to_another_process_without_their_tokens(tokenizer, stories, tmp_path):
    found = tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=900)
    sent = pickle.dumps(found)
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent)[:], found[:])


def test_wrong_use_is_answered(tokenizer, stories, tmp_path):
    found = tokenise_to_shards(stories[:3], tokenizer, tmp_path)
    for start, stop in ((-1, 2), (3, 2), (0, len(found) + 1)):
        with pytest.raises(ValueError, match=f"tokens {start} to {stop}: give 0 <= start <= stop <= {len(found)}"):
            found.tokens(start, stop)
    with pytest.raises(ValueError, match="has no shards.json: tokenise to the end first"):
        Shards(tmp_path)
    with pytest.raises(ValueError, match="shard_tokens=0"):
        tokenise_to_shards(stories, tokenizer, tmp_path, shard_tokens=0)
