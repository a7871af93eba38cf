"""The `glassformer` command: its sub-commands, and errors in one line."""

import logging
import sys
from typing import Annotated

import typer

from glassformer.train.signals import Terminated

from . import (
    compare,
    data,
    demo,
    doctor,
    evaluate,
    export,
    generate,
    heads,
    inspect,
    models,
    pack,
    predict,
    serve,
    show,
    studio,
    tokenizer,
    train,
    translate,
    verify,
)
from .output import echo, echo_line
from .task_help import TrainCommand

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Sequence models you can see through: RNN, LSTM, seq2seq, Transformer, BERT, GPT.",
)
app.add_typer(tokenizer.app, name="tokenizer", help="Train a vocabulary; turn text into ids and back.")
app.add_typer(compare.app, name="compare", help="Run several ways to do one job, side by side.")
app.add_typer(data.app, name="data", help="Make a corpus ready to train on.")
app.command("demo")(demo.demo)
app.command("train", cls=TrainCommand)(train.train)
app.command("eval")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("generate")(generate.generate)
app.command("translate")(translate.translate)
app.command("show")(show.show)
app.command("verify")(verify.verify)
app.command("heads")(heads.heads)
app.command("inspect")(inspect.inspect)
app.command("export")(export.export)
app.command("pack")(pack.pack)
app.command("unpack")(pack.unpack)
app.command("studio")(studio.studio)
app.command("serve")(serve.serve)
app.command("models")(models.models)
app.command("doctor")(doctor.doctor)


def version(value: bool) -> None:
    if value:
        from glassformer import __version__

        echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Say which.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Options that stand before the command."""


class _Warnings(logging.Handler):
    """What the library warns of, as commands say things."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            echo_line(record.getMessage(), err=True)


WARNINGS = _Warnings()  # once, however often the command is run in a process


def main() -> None:
    """Run the command line; what goes wrong for a user is one line on stderr and exit code 1."""
    debug = "--debug" in sys.argv  # taken anywhere on the line
    logging.getLogger("glassformer").addHandler(WARNINGS)
    try:
        app(args=[word for word in sys.argv[1:] if word != "--debug"])
    except (ValueError, OSError) as error:
        if debug:
            raise
        echo_line(f"error: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        reason = (str(error).splitlines() or [""])[0]
        echo_line(f"error: {type(error).__name__}: {reason} (unforeseen; --debug shows where)", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, Terminated) as stop:
        echo("stopped", err=True)
        sys.exit(143 if isinstance(stop, Terminated) else 130)
