"""The ids of many texts by GPT-2's pre-tokens: what was seen before is found in C (pretokens.c), what is new is learnt.

A pre-token's ids do not depend on its neighbours. Rust gives those of new ones, most of them at once: they are lines of
one text, and the ids of newlines tell where each ends. Without a compiler the word cache does all of it.
"""

import ctypes
import logging
import threading
from array import array
from collections.abc import Callable, Sequence
from ctypes import c_long, c_void_p
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray

from glassformer.files import compiled
from glassformer.text.assemble import Ids
from glassformer.text.cache import WordCache, any_of, encoded

LOG = logging.getLogger("glassformer")
MANY = 1 << 12  # characters from which the calls into C are worth it
MOST_ADDED = 64  # added tokens: each is looked for at every place of a text
CAPACITY = 1 << 18  # entries, a power of two: up to 30 MB with their ids; a full cache starts afresh
MEAN_BYTES, SLOTS = 16, 4  # of an entry


class CacheStruct(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("slots", "hashes", "starts", "bytes")),
        *((name, c_long) for name in ("mask", "capacity", "room", "entries")),
    ]


class Functions(NamedTuple):
    find: Callable[..., int]
    gather: Callable[..., None]


@cache
def functions() -> Functions | None:
    """None where they cannot be compiled, which is logged."""
    try:
        loaded = ctypes.CDLL(str(compiled.library(Path(__file__).parent, ["glassformer_check_pretokens"])))
        find, gather = loaded.glassformer_find, loaded.glassformer_gather
    except Exception as error:
        LOG.info("tokenising without functions of our own in C: %s", compiled.reason(error))
        return None
    find.argtypes, find.restype = [*[c_void_p] * 3, c_long, *[c_void_p] * 2], c_long
    gather.argtypes, gather.restype = [c_void_p, c_long, *[c_void_p] * 4], None
    return Functions(find, gather)


class PretokenCache:
    """What was seen so far; texts that hold an added token, or a word that is too long, are left to the word cache.

    One thread at a time uses it; others do with the word cache meanwhile, and so does a process that was forked then.
    """

    def __init__(self, rust: tokenizers.Tokenizer, words: WordCache) -> None:
        self.rust, self.words = rust, words
        self._added = any_of(added_tokens(rust))
        self._lock = threading.Lock()  # an entry is found by others before it has its ids
        self._slots = np.zeros(SLOTS * CAPACITY, np.int32)
        self._hashes = np.empty(CAPACITY, np.uint32)
        self._starts = np.zeros(CAPACITY + 1, np.int32)
        self._bytes = np.empty(MEAN_BYTES * CAPACITY, np.uint8)
        self._firsts = np.empty(CAPACITY, np.int64)  # of an entry's ids
        self._sizes = np.empty(CAPACITY, np.int32)
        places = [one.ctypes.data for one in (self._slots, self._hashes, self._starts, self._bytes)]
        self._struct = CacheStruct(*places, len(self._slots) - 1, CAPACITY, len(self._bytes), 0)
        self._clear()

    def __reduce__(self) -> tuple[type["PretokenCache"], tuple[tokenizers.Tokenizer, WordCache]]:
        return PretokenCache, (self.rust, self.words)  # a copy, and one in another process, begins afresh

    def rows(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text."""
        try:
            contents = [b"" if self._added and self._added.search(text) else text.encode() for text in texts]
        except UnicodeEncodeError:
            return encoded(self.rust, texts)  # which says what is wrong with them
        if not self._lock.acquire(blocking=False):
            return self.words.rows(texts)
        rows: list[Ids] = []
        try:
            while len(rows) < len(texts):
                rows += self._rows(contents[len(rows) :])
        finally:
            self._lock.release()
        left = [number for number, row in enumerate(rows) if not len(row)]
        for number, row in zip(left, self.words.rows([texts[number] for number in left]), strict=True):
            rows[number] = row
        return rows

    def _rows(self, contents: list[bytes]) -> list[Ids]:
        """The ids of texts up to the first that the cache has no place for, none of one that is left to others."""
        library = functions()
        assert library is not None
        ends = np.cumsum([len(content) for content in contents])
        found, stops = np.empty(ends[-1], np.int32), np.zeros(len(contents) + 1, np.int64)
        places = (found.ctypes.data, stops[1:].ctypes.data)
        done = library.find(ctypes.addressof(self._struct), b"".join(contents), ends.ctypes.data, len(ends), *places)
        if not done:  # there is no place for the first, perhaps because of those before
            self._clear()
            return [np.zeros(0, np.int64)]
        self._learn()
        found = found[: stops[done]]
        borders = np.concatenate([[0], self._sizes[found].cumsum()])
        ids = np.empty(borders[-1], np.int64)
        known = (self._ids.buffer_info()[0], self._firsts.ctypes.data, self._sizes.ctypes.data)
        library.gather(found.ctypes.data, len(found), *known, ids.ctypes.data)
        return [ids[start:stop] for start, stop in pairwise(borders[stops[: done + 1]].tolist())]

    def _clear(self) -> None:
        if self._struct.entries:
            self._slots.fill(0)
        self._struct.entries = self._learnt = 0
        self._ids = array("i")

    def _learn(self) -> None:
        """Ask Rust for the ids of new entries: of most as the lines of one text, of others one by one."""
        old, new = self._learnt, self._struct.entries
        if old == new:
            return
        starts = self._starts[old : new + 1]
        content = self._bytes[starts[0] : starts[-1]].tobytes()
        words = [content[start:stop].decode() for start, stop in pairwise((starts - starts[0]).tolist())]
        lines = np.array([is_line(word) for word in words], bool)
        for which, ids_of in ((lines, self._ids_of_lines), (~lines, self._ids_of_each)):
            numbers = np.flatnonzero(which)
            ids, sizes = ids_of([words[number] for number in numbers])
            self._firsts[old + numbers] = len(self._ids) + sizes.cumsum() - sizes
            self._sizes[old + numbers] = sizes
            self._ids.frombytes(ids.astype(np.int32).tobytes())
        self._learnt = new

    @cached_property
    def _newline(self) -> int:
        """The id that stands for the end of a line and for nothing else; -1 where there is none."""
        unknown = self.rust.model.unk_token
        if any("\n" in token for token in added_tokens(self.rust)):
            return -1
        try:
            ids = encoded(self.rust, ["\n"])[0].tolist()
        except Exception:  # as Rust's are, of whatever kind: a vocabulary without it, and without an unknown token
            return -1
        return ids[0] if len(ids) == 1 and ids[0] != (unknown and self.rust.token_to_id(unknown)) else -1

    def _ids_of_lines(self, words: list[str]) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of words, one after another, and how many each has."""
        if self._newline < 0:
            return self._ids_of_each(words)
        ids = encoded(self.rust, ["\n".join(words)])[0]
        breaks = np.flatnonzero(ids == self._newline)
        if len(breaks) != len(words) - 1:  # some became one token with what stands beside them
            return self._ids_of_each(words)
        return np.delete(ids, breaks), np.diff(breaks, prepend=-1, append=len(ids)) - 1

    def _ids_of_each(self, words: list[str]) -> tuple[Ids, NDArray[np.int64]]:
        rows = encoded(self.rust, words)
        return np.concatenate([np.zeros(0, np.int64), *rows]), np.array([len(row) for row in rows], np.int64)


def added_tokens(rust: tokenizers.Tokenizer) -> list[str]:
    return [token.content for token in rust.get_added_tokens_decoder().values()]


def is_line(word: str) -> bool:
    """Whether a word between two newlines is cut as it is alone, and is one line."""
    return "\n" not in word and word.removeprefix(" ") == word.strip()
