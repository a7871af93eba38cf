"""positions: losses by position against cross-entropy written out, and what is measured beyond the trained length."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.compare.experiment import compare
from glassformer.compare.experiments.positions import Positions, beyond, losses_by_position
from glassformer.compare.results import Results

pytestmark = pytest.mark.slow  # a grid of trainings; those of test_ladder stand for them in the quick suite

TINY = {"data": "microworld", "length": 8, "width": 8, "layers": 1, "heads": 2, "tokens": 128, "budget": "3steps"}
TINY |= {"set": {"vocab_size": 300, "limit": 50, "batch_tokens": 64}}
DECODER = {"vocab_size": 20, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16}


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", None])
def test_losses_are_those_of_each_window(positions):
    torch.manual_seed(0)
    model = gf.build("glassformer-decoder", "text-generation", positions=positions, **DECODER)
    ids = np.random.default_rng(0).integers(20, size=3 * 16 + 1)
    expected = np.zeros(16)
    for start in (0, 16, 32):
        window = torch.from_numpy(ids[start : start + 17])
        with torch.no_grad():
            logits = model(window[None, :-1]).logits[0]
        expected += F.cross_entropy(logits, window[1:], reduction="none").double().numpy() / 3
    np.testing.assert_allclose(losses_by_position(model, ids, 16), expected, rtol=1e-5)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = str(tmp_path_factory.mktemp("positions") / "out")
    return compare("positions", jobs=0, out=out, seeds=1, **TINY)


def test_each_kind_is_measured_as_far_as_it_reads(found):
    results = found.results
    assert results.contestants == ["sinusoidal", "learned", "rotary", "relative", "none"]
    for kind in results.contestants:
        lengths = [8] if kind == "learned" else [8, 16, 32]
        (cell,) = results.of(kind)
        assert [name for name in cell.facts if name.startswith("loss at")] == [f"loss at {one}" for one in lengths]
        assert cell.facts["tokens"] == 128
        assert len(cell.facts["losses"]) == len(cell.facts["positions"]) == lengths[-1]
        assert np.mean(cell.facts["losses"]) == pytest.approx(cell.facts[f"loss at {lengths[-1]}"])


def test_the_report_has_the_curve_and_says_where_a_table_ends(found):
    names = [figure.name for one in found.report.sections for figure in one.figures]
    assert names == ["scores", "loss-by-position"]
    table = found.report.sections[1].tables[0]
    assert [row.entries[0].text for row in table.rows] == found.results.contestants
    assert [entry.text for entry in table.rows[1].entries[2:]] == ["–", "–"]
    assert any(
        one.en == "learned: its table ends at 8 tokens, and so does what it can read." for one in found.report.findings
    )


@pytest.mark.parametrize(
    ("grown", "said"),
    [((0.2, 0.4), "rises by 0.300"), ((-0.2, -0.4), "falls by 0.300"), ((0.2, -0.1), "does not change clearly")],
)
def test_a_change_is_said_where_all_seeds_agree(found, grown, said):
    (cell,) = found.results.of("none")
    cells = [type(cell)(**{**vars(cell), "facts": {"loss at 8": 3.0, "loss at 32": 3.0 + by}}) for by in grown]
    assert said in beyond(Results(found.folder, cells), "none", 8).en


def test_lengths_are_doubles_up_to_the_longest():
    assert Positions(out="out", data="x", length=10, times=6).lengths == [10, 20, 40, 60]
    assert Positions(out="out", data="x", length=10, times=1).lengths == [10]


def test_what_no_cell_could_do_is_refused(tmp_path):
    out = str(tmp_path / "out")
    with pytest.raises(ValueError, match="so its task is text-generation, not 'translation'"):
        compare("positions", jobs=0, out=out, **{**TINY, "task": "translation"})
    with pytest.raises(ValueError, match="cannot be shared by 3 heads"):
        compare("positions", jobs=0, out=out, **{**TINY, "heads": 3})


def test_a_text_that_is_too_short_is_a_red_row(tmp_path):
    (tmp_path / "text.txt").write_text("a few words, and a few more of them\n" * 4)
    found = compare(
        "positions", jobs=0, out=str(tmp_path / "out"), seeds=1, **{**TINY, "data": str(tmp_path / "text.txt")}
    )
    failed = [one for one in found.results.cells if one.state == "failed"]
    assert len(failed) == 5
    assert all("are read at once: give more text, or a smaller length" in one.error for one in failed)
