"""A recipe: everything that makes a run, as keyword arguments, as a TOML file, or as both."""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from glassformer.files import conform, read_toml
from glassformer.files.schema import Count, Size, hints_of
from glassformer.train.lora import QUERIES_AND_VALUES
from glassformer.train.plan import Plan
from glassformer.view.labels import escaped_json

from .tasks import task_class

if TYPE_CHECKING:
    from glassformer.tasks.task import AnyTask

RECIPE = "recipe.toml"  # in a run folder
MICROWORLD = "microworld"
MANY = ("data", "dev", "test")
NONE = "none"  # in a model's config, because TOML has no null
EITHER = (("epochs", "steps"), ("batch_size", "batch_tokens"), ("model", "arch"), ("ema", "average"))
PLAN = hints_of(Plan)
NOT_FLAT = ("options", "plan", "origin")  # fields of a recipe that stand under other names in its file
NOT_SETTINGS = {"self", "cls", "tokenizer", "sources", "columns", "options", "_", "require_target", "return"}
NOT_SETTINGS |= {"special_ids", "form"}  # a model's, and of a lesson what it is learnt as


@dataclass(frozen=True)
class Origin:
    """Where a recipe's settings come from: all from a file, but for those that were given beside it."""

    file: str | None = None
    given: frozenset[str] = frozenset()

    def place(self, *keys: str) -> tuple[str, ...]:
        """A setting as an error names it: with the file, if it stands there."""
        name = ".".join(keys)
        return (name,) if self.file is None or self.given & {keys[0], name} else (self.file, *keys)

    def start(self, name: str) -> str:
        """What an error about a setting begins with: the file, if it stands there."""
        return f"{self.place(name)[0]}: " if len(self.place(name)) > 1 else ""


UNKNOWN = Origin()  # settings that were given by themselves


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to train, on what, and where to put it. Settings of the loop and of the task stand beside it."""

    task: str
    """What is learnt, by Hugging Face's name where it has one."""
    out: str
    """The run folder: the model, its scores, curves, recipe and checkpoints."""
    data: tuple[str, ...] = ()
    """Training files, globs, - for stdin, hub:NAME, or microworld for made-up examples."""
    weights: Sequence[float] | None = None
    """Of several folders of shards in data: how much of what is learnt is from each; by default as they are large."""
    dev: tuple[str, ...] = ()
    """Files that choose the best weights; without any, a tenth of the data is held out."""
    test: tuple[str, ...] = ()
    """Files that are scored once, at the end."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column is what, as text=review; by default found by the columns' names."""
    limit: Size | None = None
    """Training examples at most, drawn so that no label is left out: for a quick try."""
    model: str | None = None
    """A folder, zoo:NAME or hub name to fine-tune. Give model or arch."""
    arch: str | None = None
    """A kind of model to train from nothing: rnn, gru, lstm, seq2seq, transformer, bert, gpt2, …"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model, one by one as config.NAME: sizes of a fresh one, dropout of any."""
    tokenizer: str | None = None
    """A folder, a hub name, or a vocabulary to learn: wordpiece, bpe, unigram, word (between blanks),
    wordpunct (words and punctuation) or character."""
    vocab_size: Size | None = None
    """Tokens of a vocabulary that is learnt, at most; by default 8000, of words 30000."""
    lowercase: bool = False
    """Whether a vocabulary that is learnt folds capitals (wordpiece: accents too)."""
    freeze: str | None = None
    """Parts not to train, as 'embeddings,layers.0-5'; '!head' trains the head alone."""
    lora: Count | None = None
    """Rank of LoRA adapters that are trained in the place of the layers, as 8: less memory."""
    lora_targets: str = QUERIES_AND_VALUES
    """Linear layers that get an adapter, in the patterns of freeze."""
    device: str = "auto"
    """Where to train: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps."""
    tensorboard: bool = False
    """Also write curves for TensorBoard."""
    options: Mapping[str, Any] = field(default_factory=dict)  # of the task
    plan: Mapping[str, Any] = field(default_factory=dict)  # of the loop
    origin: Origin = field(default=UNKNOWN, compare=False)

    @classmethod
    def of(cls, values: Mapping[str, Any], origin: Origin = UNKNOWN) -> Self:
        """From flat names: each goes to the run, to the loop, or to the task, whichever knows it."""
        given = {name: str(v) if isinstance(v, Path) else v for name, v in values.items() if v is not None}
        if missing := [name for name in ("task", "out") if name not in given]:
            raise ValueError(f"a run needs {' and '.join(missing)}: give --out FOLDER, and the name of a task")
        conform(given["task"], str, *origin.place("task"))
        if not str(given["out"]).strip():
            raise ValueError(
                f"{origin.start('out')}out is empty, perhaps a variable that is not set: name the run folder"
            )
        own = {name: hint for name, hint in hints_of(cls).items() if name not in NOT_FLAT}
        try:
            options = task_options(given["task"])
        except ValueError as error:
            raise ValueError(f"{origin.start('task')}{error}") from None
        known = {**options, **PLAN, **own, **dict.fromkeys(MANY, str | Path | Sequence[str | Path])}
        for name, value in given.items():
            if name not in known:
                near = get_close_matches(name, known, n=3)
                listed = f"near it: {', '.join(near)}" if near else f"it has: {', '.join(sorted(known))}"
                raise ValueError(f"{origin.start(name)}{given['task']} has no setting {name!r}; {listed}")
            conform(value, known[name], *origin.place(name))
        if ("model" in given) == ("arch" in given):
            raise ValueError("say what to train: model (a folder or name) or arch (a fresh one), one of the two")
        run: dict[str, Any] = {
            name: _many(value) if name in MANY else value for name, value in given.items() if name in own
        }
        if "config" in run:
            run["config"] = {name: NONE if value is None else value for name, value in run["config"].items()}
        if task_class(given["task"]).built_in:
            run.setdefault("data", (MICROWORLD,))
        if not run.get("data"):
            raise ValueError('a run needs data: files, or "microworld" for made-up examples')
        return cls(
            **run,
            options={name: value for name, value in given.items() if name in options},
            plan={name: value for name, value in given.items() if name in PLAN},
            origin=origin,
        )

    @classmethod
    def from_toml(cls, path: Path, changes: Mapping[str, Any]) -> Self:
        """A recipe file, with some settings changed; a dot reaches into a table ("config.n_layer")."""
        origin = Origin(str(path), frozenset(changes))
        return cls.of(changed(read_recipe(path), changes, origin), origin)

    def flat(self) -> dict[str, Any]:
        """The names and values `of` takes, without what was left at its default."""
        values = {
            one.name: list(value) if one.name in MANY else value
            for one in fields(self)
            if one.name not in NOT_FLAT and (value := getattr(self, one.name)) not in (one.default, {})
        }
        return {**values, **self.options, **self.plan}

    def toml(self) -> str:
        return write_toml(self.flat())


def expanded(names: Sequence[str]) -> list[str]:
    """File names with the environment's variables put in, so that a recipe can be shared."""
    found = [os.path.expandvars(name) for name in names]
    for name in found:
        if "$" in name:
            variable = name[name.index("$") :].split("/")[0]
            raise ValueError(f"{name}: set the environment variable {variable} to the folder of the data")
    return found


def task_options(task: "str | type[AnyTask]") -> dict[str, Any]:
    """What a task's constructor and reader can be told, and the hints of what each may be."""
    cls = task_class(task) if isinstance(task, str) else task
    built = get_type_hints(cls.__init__, include_extras=True)
    built.pop("labels", None)  # the data's, unless the reader takes names
    known = {**built, **get_type_hints(cls.read, include_extras=True)}
    return {name: hint for name, hint in known.items() if name not in NOT_SETTINGS}


def read_recipe(path: Path) -> dict[str, Any]:
    """The settings of a recipe file."""
    if not path.exists():
        raise ValueError(f"{path} is not there; give a recipe file or the name of a task")
    values = read_toml(path)
    if not isinstance(values.get("task"), str):
        raise ValueError(f'{path} names no task: a recipe begins with task = "text-classification", or another')
    return values


def read_made(path: Path) -> dict[str, Any]:
    """The recipe of a run that is over: of a task that there is, whose settings are as the task can take them."""
    values = read_recipe(path)
    try:
        known = {**task_options(values["task"]), "columns": Mapping[str, str]}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    for name in known.keys() & values.keys():
        conform(values[name], known[name], str(path), name)
    return values


def changed(values: Mapping[str, Any], changes: Mapping[str, Any], origin: Origin = UNKNOWN) -> dict[str, Any]:
    """The values with some replaced; "a.b" is b in the table a, and of two ways to say one thing the new one counts."""
    new = dict(values)
    for name, value in changes.items():
        for pair in EITHER:
            if name in pair:
                new.pop(pair[pair[0] == name], None)
        table, dot, inner = name.partition(".")
        if dot:
            conform(before := new.get(table, {}), dict[str, Any], *origin.place(table))
            new[table] = {**before, inner: value}
        else:
            new[name] = value
    return new


def parsed(assignment: str) -> tuple[str, Any]:
    """ "lr=1e-4" as a name and a value; what is no number, bool or list is text."""
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{assignment!r} does not set anything; write name=value, e.g. lr=1e-4")
    try:
        return name.strip(), tomllib.loads(f"value = {text.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return name.strip(), text.strip()


def parsed_columns(assignments: Sequence[str] | None) -> dict[str, str] | None:
    """ "text=review" as a role and its column, for each; None where none is given."""
    found = {}
    for one in assignments or ():
        role, equals, column = (part.strip() for part in one.partition("="))
        if not (role and equals and column):
            raise ValueError(f"--columns {one!r} does not say what a column is; write ROLE=NAME, as in text={one}")
        found[role] = column
    return found or None


def write_toml(values: Mapping[str, Any]) -> str:
    """Plain values first, then one table after the other."""
    lines = [f"{_key(name)} = {_written(value)}" for name, value in values.items() if not isinstance(value, Mapping)]
    for name, table in values.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{_key(name)}]", *(f"{_key(key)} = {_written(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return (
        name
        if name.replace("_", "a").replace("-", "a").isalnum() and name.isascii()
        else json.dumps(name, ensure_ascii=False)
    )


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_written(one)}' for name, one in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_written, value))}]"
    return escaped_json(json.dumps(value, ensure_ascii=False)) if isinstance(value, str | bool) else repr(value)


def _many(value: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))
