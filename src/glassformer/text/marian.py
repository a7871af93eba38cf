"""Marian's tokenizer (opus-mt): a SentencePiece model for each side, and one vocabulary for both."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.files import write_bytes, write_json
from glassformer.text.assemble import Ids, Part, Template
from glassformer.text.backend import Pieces
from glassformer.text.cache import Text
from glassformer.text.folder import Folder, TokenizerSettings
from glassformer.text.rust import read_vocabulary
from glassformer.text.special import MARIAN

LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)  # ">>fr<<" before a text names the language to translate to


def is_marian(folder: Folder) -> bool:
    """Whether a folder holds Marian's files."""
    return folder.has("source.spm", "target.spm", "vocab.json") and not folder.has("tokenizer.json")


class MarianBackend:
    """Ids of source and target texts, and texts of target ids."""

    def __init__(self, folder: Folder) -> None:
        self.source = sentencepiece(folder.path / "source.spm")
        self.target = sentencepiece(folder.path / "target.spm")
        self._vocab = read_vocabulary(folder.path / "vocab.json")
        self.separate = bool(folder.config.get("separate_vocabs"))
        if self.separate and not folder.has("target_vocab.json"):
            raise ValueError(
                f"{folder.path} has no target_vocab.json, which separate_vocabs asks for: fetch it as well"
            )
        self._target_vocab = read_vocabulary(folder.path / "target_vocab.json") if self.separate else self._vocab
        self.settings = folder.settings(MARIAN, self._vocab, segments=False, max_positions=None)
        if "model_max_length" not in folder.config:
            self.settings.model_max_length = 512
        self._check(folder.path / "vocab.json")
        self.refresh()

    def _check(self, path: Path) -> None:
        """Refuse a vocabulary without the tokens that every text needs."""
        for name in MARIAN:
            token = self.settings.names[name]
            if token not in self._vocab:
                raise ValueError(f"{path} has no {token or MARIAN[name]!r} to be the {name}: it is not Marian's file")

    def refresh(self) -> None:
        """Take note of the special tokens."""
        self.special = {token for token in self.settings.names.values() if token} | set(self.settings.extra)
        self._special_ids = {token: self._vocab[token] for token in self.special}  # the source's, on both sides
        self._tokens = {index: token for token, index in (self._target_vocab | self._special_ids).items()}
        self._pattern = re.compile("(" + "|".join(map(re.escape, sorted(self.special))) + ")")

    def tokens(self, text: str, *, target: bool) -> list[str]:
        """The tokens of a text; a language code and a special token stay whole."""
        model = self.target if target else self.source
        found: list[str] = []
        for part in self._pattern.split(text):
            if part in self.special:
                found.append(part)
                continue
            code = LANGUAGE.match(part)
            if code:
                found.append(code.group())
                part = part[code.end() :]
            found += model.encode(part, out_type=str)
        return found

    def rows(self, texts: Sequence[Text], *, split: bool, target: bool) -> list[Ids]:
        """The ids of each text, without special tokens."""
        if split:
            raise ValueError("is_split_into_words: SentencePiece finds words itself; join them with spaces")
        vocab = (self._target_vocab if target else self._vocab) | self._special_ids
        unknown = vocab[self.settings.names["unk_token"] or ""]
        rows = ([vocab.get(token, unknown) for token in self.tokens(str(text), target=target)] for text in texts)
        return [np.array(row, dtype=np.int64) for row in rows]

    def pieces(self, texts: Sequence[Text], *, split: bool, target: bool) -> list[Pieces]:  # noqa: ARG002
        """Offsets and words are not known here."""
        raise ValueError("a Marian tokenizer knows no offsets and no word numbers: SentencePiece rewrites the text")

    def template(self, *, pair: bool, special: bool) -> Template:
        """The text, the pair if any, and </s>."""
        end = np.array([self._vocab[self.settings.names["eos_token"] or ""]] if special else [], dtype=np.int64)
        none = np.zeros(0, np.int64)
        texts = [Part(0, 0, none), Part(1, 0, none)][: 2 if pair else 1]
        return (*texts, Part(None, 0, end))

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """The text of ids, by the target's SentencePiece model."""
        out = ""
        pieces: list[str] = []
        for token in (self._tokens[index] for index in ids):
            if token not in self.special:
                pieces.append(token)
            elif not skip_special_tokens:
                out += f"{self.target.decode_pieces(pieces)}{token} "
                pieces = []
        out += self.target.decode_pieces(pieces)
        return str(out).replace("▁", " ").strip()

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, None if it is not in the vocabulary."""
        return self._vocab.get(token)

    def id_to_token(self, index: int) -> str | None:
        """The token of an id, None if there is none."""
        return self._tokens.get(index)

    def vocab(self) -> dict[str, int]:
        """Every token with its id."""
        return dict(self._vocab)

    def size(self, *, with_added_tokens: bool = True) -> int:  # noqa: ARG002
        """The number of tokens."""
        return len(self._vocab)

    def last_id(self) -> int:
        """The highest id there is."""
        return max(self._tokens)

    def add_tokens(self, tokens: list[Any], *, special: bool) -> int:  # noqa: ARG002
        """Marian's vocabulary is fixed."""
        raise ValueError(f"a Marian vocabulary is fixed: {tokens} cannot be added; add them to vocab.json by hand")

    def save(self, folder: Path) -> None:
        """Write the files that Marian's folder has."""
        write_bytes(folder / "source.spm", self.source.serialized_model_proto())
        write_bytes(folder / "target.spm", self.target.serialized_model_proto())
        write_json(folder / "vocab.json", self._vocab)
        if self.separate:
            write_json(folder / "target_vocab.json", self._target_vocab)


def load_marian(folder: Folder) -> tuple[MarianBackend, TokenizerSettings]:
    """Marian's tokenizer of a folder, and its settings."""
    backend = MarianBackend(folder)
    return backend, backend.settings


def sentencepiece(path: Path) -> Any:
    """Read a SentencePiece model."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise ValueError(f"{path} needs sentencepiece: pip install 'glassformer[marian]'") from None
    try:
        content = path.read_bytes()
        if not content:  # which the library would take for a request to load nothing
            raise RuntimeError("it is empty")
        return SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError(f"{path} is not a SentencePiece model ({error}): download it again") from None
