"""What every command says the same way: tables for people, json for machines."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.view.labels import escaped, escaped_json

Json = Annotated[bool, typer.Option("--json", help="One json object on stdout, for machines.")]
Columns = Annotated[list[str] | None, typer.Option(metavar="ROLE=NAME", help="Which column is what: text=review.")]
Data = Annotated[list[str], typer.Option(metavar="FILE", help="Files, globs, - for stdin, or microworld.")]
Device = Annotated[str | None, typer.Option(help="Where to run: cpu, cuda, mps.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; by default the folder's own.")]
Quant = Annotated[str | None, typer.Option(metavar="int8", help="8-bit weights: faster on a CPU, a little less exact.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the task.")]
TaskName = Annotated[str | None, typer.Option(help="The task; by default what the model's head is for.")]
Force = Annotated[bool, typer.Option("--force", help="Write over what this command wrote there before.")]
MARK = b"made by glassformer"  # near the beginning of every page and picture
Name = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, zoo:NAME, or a name on the hub.")]


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Everything that a command says goes out here: lines as they are, and no control character but their ends."""
    typer.echo(escaped(str(text), keep="\n\t"), err=err, nl=nl)


def echo_line(text: object, *, err: bool = False) -> None:
    """What must stay on one line, whatever is in it."""
    typer.echo(escaped(str(text)), err=err)


def as_json(value: object) -> str:
    """JSON on one line; what it may hold as it is and a terminal would obey is spelt as JSON spells it."""
    return escaped_json(json.dumps(value, ensure_ascii=False, default=float))


def print_json(value: object) -> None:
    typer.echo(as_json(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; columns of numbers are aligned to the right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    listed = [[escaped(str(cell)) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        cells = [row[number] for row in listed if row[number] not in ("", "-")]  # what is not known is of any kind
        numeric = bool(cells) and all(cell.strip("+-%")[:1].isdigit() for cell in cells)
        table.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(escape(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 1000).print(table)  # nothing is wrapped on its way into a file


def out_file(out: str, *, force: bool = False) -> Path:
    """The file that --out names; unless by `force`, refused where it is one that this program did not make."""
    path = Path(out)
    if not out.strip():
        raise ValueError("--out is empty, perhaps a variable that is not set: name a file")
    if path.is_dir():
        raise ValueError(f"--out {out} is a folder: name a file")
    if not force and path.exists() and path.stat().st_size and not _is_ours(path):
        raise ValueError(f"{out} is there already and would be lost: choose another --out, or delete it")
    return path


def _is_ours(path: Path) -> bool:
    """Whether a page or a picture says who made it, as all of ours do; plain lines never say."""
    with path.open("rb") as file:
        return MARK in file.read(2000)


def made_ready(out: str, *, force: bool = False) -> Path:
    """A file that can be written, in a folder that is there: found out before the work, not after it."""
    path = out_file(out, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("a").close()
    return path


def size(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
