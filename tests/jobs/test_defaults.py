"""What a run takes where nobody says otherwise: rates by size, and enough passes over a small file."""

import pytest
import torch
from torch import nn

from glassformer.jobs.assemble import assemble
from glassformer.jobs.defaults import MILLION, defaults
from glassformer.jobs.recipe import Recipe


def of_size(millions):
    return nn.Linear(millions * MILLION, 1, bias=False, device="meta")


def fine_tuning(task="text-classification", millions=110, examples=None):
    return defaults(task, of_size(millions), pretrained=True, device="cpu", examples=examples)


def test_the_smaller_the_model_the_higher_the_rate():
    rates = [fine_tuning(millions=size)["lr"] for size in (3, 22, 40, 110)]
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == 4
    assert rates[-1] == 2e-5  # BERT's own


@pytest.mark.parametrize(
    ("task", "examples", "epochs"),
    [
        ("text-classification", None, 3),
        ("text-classification", 100_000, 3),
        ("text-classification", 1_000, 7),
        ("text-classification", 16, 10),
        ("token-classification", 100_000, 4),
        ("translation", 16, 3),  # its batches are of tokens, so that examples do not tell the updates
    ],
)
def test_few_examples_are_read_more_often(task, examples, epochs):
    assert fine_tuning(task, examples=examples)["epochs"] == epochs


def test_a_run_counts_its_own_examples_and_steps_that_are_given_stand(tmp_path):
    rows = [f"a {word} film of {n},{label}" for word, label in (("good", "y"), ("bad", "n")) for n in range(400)]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]))
    given = {"model": "zoo:bert-mini-en", "data": [str(tmp_path / "data.csv")], "out": str(tmp_path / "run")}
    for plan, expected in (({}, (9, None)), ({"steps": 5}, (None, 5)), ({"epochs": 1}, (1, None))):
        recipe = Recipe(task="text-classification", **given, plan=plan)
        made = assemble(recipe, torch.device("cpu")).plan
        assert (made.epochs, made.steps) == expected
