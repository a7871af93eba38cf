"""The small files of a tokenizer folder: read with errors that name them, written whole or not at all."""

import json
import os
import threading
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is no file."""
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}): download or write it again") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, not a JSON object: download or write it again")
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, with letters of every script as they are."""
    write_atomically(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, then move it there: a reader sees the old one or the new one."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
