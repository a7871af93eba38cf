"""Tokenised once into shards: by one process that may have others tokenise, resumable after any end of it.

They lie in a folder named by a hash of the data's identity, the tokenizer and the settings: another corpus or another
tokenizer has a folder of its own, and the same ones find their work done. The identity of files is their full paths,
sizes and times of change, and a hash of samples from all over them (`identity_of`), which take no time to read. Work
that was broken off, even by kill -9 or a power cut, goes on after the last finished shard; the stream is read up to
there, and must be the text it was made from.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.data.examples import Document
from glassformer.data.shard_store import ENDINGS, INDEX, check_file, checksum, file_of
from glassformer.data.shards import DocumentFrame, Shard, Shards
from glassformer.data.tokenising import tokenised_batches
from glassformer.files import read_json, write_atomically, write_json
from glassformer.text.tokenizer import Tokenizer

T = TypeVar("T")
Marked = Callable[[Document], str]
Progress = Callable[[int, int], None]  # bytes of text done, tokens made of them
SHARD_TOKENS = 1 << 26  # 128 MB with a vocabulary of up to 65,536
BATCH_DOCUMENTS, BATCH_CHARACTERS = 1000, 1 << 20  # tokenised at a time: the first that is reached
SAMPLES, SAMPLE_BYTES = 16, 1 << 16  # what of a file is read to tell it from others


def tokenise_to_shards(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    identity: str = "",
    bos_token_id: int | None = None,
    end_token_id: int | None = None,
    shard_tokens: int = SHARD_TOKENS,
    jobs: int = 1,
    progress: Progress | None = None,
    marked: Marked | None = None,
) -> Shards:
    """The ids of all documents, without special tokens but for `bos_token_id` before and `end_token_id` after each;
    done before, they are reused.

    `identity` is whatever tells this stream from others: `identity_of(files)`, and how they are read. With it, finished
    shards are opened and the stream is not touched. Without it, the stream is read, and compared with what they were
    made from. `marked` is the text of a document as it is tokenised; its mark is not counted in bytes. One process at a
    time may write to a folder; it may have `jobs` others tokenise, which changes nothing.
    """
    if shard_tokens < 1:
        raise ValueError(f"shard_tokens={shard_tokens}: a shard holds at least 1 token, and is best in millions")
    frame = DocumentFrame(bos_token_id, end_token_id)
    home = home_of(folder, tokenizer, identity=identity, shard_tokens=shard_tokens, **frame._asdict())
    if identity and is_complete(home):
        return Shards(home)
    stream = DocumentStream(documents, tokenizer, progress or (lambda _bytes, _tokens: None), jobs=jobs, marked=marked)
    return write_shards(stream, home, frame, shard_tokens=shard_tokens)


def write_shards(stream: "DocumentStream", home: Path, frame: DocumentFrame, *, shard_tokens: int) -> Shards:
    """The shards of a stream in this very folder, after those that are finished there."""
    home.mkdir(parents=True, exist_ok=True)
    for broken_off in home.glob(".*.partial"):
        broken_off.unlink()
    shards: list[Shard] = []
    while (shard := finished(home, len(shards))) is not None:
        stream.skip(shard, home)
        shards.append(shard)
    bos, end = (np.array([] if token is None else [token], stream.dtype) for token in frame)
    draft = ShardWriter(stream.dtype)
    for text, size, ids in stream.rows():
        draft.add(text, np.concatenate([bos, ids, end]), size)
        if draft.tokens >= shard_tokens:
            shards.append(draft.write(home, len(shards)))
            draft = ShardWriter(stream.dtype)
    if draft.ends:
        shards.append(draft.write(home, len(shards)))
    write_json(home / INDEX, {"dtype": np.dtype(stream.dtype).name, "shards": [asdict(shard) for shard in shards]})
    return Shards(home)


def home_of(
    folder: str | Path,
    tokenizer: Tokenizer,
    *,
    identity: str,
    bos_token_id: int | None = None,
    end_token_id: int | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> Path:
    """Where in a folder the shards of a stream are."""
    frame = end_token_id if bos_token_id is None else (bos_token_id, end_token_id)
    settings = f"{identity}\n{frame}\n{shard_tokens}\n{fingerprint(tokenizer)}"
    return Path(folder) / digest(settings.encode())


def identity_of(files: Iterable[str | Path]) -> str:
    """Full paths, sizes, times of change and samples: the same as long as nobody writes to the files or moves them."""
    return "\n".join(_identity(Path(file).resolve()) for file in files)


def _identity(file: Path) -> str:
    stat = file.stat()
    return f"{file} {stat.st_size} {stat.st_mtime_ns} {digest(_samples(file, stat.st_size))}"


def _samples(file: Path, size: int) -> bytes:
    """Parts of a file at equal distances, its beginning and its end among them; the whole of a small one."""
    last = max(0, size - SAMPLE_BYTES)
    parts = []
    with file.open("rb") as opened:
        for place in sorted({last * number // (SAMPLES - 1) for number in range(SAMPLES)}):
            opened.seek(place)
            parts.append(opened.read(SAMPLE_BYTES))
    return b"".join(parts)


def fingerprint(tokenizer: Tokenizer) -> str:
    """A hash of the files that the tokenizer is saved in: the same ids, the same hash."""
    with TemporaryDirectory() as folder:
        tokenizer.backend.save(Path(folder))
        return digest(b"\0".join(path.read_bytes() for path in sorted(Path(folder).iterdir())))


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


class DocumentStream:
    """Documents that are passed over, or tokenised in batches; each is taken from the source once."""

    def __init__(
        self,
        documents: Iterable[Document],
        tokenizer: Tokenizer,
        progress: Progress,
        *,
        jobs: int = 1,
        marked: Marked | None = None,
    ) -> None:
        self.dtype = id_dtype(tokenizer)
        self._sizes: deque[int] = deque()  # of those that are on their way, without their marks
        self._texts = self._taken(documents, marked or (lambda one: one.text))
        self._tokenizer, self._jobs = tokenizer, jobs
        self._progress = progress
        self._bytes = self._tokens = 0

    def skip(self, shard: Shard, home: Path) -> None:
        """Pass over the documents of a finished shard."""
        text = TextHash()
        for document in islice(self._texts, shard.documents):
            text.add(document.encode())
            self._sizes.popleft()
        if text.hexdigest() != shard.text:
            raise ValueError(f"the shards in {home} were made from other text: delete that folder and tokenise again")
        self._advance(shard.bytes, shard.tokens)

    def rows(self) -> Iterator[tuple[bytes, int, NDArray[np.int64]]]:
        """Each document that is left, marked and in UTF-8, its bytes without the mark, and its ids."""
        for batch, ids in tokenised_batches(self._tokenizer.backend, batches(self._texts, len), self._jobs):
            texts = [text.encode() for text in batch]
            yield from zip(texts, [self._sizes.popleft() for _ in texts], ids, strict=True)
            self._advance(sum(map(len, texts)), sum(map(len, ids)))

    def _taken(self, documents: Iterable[Document], marked: Marked) -> Iterator[str]:
        for one in documents:
            self._sizes.append(len(one.text.encode()))
            yield marked(one)

    def _advance(self, text: int, tokens: int) -> None:
        self._bytes += text
        self._tokens += tokens
        self._progress(self._bytes, self._tokens)


def id_dtype(tokenizer: Tokenizer) -> type[np.unsignedinteger[Any]]:
    """The narrowest numbers that hold every id."""
    return np.uint16 if max(tokenizer.get_vocab().values(), default=0) < 1 << 16 else np.uint32


def batches(texts: Iterator[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Texts, or what has so many characters, some at a time."""
    batch, size = list[T](), 0
    for text in texts:
        batch.append(text)
        size += length(text)
        if len(batch) == BATCH_DOCUMENTS or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class TextHash:
    """A hash of documents and of where each ends."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, text: bytes) -> None:
        self._hash.update(len(text).to_bytes(8, "big") + text)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class ShardWriter:
    """A shard in the making."""

    def __init__(self, dtype: type[np.unsignedinteger[Any]]) -> None:
        self.tokens = 0
        self.ends: list[int] = []
        self._dtype = dtype
        self._parts: list[NDArray[Any]] = [np.zeros(0, dtype)]
        self._bytes = 0
        self._text = TextHash()

    def add(self, text: bytes, ids: NDArray[Any], size: int) -> None:
        """One more document, which has so many bytes of its own."""
        self._parts.append(ids.astype(self._dtype))
        self.tokens += len(ids)
        self.ends.append(self.tokens)
        self._bytes += size
        self._text.add(text)

    def write(self, home: Path, number: int) -> Shard:
        """Its files, each whole or not at all, and last the one that makes it count."""
        files = {}
        for ending, array in zip(ENDINGS, (np.concatenate(self._parts), np.array(self.ends, np.int64)), strict=True):
            path = file_of(home, number, ending)
            write_atomically(path, partial(save, array=array))
            files[ending] = [path.stat().st_size, checksum(path)]
        shard = Shard(self.tokens, len(self.ends), self._bytes, self._text.hexdigest(), files)
        write_json(file_of(home, number, ".json"), asdict(shard))
        return shard


def save(path: Path, array: NDArray[Any]) -> None:
    """Save under this very name, which np.save would add an ending to."""
    with path.open("wb") as file:
        np.save(file, array)


def is_complete(home: Path) -> bool:
    """Whether the list of shards is there, and all their files."""
    if not (home / INDEX).exists():
        return False
    count = len(read_json(home / INDEX)["shards"])
    return all(file_of(home, number, ending).exists() for number in range(count) for ending in ENDINGS)


def finished(home: Path, number: int) -> Shard | None:
    """A shard that was written before, verified; None where there is none, or a file of it was deleted."""
    if not all(file_of(home, number, ending).exists() for ending in (*ENDINGS, ".json")):
        return None
    path = file_of(home, number, ".json")
    try:
        shard = Shard(**read_json(path))
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged: delete it and tokenise again") from None
    for ending, known in shard.files.items():
        check_file(file_of(home, number, ending), known, checksums=True)
    return shard
