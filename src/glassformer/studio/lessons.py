"""Easy lessons from the micro-world: short sentences and short questions, which a small model learns in seconds."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data import microworld
from glassformer.data.examples import Answer, Asked
from glassformer.files import write_text

COUNTS = {"train": 4000, "dev": 400}
LONGEST = 8  # words of a sentence


def write_lesson(task: str, folder: Path) -> dict[str, list[str]]:
    """The files of a task's lesson, as settings of gf.train."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[str]] = {}
    for seed, (split, count) in enumerate(COUNTS.items()):
        paths = LESSONS[task](folder / split, seed, count)
        files["data" if split == "train" else split] = [str(path) for path in paths]
    return files


def _sentences(seed: int, count: int) -> list[Any]:
    """Short sentences with their German translations."""
    drawn = microworld.examples("parallel", 5 * count // 2, seed=seed, language="en-de")
    return list(islice((one for one in drawn if len(one.source.split()) <= LONGEST), count))


def _lines(path: Path, texts: Iterable[str]) -> Path:
    write_text(path, "".join(f"{text}\n" for text in texts))
    return path


def _translations(stem: Path, seed: int, count: int) -> list[Path]:
    pairs = _sentences(seed, count)
    return [
        _lines(stem.with_suffix(".en"), (one.source for one in pairs)),
        _lines(stem.with_suffix(".de"), (one.target for one in pairs)),
    ]


def _texts(stem: Path, seed: int, count: int) -> list[Path]:
    return [_lines(stem.with_suffix(".txt"), (one.source for one in _sentences(seed, count)))]


def _questions(stem: Path, seed: int, count: int) -> list[Path]:
    count *= 2  # for they are harder than the others
    drawn = microworld.examples("asked", 3 * count // 2, seed=seed)
    asked = list(islice((shortened(one) for one in drawn if one.answers), count))
    paragraphs = [
        {
            "context": one.context,
            "qas": [
                {
                    "id": one.id,
                    "question": one.question,
                    "answers": [{"text": answer.text, "answer_start": answer.start} for answer in one.answers],
                }
            ],
        }
        for one in asked
    ]
    write_text(stem.with_suffix(".json"), json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return [stem.with_suffix(".json")]


def shortened(one: Asked) -> Asked:
    """A question with the sentence that answers it, and the one before or else after it: "he" was named there."""
    (answer,) = one.answers
    sentences = one.context.removesuffix(".").split(". ")
    first = max(0, one.context[: answer.start].count(". ") - 1)
    cut = sum(len(sentence) + 2 for sentence in sentences[:first])
    kept = ". ".join(sentences[first : first + 2]) + "."
    return replace(one, context=kept, answers=(Answer(answer.text, answer.start - cut),))


LESSONS: dict[str, Callable[[Path, int, int], list[Path]]] = {
    "translation": _translations,
    "fill-mask": _texts,
    "question-answering": _questions,
}

EXAMPLES: dict[str, list[dict[str, str]]] = {  # what the page offers to look at, for each task
    "text-classification": [
        {"inputs": "Simon was not worried but content."},
        {"inputs": "The concert was not at all pleasing."},
        {"inputs": "Last summer Peter Weber played the violin in the square."},
    ],
    "token-classification": [
        {"inputs": "Berlin Books is looking for people in Paris and London."},
        {"inputs": "In the office, Anna London broke a cheap mirror in October."},
        {"inputs": "At the station, Robert Stone and Lukas helped Paul on Tuesday."},
    ],
    "question-answering": [
        {"inputs": "Who travelled to Rome?", "pair": "Peter travelled to Rome. Sarah travelled to Hong Kong by bus."},
        {"inputs": "When did Leo call David?", "pair": "Leo Weber called David three weeks ago. Mia lost a hat."},
        {"inputs": "Where did Paul play tennis?", "pair": "Jonas played tennis. Paul played tennis at the school."},
    ],
    "fill-mask": [
        {"inputs": "Sophie repaired a chair in the [MASK]."},
        {"inputs": "Nobody at Luna Games [MASK] Anna Stone."},
        {"inputs": "Oskar [MASK] Daniel in May."},
    ],
    "text-generation": [
        {"inputs": "Emma Weber lived in Beijing and worked as a"},
        {"inputs": "One morning Leo found a big rabbit in the square. It was"},
        {"inputs": "Helena was very sad. She asked Sophie, but Sophie"},
    ],
    "translation": [
        {"inputs": "Sophie repaired a chair in the garden."},
        {"inputs": "Oskar helped Daniel in May."},
        {"inputs": "Nobody at Luna Games knew Anna Stone."},
    ],
}


def examples(task: str | None, mask: str = "[MASK]") -> list[dict[str, str]]:
    """Texts of the micro-world that no demo model was trained on; none for a task that has none."""
    return [{name: text.replace("[MASK]", mask) for name, text in one.items()} for one in EXAMPLES.get(task or "", [])]
