"""recurrence: gradients by distance against the chain rule written out, and lessons scored at each length."""

import math

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.compare.experiment import compare
from glassformer.compare.experiments.recurrence import CONTESTANTS, factor, gradient_norms
from glassformer.tasks.teaching import examples

TINY = {"lessons": ["adding"], "width": 8, "length": 4, "lengths": [3, 6], "distance": 7, "examples": 60}


def rnn(kind="rnn", **settings):
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "embedding_size": 16, "hidden_size": 16, **settings}
    return gf.build("glassformer-rnn", "text-generation", kind=kind, **sizes).double()


def test_gradients_of_an_rnn_are_those_of_the_chain_rule():
    model, ids = rnn(), torch.randint(12, (3, 6))
    kernel = model.recurrent.kernel
    mix = torch.randn(12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = torch.zeros(6, dtype=torch.float64)
    with torch.no_grad():
        for row in ids:
            states = [torch.zeros(16, dtype=torch.float64)]
            for token in row:
                given = kernel.weight_ih_l0 @ model.embeddings.token.weight[token] + kernel.bias_ih_l0
                states.append(torch.tanh(given + kernel.weight_hh_l0 @ states[-1] + kernel.bias_hh_l0))
            back = (mix / mix.norm()) @ model.head.weight
            for distance in range(6):
                back = back * (1 - states[6 - distance] ** 2)
                expected[distance] += (back @ kernel.weight_ih_l0).norm() / len(ids)
                back = back @ kernel.weight_hh_l0
    assert_close(gradient_norms(model, ids, seed=5), expected)


def test_a_factor_is_that_of_a_geometric_series_whatever_stands_at_distance_zero():
    assert factor([123.0, *(0.8**distance for distance in range(1, 20))]) == pytest.approx(0.8)
    assert math.isnan(factor([1.0, 0.5]))


@pytest.mark.parametrize("bias", [0.0, 1.0, 2.0])
def test_an_lstms_gradients_fade_as_its_forget_gates_say(bias):
    model = rnn("lstm", embedding_size=64, hidden_size=64, forget_bias=bias)
    ids = torch.randint(12, (8, 61), generator=torch.Generator().manual_seed(1))
    gate = torch.tensor(bias).sigmoid().item()
    assert factor(gradient_norms(model, ids, seed=0).tolist()) > gate + 0.02  # outputs pass something back as well
    with torch.no_grad():
        model.recurrent.kernel.weight_hh_l0.zero_()
    assert factor(gradient_norms(model, ids, seed=0).tolist()) == pytest.approx(gate, abs=0.01)


def test_a_transformer_sees_the_first_token_as_well_as_those_between():
    torch.manual_seed(0)
    model = gf.build("gpt2", "text-generation", vocab_size=12, n_embd=32, n_head=4, n_layer=2, n_positions=64).double()
    norms = gradient_norms(model, torch.randint(12, (4, 60)), seed=0)
    assert factor(norms.tolist()) == pytest.approx(1.0, abs=0.02)
    assert norms[59] > 0.1 * norms[5]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = str(tmp_path_factory.mktemp("recurrence") / "out")
    chosen = ["rnn", "transformer"]
    return compare("recurrence", jobs=0, out=out, seeds=1, budget="3steps", contestants=chosen, **TINY)


def test_every_cell_is_measured(found):
    assert found.results.contestants == ["rnn", "transformer"]
    for cell in found.results.done:
        for name in ("initial", "trained"):
            assert len(cell.facts[f"{name} gradient"]) == 7 + 2 + 1  # digits, two marks, and the equals sign
            assert cell.facts[f"{name} gradient"][0] == 1.0
            assert cell.facts[f"{name} factor"] > 0


def test_scores_by_length_are_those_of_the_answers_that_are_written(found):
    (cell,) = found.results.of("rnn")
    pipe = gf.pipeline("adding", found.folder / "cells" / cell.folder / "run")
    for length in (3, 6):
        asked = examples("adding", 200, seed=2, length=length)
        answers = pipe([one.source for one in asked])
        right = sum(answer["answer"] == one.target for answer, one in zip(answers, asked, strict=True))
        assert cell.facts[f"right at {length}"] == pytest.approx(right / 200)


def test_the_report_has_gradients_and_every_lesson(found):
    sections = found.report.sections
    assert [one.title.en for one in sections] == ["Gradients by distance", "adding: the sum of two marked digits"]
    names = [figure.name for one in sections for figure in one.figures]
    assert names == ["gradient-norm-before-training", "gradient-norm-after-learning-adding", "adding-by-length"]
    assert all((found.folder / f"{name}.svg").is_file() for name in names)
    assert found.report.findings[0].en.startswith("rnn, before training: each token further back")
    assert found.report.findings[-1].en.startswith("adding: right at 6 digits, from the best: ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contestants": ["esn"]}, "there is no 'esn' in this experiment; there are: rnn; gru; lstm, forget bias 0"),
        ({"lessons": ["sorting"]}, "there is no 'sorting' in this experiment; there are: parity; copy; adding"),
        ({"lessons": []}, "give a lesson or more"),
        ({"lengths": [1, 8]}, "lengths of 2 digits or more"),
        ({"width": 6}, "give a multiple of 4"),
        ({"budget": "soon"}, "the budget 'soon' is no length of training"),
    ],
)
def test_what_no_cell_could_do_is_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        compare("recurrence", jobs=0, out=str(tmp_path / "out"), **{**TINY, **settings})


def test_all_contestants_have_recipes(tmp_path):
    from glassformer.compare.experiments.recurrence import Recurrence

    cells = Recurrence(out=str(tmp_path), seeds=2).cells()
    assert len(cells) == 2 * 3 * len(CONTESTANTS)
    assert {cell.recipe["config"].get("forget_bias") for cell in cells} == {None, 0.0, 1.0, 2.0}
