"""Prediction over many files: chunks of rows go to a pool of predictors, and come back into one file for each that was
read, in the order of its rows, one row for each; what is finished is not done again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from glassformer.data.arrow import one_line, parquet_schema
from glassformer.data.input_rows import PARQUET, InputColumns, InputRow, InputTable, RowReport, open_inputs
from glassformer.data.listing import opened_here
from glassformer.data.row_files import WRITERS, OutputRow
from glassformer.data.source import row_size
from glassformer.files import replacing

from .pools import DeadWorkers, Pool
from .predictor import Prediction
from .shard_folder import InputFile, ShardFolder

CHUNK = 256  # rows: enough for full batches, few enough to be lost
AHEAD = 4  # chunks for each predictor that wait or are worked at, so that none has nothing to do
LOOKED_AT = 8  # pieces, before anything is begun: where no file can be read, the columns are wrong, not the files
SAMPLED = 4  # rows of which the first result is one such as all have
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows are read, and written again."""

    wanted: InputColumns
    columns: Mapping[str, str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # file_format, header
    guard: bool = True


@dataclass
class FileTally:
    """Rows that were written, and those among them that could not be predicted."""

    rows: int = 0
    errors: int = 0
    first_error: str | None = None

    def add(self, rows: Sequence[OutputRow]) -> None:
        wrong = [row.error for row in rows if row.error is not None]
        self.rows, self.errors = self.rows + len(rows), self.errors + len(wrong)
        self.first_error = self.first_error or next(iter(wrong), None)


@dataclass
class PredictOutcome:
    """What came of it. `failed`: files that could not be read or written, and why."""

    files: int = 0
    kept: int = 0  # files that were finished before
    rows: int = 0
    errors: int = 0
    first_error: str | None = None
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, one: FileTally) -> None:
        self.rows, self.errors = self.rows + one.rows, self.errors + one.errors
        self.first_error = self.first_error or one.first_error


class FilePiece(NamedTuple):
    """Some rows of a file; of one without rows an empty piece. `failure`: why no more of the file can be read."""

    file: InputFile
    rows: Sequence[InputRow] = ()
    columns: Sequence[str] = ()
    schema: Any = None  # of parquet
    failure: str | None = None


Answered = tuple[FilePiece, list[Prediction]]


def predict_files(
    files: Sequence[InputFile],
    folder: ShardFolder,
    reading: Reading,
    start_pool: Callable[[], Pool],
    *,
    report: RowReport,
    on_progress: OnProgress = lambda _done, _total: None,
) -> PredictOutcome:
    """Predict every file that is not finished. A row that cannot be predicted has its error beside it; a file that
    cannot be read is in `failed`, and the others go on. The pool is started when there is something for it to do."""
    kept = {file.output: folder.finished(file) for file in files}
    todo = [file for file in files if kept[file.output] is None]
    before = [one for one in kept.values() if one is not None]
    outcome = PredictOutcome(
        len(files), len(before), sum(one.rows for one in before), sum(one.errors for one in before)
    )
    first, pieces = _looked_at(_pieces(todo, reading, report))
    if not first:
        return outcome
    pool = start_pool()
    try:
        output = _Output(folder, reading.guard, _sample(first, pool), _Progress(todo, on_progress))
        output.gather(_answered(pieces, pool), outcome)
    except DeadWorkers as error:
        raise ValueError(str(error)) from None
    finally:
        pool.close()
    return outcome


def _answered(pieces: Iterable[FilePiece], pool: Pool) -> Iterator[Answered]:
    """Pieces in their order, each with the predictions of its rows; some wait, so that every predictor is busy."""
    waiting: deque[tuple[FilePiece, Any]] = deque()
    for piece in pieces:
        waiting.append((piece, pool.submit(_asked(piece))))
        if len(waiting) > AHEAD * pool.size:
            piece, chunk = waiting.popleft()
            yield piece, pool.result(chunk)
    for piece, chunk in waiting:
        yield piece, pool.result(chunk)


class _Output(NamedTuple):
    """Where rows go with what was predicted of them: into files, each of which appears whole, or not at all."""

    folder: ShardFolder
    guard: bool
    sample: object
    progress: "_Progress"

    def gather(self, answered: Iterator[Answered], outcome: PredictOutcome) -> None:
        for file, group in groupby(answered, key=lambda one: one[0].file):
            try:
                tally = self._write(file, group)
            except (ValueError, OSError) as error:
                outcome.failed[file.source.name] = one_line(error)
            else:
                self.folder.finish(file, rows=tally.rows, errors=tally.errors)
                outcome.add(tally)
            self.progress.ended(file)

    def _write(self, file: InputFile, answered: Iterator[Answered]) -> FileTally:
        """The output of a file, from its first piece to its last."""
        path, tally, writer = self.folder.path / file.output, FileTally(), None
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, ExitStack() as stack:
            for piece, predictions in answered:
                if piece.failure is not None:
                    raise ValueError(piece.failure)
                if writer is None:
                    options = {"sample": self.sample, "guard": self.guard, "schema": piece.schema}
                    writer = stack.enter_context(closing(WRITERS[file.form](partial, piece.columns, **options)))
                rows = _joined(piece.rows, predictions)
                writer.add(rows)
                tally.add(rows)
                self.progress.moved(rows)
            assert writer is not None  # a file without rows is a piece as well
            writer.finish()
        return tally


def _joined(rows: Sequence[InputRow], predictions: Sequence[Prediction]) -> list[OutputRow]:
    """Each row with its prediction; those of which nothing could be asked have none."""
    asked = [row for row in rows if row.error is None]
    found = {id(row): one for row, one in zip(asked, predictions, strict=True)}
    return [
        OutputRow(row.cells, *found[id(row)]) if row.error is None else OutputRow(row.cells, None, row.error)
        for row in rows
    ]


class _Progress:
    """How much of the files is read, told in bytes: of the file at hand about as many as its rows have characters."""

    def __init__(self, files: Sequence[InputFile], on_progress: OnProgress) -> None:
        self.on_progress, self.total = on_progress, sum(file.size for file in files)
        self.before = self.now = 0

    def moved(self, rows: Sequence[OutputRow]) -> None:
        self.now += sum(row_size(row.cells) for row in rows)
        self.on_progress(min(self.total, self.before + self.now), self.total)

    def ended(self, file: InputFile) -> None:
        self.before, self.now = self.before + file.size, 0
        self.on_progress(self.before, self.total)


def _looked_at(pieces: Iterator[FilePiece]) -> tuple[list[FilePiece], Iterator[FilePiece]]:
    """The first pieces, up to one of which something can be asked, and all; where no file can be read, why."""
    first: list[FilePiece] = []
    for piece in islice(pieces, LOOKED_AT):
        first.append(piece)
        if _asked(piece):
            break
    failures = [piece.failure for piece in first if piece.failure is not None]
    if first and len(failures) == len(first):
        raise ValueError(failures[0])
    return first, chain(first, pieces)


def _asked(piece: FilePiece) -> list[object]:
    return [row.asked for row in piece.rows if row.error is None]


def _sample(first: Sequence[FilePiece], pool: Pool) -> Any:
    """A result, for the columns that all outputs are to have; None where there is none yet."""
    asked = [one for piece in first for one in _asked(piece)][:SAMPLED]
    return next((one.found for one in pool.result(pool.submit(asked)) if one.error is None), None)


def _pieces(files: Sequence[InputFile], reading: Reading, report: RowReport) -> Iterator[FilePiece]:
    for file in files:
        try:
            with ExitStack() as stack:
                yield from _pieces_of(file, _opened(file, reading, report, stack))
        except (ValueError, OSError) as error:
            yield FilePiece(file, failure=one_line(error))


def _opened(file: InputFile, reading: Reading, report: RowReport, stack: ExitStack) -> tuple[InputTable, Any]:
    source = stack.enter_context(opened_here(file.source))
    assert source.path is not None
    table = open_inputs(source, reading.wanted, report, columns=reading.columns, **reading.options)
    kept = file.form == "parquet" and source.extension in PARQUET
    return table, parquet_schema(source.path) if kept else None


def _pieces_of(file: InputFile, opened: tuple[InputTable, Any]) -> Iterator[FilePiece]:
    table, schema = opened
    rows = list(islice(table.rows, CHUNK))
    while True:
        yield FilePiece(file, rows, table.columns, schema)
        if not (rows := list(islice(table.rows, CHUNK))):
            return
