"""scaling: exponents of made-up numbers, bytes of calls whose memory is known, and a complete small run."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glassformer.compare.cell import CellResult
from glassformer.compare.experiment import compare
from glassformer.compare.experiments.scaling import ALL, TEXTBOOK, Scaling, exponent, layer, passes
from glassformer.compare.profiling import peak_bytes, seconds_in_turns
from glassformer.compare.results import Results
from glassformer.compare.statistics import fit_exponent
from glassformer.models.contract import as_model

CPU = torch.device("cpu")
LENGTHS = [8, 16, 32, 64]


@pytest.mark.parametrize("power", [0.5, 1, 2, 3])
def test_the_exponent_of_a_power_is_its_power(power):
    found = fit_exponent([2, 4, 16, 100], [7 * size**power for size in (2, 4, 16, 100)])
    assert found == pytest.approx((power, 0.0), abs=1e-9)


def test_the_error_is_that_of_a_linear_regression():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    sizes = np.array([64, 128, 256, 512, 1024])
    values = sizes**1.5 * np.exp(random.normal(0, 0.1, 5))
    expected = stats.linregress(np.log(sizes), np.log(values))
    found = fit_exponent(sizes.tolist(), values.tolist())
    assert found == pytest.approx((expected.slope, expected.stderr))


def test_two_points_have_no_error_and_one_has_no_exponent():
    assert fit_exponent([1, 2], [1, 8]) == (pytest.approx(3.0), None)
    with pytest.raises(ValueError, match="two sizes or more"):
        fit_exponent([5, 5], [1, 2])
    with pytest.raises(ValueError, match="above zero"):
        fit_exponent([5, 6], [0, 2])


def test_the_peak_is_of_what_is_there_at_once():
    def call():
        first = torch.ones(1000)
        second = first + 1  # 8000 bytes with the first
        del first
        third = second * 2
        del second
        return third

    assert 8000 <= peak_bytes(call, CPU) < 8100  # the numbers 1 and 2 are tensors for a moment


def test_all_take_their_turns():
    order = []
    calls = {name: (lambda name=name: order.append(name) or torch.ones(200_000).sum()) for name in "abc"}
    found = seconds_in_turns(calls, CPU, rounds=3)
    assert found.keys() == calls.keys()
    assert all(seconds > 0 for seconds in found.values())
    runs = [name for place, name in enumerate(order) if place == 0 or order[place - 1] != name]
    assert runs == [*"abc", *"abc", *"bca", *"cab"]


def test_a_pass_leaves_nothing_behind_that_the_next_would_count():
    call = passes(layer("lstm", 8, 16), torch.randint(1000, (1, 16)), CPU, backward=True)
    call()
    weights = 4 * 1000 * 8  # bytes of the gradient of the embeddings, a part of every backward pass
    first, second = peak_bytes(call, CPU), peak_bytes(call, CPU)
    assert first == second > weights


@pytest.mark.parametrize("contestant", TEXTBOOK)
def test_a_layer_goes_back_as_in_training_and_has_no_dropout(contestant):
    """cuDNN has no way back through a recurrent layer that is not training."""
    model, ids = layer(contestant, 8, 12), torch.randint(1000, (2, 12))
    passes(model, ids, CPU, backward=False)
    assert not any(part.training for part in model.modules())
    before = as_model(model).hidden(ids)
    passes(model, ids, CPU, backward=True)
    assert all(part.training for part in model.modules())
    assert_close(as_model(model).hidden(ids), before)


def test_textbook_and_fused_are_one_layer_read_in_two_ways():
    ids = torch.randint(1000, (2, 12))
    readings = [as_model(layer(f"transformer ({way})", 16, 12)).hidden(ids) for way in ("textbook", "fused")]
    assert_close(*readings)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = str(tmp_path_factory.mktemp("scaling") / "out")
    return compare("scaling", jobs=0, out=out, lengths=LENGTHS, width=8, rounds=1, device="cpu")


def test_every_length_and_contestant_is_measured(found):
    assert found.results.places("length") == LENGTHS
    for cell in found.results.done:
        assert [*cell.facts] == [*TEXTBOOK]
        for facts in cell.facts.values():
            assert facts.keys() == {"memory forward", "time forward", "memory both", "time both"}
            assert min(facts.values()) > 0
        scores = 4 * 4 * cell.place["length"] ** 2  # bytes of four heads
        assert cell.facts["transformer (textbook)"]["memory forward"] >= 2 * scores  # and the weights made of them


def test_the_report_has_time_and_memory_beside_the_textbook(found):
    time, memory = found.report.sections
    assert (time.title.en, memory.title.en) == ("Time", "Memory")
    names = [figure.name for one in (time, memory) for figure in one.figures]
    assert names == ["time-forward", "time-both", "memory-forward", "memory-both"]
    assert [[row.entries[0].text, row.entries[1].text] for row in memory.tables[0].rows] == [
        ["lstm", "O(n)"],
        ["gru", "O(n)"],
        ["cnn", "O(n)"],
        ["transformer (textbook)", "O(n²)"],
        ["transformer (fused)", "O(n)"],
    ]


def made_up(**powers):
    """Results whose times and bytes are powers of the length."""
    facts = ("time forward", "time both", "memory forward", "memory both")
    cells = [
        CellResult(
            contestant=ALL, seed=0, place={"length": n}, state="done", folder=str(n),
            facts={one.replace("_", " "): dict.fromkeys(facts, 0.001 * n ** power) for one, power in powers.items()},
        )
        for n in (64, 128, 256, 512)
    ]  # fmt: skip
    return Results(None, cells)


def test_sentences_say_where_the_textbook_is_left_and_why():
    told = [one.en for one in Scaling(out="out", width=32).findings(made_up(lstm=1.0, gru=0.5, cnn=1.4))]
    assert told[0].startswith(
        "At 64 tokens, from the quickest (forward and backward): gru 8 ms, lstm 64 ms, cnn 338 ms"
    )
    assert "lstm: time grows like n^1.00 ± 0.00, O(n) in textbooks; as textbooks say." in told
    assert "gru: time grows like n^0.50 ± 0.00, O(n) in textbooks; less, because costs that every call has" in told[4]
    assert "more: a likely reason" in told[6]
    results = made_up(**{"transformer_(textbook)": 1.5})
    told = [one.en for one in Scaling(out="out", width=32).findings(results)]
    assert "from n = 6·d = 192 on only" in told[0]
    assert "4 tables of n × n" in told[1]


def test_nothing_is_said_of_a_fit_that_is_unsure():
    results = made_up(lstm=1.0)
    for cell, times in zip(results.cells, (1, 9, 2, 9), strict=True):
        cell.facts["lstm"]["time both"] = times
    told = [one.en for one in Scaling(out="out", width=32).findings(results)]
    assert "too unsure to tell" in told[0]
    assert told[1] == "lstm: memory grows like n^1.00 ± 0.00, O(n) in textbooks; as textbooks say."


def test_the_fit_is_over_the_longer_half():
    cells = [
        CellResult(contestant=ALL, seed=0, place={"length": n}, state="done", folder=str(n), facts={"lstm": {"t": t}})
        for n, t in zip([1, 2, 4, 8, 16, 32], [9, 9, 9, 8, 16, 32], strict=True)
    ]
    assert exponent(Results(None, cells), "lstm", "t") == pytest.approx((1.0, 0.0), abs=1e-9)
    assert exponent(Results(None, cells[:2]), "lstm", "t") is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contestants": ["mlp"]}, "there is no contestant 'mlp'; there are: lstm, gru, cnn"),
        ({"lengths": [8, 8, 16]}, "give three or more"),
        ({"lengths": [0, 8, 16]}, "lengths"),
        ({"width": 6}, "give a multiple of 4"),
        ({"budget": "3steps"}, "scaling trains nothing"),
    ],
)
def test_what_no_cell_could_do_is_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        compare("scaling", jobs=0, out=str(tmp_path / "out"), **settings)
