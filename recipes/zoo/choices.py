"""How often a model gives a text the right one of the labels that it comes with, and that nobody has trained."""

import json
from collections.abc import Mapping
from pathlib import Path

from glassformer.jobs.predict import pipeline


def worth(model: str | Path, files: Mapping[str, str]) -> dict[str, float]:
    """Of each file, by what it is called: the share that the model has right, and what is reached by chance."""
    pipe, found = pipeline("zero-shot-classification", model, device="cpu"), {}
    for what, file in files.items():
        rows = [json.loads(line) for line in Path(file).read_text("utf-8").split("\n") if line]
        chosen = [pipe(row["text"], candidate_labels=row["labels"])["labels"][0] for row in rows]
        found[what] = sum(row["label"] == label for row, label in zip(rows, chosen, strict=True)) / len(rows)
        found[f"{what}, by chance"] = sum(1 / len(row["labels"]) for row in rows) / len(rows)
    return found
