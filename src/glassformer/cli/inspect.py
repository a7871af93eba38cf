"""`glassformer inspect`: a text through a model, and its attention or states as a page, a picture or here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Device, Json, Name, echo, out_file, print_json, size
from .typed import tokenizer_of, typed

if TYPE_CHECKING:
    from glassformer.view.inspection import Inspection

SHOWN = 100  # columns of a terminal that nobody is looking at


def inspect(
    name: Name,
    text: Annotated[str, typer.Argument(help="A text; for a model without a tokenizer ids, such as '5 17 3'.")],
    pair: Annotated[str | None, typer.Option(help="A second text, for models that read two.")] = None,
    target: Annotated[str | None, typer.Option(help="What an encoder-decoder writes; else its own choice.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="A .html page, or a .svg or .png picture.")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Show it here.")] = False,
    part: Annotated[str | None, typer.Option(help="Which part: attention, encoder, decoder, cross, states …")] = None,
    layer: Annotated[int | None, typer.Option(help="Which layer, from 0.")] = None,
    head: Annotated[str | None, typer.Option(help="Which head, from 0, or which gate, such as forget.")] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Look at the attention of a text, or at the states of an RNN, in one file that opens anywhere.

    A picture and the terminal show what --part, --layer and --head choose. A page shows all; where that is too much,
    what they choose is kept whole.

    Example: glassformer inspect ./my-bert "The cat sat." --pair "It slept." --out page.html
    """
    if out is None and not terminal:
        raise ValueError("say where to: --out page.html (or .svg, .png), or --terminal")
    path = None if out is None else out_file(out)
    found = _inspection(name, text, pair, target, device)
    saved = None if path is None else found.save(path, part=part, layer=layer, head=head)
    if terminal:
        print_inspection(found, part=part, layer=layer, head=head)
    if json:
        parts = [{"name": board.name, "shape": list(board.values.shape)} for board in found.boards]
        print_json({"file": saved and str(saved), "bytes": saved and saved.stat().st_size, "parts": parts})
    elif saved is not None:
        echo(f"{saved}: {size(saved.stat().st_size)}")


def _inspection(name: str, text: str, pair: str | None, target: str | None, device: str | None) -> "Inspection":
    import glassformer as gf

    model, tokenizer = gf.load(name, device=device), tokenizer_of(name)
    read, written = typed(name, tokenizer, text), typed(name, tokenizer, target)
    title = Path(name).absolute().name if Path(name).exists() else name
    return gf.inspect(model, tokenizer, read, pair, target=written, name=title)


def print_inspection(found: "Inspection", **chosen: Any) -> None:
    """What `part`, `layer` and `head` choose, in the colours that this terminal has."""
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

    console = Console()
    colour = console.color_system is not None
    width = console.width if console.is_terminal else SHOWN
    for line in found.lines(**chosen, width=width, colour=colour):
        text = Text(no_wrap=True, overflow="ignore", end="")
        for piece in line:
            text.append(piece.text, Style(color=piece.front, bgcolor=piece.back))
        console.print(text, soft_wrap=True)
