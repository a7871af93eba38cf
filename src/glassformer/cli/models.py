"""`glassformer models`: which models are here."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.zoo import PREFIX, Card, card_of, folder_of, is_built_in, score_of, zoo

from .output import Json, echo, print_json, print_table, size


def models(
    where: Annotated[
        str, typer.Argument(metavar="FOLDER|NAME", help="Where to look, two folders deep; or zoo:NAME for its card.")
    ] = ".",
    json: Json = False,
) -> None:
    """List the built-in models, and those in the cache and in local folders.

    Example: glassformer models runs/
    One of them in full: glassformer models zoo:lstm-sentiment
    """
    from glassformer.hub.fetch import cache_folder

    folder = Path(where)
    if is_built_in(where) or (not folder.is_dir() and where in {card["name"] for card in zoo()}):
        _show_card(card_of(where), json=json)
        return
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}, and no built-in model of that name")
    built_in = [_built_in(card) for card in zoo()]
    found = [_describe("cached", _cached_name(path), path) for path in _cached(cache_folder())]
    local = sorted({*folder.glob("config.json"), *folder.glob("*/config.json"), *folder.glob("*/*/config.json")})
    found += [_describe("local", str(path.parent), path.parent) for path in local]
    found = [model for model in found if model["model_type"]]
    if json:
        print_json(built_in + found)
        return
    if built_in:
        shipped = [(m["name"], m["task"], size(m["bytes"]), m["score"], m["data"], m["licence"]) for m in built_in]
        print_table(("name", "task", "size", "score", "data", "licence"), shipped)
        echo()
    if found:
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
    elif not built_in:
        echo(f"no models in {cache_folder()} or in {folder.resolve()}")


def _built_in(card: Card) -> dict[str, Any]:
    """What the list says of a built-in model."""
    return {
        "name": PREFIX + card["name"],
        "task": card["task"],
        "languages": card["languages"],
        "bytes": card["bytes"],
        "score": score_of(card),
        "data": card["data"]["text"],
        "licence": card["data"]["licence"],
        "where": "built-in",
        "path": str(folder_of(card["name"])),
    }


def _show_card(card: Card, *, json: bool) -> None:
    """Everything that is known of a built-in model."""
    if json:
        print_json(card)
        return
    rows: list[tuple[str, object]] = []
    for name, value in card.items():
        if name == "examples":
            rows += [("example", " | ".join(one.values())) for one in card["examples"]]
        elif isinstance(value, dict):
            rows += [(f"{name}: {key}", one) for key, one in value.items()]
        else:
            rows.append((name, ", ".join(value) if isinstance(value, list) else value))
    print_table(("what", "value"), rows)


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
