"""`glassformer translate`: texts, a file or stdin through an encoder-decoder, line by line."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .choice import OptionalName, chosen_for_one
from .lines import lines_of
from .output import Device, Dtype, Quant, as_json, echo, made_ready

if TYPE_CHECKING:
    from glassformer.jobs.align import Aligned
    from glassformer.jobs.predict import Pipeline

CHUNK = 2000  # lines at a time: any input fits, results come as they are made, and there is enough to sort by length
BEAMS = 4  # as transformers' own translation pipeline, where the folder says nothing
SHOWN, LEAST = 3, 0.1  # source words shown for a target word, and the weight of a look that is worth showing


@dataclass(frozen=True)
class OutputLine:
    """A line of the input and what became of it: texts with their scores, best first; none of a blank line."""

    number: int
    source: str
    texts: list[str]
    scores: list[float]
    alignments: "list[Aligned]"


def translate(
    name: OptionalName = None,
    text: Annotated[str | None, typer.Argument(help="The text; without it, each line of --file or stdin.")] = None,
    file: Annotated[str | None, typer.Option(help="A text on each line; blank lines stay blank.")] = None,
    src_lang: Annotated[str | None, typer.Option(help="Language of the texts, as the tokenizer calls it.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Language to translate to (NLLB, M2M-100, mBART).")] = None,
    num_beams: Annotated[int | None, typer.Option(help="Beams; by default as the folder says, or 4.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0 favours longer translations.")] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="The n best of each, as line number, score and text.")] = 1,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="At most so many; by default by the source's size.")
    ] = None,
    align: Annotated[bool, typer.Option("--align", help="Show which source words each word was made from.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts at once; it does not change what is written.")] = 32,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write to this file, which must be new.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over the file of --out.")] = False,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Annotated[bool, typer.Option("--json", help="One json object a line, for machines.")] = False,
) -> None:
    """Translate, or turn text to text in any other way that the model has learnt.

    Example: glassformer translate runs/en-de --file test.en --num-beams 5 --out test.de
    With the built-in model: glassformer translate "Emma bought a book at the market." --tgt-lang de
    """
    given = name
    name, text = chosen_for_one(name, text, "translation", (src_lang or "en", tgt_lang) if tgt_lang else ())
    _check(text, file)
    languages = {"src_lang": src_lang, "tgt_lang": tgt_lang} if name == given else {}
    pipe = _pipeline(name, align, device=device, dtype=dtype, quant=quant, **languages)
    settings = {"length_penalty": length_penalty, "max_new_tokens": max_new_tokens, "num_return_sequences": n}
    settings = {key: value for key, value in settings.items() if value is not None}
    settings["num_beams"] = _beams(pipe, num_beams, n)
    settings["return_dict_in_generate"] = json or n > 1  # scores are read off once more, and cost a little
    lines = iter([text]) if text is not None else lines_of(file or "-")
    chunk = 1 if text is None and file is None and sys.stdin.isatty() else CHUNK  # an answer to each line that is typed
    show = _shown_as_json if json else _shown
    seconds, done, sentences = 0.0, 0, 0
    with ExitStack() as stack:
        write = _writer(stack, out, force=force)
        while some := list(islice(lines, chunk)):
            begun = time.perf_counter()  # waiting for lines does not count
            for line in _translated(pipe, some, done, align=align, batch_size=batch_size, settings=settings):
                write(show(line, align))
                sentences += bool(line.texts)
            done += len(some)
            seconds += time.perf_counter() - begun
    if text is None:
        speed = f"{sentences:,} sentences in {seconds:,.1f} s: {sentences / max(seconds, 1e-9):,.1f} sentences/s"
        echo(speed, err=True)


def _check(text: str | None, file: str | None) -> None:
    if text is not None and file is not None:
        raise ValueError("give a text or --file, not both")
    if text is not None and not text.strip():
        raise ValueError("there is nothing to translate: give a text that is not empty")


def _pipeline(name: str, align: bool, **how: Any) -> "Pipeline":
    from glassformer.inspect.crossing import crossing_names
    from glassformer.jobs.predict import head_of, pipeline
    from glassformer.tasks.translation import Translation

    if (head := head_of(name)) != Translation.head:
        what = "a language model, which goes on from a text" if head == "text-generation" else f"a model for {head}"
        better = "glassformer generate" if head == "text-generation" else "glassformer predict"
        raise ValueError(f"{name} is {what}, not an encoder-decoder that translates; use {better}")
    pipe = pipeline("translation", name, **{key: value for key, value in how.items() if value is not None})
    if align:
        crossing_names(pipe.model)  # which it must have
    return pipe


def _beams(pipe: "Pipeline", num_beams: int | None, n: int) -> int:
    """What was asked for, or the folder's own wish, or 4; with n-best lists at least as many as texts are wanted."""
    from glassformer.models.contract import as_model, generation_config
    from glassformer.tasks.translation import Translation

    assert isinstance(pipe.task, Translation)
    default = {**generation_config(as_model(pipe.model)), **pipe.task.generate}.get("num_beams")
    if not isinstance(default, int) or not default:  # what is no number, generation refuses by its file
        default = BEAMS
    return num_beams if num_beams is not None else max(default, n)


def _translated(
    pipe: "Pipeline", lines: Sequence[str], before: int, *, align: bool, batch_size: int, settings: dict[str, Any]
) -> Iterator[OutputLine]:
    """Every line in its turn, though they are translated by length."""
    from glassformer.jobs.align import align as aligned
    from glassformer.jobs.progress import shown

    real = [line for line in lines if line.strip()]
    with shown(f"lines {before + 1:,}-{before + len(lines):,}", "sentences") as on_progress:
        found = pipe(real, batch_size=batch_size, on_progress=on_progress, **settings) if real else []
        listed = [one if isinstance(one, list) else [one] for one in found]
        texts = [[" ".join(one["translation_text"].splitlines()) for one in some] for some in listed]  # a line each
        pairs = [(line, text) for line, some in zip(real, texts, strict=True) for text in some]
        links = iter(aligned(pipe, pairs, batch_size=batch_size) if align else [])
    answers = zip(texts, listed, strict=True)
    for number, line in enumerate(lines, before + 1):
        some, dicts = next(answers) if line.strip() else ([], [])
        scores = [one["score"] for one in dicts if "score" in one]
        yield OutputLine(number, line, some, scores, list(islice(links, len(some))))


def _shown(line: OutputLine, align: bool) -> str:
    """The text alone; of several, each with the line's number and its score; words and what they were made from."""
    rows = []
    for place, text in enumerate(line.texts):
        rows.append(text if len(line.texts) == 1 else f"{line.number}\t{line.scores[place]:.4f}\t{text}")
        if align:
            rows += _looks(line.alignments[place])
    return "\n".join(rows)


def _looks(aligned: "Aligned") -> list[str]:
    """A row for each target word: the source words that it looks at most."""
    from rich.cells import cell_len

    width = max(map(cell_len, aligned.target), default=0)
    rows = []
    for word, weights in zip(aligned.target, aligned.weights, strict=True):
        first, *others = (-weights).argsort()[:SHOWN].tolist() or [None]
        worth = [first, *(place for place in others if weights[place] >= LEAST)]
        shown = [f"{aligned.source[place]} {weights[place]:.2f}" for place in worth if place is not None]
        rows.append("    " + word + " " * (width - cell_len(word)) + "  " + "  ".join(shown))
    return rows


def _shown_as_json(line: OutputLine, align: bool) -> str:
    found: dict[str, Any] = {"source": line.source, "translations": line.texts}
    found["scores"] = [round(score, 6) for score in line.scores]
    if align:
        found["alignments"] = [_alignment(one) for one in line.alignments]
    return as_json(found)


def _alignment(aligned: "Aligned") -> dict[str, Any]:
    links = [
        {"target": aligned.target[link.target], "source": aligned.source[link.source], "weight": round(link.weight, 4)}
        for link in aligned.links()
    ]
    weights = aligned.weights.round(4).tolist()
    return {"source": aligned.source, "target": aligned.target, "weights": weights, "links": links}


def _writer(stack: ExitStack, out: str | None, *, force: bool) -> Callable[[str], None]:
    """Where lines go: to stdout, or to a file as they come."""
    if out is None:
        return echo
    file = stack.enter_context(made_ready(out, force=force).open("w", encoding="utf-8"))
    return lambda line: print(line, file=file)
