"""A fingerprint of data: the same for equal values, another one if a single number or letter differs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b

import numpy as np

from glassformer.data.shards import Shards

RENAMED = {"num_truncated": "cut"}  # fields by earlier names, so that checkpoints of earlier versions still fit


def fingerprint(value: object) -> str:
    """Of plain values, arrays, lists, and objects made of these; whatever task encoded them.

    Arrays are hashed as they lie in memory, a gigabyte in about a second. Shards are not read: the checksums of their
    files stand for them.
    """
    found = blake2b(digest_size=16)
    for part in parts(value):
        found.update(part)
    return found.hexdigest()


def parts(value: object) -> Iterator[bytes | memoryview]:
    """The bytes of a value; each kind says what it is and how long, so that no two values give the same ones."""
    match value:
        case np.ndarray():
            yield f"array {value.dtype} {value.shape} ".encode()
            yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        case str():
            text = value.encode("utf-8", "surrogatepass")
            yield b"text %d " % len(text)
            yield text
        case None | bool() | int() | float() | np.generic():
            yield f"{value!r} ".encode()
        case Shards():
            yield from parts(value.identity())
        case Mapping():
            yield from parts([*value.items()])
        case Sequence():
            yield b"list %d " % len(value)
            for one in value:
                yield from parts(one)
        case _ if is_dataclass(value):
            yield from parts({RENAMED.get(one.name, one.name): getattr(value, one.name) for one in fields(value)})
        case _:
            yield from parts(vars(value))
