"""Folders that `glassformer data tokenize` has made, here or elsewhere: what is in them, opened for a task."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.data.joined import JoinedShards
from glassformer.data.remote import download, is_remote
from glassformer.data.shard_store import INDEX, has_index, streams_folder
from glassformer.data.shard_writer import fingerprint
from glassformer.data.shards import Shards
from glassformer.tasks.running_text import RunningTextTask
from glassformer.tasks.task import AnyTask

TOKENIZER = "tokenizer"  # the folder of it, beside the index
HOME = re.compile(r"[0-9a-f]{16}")  # the folder of a group of files


def is_tokenised(sources: Sequence[str]) -> bool:
    """Whether a place is named in which `glassformer data tokenize` has left shards."""
    return any(map(_holds_shards, sources))


def _holds_shards(name: str) -> bool:
    if is_remote(name) and not has_index(name):
        raise ValueError(f"{name} has no {INDEX}: from elsewhere only shards are read; other files have to be here")
    if not (is_remote(name) or Path(name).is_dir()):
        return False
    if not has_index(name) and any(HOME.fullmatch(one.name) for one in Path(name).iterdir()):
        raise ValueError(f"{name} has no {INDEX}: tokenise to the end first")
    return has_index(name)


def opened_shards(task: type[AnyTask], sources: Sequence[str], split: str) -> Shards:
    """The shards in some places, as one text."""
    if not issubclass(task, RunningTextTask):
        raise ValueError(f"{sources[0]} holds shards of running text, which {task.name} does not learn from")
    if not all(_holds_shards(one) for one in sources):
        raise ValueError(f"{split} names shards and other data: give folders of shards, or files")
    found = [Shards(one, verify=False) for one in sources]
    return found[0] if len(found) == 1 else JoinedShards(found)


def check_made_for(task: AnyTask, shards: Shards) -> None:
    """Refuse ids of another tokenizer, and other ids around the documents."""
    assert isinstance(task, RunningTextTask)
    if shards.tokenizer not in (None, fingerprint(task.tokenizer)):
        raise ValueError(
            f"{shards.place} was made with another tokenizer than the model's: leave --tokenizer out, or, for a model "
            "that is trained already, tokenise the text with its own"
        )
    if shards.frame not in (None, task.frame):
        raise ValueError(
            f"{shards.place} has {shards.frame} around each document, and {task.name} needs {task.frame}: tokenise the "
            f"text again with --task {task.name}"
        )


def tokenizer_of(shards: Shards) -> str:
    """The folder of the tokenizer that shards were made with; from elsewhere it is fetched."""
    if shards.tokenizer is None:
        raise ValueError(f"{shards.place} has no tokenizer beside it: name the folder above it, or give --tokenizer")
    place = f"{shards.place}/{TOKENIZER}"
    if not is_remote(place):
        return place
    folder = streams_folder() / shards.tokenizer / TOKENIZER
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as staging:
            download(place, Path(staging) / TOKENIZER)
            with suppress(OSError):  # another process was faster
                (Path(staging) / TOKENIZER).rename(folder)
    return str(folder)
