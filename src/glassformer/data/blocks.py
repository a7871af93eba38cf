"""Running text cut to size: documents in one stream, and windows over it that score every token once.

N tokens of the stream, W windows, L tokens a window, B windows asked for.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.data.joined import JoinedShards
from glassformer.data.mixing import CorpusPart
from glassformer.data.shards import Shards
from glassformer.text.tokenizer import Tokenizer

CHUNK = 1000  # documents tokenised at a time


class TokenStream(Protocol):
    """A long row of ids: an array in memory, or one that stays on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> NDArray[Any]: ...


def tokenised(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterable[NDArray[np.int64]]:
    """The ids of each text, without special tokens and whole, however long."""
    for start in range(0, len(texts), CHUNK):
        yield from tokenizer.backend.rows(list(texts[start : start + CHUNK]), split=False, target=False)


def joined(rows: Iterable[NDArray[Any]], end: int | None = None) -> NDArray[np.int32]:
    """Documents as one stream; the end token stands after each, and before the first."""
    end_ids = np.array([] if end is None else [end], np.int32)
    parts = chain.from_iterable((row.astype(np.int32), end_ids) for row in rows)
    return np.concatenate([end_ids, *parts])


def drawn(below: int, indices: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A random number for each index, which depends on the seed and the index alone."""
    chances = (np.random.Generator(np.random.Philox(key=[seed, index])) for index in indices.tolist())
    return np.array([chance.integers(below) for chance in chances])


class Reframed:
    """A stream that stays where it is, with some tokens before its first, or without its last ones."""

    def __init__(self, ids: TokenStream, *, before: Sequence[int] = (), without: int = 0) -> None:
        self.ids, self.before = ids, np.array(before, np.int64)
        self.length = len(before) + len(ids) - without

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice, /) -> NDArray[Any]:
        start, stop, step = part.indices(self.length)
        shift = len(self.before)
        rest = self.ids[max(0, start - shift) : max(0, stop - shift)]
        return np.concatenate([self.before[start:stop], rest])[::step]


def expect(ids: TokenStream, starts: NDArray[np.int64], size: int) -> None:
    """These stretches of a stream will be read soon: of shards that lie elsewhere the files are fetched."""
    while isinstance(ids, Reframed):
        starts, ids = starts - len(ids.before), ids.ids
    if isinstance(ids, Shards):
        ids.expect(np.clip(starts, 0, len(ids)), size)


def sources_of(ids: TokenStream, starts: NDArray[np.int64]) -> list[CorpusPart]:
    """Of several shards that are read as one stream, which stretches of it begin in which; of others none."""
    while isinstance(ids, Reframed):
        starts, ids = starts - len(ids.before), ids.ids
    if not isinstance(ids, JoinedShards):
        return []
    borders = np.searchsorted(starts, ids.borders[1:-1]).tolist()
    found = []
    for number, (part, first, stop) in enumerate(zip(ids.parts, [0, *borders], [*borders, len(starts)], strict=True)):
        if first == stop:
            raise ValueError(f"{part.place} has {len(part):,} tokens, which is less than one block: leave it out")
        weight = None if ids.weights is None else ids.weights[number]
        found.append(CorpusPart(part.place, first, stop - first, weight))
    return found


class Windows:
    """Blocks of one size over a stream, each with the token after it; of the targets, each is new in one window only.

    A window goes `stride` tokens on from the one before, and the tokens both have are context in the later one. The
    last window ends with the stream, and so has more context; no block is short, and no token is lost.
    """

    def __init__(self, ids: TokenStream, size: int, *, stride: int | None = None) -> None:
        if len(ids) < 2:
            raise ValueError(f"the text has {len(ids)} token: give a text of two or more, so that one can be predicted")
        stride = size if stride is None else stride
        if not 1 <= stride <= size:
            raise ValueError(f"block_size={size} and stride={stride}: give a stride of 1 to block_size tokens")
        self.ids = ids
        self.size = min(size, len(ids) - 1)
        last = len(ids) - 1 - self.size  # where the last window starts
        step = min(stride, self.size)
        self.starts = np.minimum(np.arange(1 - (-last // step)) * step, last)  # (W,)
        self.new = np.diff(self.starts + self.size, prepend=0)  # (W,) targets, the last of each window

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The ids of some windows (B, L + 1), and which of their targets are new (B, L)."""
        return self._read(self.starts[indices]), np.arange(self.size) >= self.size - self.new[indices][:, None]

    def expect(self, indices: NDArray[np.int64]) -> None:
        """These windows will be taken soon."""
        expect(self.ids, self.starts[indices], self.size + 1)

    @property
    def sources(self) -> list[CorpusPart]:
        return sources_of(self.ids, self.starts)

    def follow(self, indices: NDArray[np.int64], shift: int = 0) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The ids of some windows (B, L + 1), each of which begins where the one before it ends, and which of their
        targets (B, L) there are: the stream's last window is short. `shift` moves all of them on."""
        rows = [self.ids[start : start + self.size + 1] for start in (indices * self.size + shift).tolist()]
        ids = np.stack([np.pad(row, (0, self.size + 1 - len(row))) for row in rows])
        lengths = np.array([len(row) for row in rows])
        return ids.astype(np.int64), np.arange(1, self.size + 1) < lengths[:, None]

    def draw(self, indices: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """As many windows (B, L + 1) from anywhere in the stream: where depends on the seed and the index alone."""
        return self._read(drawn(len(self.ids) - self.size, indices, seed))

    def _read(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack([self.ids[start : start + self.size + 1] for start in starts.tolist()]).astype(np.int64)


class Blocks:
    """Stretches of `size` tokens over a stream, the last one shorter, with special tokens around each."""

    def __init__(self, ids: TokenStream, size: int, *, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        self.ids, self.size, self.before, self.after = ids, size, before, after
        starts = np.arange(0, len(ids), size)
        self.lengths = np.minimum(len(ids) - starts, size) + len(before) + len(after)

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        text = self.ids[index * self.size : (index + 1) * self.size]
        return np.concatenate([self.before, text.astype(np.int64), self.after])

    def expect(self, indices: NDArray[np.int64]) -> None:
        """These blocks will be read soon."""
        expect(self.ids, indices * self.size, self.size)

    @property
    def sources(self) -> list[CorpusPart]:
        return sources_of(self.ids, np.arange(len(self.lengths)) * self.size)
