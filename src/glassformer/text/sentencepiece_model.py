"""SentencePiece's model file: the pieces with their scores and kinds, and how texts are normalised.

It is a protocol buffer, of which a few fields are read; what it says is checked here, so that a damaged file is refused
before anything is built from it.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from glassformer.files import has_file
from glassformer.text.rust import check_charsmap

Value = int | bytes
SIZES = {1: 8, 5: 4}  # bytes of the two wire types of fixed size
VARINT, BYTES = 0, 2


class PieceType(IntEnum):
    """What a piece is there for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never found in a text: <s>
    USER_DEFINED = 4  # never cut
    UNUSED = 5
    BYTE = 6  # <0x0A>, for characters that no piece holds


class ModelType(IntEnum):
    """How pieces are chosen."""

    UNIGRAM = 1
    BPE = 2
    WORD = 3
    CHAR = 4


class SentencePiece(NamedTuple):
    """A token of the vocabulary; its place is its id in the file."""

    text: str
    score: float
    type: PieceType


@dataclass(frozen=True)
class SentencePieceModel:
    """What a model file says."""

    pieces: list[SentencePiece]
    model_type: ModelType
    byte_fallback: bool  # a character that no piece holds becomes bytes, instead of the unknown token
    charsmap: bytes  # the table of a normalisation such as NFKC; empty: none
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool

    @property
    def unknown(self) -> str:
        """The piece of what no piece holds."""
        return next(piece.text for piece in self.pieces if piece.type is PieceType.UNKNOWN)


def read_model(path: Path) -> SentencePieceModel:
    """Read a model file; ValueError for a damaged one, or one whose texts could not be cut as it asks."""
    if not has_file(path):
        raise ValueError(f"{path} is not there: a file is needed")
    try:
        model = _model(path.read_bytes())
    except (ValueError, IndexError, struct.error) as error:
        raise ValueError(f"{path} is not a SentencePiece model ({error}): download it again") from None
    if model.model_type not in (ModelType.UNIGRAM, ModelType.BPE):
        raise ValueError(f"{path} is a SentencePiece model of type {model.model_type.name}; UNIGRAM and BPE are read")
    if model.charsmap:
        check_charsmap(model.charsmap, path)
    return model


def _model(raw: bytes) -> SentencePieceModel:
    pieces: list[SentencePiece] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for number, value in _fields(raw):
        if number == 1:
            pieces.append(_piece(_message(value)))
        elif number == 2:
            trainer |= _message(value)
        elif number == 3:
            normalizer |= _message(value)
    _check(pieces)
    if trainer.get(24):
        raise ValueError("it writes spaces behind words (treat_whitespace_as_suffix), which is not supported")
    if not normalizer.get(5, 1):
        raise ValueError("it keeps spaces as they are (escape_whitespaces is false), which is not supported")
    return SentencePieceModel(
        pieces,
        ModelType(_number(trainer.get(3, ModelType.UNIGRAM))),
        byte_fallback=bool(trainer.get(35, 0)),
        charsmap=_bytes(normalizer.get(2, b"")),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
    )


def _piece(fields: dict[int, Value]) -> SentencePiece:
    (score,) = struct.unpack("<f", _bytes(fields.get(2, b"\0" * 4)))
    kind = PieceType(_number(fields.get(3, PieceType.NORMAL)))
    return SentencePiece(_bytes(fields.get(1, b"")).decode("utf-8"), score, kind)


def _check(pieces: list[SentencePiece]) -> None:
    texts = {piece.text for piece in pieces}
    unknown = sum(piece.type is PieceType.UNKNOWN for piece in pieces)
    if unknown != 1:
        raise ValueError(f"of its {len(pieces)} pieces {unknown} stand for unknown text, and one has to")
    if len(texts) < len(pieces) or "" in texts:
        raise ValueError("a piece is empty, or there twice")
    if not all(math.isfinite(piece.score) for piece in pieces):
        raise ValueError("a piece has no score")


def _message(value: Value) -> dict[int, Value]:
    """The last value of each field of a message."""
    return dict(_fields(_bytes(value)))


def _fields(raw: bytes) -> Iterator[tuple[int, Value]]:
    """Field numbers and values: numbers, or the bytes of strings, messages and floats."""
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(raw, place)
            yield number, value
            continue
        size, place = _varint(raw, place) if wire == BYTES else (SIZES.get(wire, -1), place)
        if size < 0 or place + size > len(raw):
            raise ValueError(f"byte {place} of {len(raw)} begins no field")
        yield number, raw[place : place + size]
        place += size


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError(f"byte {place} goes on with a number that is too long")


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number stands where a text should")
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("a text stands where a number should")
    return value
