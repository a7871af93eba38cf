"""Shards that lie elsewhere: the same ids, each file fetched once a window, checked, and kept within a limit."""

import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from filelock import FileLock

from glassformer.data import microworld, shard_store
from glassformer.data.batches import Budget, Schedule
from glassformer.data.blocks import Windows
from glassformer.data.shard_store import RemoteStore, check_file, stream_cache
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.data.shards import Shards
from glassformer.text.train import train


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Shards on this machine, about thirty of them."""
    folder, stories = tmp_path_factory.mktemp("here"), microworld.examples("documents", 80)
    (folder / "corpus.txt").write_text("\n".join(story.text for story in stories), encoding="utf-8")
    tokenizer = train([folder / "corpus.txt"], kind="bpe", vocab_size=400)
    return tokenise_to_shards(iter(stories), tokenizer, folder / "shards", shard_tokens=200)


@pytest.fixture
def address(here, tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shard_store, "PAUSE", 0.0)
    return f"file://{here.folder}"


@pytest.fixture
def fetched(monkeypatch):
    """The names of the files that are asked for, in their order."""
    found, real = [], shard_store.file_system

    def watched(address):
        found.append(address.rpartition("/")[2])
        return real(address)

    monkeypatch.setattr(shard_store, "file_system", watched)
    return found


def kept(tmp_path):
    return list((tmp_path / "cache" / "streams").rglob("*.npy"))


def test_from_elsewhere_come_the_same_ids(here, address, tmp_path):
    there = Shards(address)
    assert (len(there), there.bytes, there.documents) == (len(here), here.bytes, here.documents)
    assert kept(tmp_path) == []  # nothing is fetched before it is read
    chance = np.random.default_rng(0)
    for start, stop in np.sort(chance.integers(0, len(here) + 1, (50, 2))).tolist():
        np.testing.assert_array_equal(there.tokens(start, stop), here.tokens(start, stop))
    np.testing.assert_array_equal(there.ends(), here.ends())
    part = there.between(100, 900)
    np.testing.assert_array_equal(part[:], here[100:900])
    np.testing.assert_array_equal(part.between(10, 20)[:], here[110:120])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part.between(10, 20)))[:], here[110:120])


@pytest.mark.parametrize(("room", "once"), [(8, False), (50, True)])
def test_what_is_kept_stays_within_its_limit(room, once, here, address, fetched, monkeypatch, tmp_path):
    limit = room * max(shard.files[".npy"][0] for shard in here.shards)
    assert 16 < len(here.names) < 50
    monkeypatch.setattr(shard_store, "stream_cache", lambda: limit)
    windows = Windows(Shards(address), 8)
    schedule = Schedule(np.full(len(windows), 8), Budget(rows=4), seed=0, window=len(here) // 3)
    fetched.clear()
    for found in schedule.after(0):
        if found.coming is not None:
            windows.expect(found.coming)
        ids, _ = windows.take(found.indices)
        np.testing.assert_array_equal(ids, [here[at : at + 9] for at in windows.starts[found.indices].tolist()])
        with FileLock(windows.ids.store.home / ".room.lock"):  # while nothing comes or goes
            assert sum(path.stat().st_size for path in kept(tmp_path)) <= limit
        if found.closes_epoch:
            break
    windows.ids.store.settle()
    assert set(fetched) == {f"{name}.npy" for name in here.names}
    assert (len(fetched) == len(here.names)) == once


def test_what_is_foreseen_is_there_before_it_is_read(address, fetched, tmp_path):
    there = Shards(address)
    there.expect(np.array([0, 250, 700]), 10)
    there.store.settle()
    asked, _ = list(fetched), fetched.clear()
    assert {"shard-00000.npy", "shard-00001.npy", "shard-00003.npy"} & set(asked)
    there.tokens(0, 10), there.tokens(250, 260), there.tokens(700, 710)
    assert fetched == []


@pytest.mark.filterwarnings("error")
def test_a_fetch_that_fails_in_the_background_fails_where_it_is_read(here, address, monkeypatch):
    there, broken = Shards(address), [RuntimeError("no such thing")]

    def copy(*_):
        raise broken[0]

    monkeypatch.setattr(RemoteStore, "_copy", copy)
    for _ in range(2):  # the threads are still there
        there.expect(np.arange(0, 2000, 100), 10)
        with pytest.raises(RuntimeError, match="no such thing"):
            there.tokens(0, 10)
    monkeypatch.undo()


def test_many_who_want_the_same_file_fetch_it_once(here, address, fetched):
    there = [Shards(address) for _ in range(8)]
    fetched.clear()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: one.tokens(0, 150).copy(), there))
    assert all(np.array_equal(one, here.tokens(0, 150)) for one in found)
    assert fetched == ["shard-00000.npy"]


def test_another_process_finds_what_is_here(here, address, tmp_path):
    there = Shards(address)
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).tokens(0, 600).tolist())"
    run = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(there), capture_output=True, check=True)
    assert run.stdout.decode().strip() == str(here.tokens(0, 600).tolist())
    assert 1 < len(kept(tmp_path)) < 6


def test_a_file_that_is_not_whole_is_asked_for_again_and_then_named(here, address, monkeypatch):
    there, tries, real = Shards(address), [], check_file

    def damaged(path, known, **more):
        tries.append(path)
        if len(tries) < failures:
            path.write_bytes(b"half")
        real(path, known, **more)

    monkeypatch.setattr(shard_store, "check_file", damaged)
    failures = 3
    np.testing.assert_array_equal(there.tokens(0, 10), here.tokens(0, 10))
    tries.clear()
    failures = 99
    with pytest.raises(ValueError, match=r"shard-00001.npy is damaged \(4 bytes, not \d+\)"):
        there.tokens(400, 700)
    assert len(tries) == shard_store.TRIES


@pytest.mark.parametrize("size", ["16 GB", "1.5tb", "200MB"])
def test_the_limit_is_read(size, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_STREAM_CACHE", size)
    assert stream_cache() == {"16 GB": 16 * 10**9, "1.5tb": 15 * 10**11, "200MB": 2 * 10**8}[size]


def test_wrong_places_and_limits_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"has no shards.json: tokenise to the end first"):
        Shards(f"file://{tmp_path}/nothing")
    with pytest.raises(ValueError, match="cannot be opened|needs another package"):
        Shards("nonsense://bucket/corpus")
    monkeypatch.setenv("GLASSFORMER_STREAM_CACHE", "much")
    with pytest.raises(ValueError, match="GLASSFORMER_STREAM_CACHE='much' is no size: write it as 16GB"):
        stream_cache()


def test_what_is_here_is_told_from_what_took_its_place(here, address, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(here.folder, moved)
    assert Shards(f"file://{moved}").tokens(0, 10).tolist() == here.tokens(0, 10).tolist()
    stories = microworld.examples("documents", 8, seed=9)
    other = tokenise_to_shards(iter(stories), retrained(tmp_path), tmp_path / "other", shard_tokens=200)
    shutil.rmtree(moved)
    shutil.copytree(other.folder, moved)
    assert (
        Shards(f"file://{moved}").tokens(0, 10).tolist() == other.tokens(0, 10).tolist() != here.tokens(0, 10).tolist()
    )


def retrained(folder):
    (folder / "corpus.txt").write_text("other words than those before " * 20)
    return train([folder / "corpus.txt"], kind="bpe", vocab_size=300)


def test_a_copy_that_a_power_cut_has_shortened_is_fetched_again(here, address, tmp_path):
    assert Shards(address).tokens(0, 10).tolist() == here.tokens(0, 10).tolist()
    (copy,) = kept(tmp_path)
    copy.write_bytes(copy.read_bytes()[:20])
    assert Shards(address).tokens(0, 10).tolist() == here.tokens(0, 10).tolist()


def test_the_limit_is_of_all_addresses(here, address, tmp_path, monkeypatch):
    limit = 5 * max(shard.files[".npy"][0] for shard in here.shards)
    monkeypatch.setattr(shard_store, "stream_cache", lambda: limit)
    shutil.copytree(here.folder, tmp_path / "copy")
    for place in (address, f"file://{tmp_path}/copy", address):
        there = Shards(place)
        np.testing.assert_array_equal(there[:], here[:])
        assert sum(path.stat().st_size for path in kept(tmp_path)) <= limit


def test_a_process_does_not_wait_for_what_it_no_longer_needs(address, tmp_path):
    script = f"""
import time, numpy as np
from glassformer.data import shard_store
from glassformer.data.shards import Shards
shard_store.check_file = lambda *_, **__: time.sleep(600)
Shards({address!r}).expect(np.arange(0, 4000, 100), 10)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=120).returncode == 0
