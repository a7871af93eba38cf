"""A Hugging Face folder: the names of its files, and its json read with care and written atomically."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONFIG = "config.json"
GENERATION = "generation_config.json"
SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
INDEX = ".index.json"
WEIGHT_FILES = (SAFETENSORS, SAFETENSORS + INDEX, PICKLE, PICKLE + INDEX)  # in order of preference


def read_json(path: Path) -> dict[str, Any]:
    """A json object, or an error that names the file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid json: {error}") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{path} must hold a json object, not a {type(raw).__name__}")
    return raw


def write_json(path: Path, raw: dict[str, Any]) -> None:
    text = json.dumps(raw, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file, then take its place in one step: never half a file, and mapped readers keep theirs."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
