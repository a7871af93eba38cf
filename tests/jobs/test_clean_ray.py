"""A cluster keeps of a corpus what one process keeps, however it is cut into batches and memory into parts."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import shard_writer
from glassformer.data.cleaning import Cleaner, Cleaning, SeenDocuments
from glassformer.data.examples import Document
from glassformer.jobs.clean_ray import RayCleaner, SeenPart, examined, judged

WISHES = [
    Cleaning(near=0.6, min_words=4, max_words=35, languages=("en",)),
    Cleaning(near=0.6, exact=False),
    Cleaning(),
]
RAYS_OWN = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")


def corpus(seed, count=60):
    """Few stories, told again with other capitals and with other words, and short and long ones among them."""
    chance = random.Random(seed)
    stories = [chance.choices(["the", "of", "and", *(f"word{n}" for n in range(200))], k=30) for _ in range(6)]
    texts = []
    for _ in range(count):
        words = list(chance.choice(stories))
        for _ in range(chance.choice([0, 0, 1, 2, 3])):
            words[chance.randrange(len(words))] = chance.choice(["and", "of", "new"])
        text = " ".join(words[: chance.choice([2, 30, 30, 30, 30])] * chance.choice([1, 1, 1, 1, 2]))
        texts.append(chance.choice([text, text, text.upper()]))
    return texts


def kept(cleaner, texts):
    return [reason for _, reason in cleaner(map(Document, texts))]


@pytest.mark.few(1)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 20), count=st.integers(1, 4))
@pytest.mark.parametrize("wanted", WISHES)
def test_parts_say_together_what_one_memory_says(wanted, seed, size, count):
    texts, parts, found = corpus(seed), [SeenPart(wanted) for _ in range(count)], []
    for number, start in enumerate(range(0, len(texts), size)):
        batch, new = examined(texts[start : start + size], wanted), SeenDocuments(wanted)
        for one, *before in zip(batch, *(part.reasons(batch) for part in parts), strict=True):
            found.append(judged(one, before, new))
        parts[number % count].add(new.digests, new.near.signatures if new.near else [])
    assert found == kept(Cleaner(wanted), texts)


def test_the_corpus_has_every_case():
    reasons = set(kept(Cleaner(WISHES[0]), corpus(0)))
    assert reasons == {None, "too short", "too long", "duplicate", "near duplicate", "another language"}


@RAYS_OWN
@pytest.mark.slow
def test_a_cluster_writes_the_same_files(glassformer, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(shard_writer, "BATCH_DOCUMENTS", 7)
    (tmp_path / "crawl.txt").write_text("\n\n".join(corpus(1)), "utf-8")
    told = {}
    for name, more in {"one": [], "many": ["--ray"]}.items():
        out, dropped = tmp_path / f"{name}.jsonl", tmp_path / f"{name}-dropped.jsonl"
        asked = ["data", "clean", tmp_path / "crawl.txt", "--out", out, "--dropped", dropped, "--near", 0.6, *more]
        code, told[name], _ = glassformer(*asked, "--min-words", 4, "--language", "en")
        assert code == 0
        told[name] = told[name].partition(":")[2], out.read_bytes(), dropped.read_bytes()
    assert told["many"] == told["one"]


@RAYS_OWN
@pytest.mark.slow
def test_a_lost_part_is_one_line(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(SeenPart, "reasons", lambda _self, _batch: ray.actor.exit_actor())
    with pytest.raises(ValueError, match="a part of what was seen is lost with its machine: start again"):
        kept(RayCleaner(WISHES[0]), corpus(2))
