"""A corpus into ids on disk, and batches out of them: ours beside `datasets.map` and beside the Rust library alone.

Run it as `python -m benchmarks.corpus`. Everyone makes the same ids of the same reviews or articles with GPT-2's
vocabulary, and leaves them on disk. The processes of a contestant are said in its name; Rust's threads are as many. One
process is timed by what it takes of its core, which other work on the machine does not change, several by the clock.
"""

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.measure import in_turns, row_of_rates
from benchmarks.tokenize import DATA, made_up, write_folder

ROUNDS = 3
REVIEWS = 20_000
CORES = 2
LOADED = 400  # batches
SHARD = 1 << 18  # tokens of a shard, so that there are some


def run() -> list[dict[str, Any]]:
    texts = list(islice(reviews(), REVIEWS)) if (DATA / "imdb.tar.xz").is_file() else made_up(REVIEWS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = write_folder(folder / "tokenizer", "gpt2" if DATA.is_dir() else "trained", texts)
        return [*shards(folder, tokenizer, texts), *loader(folder, tokenizer, texts)]


def reviews() -> Iterator[str]:
    """IMDB's reviews, as they stand in the archive."""
    with tarfile.open(DATA / "imdb.tar.xz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".tsv"):
                file = archive.extractfile(member)
                assert file is not None
                yield from (line for line in file.read().decode("utf-8").split("\n") if line)


def shards(folder: Path, tokenizer: Path, texts: list[str]) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}

    def clocked(name: str, work: Callable[[Path], int]) -> Callable[[], float]:
        clock = process_time if name.endswith(" 1") else perf_counter

        def once() -> float:
            with tempfile.TemporaryDirectory(dir=folder) as out:
                began = clock()
                counts[name] = work(Path(out))
                return clock() - began

        return once

    contestants = {}
    for jobs in (1, CORES):
        contestants[f"ours {jobs}"] = clocked(f"ours {jobs}", lambda out, jobs=jobs: ours(tokenizer, texts, out, jobs))
        name = f"datasets.map {jobs}"
        contestants[name] = clocked(name, lambda out, jobs=jobs: mapped(tokenizer, texts, out, jobs))
        name = f"encode_batch {jobs}"
        contestants[name] = clocked(name, lambda out, jobs=jobs: rust(tokenizer, texts, out, jobs))
    seconds = in_turns(contestants, ROUNDS)
    assert len(set(counts.values())) == 1, counts
    rates = {name: counts[name] / value / 1e6 for name, value in seconds.items()}
    return [
        row_of_rates(
            f"a corpus to ids on disk, {jobs} process{'es' * (jobs > 1)}",
            rates[f"ours {jobs}"],
            rates[f"{peer} {jobs}"],
            peer,
            "million tokens/s",
        )
        for jobs in (1, CORES)
        for peer in ("datasets.map", "encode_batch")
    ]


def ours(tokenizer: Path, texts: list[str], out: Path, jobs: int) -> int:
    from glassformer.data.examples import Document
    from glassformer.data.shard_writer import tokenise_to_shards
    from glassformer.text import Tokenizer

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return len(tokenise_to_shards(map(Document, texts), Tokenizer.from_folder(tokenizer), out, jobs=jobs))


def mapped(tokenizer: Path, texts: list[str], out: Path, jobs: int) -> int:
    import datasets
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    theirs = AutoTokenizer.from_pretrained(str(tokenizer))
    theirs.model_max_length = 10**9
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    given = datasets.Dataset.from_dict({"text": texts})
    found = given.map(
        lambda rows: {"input_ids": theirs(rows["text"], add_special_tokens=False)["input_ids"]},
        batched=True,
        num_proc=jobs if jobs > 1 else None,
        remove_columns=["text"],
        load_from_cache_file=False,
    )
    found.save_to_disk(str(out / "mapped"))
    return sum(found.with_format("arrow")[:]["input_ids"].combine_chunks().value_lengths().to_pylist())


def rust(tokenizer: Path, texts: list[str], out: Path, jobs: int) -> int:
    """The way of a plain script: the Rust library on a thousand texts at a time, into one file."""
    import numpy as np
    from transformers import AutoTokenizer

    os.environ["TOKENIZERS_PARALLELISM"] = "true" if jobs > 1 else "false"
    theirs = AutoTokenizer.from_pretrained(str(tokenizer)).backend_tokenizer
    parts = []
    for start in range(0, len(texts), 1000):
        batch = theirs.encode_batch_fast(texts[start : start + 1000], add_special_tokens=False)
        parts += [np.array(one.ids, np.uint16) for one in batch]
    ids = np.concatenate(parts)
    np.save(out / "ids.npy", ids)
    return len(ids)


def loader(folder: Path, tokenizer: Path, texts: list[str]) -> list[dict[str, Any]]:
    """Batches of 32 windows of 1,024 tokens from shards, shuffled, made by one process; nothing takes them. From the
    folder, mixed over all of it, and as if it lay elsewhere, fetched stretch by stretch and mixed in many windows."""
    from glassformer.data.examples import Document
    from glassformer.data.shard_writer import tokenise_to_shards
    from glassformer.data.shards import Shards
    from glassformer.tasks.text_generation import TextGeneration
    from glassformer.text import Tokenizer
    from glassformer.train.plan import Plan
    from glassformer.train.processes import Processes
    from glassformer.train.update import schedule_of, updates

    tok = Tokenizer.from_folder(tokenizer)
    task = TextGeneration(tok, block_size=1024)
    frame = task.frame._asdict()
    stored = tokenise_to_shards(map(Document, texts), tok, folder / "loader", shard_tokens=SHARD, **frame)
    os.environ["GLASSFORMER_CACHE"] = str(folder / "cache")
    rows = []
    for name, place, window in (
        ("a folder", str(stored.folder), 1 << 30),
        ("an address", f"file://{stored.folder}", len(stored) // 4),
    ):
        items, plan = task.encode(Shards(place)), Plan(steps=1, batch_size=32, shuffle_window=window)
        feed = updates(task, items, schedule_of(task, items, plan), plan, after=0, processes=Processes())
        began = perf_counter()
        tokens = sum(update.tokens for update in islice(feed, LOADED))
        rate = tokens / (perf_counter() - began) / 1e6
        rows.append(
            row_of_rates(f"batches from shards in {name}, one process", rate, 1.0, "to reach", "million tokens/s")
        )
    return rows


if __name__ == "__main__":
    for one in run():
        print(f"{one['name']}: {one['ours']:.2f} {one['unit']}, {one['ratio']:.2f} × {one['peer_name']}")
