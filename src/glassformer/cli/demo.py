"""`glassformer demo`: the built-in models at work, one of them looked into, and a small one that learns."""

import sys
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.view.labels import escaped
from glassformer.zoo import zoo

from .inspect import SHOWN, print_inspection
from .output import Json, echo, made_ready, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.view.tour import ModelAnswers

TITLE = "A minute with Glassformer"


def demo(
    out: Annotated[str, typer.Option(metavar="FILE", help="The page with all of it.")] = "out/demo.html",
    runs: Annotated[Path, typer.Option(help="Where the run folder of the training is made.")] = Path("runs"),
    steps: Annotated[int, typer.Option(min=1, help="How long to train: 900 steps are half a minute or less.")] = 900,
    json: Json = False,
) -> None:
    """See in a minute what is here: every built-in model on its task, where one looks, and one that learns.

    Example: glassformer demo --out out/demo.html
    """
    began, path = time.perf_counter(), made_ready(out)
    import torch

    from glassformer.jobs import demo
    from glassformer.view.tour import page

    torch.set_num_threads(1)  # models as small as these gain nothing from more
    models = []
    for card in zoo():
        models.append(demo.answered(card))
        if not json:
            _show(models[-1])
    seen = demo.alignment()
    if not json:
        _head("where a model looks", f"{demo.ALIGNER} reads (across) and writes (down)")
        print_inspection(seen, part=seen.boards[0].name)
        _head("learning", "a small BERT from nothing: is a sentence positive, negative or neutral?")
    run = demo.learn(runs, steps=steps, log=lambda text: echo(f"  {text}", err=json))
    models.append(demo.learnt_answers(run))
    pictures = [demo.alignment_picture(seen), demo.curves_picture(run)]
    commands = _next(run.folder)
    path.write_text(page(models, pictures, commands, title=TITLE), "utf-8")
    if json:
        answered = [{"name": one.name, "task": one.task, "answers": list(one.answers)} for one in models]
        print_json({"page": str(path), "run": str(run.folder), "models": answered})
        return
    _show(models[-1])
    _head("what to type next", f"all of this as a page: {path}   ({time.perf_counter() - began:.0f} s)")
    for command in commands:
        echo(f"  {command}")


def _next(folder: Path) -> list[str]:
    """What to type next, each after what it is for."""
    return [
        "# the built-in model of a task: texts, a file or stdin",
        'glassformer predict "A warm, funny and moving film."',
        "# the model that was trained just now",
        f'glassformer predict {quote(str(folder))} "Anna is not sad."',
        "# what is built in: scores, data, licences",
        "glassformer models",
        "# look inside all of them in the browser",
        "pip install 'glassformer[studio]' && glassformer studio --open",
        "# train on your own data: a csv with text and label, or the built-in micro-world",
        "glassformer train text-classification --arch lstm --data microworld --out runs/first",
    ]


def _show(one: "ModelAnswers") -> None:
    """A model with its answers, beside what was asked."""
    from rich.table import Table
    from rich.text import Text

    _head(one.task, f"{one.name}  {one.score}")
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    table.add_column(overflow="fold", max_width=52)
    table.add_column(overflow="fold")
    for asked, answered in one.answers:
        table.add_row(Text(escaped(asked, keep="\n")), Text(escaped(answered), "bold"))
    _console().print(table)


def _head(what: str, more: str) -> None:
    from rich.text import Text

    _console().print(Text.assemble("\n", (escaped(what), "bold cyan"), "  ", (escaped(more), "dim")))


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else SHOWN)
