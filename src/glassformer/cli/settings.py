"""What can be set and what it means, from settings.json, which `make docs` writes: help needs no torch to tell it."""

import json
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

import typer

FILE = Path(__file__).with_name("settings.json")
TITLES = {
    "run": "Run",
    "data": "Data",
    "model": "Model",
    "tokenizer": "Tokenizer",
    "training": "Training",
    "processes": "Many processes, under torchrun",
    "evaluation": "Evaluation and checkpoints",
    "own": "Of this task",
}


class Setting(TypedDict):
    """One setting, as it is shown."""

    group: str
    type: str
    default: str
    meaning: str


class TaskSettingsFile(TypedDict):
    """What is a task's own: its settings, and what it says otherwise of those of every run."""

    about: str
    own: dict[str, Setting]
    defaults: dict[str, str]
    meanings: dict[str, str]


class SettingsFile(TypedDict):
    """The whole of settings.json."""

    common: dict[str, Setting]
    tasks: dict[str, TaskSettingsFile]
    generation: dict[str, Setting]


@cache
def known() -> SettingsFile:
    found: SettingsFile = json.loads(FILE.read_text("utf-8"))
    return found


def grouped(task: str) -> dict[str, dict[str, Setting]]:
    """All settings of a run of this task, by group."""
    of = known()["tasks"][task]
    found: dict[str, dict[str, Setting]] = {group: {} for group in TITLES}
    for name, one in {**known()["common"], **of["own"]}.items():
        default, meaning = of["defaults"].get(name, one["default"]), of["meanings"].get(name, one["meaning"])
        found[one["group"]][name] = {**one, "default": default, "meaning": meaning}
    return {group: some for group, some in found.items() if some}


def run_option(name: str, *spelt: str, **more: Any) -> Any:
    """A command's option for a setting of a run: its help is the setting's meaning."""
    one = known()["common"].get(name) or known()["tasks"]["text-classification"]["own"][name]
    return typer.Option(*spelt, help=one["meaning"], rich_help_panel=TITLES[one["group"]], **more)


def generation_option(name: str, *spelt: str, **more: Any) -> Any:
    """A command's option for a setting of generation."""
    return typer.Option(*spelt, help=known()["generation"][name]["meaning"], **more)
