"""Texts that the page offers to look at: a built-in model's own, and for other models some for each task."""

from glassformer.tasks.text_generation import control_token
from glassformer.zoo import Card

EXAMPLE_INPUTS: dict[str, list[dict[str, str]]] = {
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
    "summarization": [
        {"inputs": "Sophie repaired a chair in the garden on Monday. Leo missed the train. He called Anna last night."},
        {"inputs": "Last summer Oskar helped Daniel in Rome. Mia bought a red hat. David played tennis at the school."},
    ],
    "translation": [
        {"inputs": "Sophie repaired a chair in the garden."},
        {"inputs": "Oskar helped Daniel in May."},
        {"inputs": "Nobody at Luna Games knew Anna Stone."},
    ],
}


def example_inputs(task: str | None, mask: str | None = None) -> list[dict[str, str]]:
    """The texts for a task, with the tokenizer's own mask; none for a task that has none."""
    rows = EXAMPLE_INPUTS.get(task or "", [])
    return [{name: text.replace("[MASK]", mask or "[MASK]") for name, text in row.items()} for row in rows]


def built_in_inputs(card: Card) -> list[dict[str, str]]:
    """The texts of a card; a condition stands before its text, as the model reads it."""
    rows = [dict(row) for row in card.get("examples", [])]
    for row in rows:
        if "condition" in row:
            row["inputs"] = control_token(row.pop("condition")) + row["inputs"]
    return rows
