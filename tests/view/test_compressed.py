"""Values on their way into a page: as exact as it says, within their room, and the chosen ones whole."""

import zlib
from base64 import b64decode

import numpy as np
import pytest

from boards import made_up
from glassformer.view import compressed
from glassformer.view.board import pooled
from glassformer.view.compressed import CompressedPages, compress, encoded, rounded
from glassformer.view.page import left_out, page


def decoded(text):
    planes = np.frombuffer(zlib.decompress(b64decode(text)), np.uint8).reshape(2, -1).astype(np.uint16)
    return (planes[0] << 8 | planes[1]).view(np.float16)


@pytest.mark.parametrize("bits", [10, 8, 6])
def test_a_number_is_as_exact_as_the_page_says(bits):
    chance = np.random.default_rng(0)
    values = (chance.standard_normal(200_000) * 10.0 ** chance.integers(-9, 3, 200_000)).astype(np.float32)
    kept = decoded(encoded(values, bits)).astype(float)
    np.testing.assert_array_equal(kept, rounded(values, bits).astype(float))
    share, near_zero = CompressedPages([], bits).error
    assert (np.abs(kept - values) <= np.maximum(share * np.abs(values.astype(float)), near_zero)).all()
    assert np.abs(kept / values.astype(float) - 1)[np.abs(values) > 1e-3].max() > share / 2  # and it does not overstate


def test_all_is_there_where_it_fits():
    board = made_up()
    found = compress([board])
    ((block,),) = found.blocks
    np.testing.assert_array_equal(decoded(block.data).reshape(board.values.shape), rounded(board.values))
    assert left_out(board, [block]) == ""


def test_fewer_bits_come_before_leaving_out(monkeypatch):
    board = made_up(2, 4, 40)
    sizes = [len(encoded(board.values, bits)) for bits in (10, 8, 6)]
    assert sizes[0] > sizes[1] > sizes[2]
    for room, bits in zip(sizes, (10, 8, 6), strict=True):
        monkeypatch.setattr(compressed, "BUDGET", room)
        assert compress([board]).bits == bits
    text = page([board], title="", caption="")
    assert "at most 0.83% of" in text


@pytest.mark.slow
def test_128_tokens_of_twelve_by_twelve_are_within_five_megabytes():
    board = made_up(12, 12, 128)
    text = page([board], title="x", caption="y")
    assert len(text) <= 5_000_000
    assert len(compress([board]).blocks[0]) == 1  # all of it


def test_what_does_not_fit_is_pooled_and_the_chosen_come_whole(monkeypatch):
    monkeypatch.setattr(compressed, "MOST", 1000)
    monkeypatch.setattr(compressed, "OVERVIEW", 24 * 2 * 100)
    board, other = made_up(2, 3, 40), made_up(2, 3, 40, seed=1)
    whole = len(encoded(board.values[0, 0]))
    pooled_size = len(encoded(pooled(np.stack([board.values, other.values]), 2, 2)))
    monkeypatch.setattr(compressed, "BUDGET", pooled_size + 5 * whole)
    blocks, others = compress([board, other], [[], [2, 4]]).blocks
    assert [block.heads for block in others[:3]] == [list(range(6)), [2], [4]]
    assert others[0].shape == (20, 20)
    assert (others[0].down, others[0].across) == (2, 2)
    np.testing.assert_array_equal(decoded(others[2].data).reshape(40, 40), rounded(other.values[1, 1]))
    told = left_out(other, others)
    assert "6 matrices of 40 × 40 are 9,600 numbers" in told
    assert "the largest of 2 × 2 values" in told
    kept = ", ".join(f"{head // 3}.{head % 3}" for head in sorted(block.heads[0] for block in others[1:]))
    assert f"Kept whole, as layer.head: {kept}. " in told
    assert len(blocks) > 1
    sharpest = np.argsort(board.statistics["entropy"].ravel())
    assert [block.heads[0] for block in blocks[1:]] == sharpest[: len(blocks) - 1].tolist()
    assert sum(len(block.data) for block in (*blocks, *others)) <= compressed.BUDGET
