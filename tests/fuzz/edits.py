"""Edits of files: each is plain data, so that one that broke something can be kept as a line of json."""

import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.jobs.recipe import write_toml

Edit = dict[str, Any]
"""{"file", "path", "value"} puts a value at a path of a json or toml file; {"file", "path", "drop": true} takes it
out; {"file", "bytes": [[place, byte], …]}, {"file", "cut": length} and {"file", "insert": [place, text]} change bytes;
{"file", "remove": true} takes the file away."""

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1.5, -0.5, 1e-30, 1e308, float("nan"), float("inf")),
    *(2**31, 2**32 - 1, 2**63, 10**9, 10**30, -(2**63), 5000, 100_000),
    *(
        "",
        "x",
        "1",
        "-1",
        "none",
        "yes",
        "true",
        "\ud800",
        "\x00",
        "\x1b[31m",
        "a" * 3000,
        "[PAD]",
        "text",
        "bert",
        "/",
    ),
    *([], [1], ["a"], [None], [[]], [[1, 2]], {}, {"a": 1}, {"0": "a"}, {"content": 3}, {"a": {"b": [1]}}, DEEP),
)


def apply(edit: Edit, folder: Path) -> None:
    """Change a file of a folder."""
    file = folder / edit["file"]
    if edit.get("remove"):
        file.unlink()
    elif "path" in edit:
        _write(file, _changed(_read(file), edit))
    else:
        content = bytearray(file.read_bytes())
        if "cut" in edit:
            content = content[: edit["cut"]]
        if "insert" in edit:
            place, text = edit["insert"]
            content[place:place] = text.encode("utf-8", "surrogatepass")
        for place, byte in edit.get("bytes", ()):
            content[place] = byte
        file.write_bytes(content)


def drawn(chance: random.Random, folder: Path, files: list[str]) -> Edit:
    """A random edit of one of the files."""
    name = chance.choice(files)
    file = folder / name
    size = file.stat().st_size
    structured = file.suffix in (".json", ".toml")
    if structured and chance.random() < 0.85:
        value = _read(file)
        path = chance.choice(list(_paths(value))[:4000])
        if path and chance.random() < 0.15:
            return {"file": name, "path": path, "drop": True}
        return {"file": name, "path": path, "value": chance.choice(ODD)}
    kind = chance.choice(["bytes", "bytes", "cut", "insert"])
    within = chance.choice([size, min(size, 400)])  # a file's head is where most can go wrong
    if kind == "cut":
        return {"file": name, "cut": chance.randrange(size + 1)}
    if kind == "insert":
        text = chance.choice(
            ["\x00", '"', ",", "\t", "\n", "\r", "{", "[", "]]", "\ufeff", "￿", "9" * 50, "e", " " * 20, '""']
        )
        return {"file": name, "insert": [chance.randrange(within + 1), text]}
    count = chance.choice([1, 1, 3, 20])
    return {
        "file": name,
        "bytes": [[chance.randrange(within), chance.randrange(256)] for _ in range(count if within else 0)],
    }


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    """Every place in a value, from the outside in."""
    waiting = [(before, value)]
    for path, inner in waiting:
        yield list(path)
        children = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        waiting.extend(((*path, key), child) for key, child in list(children)[:60])


def _changed(value: Any, edit: Edit) -> Any:
    *way, last = edit["path"] or [None]
    if not edit["path"]:
        return edit["value"]
    holder = value
    for key in way:
        holder = holder[key]
    if edit.get("drop"):
        del holder[last]
    else:
        holder[last] = edit["value"]
    return value


def _read(file: Path) -> Any:
    text = file.read_text("utf-8")
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


def _write(file: Path, value: Any) -> None:
    if file.suffix != ".toml":
        file.write_text(json.dumps(value), "utf-8")
    else:
        file.write_text(write_toml(value) if isinstance(value, dict) else str(value), "utf-8", "replace")
