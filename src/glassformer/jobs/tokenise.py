"""A corpus tokenised by processes of this machine or on Ray, into one folder of shards that can be moved, uploaded and
streamed: what training takes as its data.

Files are done in groups, small ones together and large ones alone. Each group has a folder of its own, named by a hash
of the files, the tokenizer and the settings, so that what is finished is found again: work goes on where it was broken
off, and when files are added behind the others only these are done.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple, get_args

from glassformer.data.documents import Unit, documents_of
from glassformer.data.examples import Document
from glassformer.data.listing import ListedFile, listed_files, opened_here
from glassformer.data.remote import is_remote, upload
from glassformer.data.report import ReadReport
from glassformer.data.shard_store import INDEX, has_index, read_index
from glassformer.data.shard_writer import SHARD_TOKENS, fingerprint, home_of, is_complete, tokenise_to_shards
from glassformer.data.shards import DocumentFrame, Shard, Shards
from glassformer.data.tokenising import usable_cores
from glassformer.files import write_json
from glassformer.files.writing import PARTIAL
from glassformer.hub.load import load_tokenizer
from glassformer.tasks.running_text import RunningTextTask
from glassformer.text.tokenizer import Tokenizer

from .progress import shown
from .ray_pool import RayCluster, answer_of
from .tasks import task_class
from .tokenised import HOME, TOKENIZER

RETRIES = 3  # of a group whose machine is lost
GROUP = 256 << 20  # bytes from which files are a group: a shard or so


@dataclass(frozen=True)
class Tokenising:
    """How texts become shards, wherever this is done."""

    tokenizer: str  # a folder, or a name on the hub
    frame: DocumentFrame
    out: str  # a folder that all machines see, or an address
    unit: Unit = "file"
    columns: Mapping[str, str] | None = None
    shard_tokens: int = SHARD_TOKENS
    threads: int = 1  # processes for one group: where there are fewer groups than processes


FileGroup = tuple[ListedFile, ...]


class TokenisedGroup(NamedTuple):
    """What became of a group: its folder, its shards, and the account of its reading; None if that was done before."""

    home: str
    dtype: str
    shards: list[Shard]
    report: ReadReport | None


OnGroup = Callable[[FileGroup, TokenisedGroup], None]
Results = Generator[tuple[FileGroup, TokenisedGroup], None, None]


def grouped(files: Sequence[ListedFile]) -> list[FileGroup]:
    """Neighbours together, up to the first that makes a group large enough."""
    groups, size = list[list[ListedFile]]([[]]), 0
    for file in files:
        if size >= GROUP:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [tuple(group) for group in groups]


def made_for(
    task: str, tokenizer: str, out: str, *, unit: str, columns: Mapping[str, str] | None, shard_tokens: int
) -> Tokenising:
    """What a task needs: its ids around each document."""
    cls = task_class(task)
    if not (issubclass(cls, RunningTextTask) and cls.reads_shards):
        raise ValueError(f"{task} does not learn from running text: shards are for text-generation, fill-mask and such")
    if unit not in get_args(Unit):
        raise ValueError(f"--unit {unit} is not known: use one of {', '.join(get_args(Unit))}")
    if "label" in (columns or {}):
        raise ValueError("shards hold one stream of text without labels: leave --columns label=… out")
    if not is_remote(out):
        out = str(Path(out).expanduser().resolve())
        _check_folder(Path(out))
    if Path(tokenizer).is_dir():
        tokenizer = str(Path(tokenizer).resolve())
    frame = cls(_tokenizer(tokenizer)).frame
    kind: Any = unit
    return Tokenising(tokenizer, frame, out.rstrip("/"), unit=kind, columns=columns, shard_tokens=shard_tokens)


def _check_folder(out: Path) -> None:
    """Refuse a file, and a folder that holds something else."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: name a folder")
    others = [one.name for one in out.iterdir() if not _is_ours(one)] if out.is_dir() else []
    if others:
        raise ValueError(f"--out {out} holds other files, as {min(others)}: name a new or an empty folder")


def _is_ours(path: Path) -> bool:
    half = path.name.startswith(".") and path.name.endswith(PARTIAL)  # of a job that was killed
    return half or path.name in (INDEX, TOKENIZER) or (path.is_dir() and HOME.fullmatch(path.name) is not None)


def tokenise_group(group: FileGroup, how: Tokenising) -> TokenisedGroup:
    """The shards of a group of files, made or found."""
    tokenizer = _tokenizer(how.tokenizer)
    reading = (how.unit, sorted((how.columns or {}).items()))
    identity = "\n".join([*(f"{one.source.name} {one.identity}" for one in group), str(reading)])
    settings = {"identity": identity, "shard_tokens": how.shard_tokens, **how.frame._asdict()}
    name = home_of("", tokenizer, **settings).name
    place = f"{how.out}/{name}"
    if has_index(place) and (is_remote(how.out) or is_complete(Path(place))):
        index = read_index(place)
        return TokenisedGroup(name, index["dtype"], [Shard(**one) for one in index["shards"]], None)
    report = ReadReport()
    with TemporaryDirectory(prefix="glassformer-") as staging:
        folder = Path(staging) if is_remote(how.out) else Path(how.out)
        documents = _documents(group, how, report)
        shards = tokenise_to_shards(documents, tokenizer, folder, jobs=how.threads, **settings)
        if is_remote(how.out):
            upload(shards.folder, place, last=INDEX)
    return TokenisedGroup(name, shards.dtype.name, shards.shards, report)


def _documents(group: FileGroup, how: Tokenising, report: ReadReport) -> Iterator[Document]:
    for file in group:
        with opened_here(file.source) as source:
            yield from documents_of([source], how.columns, unit=how.unit, report=report)


@cache
def _tokenizer(name: str) -> Tokenizer:
    return load_tokenizer(name)


class TokenisedCorpus(NamedTuple):
    """All of it: how many groups of files there are, and how many were done before; the account of reading the others;
    and folders beside them that the index does not list."""

    shards: Shards
    groups: int
    kept: int
    report: ReadReport
    unlisted: list[str]


def tokenise_corpus(
    names: Sequence[str], how: Tokenising, *, jobs: int | None = None, ray: bool = False
) -> TokenisedCorpus:
    """The files that names, globs, folders of .txt and addresses stand for, while it is shown how far it is."""
    groups, jobs = grouped(listed_files(names, folder="txt")), jobs or usable_cores()
    how = replace(how, threads=1 if ray else max(1, jobs // len(groups)))
    total, done, kept, report = sum(one.size for group in groups for one in group), 0, 0, ReadReport()
    with shown("tokenising") as on_progress:

        def on_group(group: FileGroup, found: TokenisedGroup) -> None:
            nonlocal done, kept
            done += sum(one.size for one in group)
            kept += found.report is None
            report.add(found.report or ReadReport())
            on_progress(done, total)

        shards = tokenise_files(groups, how, jobs=jobs, ray=ray, on_group=on_group)
    return TokenisedCorpus(shards, len(groups), kept, report, _unlisted(how, shards))


def tokenise_files(
    groups: Sequence[FileGroup],
    how: Tokenising,
    *,
    jobs: int = 1,
    ray: bool = False,
    on_group: OnGroup = lambda _group, _found: None,
) -> Shards:
    """All groups, by so many processes or on a cluster, and the index over them, in the order of the files."""
    tokenizer = _tokenizer(how.tokenizer)
    found: dict[FileGroup, TokenisedGroup] = {}
    with closing(_on_ray(groups, how) if ray else _in_processes(groups, how, jobs)) as results:
        for group, one in results:
            found[group] = one
            on_group(group, one)
    parts = [found[group] for group in groups]
    if not is_remote(how.out) and (lost := [one.home for one in parts if not is_complete(Path(how.out) / one.home)]):
        raise ValueError(f"{how.out}/{lost[0]} is not here: --out has to be a folder that all machines see")
    index = {
        "dtype": parts[0].dtype,
        "tokenizer": fingerprint(tokenizer),
        "frame": how.frame._asdict(),
        "names": [f"{part.home}/shard-{number:05}" for part in parts for number in range(len(part.shards))],
        "shards": [asdict(shard) for part in parts for shard in part.shards],
    }
    with TemporaryDirectory(prefix="glassformer-") as staging:
        folder = Path(staging) if is_remote(how.out) else Path(how.out)
        tokenizer.save(folder / TOKENIZER)
        write_json(folder / INDEX, index)
        if is_remote(how.out):
            upload(folder / TOKENIZER, f"{how.out}/{TOKENIZER}")
            upload(folder, how.out, last=INDEX)
    return Shards(how.out, verify=False)


def _unlisted(how: Tokenising, shards: Shards) -> list[str]:
    """The folders in it that the index does not list: of other files, of files as they were, or of other settings."""
    homes = {name.partition("/")[0] for name in shards.names}
    here = [] if is_remote(how.out) else Path(how.out).iterdir()
    return sorted(one.name for one in here if HOME.fullmatch(one.name) and one.name not in homes)


def _in_processes(groups: Sequence[FileGroup], how: Tokenising, jobs: int) -> Results:
    if jobs == 1:
        yield from ((group, tokenise_group(group, how)) for group in groups)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        waiting = {pool.submit(tokenise_group, group, how): group for group in groups}
        try:
            for one in as_completed(waiting):
                yield waiting[one], one.result()
        except BrokenProcessPool:
            raise ValueError(
                "a process that tokenises was killed, perhaps for want of memory: start again with fewer --jobs, and "
                "it goes on after the last finished shard"
            ) from None
        finally:
            for one in waiting:
                one.cancel()


def _end_with_parent() -> None:
    """A process of the pool ends when the one that has begun it was killed, so that nobody writes beside the next."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _on_ray(groups: Sequence[FileGroup], how: Tokenising) -> Results:
    cluster = RayCluster()
    task = cluster.ray.remote(num_cpus=1, max_retries=RETRIES)(tokenise_group)
    waiting = {task.remote(group, how): group for group in groups}
    try:
        while waiting:
            (one, *_), _ = cluster.ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(one), answer_of(cluster.ray, one)
    finally:
        for one in waiting:
            cluster.ray.cancel(one, force=True)
        cluster.close()
