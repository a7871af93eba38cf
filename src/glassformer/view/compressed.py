"""Values as a page carries them: 16-bit floats, compressed, and what is left out where they are too many.

N matrices of T x S.
"""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from .board import Board, Matrices, pooled

BUDGET = 4_600_000  # characters of all values of a page
DIGITS = (10, 8, 6)  # bits behind the point that are tried before anything is left out
MOST = 3_000_000  # values: beyond these nothing is tried, for even 6 bits would not fit
SIDE, OVERVIEW = 64, 600_000  # cells along a pooled matrix, and values of all of them
WORST = 2 * 4 / 3  # characters a value, where nothing can be compressed


@dataclass(frozen=True)
class Block:
    """Some matrices of a board, by their places in its grid; a cell stands for `down` x `across` values."""

    heads: list[int]
    down: int
    across: int
    shape: tuple[int, int]
    data: str


@dataclass(frozen=True)
class CompressedPages:
    """The blocks of every board, first one that holds all of its matrices; and how exact a number is."""

    blocks: list[list[Block]]
    bits: int

    @property
    def error(self) -> tuple[float, float]:
        """The largest error of a number: a share of it, or near zero an absolute one."""
        share = 2.0**-11 + (2.0 ** -(self.bits + 1) if self.bits < 10 else 0.0)  # rounded once, or twice
        return share, share * 2.0**-14


def compress(boards: Sequence[Board], first: Sequence[Sequence[int]] | None = None) -> CompressedPages:
    """All matrices if they fit; else all of them pooled, and as many whole ones as there is room for.

    `first` names the matrices of each board that are to be whole; after them come the best of every board.
    """
    if sum(board.values.size for board in boards) <= MOST:
        for bits in DIGITS:
            blocks = [[_block(board, range(_count(board)), 1, 1, bits)] for board in boards]
            if sum(len(block.data) for (block,) in blocks) <= BUDGET:
                return CompressedPages(blocks, bits)
    return _with_the_rest_pooled(boards, first or [[] for _ in boards])


def _with_the_rest_pooled(boards: Sequence[Board], first: Sequence[Sequence[int]]) -> CompressedPages:
    matrices = sum(map(_count, boards))
    side = min(SIDE, int(sqrt(OVERVIEW / matrices)))
    blocks = []
    for board in boards:
        down, across = (ceil(length / side) for length in board.values.shape[-2:])
        blocks.append([_block(board, range(_count(board)), down, across, DIGITS[0])])
    left = BUDGET - sum(len(block.data) for (block,) in blocks)
    ranked = [each for place, board in enumerate(boards) for each in _ranked(board, place, first[place])]
    for _, place, head in sorted(ranked):
        if left >= WORST * boards[place].values[0, 0].size:
            blocks[place].append(_block(boards[place], [head], 1, 1, DIGITS[0]))
            left -= len(blocks[place][-1].data)
    return CompressedPages(blocks, DIGITS[0])


def _ranked(board: Board, place: int, first: Sequence[int]) -> list[tuple[int, int, int]]:
    """(rank, board, matrix): the chosen have rank 0, then come the sharpest, or the states in their order."""
    order = (
        np.argsort(board.statistics["entropy"].ravel()) if "entropy" in board.statistics else np.arange(_count(board))
    )
    return [(0 if head in first else rank + 1, place, head) for rank, head in enumerate(order.tolist())]


def _block(board: Board, heads: Sequence[int], down: int, across: int, bits: int) -> Block:
    values = board.values.reshape(_count(board), *board.values.shape[-2:])[list(heads)]
    if (down, across) != (1, 1):
        values = pooled(values, down, across)
    return Block(list(heads), down, across, values.shape[-2:], encoded(values, bits))


def encoded(values: Matrices, bits: int = 10) -> str:
    """Rounded to so many bits; all high bytes, then all low ones, which compresses better; deflated; base64."""
    halves = rounded(values, bits).view(np.uint16).ravel()
    planes = np.concatenate([(halves >> 8).astype(np.uint8), (halves & 255).astype(np.uint8)])
    return b64encode(zlib.compress(planes.tobytes(), 6)).decode()


def rounded(values: Matrices, bits: int = 10) -> Matrices:
    """The 16-bit floats that a page holds of these values."""
    halves = np.asarray(values, np.float32).astype(np.float16)
    if bits == 10:
        return halves
    dropped = 10 - bits
    whole = (halves.view(np.uint16) + np.uint16(1 << (dropped - 1))) & np.uint16(0xFFFF << dropped & 0xFFFF)
    return whole.view(np.float16)


def _count(board: Board) -> int:
    return len(board.rows) * len(board.columns)
