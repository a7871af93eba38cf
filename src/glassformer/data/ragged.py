"""Rows of unequal length in one flat array: small in memory, padded in one stroke.

N rows in all, B rows asked for, T the longest of them.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Ragged:
    """Row i is flat[starts[i] : starts[i + 1]]."""

    def __init__(self, flat: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        self.flat = flat
        self.lengths = lengths  # (N,)
        self.starts = np.concatenate([[0], lengths.cumsum()])  # (N + 1,)

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Ragged":
        arrays = [np.asarray(row, np.int32) for row in rows]
        lengths = np.array([len(row) for row in arrays], np.int64)
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, np.int32), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.flat[self.starts[index] : self.starts[index + 1]]

    def padded(self, indices: NDArray[np.int64], fill: int) -> Tensor:
        """The rows asked for, filled up on the right: (B, T)."""
        lengths = self.lengths[indices]
        width = int(lengths.max(initial=0))
        place = np.arange(width)
        real = place < lengths[:, None]  # (B, T)
        table = np.full((len(indices), width), fill, np.int64)
        table[real] = self.flat[(self.starts[indices][:, None] + place)[real]]
        return torch.from_numpy(table)

    def mask(self, indices: NDArray[np.int64]) -> Tensor:
        """1 where `padded` holds a real token: by length, never by value."""
        lengths = self.lengths[indices]
        return torch.from_numpy((np.arange(int(lengths.max(initial=0))) < lengths[:, None]).astype(np.int64))
