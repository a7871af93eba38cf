"""What every reader owes, an account that adds up and errors of one line; and tables to read, written here."""

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zstandard

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: zstandard.ZstdCompressor(write_checksum=True).compress(content),
}


def balanced(read):
    """A reading whose rows are all either examples or counted skips; its account can be printed."""
    skipped = sum(tally.count for tally in read.report.skipped.values())
    assert sum(read.report.rows.values()) == len(read.examples) + skipped
    assert all(line and "\n" not in line for line in read.report.lines())
    return read


def skips(read) -> dict[str, tuple[int, int]]:
    """What was skipped: how often, and where first."""
    return {reason: (tally.count, tally.first.number) for reason, tally in balanced(read).report.skipped.items()}


def notes(read) -> dict[str, tuple[int, int]]:
    """What was noted: how often, and where first."""
    return {reason: (tally.count, tally.first.number) for reason, tally in balanced(read).report.noted.items()}


@contextmanager
def one_line_error(*parts: str) -> Iterator[None]:
    """A ValueError of one line with all these parts in it."""
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        yield
    message = str(raised.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def give_stdin(monkeypatch, content: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def written(tmp_path, content: str | bytes, name: str = "x.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def as_csv(rows, header=("text", "label"), **options) -> str:
    out = io.StringIO()
    csv.writer(out, **options).writerows([*([header] if header else []), *rows])
    return out.getvalue()


def as_jsonl(rows, names=("text", "label"), **options) -> str:
    return "".join(json.dumps(dict(zip(names, row, strict=True)), **options) + "\n" for row in rows)


def pairs(read):
    return [(one.text, one.label) for one in balanced(read).examples]
