"""Corpora larger than memory: files of ids that were tokenised once, and are then mapped and not read.

A shard is three files: NAME.npy (ids, of two or four bytes by the size of the vocabulary), NAME.ends.npy (where its
documents end) and NAME.json (what it holds), written last: with it, the shard counts. A document is never in two
shards. shards.json lists them all, in the order of the text; where they are made is `shard_writer`.

They lie in a folder, or at an address such as s3://bucket/corpus, of which a bounded copy is kept here (`shard_store`).
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.data.shard_store import LocalStore, read_index, store_of

MOST_MAPS = 512  # files that are mapped at once, each of which is open
TRIES = 4


@dataclass(frozen=True)
class Shard:
    """What a shard holds."""

    tokens: int
    documents: int
    bytes: int  # of its documents in UTF-8
    text: str  # a hash of them
    files: dict[str, list[int]]  # the size and checksum of each file, by its ending


class DocumentFrame(NamedTuple):
    """The ids that stand before and after each document of a stream; None: none."""

    bos_token_id: int | None = None
    end_token_id: int | None = None


class Shards:
    """One long row of ids, in the order of the documents: `len(shards)`, `shards.tokens(start, stop)`.

    `bytes` counts the original text in UTF-8, `documents` its documents; `shards` says the same of each shard.
    `tokenizer` is the fingerprint of what made the ids, and `frame` what stands around each document, where the index
    says so.
    """

    weights: Sequence[float] | None = None  # of several that are read as one: their shares of what is learnt

    def __init__(self, place: str | Path, *, verify: bool = True) -> None:
        """Open a finished folder, or an address; to verify a folder reads all of it once, as fast as the disk gives
        it. What comes from elsewhere is always verified."""
        self.place, self.store = str(place), store_of(place)
        index = read_index(place)
        self.shards = [Shard(**shard) for shard in index["shards"]]
        self.names: Sequence[str] = index.get("names") or [f"shard-{number:05}" for number in range(len(self.shards))]
        self.tokenizer: str | None = index.get("tokenizer")
        frame = index.get("frame")
        self.frame = None if frame is None else DocumentFrame(**frame)
        for name, shard in zip(self.names, self.shards, strict=True):
            self.store.check(name, shard.files, checksums=verify)
        self.dtype = np.dtype(index["dtype"])
        self.bytes = sum(shard.bytes for shard in self.shards)
        self.documents = sum(shard.documents for shard in self.shards)
        self._starts = np.cumsum([0, *(shard.tokens for shard in self.shards)])
        self._maps: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._first, self._last = 0, int(self._starts[-1])

    @property
    def is_here(self) -> bool:
        """Whether they lie on this machine."""
        return isinstance(self.store, LocalStore)

    @property
    def folder(self) -> Path:
        """Where they are, if that is here."""
        return Path(self.place)

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, part: slice) -> NDArray[Any]:
        start, stop, step = part.indices(len(self))
        return self.tokens(start, max(start, stop))[::step]

    def __reduce__(self) -> tuple[Any, ...]:
        return opened, (self.place, self._first, self._last)  # another process maps the files itself

    def between(self, start: int, stop: int) -> Self:
        """A part of them, as a row of its own; its documents and bytes are counted by its share of the tokens."""
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"tokens {start} to {stop}: give 0 <= start <= stop <= {len(self)}")
        part = object.__new__(type(self))
        vars(part).update(vars(self))
        part._first, part._last, part._maps = self._first + start, self._first + stop, OrderedDict()
        share = (stop - start) / max(1, len(self))
        part.bytes, part.documents = round(share * self.bytes), round(share * self.documents)
        return part

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """The ids from start to stop as they are stored; a view of the file where one shard has them all."""
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"tokens {start} to {stop}: give 0 <= start <= stop <= {len(self)}")
        start, stop = start + self._first, stop + self._first
        parts = [
            self._map(number)[max(0, start - self._starts[number]) : stop - self._starts[number]]
            for number in self._holding(start, stop)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, self.dtype), *parts])

    def expect(self, starts: NDArray[np.int64], size: int) -> None:
        """So many tokens from each of these places on will be read soon: what lies elsewhere is fetched meanwhile, in
        this order."""
        if self.is_here:
            return
        places = np.stack([starts, np.minimum(starts + size, len(self))], axis=1).ravel() + self._first
        numbers, firsts = np.unique(np.searchsorted(self._starts, places, side="right") - 1, return_index=True)
        wanted = [number for number in numbers[np.argsort(firsts)].tolist() if number < len(self.shards)]
        self.store.expect([(self.names[number], self.shards[number].files) for number in wanted])

    def ends(self) -> NDArray[np.int64]:
        """Where each document of the whole row ends: document i is tokens(ends[i - 1], ends[i]), the first begins at
        0."""
        parts = [
            np.load(self.store.path(name, ".ends.npy", shard.files)) + start
            for name, shard, start in zip(self.names, self.shards, self._starts[:-1].tolist(), strict=True)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def identity(self) -> list[Any]:
        """What tells these tokens from others, without reading them: the hashes and checksums of their files."""
        found: list[Any] = [self.dtype.name, [shard.text + repr(shard.files) for shard in self.shards]]
        return found if len(self) == self._starts[-1] else [*found, [self._first, self._last]]

    def _holding(self, start: int, stop: int) -> range:
        """The shards that have tokens from start to stop."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        return range(first, int(np.searchsorted(self._starts, stop)))

    def _map(self, number: int) -> NDArray[Any]:
        if number not in self._maps:
            self._maps[number] = self._opened(self.names[number], self.shards[number])
            while len(self._maps) > (self.store.most_open or MOST_MAPS):
                self._maps.popitem(last=False)
        self._maps.move_to_end(number)
        return self._maps[number]

    def _opened(self, name: str, shard: Shard) -> NDArray[Any]:
        for _ in range(TRIES):
            with suppress(FileNotFoundError):  # let go of by another process, between its coming and its opening
                found: NDArray[Any] = np.load(self.store.path(name, ".npy", shard.files), mmap_mode="r")
                return found
        raise ValueError(f"{self.place}: {name} is fetched and gone again: set $GLASSFORMER_STREAM_CACHE higher")


def opened(place: str, first: int, last: int) -> Shards:
    """Shards that were open before, and so need no check."""
    return Shards(place, verify=False).between(first, last)
