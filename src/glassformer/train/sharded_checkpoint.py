"""Checkpoints in shards (torch.distributed.checkpoint): each process writes what it holds, while training goes on.

A checkpoint is a folder: the shards, and state.pt with all that is not sharded. It fits any number of processes.
"""

import pickle
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.tensor import DTensor

from glassformer.files.writing import PARTIAL

from .checkpoint import remove

REST = "state.pt"
SHARDED = "sharded"  # {SHARDED: name} stands where a tensor was
Where = tuple[str | int, ...]  # the way to a value inside nested dicts and lists
Like = Callable[[Where], Tensor | None]
"""The tensor that a value of a checkpoint is for; None: it is wanted whole."""

_SAFE = {  # what the description of shards is made of; a pickle that asks for more is not one
    "torch": {"Size", "device"} | {name for name, one in vars(torch).items() if isinstance(one, torch.dtype)},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
        "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "pathlib": {"PosixPath", "WindowsPath", "PurePosixPath"},
}  # fmt: skip


class Writing:
    """A checkpoint on its way to the disk; `settle` puts it in its place. All processes make one."""

    def __init__(self, path: Path, state: Mapping[str, Any], group: dist.ProcessGroup, *, then: Callable[[], None]):
        """`then` is called by the main process as soon as the checkpoint is whole."""
        self.path, self.then, self.is_main = path, then, dist.get_rank() == 0
        self.partial = path.with_name(f".{path.name}{PARTIAL}")
        shards: dict[str, DTensor] = {}
        rest = mapped(state, lambda where, value: _taken_out(shards, where, value))
        if self.is_main:
            remove(self.partial)
            self.partial.mkdir(parents=True)
            torch.save(rest, self.partial / REST)
        dist.barrier(group)
        writer = FileSystemWriter(self.partial)
        found = async_save(dict(shards), storage_writer=writer, process_group=group)
        self.future = found if isinstance(found, Future) else found.upload_completion

    def settle(self, *, wait: bool) -> bool:
        """Whether it is done, in the main process's view: it hears from all others before its own part is."""
        if not (wait or self.future.done()):
            return False
        try:
            self.future.result()
        except CheckpointException as error:
            causes = [cause for cause, _ in error.failures.values()]
            raise next((one for one in causes if isinstance(one, OSError)), error) from None
        if self.is_main:
            remove(self.path)
            self.partial.rename(self.path)
            self.then()
        return True


def read(path: Path, like: Like = lambda _: None) -> dict[str, Any]:
    """The state in a folder: of each tensor the shard that `like` asks for, or all of it; all processes read it."""
    reader = _Reader(path)
    try:
        described = reader.read_metadata().state_dict_metadata
        rest = torch.load(path / REST, map_location="cpu", weights_only=True)
    except (OSError, EOFError, pickle.UnpicklingError, RuntimeError) as error:
        raise ValueError(
            f"{path} is not a whole checkpoint ({error}); delete it to go on from the one before"
        ) from None
    wanted: dict[str, Tensor] = {}

    def place(where: Where, value: Any) -> Any:
        if not (isinstance(value, dict) and value.keys() == {SHARDED}):
            return value
        about = described[value[SHARDED]]
        assert isinstance(about, TensorStorageMetadata)
        own, dtype = like(where), about.properties.dtype
        if isinstance(own, DTensor) and own.shape == about.size:
            found = torch.empty_like(own, dtype=dtype)
        else:
            found = torch.empty(about.size, dtype=dtype)
        return wanted.setdefault(value[SHARDED], found)

    state: dict[str, Any] = mapped(rest, place)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*assuming the intent is to load in a single process.*")
        load(dict(wanted), storage_reader=reader, no_dist=not dist.is_initialized())
    return state


def _taken_out(shards: dict[str, DTensor], where: Where, value: Any) -> Any:
    if not isinstance(value, DTensor):
        return value
    name = "/".join(map(str, where))
    shards[name] = value
    return {SHARDED: name}


def mapped(value: Any, change: Callable[[Where, Any], Any], where: Where = ()) -> Any:
    """Nested dicts and lists with every value changed, those that `change` has replaced left as they are then."""
    changed = change(where, value)
    if changed is not value:
        return changed
    if isinstance(value, Mapping):
        return {name: mapped(one, change, (*where, name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, change, (*where, place)) for place, one in enumerate(value))
    return value


class _Reader(FileSystemReader):
    """torch's, which would run whatever code the description of shards, a pickle, asks for."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        del args, kwargs
        with (Path(self.path) / ".metadata").open("rb") as file:
            found = _Unpickler(file).load()
        if not isinstance(found, Metadata):
            raise pickle.UnpicklingError("its description is none of shards")
        return found


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if global_name not in _SAFE.get(module_name, ()):
            raise pickle.UnpicklingError(f"its description asks for {module_name}.{global_name}")
        return super().find_class(module_name, global_name)
