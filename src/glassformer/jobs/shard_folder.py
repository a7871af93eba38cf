"""The folder of a prediction over many files: a file for each that was read, and which of them are finished.

_predict.json says what is predicted and how; _done/NAME.json of each finished file what it was made of. Names that
begin with _ are passed over by whoever reads the folder as one table (pyarrow, Spark, DuckDB, pandas).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from os.path import commonpath
from pathlib import Path
from typing import Any

from glassformer.data.listing import listed_files
from glassformer.data.row_files import RowFormat
from glassformer.data.rows import EXTENSIONS
from glassformer.data.shard_writer import digest, identity_of
from glassformer.data.source import COMPRESSED, DataSource
from glassformer.files import read_json, write_json
from glassformer.files.writing import PARTIAL
from glassformer.hub.fetch import config_folder

from .run_folder import LOCK, locked

SETTINGS, DONE = "_predict.json", "_done"
MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model", ".spm")  # weights, config and vocabulary
KEPT: Mapping[str, RowFormat] = {"csv": "csv", "tsv": "tsv", "parquet": "parquet"}  # anything else becomes jsonl


@dataclass(frozen=True)
class InputFile:
    """A file to be predicted, the file that its rows go to, and what tells it from what it was before."""

    source: DataSource
    output: str  # below the folder
    form: RowFormat
    size: int
    identity: str


@dataclass(frozen=True)
class FinishedFile:
    """What is kept of a file that is finished."""

    identity: str
    rows: int
    errors: int


def input_files(sources: Sequence[str], form: RowFormat | None = None) -> list[InputFile]:
    """The files that names, globs and addresses stand for, each once; outputs are named as they are, below the folder
    that they have in common. Two that would be written to one file are refused."""
    found = {one.source.name: one for one in listed_files(sources)}
    parents = [str(Path(name).parent) for name in found]
    base = parents[0] if len(set(parents)) == 1 else commonpath(parents)
    files: dict[str, InputFile] = {}
    for name, (source, size, identity) in found.items():
        own = form or KEPT.get(EXTENSIONS.get(source.extension, ""), "jsonl")
        output = str(_without_ending(Path(name).relative_to(base))) + f".{own}"
        if output in files:
            other = files[output].source.name
            raise ValueError(f"{other} and {name} would both be written to {output}: give them in two runs")
        files[output] = InputFile(source, output, own, size, identity)
    return list(files.values())


def _without_ending(path: Path) -> Path:
    name = path
    while name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    return name.with_suffix("") if name.suffix.removeprefix(".").lower() in (*EXTENSIONS, "txt") else name


def model_identity(model: str) -> str:
    """What tells a model from one that is called the same: the files of a folder, the snapshot of a name on a hub."""
    folder = config_folder(model)
    if not Path(model).is_dir():
        return str(folder.resolve())
    return digest(identity_of(sorted(path for path in folder.iterdir() if path.suffix in MODEL_FILES)).encode())


class ShardFolder:
    """Where the outputs are. `settings` are what decides them: a folder that was begun with others is refused."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, dict(settings)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The folder, made if need be, and nobody else's until the end; what a killed run left half is taken away."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"--out {self.path} is a file: name a folder")
        self._check()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.path):
                write_json(self.path / SETTINGS, self.settings)
                for half in self.path.rglob(f".*{PARTIAL}"):
                    half.unlink()
                yield
        except ValueError:
            if not self._begun():  # of a run that was refused nothing stays
                (self.path / SETTINGS).unlink(missing_ok=True)
                with suppress(OSError):
                    self.path.rmdir()
            raise

    def _check(self) -> None:
        there = {one.name for one in self.path.iterdir()} - {LOCK} if self.path.is_dir() else set[str]()
        if there and SETTINGS not in there:
            raise ValueError(f"--out {self.path} holds other files, as {min(there)}: name a new or an empty folder")
        if not self._begun():
            return
        before: dict[str, Any] = read_json(self.path / SETTINGS)
        for name in {**before, **self.settings}:
            if before.get(name) != self.settings.get(name):
                difference = f"{name} was {before.get(name)!r} and is {self.settings.get(name)!r}"
                raise ValueError(f"--out {self.path} holds other predictions ({difference}): choose another --out")

    def _begun(self) -> bool:
        """Whether a file is finished."""
        return next((self.path / DONE).rglob("*.json"), None) is not None

    def finished(self, file: InputFile) -> FinishedFile | None:
        """What was kept of a file; None where it is not finished, or has changed since."""
        record = self._record(file)
        if not (record.is_file() and (self.path / file.output).is_file()):
            return None
        kept = FinishedFile(**read_json(record))
        return kept if kept.identity == file.identity else None

    def finish(self, file: InputFile, *, rows: int, errors: int) -> None:
        """Keep that a file is whole: its output stands there already."""
        record = self._record(file)
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, asdict(FinishedFile(file.identity, rows, errors)))

    def _record(self, file: InputFile) -> Path:
        return self.path / DONE / f"{file.output}.json"
