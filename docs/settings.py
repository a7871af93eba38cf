"""What can be set, read from where it is carried out: each setting with its type, its default and its meaning.

The meaning of a field stands under it (plan, recipe, generation), that of a task's setting in a docstring's `Args:`.
"""

import ast
import inspect
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from textwrap import dedent, fill
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from torch import nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.cli.settings import Setting, SettingsFile, TaskSettingsFile
from glassformer.files.schema import Bounds, TokenId, hints_of
from glassformer.generate.settings import GenerationSettings
from glassformer.jobs.defaults import defaults
from glassformer.jobs.models import able
from glassformer.jobs.recipe import MANY, NOT_FLAT, Recipe, task_options
from glassformer.jobs.tasks import TASKS, task_class
from glassformer.tasks.task import AnyTask, call_options, takes_settings
from glassformer.train.plan import Plan

GROUPS = {
    "run": "out device tensorboard",
    "data": "data weights dev test columns limit",
    "model": "model arch config freeze lora lora_targets",
    "tokenizer": "tokenizer vocab_size lowercase",
    "training": "epochs steps batch_size batch_tokens shuffle_window accumulate lr schedule warmup final_lr optimiser "
    "weight_decay beta1 beta2 eps momentum clip layer_decay precision compile checkpointing ema average seed",
    "processes": "parallel tensor_parallel context_parallel shard_size min_num_params reshard offload deadline",
    "evaluation": "metric eval_every patience keep save_every save_minutes log_every",
}
ENTRY = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)  # of a docstring's Args
KEY = re.compile(r'^( {4}(\w+): .+)(?:\n {4}"""(?:[^"]|"(?!""))*""")?$', re.MULTILINE)  # with what is said of it
LINE = 110  # of a docstring, between its quotes
MILLION = 1_000_000
FAR = 10_000_000  # a bound beyond it is no news
FINE_TUNED = [nn.Linear(size * MILLION, 1, bias=False, device="meta") for size in (10, 20, 40, 100)]
FRESH = [nn.Sequential(MultiHeadAttention(4, 1)), nn.LSTM(2, 2), nn.Embedding(2, 2)]
FRESH += [nn.Linear(40 * MILLION, 1, bias=False, device="meta")]


def field_meanings(cls: type) -> dict[str, str]:
    """The strings under the fields of a class."""
    (tree,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def told(cls: type, method: str) -> dict[str, str]:
    """What the docstrings of a method say of its arguments, the nearest class first; "Returns" is what it gives."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        text = inspect.cleandoc(getattr(vars(base).get(method), "__doc__", None) or "")
        _, _, listed = text.partition("Args:\n")
        listed, _, given = listed.partition("\n\nReturns:\n")
        entries = {name: " ".join(meaning.split()) for name, meaning in ENTRY.findall(listed)}
        found = {**entries, **({"Returns": " ".join(given.split())} if given else {}), **found}
    return found


def kind(hint: Any) -> str:
    """A hint in few words."""
    origin, args = get_origin(hint), get_args(hint)
    if hint == TokenId:
        return "id"
    if origin is Annotated:
        return kind(args[0]) + "".join(bounded(one) for one in args[1:] if isinstance(one, Bounds))
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(kind(one) for one in args if one is not types.NoneType)
        return (" | " if any("|" in one for one in kinds) else " or ").join(kinds)
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is tuple and args[-1] is not ...:
        return f"[{', '.join(map(kind, args))}]"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    if origin is not None and issubclass(origin, Iterable):
        inner = kind(args[0])
        return "ids" if inner == "id" else f"list of ({inner})" if " or " in inner else f"list of {inner}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(one.value for one in hint)
    named = {str: "text", bool: "true | false", nn.Module: "model", Path: "path"}
    return named.get(hint, hint.__name__)


def bounded(bounds: Bounds) -> str:
    least = f" {'>' if bounds.above else '≥'} {bounds.least}" if bounds.least > -FAR else ""
    if bounds.most > FAR or bounds.most == math.inf:
        return least
    return f"{least}, < {bounds.most}" if bounds.below else f" {bounds.least} to {bounds.most}"


def shown(value: object) -> str:
    """A default as it would be typed; nothing where there is none."""
    if value is None or value is MISSING or value in ("", (), {}):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(shown, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def settings_of(cls: type) -> dict[str, Setting]:
    """Those of a dataclass."""
    meanings, hints = field_meanings(cls), hints_of(cls)
    group = {name: one for one, names in GROUPS.items() for name in names.split()}
    return {
        one.name: Setting(
            group=group.get(one.name, ""),
            type="files" if one.name in MANY else kind(hints[one.name]),
            default=shown(one.default),
            meaning=meanings.get(one.name, ""),
        )
        for one in fields(cls)
        if one.name not in (*NOT_FLAT, "task")
    }


def common() -> dict[str, Setting]:
    """What a run of any task can be told, by group."""
    known = {**settings_of(Recipe), **settings_of(Plan)}
    listed = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(listed) == sorted(known), f"GROUPS and the settings differ: {set(listed) ^ set(known)}"
    return {name: known[name] for name in listed}


def own(task: str) -> dict[str, Setting]:
    """What this task can be told; what only its reader takes is of the data."""
    cls = task_class(task)
    built, reader = told(cls, "__init__"), told(cls, "read")
    known = {**_defaults(cls.__init__), **_defaults(cls.read)}
    found = {}
    for name, hint in task_options(task).items():
        meaning = built.get(name) or reader.get(name, "")
        default = "" if "By default" in meaning else shown(known[name])  # what is then said of it is more exact
        group = "own" if name in _defaults(cls.__init__) and name != "labels" else "data"
        found[name] = Setting(group=group, type=kind(hint), default=default, meaning=meaning)
    return found


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def plan_defaults(task: str) -> dict[str, str]:
    """What a run of this task takes where nobody says otherwise, by what is trained."""
    tuned = [
        defaults(task, model, pretrained=True, device="cpu", examples=examples)
        for model in FINE_TUNED
        for examples in (None, 1)
    ]
    fresh = [defaults(task, model, pretrained=False, device="cpu") for model in FRESH]
    found = {"precision": "fp32, on a GPU bf16"}
    for one in fields(Plan):
        sides = [_spread([some.get(one.name, one.default) for some in side]) for side in (tuned, fresh)]
        if sides != [shown(one.default)] * 2:
            told = [f"{side or 'none'} {how}" for side, how in zip(sides, ("fine-tuned", "fresh"), strict=True)]
            found[one.name] = sides[0] if sides[0] == sides[1] else ", ".join(told)
    return found


def _spread(values: Sequence[Any]) -> str:
    """One value, or from where to where."""
    known = list(dict.fromkeys(values))
    if len(known) == 1 or isinstance(known[0], str):
        return " or ".join(map(shown, known))
    return f"{shown(min(known))} to {shown(max(known))}"


def about(task: str) -> str:
    """What a task is, in a sentence: its file's first if it is the first task there, else its own."""
    file, name = TASKS[task]
    cls = task_class(task)
    first = next(other for other, (where, _) in TASKS.items() if where == file) == task
    module = inspect.getdoc(inspect.getmodule(cls)) if first and file != "teaching" else None
    sentence = " ".join((module or inspect.getdoc(cls) or "").split("\n\n")[0].split())
    sentence = sentence if module else sentence.split(". ")[0].rstrip(".") + "."
    assert sentence, f"{name} says nothing of itself"
    return sentence


def task_settings(task: str) -> TaskSettingsFile:
    """A task's own settings, and what of the common ones is another for it."""
    cls = task_class(task)
    archs = f"A kind of model to train from nothing: {', '.join(able(cls)) or 'none can do this task'}."
    vocabulary = f"the model's own; fresh {cls.vocabulary}"
    return {
        "about": about(task),
        "own": own(task),
        "defaults": {"tokenizer": vocabulary, **plan_defaults(task)},
        "meanings": {"arch": archs, "columns": told(cls, "read")["columns"]},
    }


def settings_file() -> SettingsFile:
    """All that the command line shows."""
    tasks = {task: task_settings(task) for task in TASKS}
    return {"common": common(), "tasks": tasks, "generation": settings_of(GenerationSettings)}


def call_settings(cls: type[AnyTask]) -> dict[str, Setting]:
    """What a call of a task's pipeline can be told."""
    meanings, known = told(cls, "predict"), _defaults(cls.predict)
    return {
        name: Setting(group="", type=kind(hint), default=shown(known[name]), meaning=meanings.get(name, ""))
        for name, hint in call_options(cls.predict).items()
    }


def generates(cls: type[AnyTask]) -> bool:
    return takes_settings(cls.predict)


def documented(source: str, meanings: Mapping[str, str]) -> str:
    """The source of a TypedDict with the meaning of each key under it, for editors."""

    def told(key: re.Match[str]) -> str:
        meaning = meanings[key[2]]
        return f'{key[1]}\n    """{meaning if len(meaning) <= LINE or chr(10) in meaning else _wrapped([meaning])}"""'

    return KEY.sub(told, source)


def generation_meanings() -> dict[str, str]:
    return field_meanings(GenerationSettings)


def run_meanings() -> dict[str, str]:
    """The meaning of each setting of a run; where tasks differ, of each with their names."""
    found: dict[str, dict[str, list[str]]] = {}
    for task in TASKS:
        for name, one in own(task).items():
            found.setdefault(name, {}).setdefault(one["meaning"], []).append(task)
    tasks = {name: next(iter(told)) if len(told) == 1 else _by_task(told) for name, told in found.items()}
    return {**field_meanings(Recipe), **field_meanings(Plan), **tasks}


def _by_task(told: Mapping[str, Sequence[str]]) -> str:
    return _wrapped([f"{', '.join(tasks)}: {meaning}" for meaning, tasks in told.items()])


def _wrapped(lines: Sequence[str]) -> str:
    """Lines as a docstring in a class holds them."""
    found = [fill(line, LINE, initial_indent=" " * 4, subsequent_indent=" " * 8) for line in lines]
    return "\n".join(found).strip() + "\n" + " " * 4
