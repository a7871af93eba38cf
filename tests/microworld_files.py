"""The micro-world as the files that a user would have: csv, CoNLL, SQuAD's json, parallel and plain text."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glassformer.data import microworld
from glassformer.data.examples import Labelled, SquadExample

HEADERS = {
    "labelled": ["text", "label"],
    "scored": ["sentence1", "sentence2", "score"],
    "multi-label": ["text", "labels"],
    "nli": ["premise", "hypothesis", "label"],
}


def write_examples(folder: Path, kind: str, count: int, **settings: Any) -> list[Path]:
    """Write examples to files named after their kind; the settings are those of microworld.examples."""
    drawn = microworld.examples(kind, count, **settings)
    sides = [settings.get(name) for name in ("source", "target")]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in file_texts(kind, drawn, microworld.sides(settings.get("language", "en"), *sides)).items():
        paths.append(folder / name)
        paths[-1].write_text(text, encoding="utf-8", newline="")
    return paths


def file_texts(kind: str, examples: Sequence[Any], languages: Sequence[str]) -> dict[str, str]:
    """The files that examples of a kind are written to: names and texts; a translation has one for each language."""
    match kind:
        case "parallel":
            sides = zip(*((one.source, one.target) for one in examples), strict=True)
            files = zip(languages, sides, strict=True)
            return {f"{kind}.{language}": _lines(side) for language, side in files}
        case "summaries":
            rows = [{"article": one.source, "summary": one.target} for one in examples]
            return {f"{kind}.jsonl": _lines(json.dumps(row, ensure_ascii=False) for row in rows)}
        case "tagged":
            return {f"{kind}.conll": _lines(_conll(one.words, one.tags) for one in examples)}
        case "asked":
            return {f"{kind}.json": _squad(examples)}
        case "documents":
            return {f"{kind}.txt": _lines(f"{one.text}\n" for one in examples)}
    return {f"{kind}.csv": _csv(HEADERS[kind], examples)}


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _conll(words: Sequence[str], tags: Sequence[str]) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))


def _csv(header: Sequence[str], examples: Sequence[Labelled]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for one in examples:
        label = "|".join(one.label) if isinstance(one.label, tuple) else one.label
        writer.writerow([one.text, label] if one.pair is None else [one.text, one.pair, label])
    return file.getvalue()


def _squad(examples: Sequence[SquadExample]) -> str:
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
        for one in examples
    ]
    whole = {"version": "v2.0", "data": [{"title": "The micro-world", "paragraphs": paragraphs}]}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
