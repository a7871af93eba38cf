"""Documents that were seen before: to the letter, or nearly so (MinHash, Broder 1997, with locality-sensitive hashing).

Two documents are as alike as the shingles (five words in a row) they share: |A ∩ B| / |A ∪ B|. N shingles, H hashes.
"""

import zlib
from functools import cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .language import words_of

SHINGLE = 5  # words
HASHES = 128
ROWS = 4  # hashes of a band: two documents are compared if they agree in all of one
PRIME = np.uint64((1 << 61) - 1)
Signature = NDArray[np.uint32]


class NearDuplicates:
    """Documents so far, as signatures of 512 bytes each; those that share a band with another are compared with it.

    With bands of four hashes a pair that is 0.8 alike is compared all but surely, one of 0.3 with a chance of one in
    four; what is compared is told apart by all 128 hashes, whose estimate has a standard error of 0.035 at 0.8.
    """

    def __init__(self, threshold: float = 0.8) -> None:
        check_threshold(threshold)
        self.threshold = threshold
        self.signatures: list[Signature] = []
        self._bands: list[dict[bytes, list[int]]] = [{} for _ in range(HASHES // ROWS)]

    def __contains__(self, signature: Signature) -> bool:
        """Whether a document so far is as alike as the threshold."""
        near = {one for band, key in zip(self._bands, keys(signature), strict=True) for one in band.get(key, ())}
        return any(likeness(signature, self.signatures[one]) >= self.threshold for one in near)

    def add(self, signature: Signature) -> None:
        for band, key in zip(self._bands, keys(signature), strict=True):
            band.setdefault(key, []).append(len(self.signatures))
        self.signatures.append(signature)


def check_threshold(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ValueError(f"the likeness of near duplicates lies above 0 and at most at 1, not at {threshold}")


def digest(text: str) -> bytes:
    """The same for texts of the same words, whatever their case and the blanks between them."""
    return blake2b(" ".join(text.casefold().split()).encode(), digest_size=16).digest()


def signature(text: str) -> Signature:
    """(H,): for each of the hashes the least that a shingle has."""
    found, (factors, shifts) = shingles(text), hash_functions()
    mixed = found[:, None] * factors + shifts  # (N, H), modulo 2⁶⁴
    return (mixed >> np.uint64(32)).min(axis=0).astype(np.uint32)  # type: ignore[no-any-return]


@cache
def hash_functions() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Odd factors and shifts, the same on every machine."""
    chance = np.random.Generator(np.random.Philox(key=0))
    factors = chance.integers(1, PRIME, HASHES, dtype=np.uint64) | np.uint64(1)
    return factors, chance.integers(0, PRIME, HASHES, dtype=np.uint64)


def keys(signature: Signature) -> list[bytes]:
    """Its bands."""
    return [signature[start : start + ROWS].tobytes() for start in range(0, HASHES, ROWS)]


def likeness(one: Signature, other: Signature) -> float:
    """The share of the hashes that agree: an estimate of the share of the shingles."""
    return float((one == other).mean())


def shingles(text: str) -> NDArray[np.uint64]:
    """A number for every five words in a row, case and punctuation left out; a short text is one shingle."""
    numbers = np.array([zlib.crc32(word.encode()) for word in words_of(text)] or [0], np.uint64)
    if len(numbers) < SHINGLE:
        numbers = np.pad(numbers, (0, SHINGLE - len(numbers)))
    windows = np.lib.stride_tricks.sliding_window_view(numbers, SHINGLE)
    powers = np.array([1_000_003**place % 2**64 for place in range(SHINGLE)], np.uint64)
    return np.unique((windows * powers).sum(axis=1, dtype=np.uint64))
