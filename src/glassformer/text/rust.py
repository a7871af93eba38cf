"""The border to the Rust library: its panics become errors, and what would abort the process is refused beforehand."""

import base64
import binascii
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import tokenizers

from glassformer.files import conform, parse_json, read_json, read_text
from glassformer.files.schema import Bounds

Id = Annotated[int, Bounds(0, 2**24)]  # of a token: the library makes tables as long as the last id
_STDERR = threading.Lock()  # there is one for all threads
MOST_TOKENS = 2**24  # it also takes memory for the size that is asked for, before it learns anything


class Added(TypedDict):
    """A token of tokenizer.json's "added_tokens"."""

    id: Required[Id]
    content: Required[str]


class TokenizerFile(TypedDict, total=False):
    """What is looked at in tokenizer.json before the library reads it."""

    added_tokens: list[Added]
    model: Required[dict[str, Any]]
    normalizer: dict[str, Any]


@contextmanager
def rust_border(what: str) -> Iterator[None]:
    """Any panic inside is a ValueError about `what`: they are BaseExceptions, which nobody expects."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{what} fails inside the tokenizers library ({first_line(error)})") from None


@contextmanager
def panics_unseen() -> Iterator[None]:
    """Hold stderr back, and let it go unless there was a panic: the library prints frames on its own."""
    if sys.stderr is None or not _is_open(2):  # as of a daemon: there is nothing to hold back
        yield
        return
    with _STDERR, tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(held.fileno(), 2)
        panicked = False
        try:
            yield
        except BaseException as error:
            panicked = type(error).__name__ == "PanicException"
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            if not panicked:
                held.seek(0)
                os.write(2, held.read())


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The Rust tokenizer of a tokenizer.json."""
    text = read_text(path)
    parsed = parse_json(text, str(path))
    conform(parsed, TokenizerFile, str(path))
    vocab = parsed["model"].get("vocab")
    if isinstance(vocab, Mapping):
        check_vocabulary(vocab, path)
    for part in _parts(parsed.get("normalizer") or {}):
        if part.get("type") == "Precompiled":
            check_charsmap(_decoded(part.get("precompiled_charsmap")), path)
    try:
        with rust_border(str(path)), panics_unseen():
            rust = tokenizers.Tokenizer.from_str(text)
            rust.encode("a word, Ａ é 中", add_special_tokens=False)  # a damaged normalizer shows only when it is used
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be read ({first_line(error)}): download or write it again") from None
    return rust


def read_vocabulary(path: Path) -> dict[str, int]:
    """A vocab.json: tokens and their ids."""
    vocab = read_json(path)
    check_vocabulary(vocab, path)
    return vocab


def check_vocabulary(vocab: Mapping[str, Any], path: Path) -> None:
    """Refuse ids that are no ids; in bulk, since there are many."""
    ids = vocab.values()
    if not vocab or set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) > MOST_TOKENS:
        conform(vocab, dict[str, Id], str(path))
        raise ValueError(f"{path} holds no tokens")
    try:
        "".join(vocab).encode()
    except UnicodeEncodeError:
        conform(vocab, dict[str, Id], str(path))


def _parts(normalizer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A normalizer, and those that it is a sequence of."""
    waiting: list[Any] = [normalizer]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield part
            inner = part.get("normalizers")
            waiting += inner if isinstance(inner, list) else []


def check_charsmap(raw: bytes, path: Path) -> None:
    """SentencePiece's table: the size of a trie, which the library takes memory for, the trie, and strings."""
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 4 or size % 4 or size > len(raw) - 4:
        raise ValueError(
            f"{path}: its precompiled_charsmap of {len(raw):,} bytes claims a trie of {size:,}: download it again"
        )


def _decoded(charsmap: object) -> bytes:
    try:
        return base64.b64decode(str(charsmap), validate=True)
    except (binascii.Error, ValueError):
        return b""


def first_line(error: BaseException) -> str:
    """An error of the Rust library in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
