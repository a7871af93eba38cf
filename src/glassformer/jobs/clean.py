"""A corpus cleaned: documents are streamed from files of any kind to one jsonl file, whole or not at all."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO, get_args

from glassformer.data.cleaning import Cleaner
from glassformer.data.corpus import counted
from glassformer.data.documents import Unit, stream_documents
from glassformer.data.source import resolve
from glassformer.files.writing import replacing

from .progress import shown


def clean_corpus(
    cleaner: Cleaner,
    sources: Sequence[str],
    out: Path,
    *,
    unit: str = "block",
    columns: Mapping[str, str] | None = None,
    dropped: Path | None = None,
) -> None:
    """Write what stays to `out`, one JSON object a line, and what does not to `dropped`, with the reason."""
    found = resolve(sources, labels=True, folder="txt")
    for path in filter(None, (out, dropped)):
        if path.suffix != ".jsonl":
            raise ValueError(f"{path} is to be a jsonl file: let its name end in .jsonl")
        if path.exists():
            raise ValueError(f"{path} is there already: choose another name, or delete it")
    if out == dropped:
        raise ValueError(f"{out} is named twice: what stays and what is left out go to two files")
    if unit not in get_args(Unit):
        raise ValueError(f"--unit {unit} is not known: use one of {', '.join(get_args(Unit))}")
    size = sum(one.path.stat().st_size for one in found if one.path is not None)
    kind: Any = unit
    with ExitStack() as stack, shown("cleaning") as on_progress:
        files = {path: _opened(stack, path) for path in filter(None, (out, dropped))}
        documents = counted(stream_documents(sources, columns, unit=kind), size, on_progress)
        for one, reason in cleaner(documents):
            label = {} if one.label is None else {"label": one.label}
            if reason is None:
                _write(files[out], {"text": one.text, **label})
            elif dropped is not None:
                _write(files[dropped], {"reason": reason, "text": one.text, **label})


def _opened(stack: ExitStack, path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = stack.enter_context(replacing(path))
    return stack.enter_context(partial.open("w", encoding="utf-8"))


def _write(file: TextIO, row: Mapping[str, Any]) -> None:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
