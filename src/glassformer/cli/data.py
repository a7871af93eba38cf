"""`glassformer data clean`: a corpus without what is there twice, too short, too long or in another language."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import Columns, Json, echo_line, print_json

if TYPE_CHECKING:
    from glassformer.data.cleaning import Cleaner

app = typer.Typer(no_args_is_help=True, help="Make a corpus ready to train on.")


@app.callback()
def data() -> None:
    """Make a corpus ready to train on."""


@app.command()
def clean(
    files: Annotated[
        list[str],
        typer.Argument(help="Texts or tables, also compressed; globs and folders of .txt.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The jsonl file to write.", show_default=False)],
    unit: Annotated[str, typer.Option(help="What is a document of a text: file, article, block or line.")] = "block",
    columns: Columns = None,
    exact: Annotated[bool, typer.Option(help="Leave out what has the same words as a document before it.")] = True,
    near: Annotated[
        float | None, typer.Option(help="Leave out what shares so much with one before it, as 0.8.", show_default=False)
    ] = None,
    min_words: Annotated[int, typer.Option(help="Words that a document has at least.")] = 1,
    max_words: Annotated[int | None, typer.Option(help="Words that it has at most.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Codes of the languages that stay, as en,de; by default all.", show_default=False)
    ] = None,
    dropped: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write what is left out, with the reason.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the documents of a corpus that are worth keeping, and count the others by reason.

    Example: glassformer data clean 'crawl/*.txt' --out clean.jsonl --near 0.8 --min-words 20 --language en
    """
    from glassformer.data.cleaning import Cleaner, Cleaning
    from glassformer.jobs.clean import clean_corpus
    from glassformer.jobs.recipe import parsed_columns

    wanted = Cleaning(
        min_words=min_words,
        max_words=max_words,
        languages=tuple(language.split(",")) if language else (),
        exact=exact,
        near=near,
    )
    cleaner = Cleaner(wanted)
    clean_corpus(cleaner, files, out, unit=unit, columns=parsed_columns(columns), dropped=dropped)
    if json:
        print_json({"out": str(out), "kept": cleaner.kept, "left_out": dict(cleaner.left_out)})
    else:
        echo_line(_told(cleaner, out))


def _told(cleaner: "Cleaner", out: Path) -> str:
    total = cleaner.kept + cleaner.left_out.total()
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in cleaner.left_out.most_common())
    return f"{out}: {cleaner.kept:,} of {total:,} documents" + (f"; left out: {reasons}" if reasons else "")
