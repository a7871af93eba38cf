"""`glassformer tokenizer train`, `encode` and `decode`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.view.labels import escaped

from .output import echo, echo_line, print_json

if TYPE_CHECKING:
    from glassformer.text import Tokenizer

app = typer.Typer(no_args_is_help=True, help="Train a vocabulary; turn text into ids and back.")

Name = Annotated[str, typer.Argument(metavar="TOKENIZER", help="A folder, or a name on the hub.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@app.command()
def train(
    files: Annotated[list[Path], typer.Argument(help="Text files, UTF-8.", show_default=False)],
    out: Annotated[str, typer.Option(metavar="DIR", help="The folder to write.", show_default=False)],
    kind: Annotated[str, typer.Option(help="wordpiece, bpe, unigram, word, wordpunct or character.")] = "wordpiece",
    vocab_size: Annotated[int, typer.Option(help="The most tokens there may be.")] = 30000,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Fold capitals; wordpiece: accents too.")] = False,
    special: Annotated[
        list[str] | None,
        typer.Option(help="A special token by its role, e.g. pad_token=<pad>. May be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a vocabulary from text files of any size.

    Example: glassformer tokenizer train corpus.txt --kind bpe --vocab-size 8000 --out my-tokenizer
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from glassformer.text.train import train as learn

    roles = dict(role_and_token(item) for item in special or [])
    folder = new_folder(out)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def show(what: str, done: int, total: int) -> None:
            unknown = what == "learning"  # how long that takes is not known: the bar pulses
            bar.update(task, description=what, completed=done, total=None if unknown else total)

        kinds: Any = kind
        tokenizer = learn(files, kind=kinds, vocab_size=vocab_size, lowercase=lowercase, special=roles, progress=show)
        tokenizer.save(folder)
    if as_json:
        print_json({"out": str(out), "kind": kind, "vocab_size": len(tokenizer)})
    else:
        fewer = "" if len(tokenizer) == vocab_size else f", not {vocab_size}: the text holds no more"
        echo_line(f"{out}: {kind} with {len(tokenizer)} tokens{fewer}")


def new_folder(out: str) -> Path:
    """The folder that --out names; refused where it holds a tokenizer or a model, whose vocabulary would be lost."""
    from glassformer.text.saving import FILES

    folder = Path(out)
    if not out.strip():
        raise ValueError("--out is empty, perhaps a variable that is not set: name a folder")
    if taken := [name for name in ("config.json", *FILES) if (folder / name).exists()]:
        raise ValueError(f"{folder / taken[0]} is there already: choose another --out, or delete it")
    return folder


def role_and_token(item: str) -> tuple[str, str]:
    """Read 'pad_token=<pad>'."""
    role, equals, token = item.partition("=")
    if not equals:
        raise ValueError(f"--special {item}: write ROLE=TOKEN, for example pad_token=<pad>")
    return role, token


@app.command()
def encode(
    name: Name,
    text: Annotated[str | None, typer.Argument(help="The text; without it, each line of stdin.")] = None,
    pair: Annotated[str | None, typer.Option(help="A second text.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of a text with their ids and the characters they cover.

    Example: glassformer tokenizer encode my-tokenizer "unheard of" --pair "so far"
    """
    from glassformer.hub.fetch import tokenizer_folder
    from glassformer.text import Tokenizer

    tokenizer = Tokenizer.from_folder(tokenizer_folder(name))
    texts = (line.rstrip("\n") for line in sys.stdin) if text is None else [text]
    for one in texts:
        found = encoded(tokenizer, one, pair)
        if as_json:
            print_json(found)
        else:
            show_table(found)


def encoded(tokenizer: "Tokenizer", text: str, pair: str | None) -> dict[str, Any]:
    """Tokens, ids and offsets of a text; no offsets where the tokenizer knows none."""
    from glassformer.text.marian import MarianBackend

    known = not isinstance(tokenizer.backend, MarianBackend)
    encoding = tokenizer(text, pair, return_offsets_mapping=known)
    ids = encoding["input_ids"]
    found = {"tokens": tokenizer.convert_ids_to_tokens(ids), "ids": ids}
    return found | ({"offsets": encoding["offset_mapping"]} if known else {})


def show_table(found: dict[str, Any]) -> None:
    """One line a token: token, id, first and last character."""
    offsets = found.get("offsets") or [("", "")] * len(found["ids"])
    tokens = [escaped(token) for token in found["tokens"]]
    width = max(map(len, tokens), default=0)
    for token, index, (start, stop) in zip(tokens, found["ids"], offsets, strict=True):
        span = f"{start}:{stop}" if start != stop else ""
        echo(f"{token:<{width}}  {index:>7}  {span}".rstrip())


@app.command()
def decode(
    name: Name,
    ids: Annotated[list[str], typer.Argument(help="Ids, with spaces or commas between.", show_default=False)],
    skip_special_tokens: Annotated[
        bool, typer.Option("--skip-special-tokens", help="Leave out [CLS] and its like.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Turn ids back into text.

    Example: glassformer tokenizer decode my-tokenizer 101 2651 2003 102
    """
    from glassformer.hub.fetch import tokenizer_folder
    from glassformer.text import Tokenizer

    numbers = [whole_number(word) for item in ids for word in item.replace(",", " ").split()]
    text = Tokenizer.from_folder(tokenizer_folder(name)).decode(numbers, skip_special_tokens=skip_special_tokens)
    if as_json:
        print_json({"text": text})
    else:
        echo(text)


def whole_number(word: str) -> int:
    """An id as it was typed."""
    try:
        return int(word.strip("[]"))
    except ValueError:
        raise ValueError(f"{word!r} is not an id: give whole numbers, for example 101 2651 102") from None
