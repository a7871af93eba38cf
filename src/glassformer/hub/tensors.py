"""The weight files of a folder: names and shapes first, values on demand, and never any code."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Required, TypedDict

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.files import has_file, read_json, shown

from .adapters import ADAPTER, ADAPTER_CONFIG, PREFIX, TABLE, UP, corrected, read_adapter_config, split_names, with_rows
from .folder import INDEX, WEIGHT_FILES
from .weights import some

LONGEST_NAME = 255  # bytes of a file's name
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Index(TypedDict):
    """model.safetensors.index.json: which file holds which tensor."""

    weight_map: Required[dict[str, str]]


class WeightFiles:
    """All tensors of a folder, in one file or in shards."""

    def __init__(self, folder: Path) -> None:
        self._where: dict[str, _File] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in _files(folder):
            file = _SafetensorsFile(path) if path.suffix == ".safetensors" else _PickleFile(path)
            for name, shape in file.shapes.items():
                self._where[name] = file
                self.shapes[name] = shape

    def mapped(self, name: str) -> Tensor:
        """The tensor in the mapped file: no memory is used before it is looked at, and none is copied."""
        return self._where[name].mapped(name)

    def passing(self, name: str) -> Tensor:
        """The tensor in a mapping of its own, given up with it: for values that are copied on at once."""
        return self._where[name].passing(name)

    def dtypes(self, names: Iterable[str]) -> set[torch.dtype]:
        """The dtypes of these tensors; anything but floating-point numbers of 16, 32 or 64 bits is refused."""
        found = {name: self.mapped(name).dtype for name in names}
        if wrong := [f"{name} ({short(kind)})" for name, kind in found.items() if kind not in DTYPES]:
            known = ", ".join(map(short, DTYPES))
            raise ValueError(f"weights must be one of {known}; convert these first: {some(wrong, 5)}")
        return set(found.values())


def short(dtype: torch.dtype) -> str:
    """A dtype as config.json writes it."""
    return str(dtype).removeprefix("torch.")


class AdaptedWeights(WeightFiles):
    """The tensors of a base with a LoRA adapter merged into them, in float32, and those that the adapter replaces."""

    def __init__(self, folder: Path, base: WeightFiles) -> None:
        config, adapter = read_adapter_config(folder), _SafetensorsFile(folder / ADAPTER)
        self._where, self.shapes, self._merged = dict(base._where), dict(base.shapes), dict[str, Tensor]()
        downs, rows, whole = split_names(adapter.shapes, folder)
        for layer, name in downs.items():
            with _corrected(base, layer, folder) as target:
                halves = adapter.mapped(name), adapter.mapped(f"{PREFIX}{layer}{UP}")
                self._merged[target] = corrected(base.mapped(target), *halves, config)
        for layer, name in rows.items():
            if len(rows) > 1 and not _targets(base, layer):
                continue  # the output that is tied to a table: PEFT writes its rows twice
            with _corrected(base, layer, folder) as target:
                grown = f"{PREFIX}{layer}{TABLE}"
                table = adapter.mapped(grown) if grown in adapter.shapes else base.mapped(target)
                self._merged[target] = with_rows(table, adapter.mapped(name), layer, config)
        for name in whole:
            self._merged[name.removeprefix(PREFIX)] = adapter.mapped(name).float()
        self.shapes |= {name: tuple(tensor.shape) for name, tensor in self._merged.items()}

    def mapped(self, name: str) -> Tensor:
        found = self._merged.get(name)
        return super().mapped(name).float() if found is None else found

    passing = mapped


def _targets(base: WeightFiles, layer: str) -> list[str]:
    return [name for name in base.shapes if f".{name}".endswith(f".{layer}.weight")]  # with a body's prefix


@contextmanager
def _corrected(base: WeightFiles, layer: str, folder: Path) -> Iterator[str]:
    """The name of the base's tensor that a correction of a layer is for, and what is wrong with it in one line."""
    targets = _targets(base, layer)
    lacking = f"{folder / ADAPTER} corrects {layer}, which its base or the other half of it lacks"
    if len(targets) != 1:
        raise ValueError(lacking)
    try:
        yield targets[0]
    except SafetensorError:
        raise ValueError(lacking) from None
    except (RuntimeError, IndexError):
        raise ValueError(f"{folder / ADAPTER}: the correction of {layer} is of another shape than it") from None


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds a correction of another model, and no weights of its own."""
    return has_file(folder / ADAPTER_CONFIG) and not any(has_file(folder / name) for name in WEIGHT_FILES)


class _SafetensorsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        with _explained(path):
            self.handle = safe_open(path, framework="pt")
            self.shapes = {name: tuple(self.handle.get_slice(name).get_shape()) for name in self.handle.keys()}  # noqa: SIM118

    def mapped(self, name: str) -> Tensor:
        return _read(self.handle, name)

    def passing(self, name: str) -> Tensor:
        with safe_open(self.path, framework="pt") as handle:
            return _read(handle, name)


def _read(handle: Any, name: str) -> Tensor:
    with torch.device("cpu"):  # whatever device new tensors are on: this one is in the mapped file
        return handle.get_tensor(name)  # type: ignore[no-any-return]


class _PickleFile:
    def __init__(self, path: Path) -> None:
        _check_archive(path)
        with _explained(path):
            tensors = _unpickle(path)
            if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
                raise ValueError("it does not hold a plain dict of tensors")
            for name, tensor in tensors.items():
                if tensor.layout is not torch.strided or tensor.nbytes > tensor.untyped_storage().nbytes():
                    raise ValueError(f"{name} claims {tensor.numel():,} numbers that the file does not hold")
        self.tensors: dict[str, Tensor] = tensors
        self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def mapped(self, name: str) -> Tensor:
        return self.tensors[name]

    def passing(self, name: str) -> Tensor:
        return self.tensors[name]


_File = _SafetensorsFile | _PickleFile


def _unpickle(path: Path) -> Any:
    """Tensors only: a pickle that would run code is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other pickle protocols: what cannot be read is an error anyway
        try:
            return torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        except RuntimeError as error:
            if "mmap" not in str(error):
                raise
            return torch.load(path, weights_only=True, map_location="cpu")  # the format before torch 1.6


def _check_archive(path: Path) -> None:
    """torch stores its archives unpacked; in a packed one a few bytes can stand for gigabytes."""
    size = unpacked = path.stat().st_size
    with _explained(path):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > size:
        raise ValueError(f"{path} is packed: {size:,} bytes that claim to be {unpacked:,}; save it with torch.save")


def _files(folder: Path) -> list[Path]:
    for name in WEIGHT_FILES:
        path = folder / name
        if has_file(path):
            return _shards(path) if name.endswith(INDEX) else [path]
    raise ValueError(f"{folder} holds no weights; looked for {', '.join(WEIGHT_FILES)}")


def _shards(index: Path) -> list[Path]:
    names = sorted(set(read_json(index, Index)["weight_map"].values()))
    if outside := [name for name in names if Path(name).name != name]:
        raise ValueError(f"{index} names files outside its folder: {some(outside)}")
    if long := next((name for name in names if len(os.fsencode(name)) > LONGEST_NAME), None):
        raise ValueError(f"{index} names a file by {len(long):,} characters, {shown(long)}: no file has such a name")
    if missing := [name for name in names if not has_file(index.parent / name)]:
        raise ValueError(f"{index} names {len(missing)} files that are not there: {some(missing)}")
    return [index.parent / name for name in names]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What is wrong with a file, in one line."""
    try:
        yield
    except pickle.UnpicklingError:
        raise ValueError(f"{path} holds more than tensors and was refused: loading it could run code") from None
    except Exception as error:  # what a damaged file makes torch and the unpickler raise is any of them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} cannot be read ({reason}); it may be cut short: fetch it again") from None
