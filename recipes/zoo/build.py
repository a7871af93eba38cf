"""Builds the zoo: `make zoo`, or one model with `make zoo ONLY=lstm-sentiment`; what is built and unchanged stays.

Every model of cards.toml in turn: its data is parted (splits.py), it is trained by its recipe, packed, scored on what
was held out, and written with its card to src/glassformer/zoo.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from os.path import expandvars
from pathlib import Path
from typing import Any

import choices
import conditions
from pack import baseline, pack, scores
from splits import SETS, prepare

from glassformer.files import read_json, read_toml
from glassformer.jobs.recipe import read_recipe, write_toml
from glassformer.zoo import CARD, HOME, PREFIX, read_card, sha256

HERE = Path(__file__).parent
RUNS = Path("runs/zoo")
PREPARED = RUNS / "data"
FIELDS = ("also", "about", "languages", "examples", "default", "base")  # of cards.toml, that cards have as they are


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the models of the zoo.")
    parser.add_argument("names", nargs="*", help="which; all by default")
    parser.add_argument("--data", default=os.environ.get("GLASSFORMER_DATA", "../shared/data"), type=Path)
    parser.add_argument("--home", default=HOME, type=Path, help="where the models are written")
    parser.add_argument("--prepare", action="store_true", help="part the data, and do no more")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the recipe")
    given = parser.parse_args()
    about = read_toml(HERE / "cards.toml")
    if wrong := [name for name in given.names if name not in about]:
        raise SystemExit(f"there is no {wrong[0]} in {HERE / 'cards.toml'}; there are: {', '.join(about)}")
    wanted = {one for name in given.names for one in (name, about[name].get("base", name).removeprefix(PREFIX))}
    names = [name for name in about if not wanted or name in wanted]
    os.environ["GLASSFORMER_DATA"] = str(given.data.absolute())
    prepare(given.data, PREPARED, needed(names, about))
    if given.prepare:
        return
    for name in names:
        build(name, about[name], given.home, given.set)


def needed(names: Sequence[str], about: dict[str, Any]) -> set[str]:
    """The sets of splits.py that the recipes of these models, and what they are scored on, read."""
    files = [file for name in names for file in _files(read_recipe(HERE / f"{name}.toml"))]
    files += [one["file"] for name in names for one in about[name].get("elsewhere", {}).values()]
    files += [file for name in names for file in about[name].get("choices", {}).values()]
    return {name for name in SETS if any(Path(file).is_relative_to(PREPARED / name) for file in files)}


def _files(recipe: dict[str, Any]) -> list[str]:
    listed = [recipe[name] for name in ("data", "dev", "test") if name in recipe]
    return [file for one in listed for file in ([one] if isinstance(one, str) else one)]


def build(name: str, about: dict[str, Any], home: Path, settings: Sequence[str]) -> None:
    recipe, place, run = HERE / f"{name}.toml", home / name, RUNS / name
    made_of = fingerprint(recipe, about.get("base"), home, settings)
    if (place / CARD).is_file() and read_card(place / CARD)["recipe"]["sha256"] == made_of:
        before = {one: value for one, value in read_card(place / CARD).items() if one not in FIELDS}
        if "choices" not in before:
            before |= chosen(place, about)
        write_card(place, {**told(name, before["task"], about), **before})
        print(f"{name}: built, and unchanged", flush=True)
        return
    train(recipe, run, made_of, settings)
    pack(run, place, about.get("base"))
    for path in place.rglob("*.safetensors"):
        path.chmod(0o644)  # whoever installs the package may not be who reads it
    card = card_of(name, about, place, run)
    card["recipe"] = {"file": f"recipes/zoo/{name}.toml", "sha256": made_of}
    card["files"] = {p.relative_to(place).as_posix(): sha256(p) for p in sorted(place.rglob("*")) if p.is_file()}
    write_card(place, card)
    print(f"{name}: {card['metric']} {card['score']:.4g}, {card['baseline']:.4g} {card['baseline_of']}", flush=True)


def told(name: str, task: str, about: dict[str, Any]) -> dict[str, Any]:
    """How a card begins: with what cards.toml says, which may change without a new model."""
    return {"name": name, "task": task, **{one: about[one] for one in FIELDS if one in about}}


def write_card(place: Path, card: dict[str, Any]) -> None:
    (place / CARD).write_text(write_toml(card), "utf-8")
    read_card(place / CARD)


def fingerprint(recipe: Path, base: str | None, home: Path, settings: Sequence[str]) -> str:
    """Changes with the recipe and with the model that it starts from."""
    parts = [recipe.read_bytes(), *(one.encode() for one in settings)]
    if base is not None:
        parts.append(repr(read_card(home / base.removeprefix(PREFIX) / CARD)["files"]).encode())
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def train(recipe: Path, run: Path, made_of: str, settings: Sequence[str]) -> None:
    """By the command, so that what is here is what anyone can do; a run that was broken off goes on."""
    known = run.with_suffix(".sha256")
    if not known.is_file() or known.read_text() != made_of:
        shutil.rmtree(run, ignore_errors=True)  # of another recipe
    if (run / "run.json").is_file():
        return
    run.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(made_of)
    command = [sys.executable, "-m", "glassformer", "train", str(recipe), "--out", str(run)]
    command += [word for one in settings for word in ("--set", one)]
    command += ["--resume"] if any(run.glob("checkpoints/*")) else []
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{run.name}: training ended with {code}; the same command goes on with it")


def card_of(name: str, about: dict[str, Any], place: Path, run: Path) -> dict[str, Any]:
    """The card but for its files, with the scores of the folder as it is shipped."""
    recipe = read_recipe(run / "recipe.toml")
    test, metric = recipe["test"], about["metric"]
    found, (low, low_of) = scores(place, test), baseline(place, test, metric)
    card = told(name, recipe["task"], about) | {
        "parameters": read_json(run / "run.json")["parameters"],
        "bytes": sum(path.stat().st_size for path in place.rglob("*") if path.is_file()),
        "metric": metric,
        "score": round(found[metric], 5),
        "baseline": round(low, 5),
        "baseline_of": low_of,
        "seed": recipe.get("seed", 0),
        "command": f"make zoo ONLY={name}",
        "data": {**about["data"], "test": ", ".join(test)},
        "scores": {one: round(value, 5) for one, value in found.items()},
    }
    if "elsewhere" in about:
        card["elsewhere"] = {
            what: round(scores(place, [expandvars(one["file"])], **one.get("options", {}))[one["metric"]], 5)
            for what, one in about["elsewhere"].items()
        }
    if about.get("conditions"):
        found = conditions.worth(place, test, base=about["base"])
        card["conditions"] = {what: round(value, 5) for what, value in found.items()}
    return card | chosen(place, about)


def chosen(place: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What a model is worth that chooses among labels."""
    if "choices" not in about:
        return {}
    found = choices.worth(place, about["choices"])
    return {"choices": {what: round(value, 5) for what, value in found.items()}}


if __name__ == "__main__":
    main()
