"""The micro-world: people, places, things and feelings in English, German and Chinese, as examples of every kind.

`examples(kind, count)` gives records, `write(folder, kind, count)` the files that a user would have. The same seed
gives the same examples on every machine, and the first of many are the few. Seeds that differ modulo 3, such as 0, 1
and 2, have no example in common: one is for training, the others to be judged by.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

from glassformer.data.microworld import records
from glassformer.data.microworld.questions import asked
from glassformer.data.microworld.voice import Voice
from glassformer.data.microworld.world import Chance, Language
from glassformer.files import write_text

__all__ = ["KINDS", "examples", "write"]

KINDS: dict[str, Callable[..., Any]] = {
    "labelled": records.labelled,
    "scored": records.scored,
    "multi-label": records.multi_label,
    "tagged": records.tagged,
    "asked": asked,
    "parallel": records.parallel,
    "documents": records.documents,
}
# Short sentences come again under another seed, so they are shared out among seeds; pairs, contexts and stories are
# so many that they need not be.
KEYS: dict[str, Callable[[Any], str]] = {
    "labelled": lambda example: example.text,
    "multi-label": lambda example: example.text,
    "tagged": lambda example: " ".join(example.words),
    "parallel": lambda example: example.source,
}
SHARES = 3  # for training, development and test
PATIENCE = 1000  # draws in a row that give nothing new, before the world is taken to be exhausted


def examples(
    kind: str,
    count: int,
    *,
    seed: int = 0,
    language: str = "en",
    source: str | None = None,
    target: str | None = None,
) -> list[Any]:
    """So many different examples of a kind (see KINDS), the same for the same seed.

    labelled: tone of a sentence; scored: pairs and their likeness from 0 to 1; multi-label: topics; tagged: names in
    IOB2; asked: questions with spans, some with none; parallel: translations, from `source` to `target` or with a
    language like "en-zh"; documents: little stories, whose paragraphs are lines.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not of the micro-world: use one of {', '.join(KINDS)}")
    key = KEYS.get(kind)
    voices = [voice_of(language)] if kind != "parallel" else [voice_of(one) for one in sides(language, source, target)]
    found: dict[Any, int] = {}
    draw = tried = 0
    while len(found) < count:
        example = KINDS[kind](Chance(seed, kind, draw), *voices)
        draw += 1
        if key and share_of(key(example)) != seed % SHARES:
            continue
        tried = tried + 1 if example in found else 0
        if tried == PATIENCE:
            raise ValueError(f"count={count}: the micro-world has no more than {len(found)} different {kind} examples")
        found.setdefault(example, len(found))
    if kind == "asked":
        return [replace(one, id=f"{voices[0].language}-{seed}-{number}") for one, number in found.items()]
    return list(found)


def share_of(text: str) -> int:
    """Which seeds a text belongs to."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % SHARES


def sides(language: str, source: str | None, target: str | None) -> tuple[str, str]:
    """The two languages of a translation; from English it is into German, and from others into English."""
    first, _, second = language.partition("-")
    source = source or first
    target = target or second or ("de" if source == "en" else "en")
    if source == target:
        raise ValueError(f"source and target are both {source!r}: give two languages")
    return source, target


def voice_of(language: str) -> Voice:
    for known in get_args(Language):
        if known == language:
            return records.VOICES[known]
    raise ValueError(f"language={language!r} is not spoken in the micro-world: use one of {', '.join(records.VOICES)}")


def write(
    folder: str | Path,
    kind: str,
    count: int,
    *,
    seed: int = 0,
    language: str = "en",
    source: str | None = None,
    target: str | None = None,
) -> list[Path]:
    """Write examples as ordinary files, named after their kind, and give their paths.

    labelled, scored and multi-label are csv; tagged is CoNLL; asked is SQuAD's json; parallel is a file for each
    language; documents is a text with an empty line after each story.
    """
    drawn = examples(kind, count, seed=seed, language=language, source=source, target=target)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "parallel":
        names = [f"{kind}.{side}" for side in sides(language, source, target)]
        texts = ["".join(f"{getattr(one, side)}\n" for one in drawn) for side in ("source", "target")]
    else:
        ending, form = FORMS[kind]
        names, texts = [f"{kind}.{ending}"], [form(drawn)]
    paths = [folder / name for name in names]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths


def as_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return file.getvalue()


def as_conll(drawn: Sequence[Any]) -> str:
    return "".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) + "\n" for one in drawn
    )


def as_squad(drawn: Sequence[Any]) -> str:
    paragraphs = [
        {
            "context": one.context,
            "qas": [
                {
                    "id": one.id,
                    "question": one.question,
                    "answers": [{"text": answer.text, "answer_start": answer.start} for answer in one.answers],
                    "is_impossible": not one.answers,
                }
            ],
        }
        for one in drawn
    ]
    whole = {"version": "v2.0", "data": [{"title": "The micro-world", "paragraphs": paragraphs}]}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


FORMS: dict[str, tuple[str, Callable[[Sequence[Any]], str]]] = {
    "labelled": ("csv", lambda drawn: as_csv(["text", "label"], [(one.text, one.label) for one in drawn])),
    "scored": (
        "csv",
        lambda drawn: as_csv(["sentence1", "sentence2", "score"], [(one.text, one.pair, one.label) for one in drawn]),
    ),
    "multi-label": (
        "csv",
        lambda drawn: as_csv(["text", "labels"], [(one.text, "|".join(one.label)) for one in drawn]),
    ),
    "tagged": ("conll", as_conll),
    "asked": ("json", as_squad),
    "documents": ("txt", lambda drawn: "".join(f"{one.text}\n\n" for one in drawn)),
}
