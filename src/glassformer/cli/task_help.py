"""`glassformer train TASK --help`: the settings of this task, in groups."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from .settings import TITLES, Setting, grouped, known

if TYPE_CHECKING:
    from rich.panel import Panel
    from rich.text import Text

WORDS = "glassformer.words"  # what stands on the line, before it is parsed
PLAIN = ("text", "table", "files")  # types that need not be told
SPELT = {"precision": "dtype"}  # settings whose option has another name
INTRO = (
    "What begins with -- is an option; give any other setting as --set NAME=VALUE, e.g. --set warmup=0.1, or by its "
    "name in a recipe. Some defaults depend on what is trained: fine-tuned is with --model, fresh with --arch."
)


class TrainCommand(TyperCommand):
    """A command whose --help, after a task or a recipe, is about that task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # click's types, which typer may hold a copy of
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        task = asked_task(ctx.meta.get(WORDS, []))
        if task is None:
            super().format_help(ctx, formatter)
        else:
            print_help(task, {option.name: option for option in self.params if option.name})


def asked_task(words: list[str]) -> str | None:
    """The task that a line is about: by its name, which must be one if it comes first, or by its recipe's."""
    from glassformer.files import read_toml
    from glassformer.jobs.tasks import task_name

    if words and (file := recipe_file(words[0])):
        return task_name(str(read_toml(file).get("task")))
    if words and not words[0].startswith("-"):
        return task_name(words[0])
    return next((word for word in words if word in known()["tasks"]), None)


def recipe_file(what: str) -> Path | None:
    """The recipe that the first word of a line names: a file, or the one of a run folder; none of a task."""
    if what.endswith(".toml"):
        return Path(what)
    return found if (found := Path(what) / "recipe.toml").is_file() else None


def print_help(task: str, options: Mapping[str, Any]) -> None:
    """Panels as typer draws them, a group of settings in each."""
    from rich.console import Console
    from rich.padding import Padding

    console = Console(highlight=False)
    usage = plain(f"Usage: glassformer train {task} [OPTIONS] --data FILE --out DIR")
    usage.stylize("bold")
    for text in (usage, plain(known()["tasks"][task]["about"]), plain(INTRO)):
        console.print(Padding(text, (1, 1, 0, 1)))
    console.print()
    groups = {
        group: {spelling(name, options): shown(one) for name, one in some.items()}
        for group, some in grouped(task).items()
    }
    flags = ("settings", "resume", "check", "json")
    groups["run"] |= {options[name].opts[0]: plain(options[name].help) for name in flags}
    width = max(len(name) for some in groups.values() for name in some)
    for group, rows in groups.items():
        console.print(panel(task if group == "own" else TITLES[group], rows, width))


def spelling(name: str, options: Mapping[str, Any]) -> str:
    """A setting as it is given on the line: an option, or the name that --set takes."""
    if name in SPELT:
        return f"--{SPELT[name]}, {name}"
    return options[name].opts[0] if name in options else name


def shown(one: Setting) -> "Text":
    """The meaning, and in brackets what it may be, unless that is plain, and what it is by default."""
    default = f"default {one['default']}" if one["default"] else ""
    plainly = one["type"] in PLAIN or (one["type"] == "true | false" and default)
    facts = "; ".join(fact for fact in ("" if plainly else one["type"], default) if fact)
    text = plain(one["meaning"])
    return text.append(f" [{facts}]", style="dim") if facts else text


def plain(text: str) -> "Text":
    from rich.text import Text

    return Text(text)


def panel(title: str, rows: Mapping[str, "Text"], width: int) -> "Panel":
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(style="bold cyan", width=width, no_wrap=True)
    table.add_column(ratio=1)
    for name, text in rows.items():
        table.add_row(name, text)
    return Panel(table, title=title, title_align="left", border_style="dim")
