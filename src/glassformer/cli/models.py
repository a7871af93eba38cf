"""`glassformer models`: which models are here."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import Json, echo, print_json, print_table, size


def models(
    folder: Annotated[Path, typer.Argument(help="Where to look for local models, two folders deep.")] = Path(),
    json: Json = False,
) -> None:
    """List the models in the cache and in local folders.

    Example: glassformer models runs/
    """
    from glassformer.hub.fetch import cache_folder

    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}")
    found = [_describe("cached", _cached_name(path), path) for path in _cached(cache_folder())]
    local = sorted({*folder.glob("config.json"), *folder.glob("*/config.json"), *folder.glob("*/*/config.json")})
    found += [_describe("local", str(path.parent), path.parent) for path in local]
    found = [model for model in found if model["model_type"]]
    if json:
        print_json(found)
    elif found:
        rows = [
            (
                m["name"],
                m["model_type"] if m["supported"] else f"{m['model_type']} (not supported)",
                m["head"],
                size(m["bytes"]),
                m["where"],
            )
            for m in found
        ]
        print_table(("name", "type", "class", "size", "where"), rows)
    else:
        echo(f"no models in {cache_folder()} or in {folder.resolve()}")


def _cached(cache: Path) -> list[Path]:
    """The newest snapshot of every cached model."""
    newest = []
    for repository in sorted(cache.glob("models--*")):
        snapshots = sorted(repository.glob("snapshots/*/config.json"), key=lambda path: path.lstat().st_mtime)
        newest += [snapshots[-1].parent] if snapshots else []
    return newest


def _cached_name(snapshot: Path) -> str:
    return snapshot.parent.parent.name.removeprefix("models--").replace("--", "/")


def _describe(where: str, name: str, folder: Path) -> dict[str, Any]:
    from glassformer.files import read_json
    from glassformer.hub.registry import ARCHITECTURES

    try:
        raw = read_json(folder / "config.json")
    except ValueError:
        raw = {}  # some other program's config.json
    weights = [path for pattern in ("*.safetensors", "pytorch_model*.bin") for path in folder.glob(pattern)]
    return {
        "name": name,
        "model_type": raw.get("model_type"),
        "head": ", ".join(raw.get("architectures") or []) or "-",
        "supported": str(raw.get("model_type")) in ARCHITECTURES,
        "bytes": sum(path.stat().st_size for path in weights),
        "where": where,
        "path": str(folder),
    }
