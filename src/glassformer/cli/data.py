"""`glassformer data`: a corpus cleaned, and a corpus tokenised into shards that training streams."""

import time
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
        echo_line(_summary(cleaner, out))


@app.command()
def tokenize(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Texts or tables, also compressed; globs, folders of .txt, s3:// and the like.", show_default=False
        ),
    ],
    tokenizer: Annotated[
        str, typer.Option(metavar="NAME", help="A folder, zoo:NAME, or a name on the hub.", show_default=False)
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="A new folder, or an address.", show_default=False)],
    task: Annotated[str, typer.Option(help="What it is for: says what stands between documents.")] = "text-generation",
    unit: Annotated[str, typer.Option(help="What is a document of a text: file, article, block or line.")] = "file",
    columns: Columns = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes, without --ray; by default a core each.", show_default=False)
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="On the Ray cluster of $RAY_ADDRESS, or on one begun here.")
    ] = False,
    shard_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a file, about.")] = 1 << 26,
    json: Json = False,
) -> None:
    """Tokenise a corpus once, into a folder that `train --data FOLDER` takes, from here or from s3://.

    Example: glassformer data tokenize 'crawl/*.jsonl.gz' --tokenizer ./my-tokenizer --out tokens --jobs 8
    """
    from glassformer.jobs.progress import clock
    from glassformer.jobs.recipe import parsed_columns
    from glassformer.jobs.tokenise import made_for, tokenise_corpus

    began = time.time()
    how = made_for(task, tokenizer, out, unit=unit, columns=parsed_columns(columns), shard_tokens=shard_tokens)
    made = tokenise_corpus(files, how, jobs=jobs, ray=ray)
    shards, seconds = made.shards, time.time() - began
    if json:
        counts = {"documents": shards.documents, "tokens": len(shards), "bytes": shards.bytes}
        print_json({"out": out, **counts, "shards": len(shards.shards), "seconds": round(seconds, 2)})
        return
    for line in made.report.lines()[1:] if made.report.rows else []:
        echo_line(line, err=True)
    if made.unlisted:
        echo_line(
            f"mind: {out} also holds {len(made.unlisted)} folders of other files or settings, as {made.unlisted[0]}: "
            "delete those that are not wanted",
            err=True,
        )
    kept = f", {made.kept} of {made.groups} groups of files were done before" if made.kept else ""
    echo_line(
        f"{out}: {len(shards):,} tokens of {shards.documents:,} documents in {len(shards.shards)} shards, "
        f"in {clock(seconds)}{kept}"
    )


def _summary(cleaner: "Cleaner", out: Path) -> str:
    total = cleaner.kept + cleaner.left_out.total()
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in cleaner.left_out.most_common())
    return f"{out}: {cleaner.kept:,} of {total:,} documents" + (f"; left out: {reasons}" if reasons else "")
