"""Vocabulary: tokens and their ids, one from the other; ids as text again, and further tokens."""

from collections.abc import Mapping, Sequence
from operator import index as as_index
from typing import Any

import numpy as np
from tokenizers import AddedToken

from glassformer.files.arguments import answers
from glassformer.text.backend import RustBackend
from glassformer.text.special import NAMES, OTHERS, SpecialTokens


class Vocabulary(SpecialTokens):
    """What a tokenizer knows of tokens and ids, whatever the text that they are of."""

    def refresh(self) -> None:
        """Take note of a change to the vocabulary or the special tokens."""
        self.backend.refresh()

    @answers({})
    def decode(
        self, ids: Any, *, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> Any:
        """The text of ids: a list, an array, a tensor, one number; rows of them give a list of texts."""
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
        ids = [ids] if isinstance(ids, int) else list(ids)
        if ids and isinstance(ids[0], (list, tuple, np.ndarray)):
            clean = clean_up_tokenization_spaces
            return self.batch_decode(ids, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=clean)
        text = self.backend.decode([self._known(index) for index in ids], skip_special_tokens=skip_special_tokens)
        clean = clean_up_tokenization_spaces
        if clean is None:
            clean = bool(self.settings.config.get("clean_up_tokenization_spaces", False))
        return cleaned_up(text) if clean and not self._is_bpe() else text

    def _is_bpe(self) -> bool:
        """BPE keeps its own spaces, which must not be cleaned up."""
        return isinstance(self.backend, RustBackend) and type(self.backend.rust.model).__name__ == "BPE"

    @answers({})
    def batch_decode(
        self, rows: Any, *, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """The text of each row of ids."""
        clean = clean_up_tokenization_spaces
        return [
            self.decode(row, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=clean)
            for row in rows
        ]

    def _known(self, index: Any) -> int:
        """An id that the vocabulary has."""
        try:
            number = as_index(index)
        except TypeError:
            raise ValueError(f"{index!r} is no id: give whole numbers, or rows of them") from None
        if number < 0 or self.backend.id_to_token(number) is None:
            last = self.backend.last_id()
            raise ValueError(f"id {number} is not in the vocabulary, whose ids go from 0 to {last}")
        return number

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or of each; the unknown token's where it is not in the vocabulary."""
        if isinstance(tokens, str):
            found = self.backend.token_to_id(tokens)
            return self.unk_token_id if found is None else found
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def convert_ids_to_tokens(self, ids: Any, *, skip_special_tokens: bool = False) -> Any:
        """The token of an id, or of each."""
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
        if isinstance(ids, int):
            return self.backend.id_to_token(self._known(ids))
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        return [self.backend.id_to_token(self._known(index)) for index in ids if index not in skipped]

    def add_tokens(self, tokens: str | AddedToken | Sequence[str | AddedToken], *, special_tokens: bool = False) -> int:
        """Add tokens that are never cut; gives how many are new (resize the embeddings to len(tok))."""
        listed = [tokens] if isinstance(tokens, (str, AddedToken)) else list(tokens)
        new = self.backend.add_tokens(listed, special=special_tokens)
        if special_tokens:
            self.settings.extra += map(content_of, listed)
        self.refresh()
        return new

    def add_special_tokens(self, tokens: Mapping[str, str | AddedToken | Sequence[str | AddedToken]]) -> int:
        """Name special tokens, {"pad_token": "[PAD]"}, or add others, {"additional_special_tokens": [...]}.

        Gives how many are new to the vocabulary.
        """
        if not isinstance(tokens, Mapping):
            raise ValueError(f"special tokens are given by name, as {{'{OTHERS}': [...]}}, not as {tokens!r}")
        for name, token in tokens.items():
            if name not in (*NAMES, OTHERS):
                raise ValueError(f"{name!r} is no name of a special token: use one of {', '.join(NAMES)}, {OTHERS}")
            if name in NAMES and not (isinstance(token, str | AddedToken) and content_of(token)):
                raise ValueError(f"{name} is {token!r}: give one token, which is not empty")
        new = 0
        for name, token in tokens.items():
            new += self.add_tokens(token, special_tokens=True)
            if isinstance(token, str | AddedToken) and name in NAMES:
                setattr(self, name, content_of(token))
        return new

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id."""
        return self.backend.vocab()

    vocab = property(get_vocab)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without the added ones; `len(tok)` counts all."""
        return self.backend.size(with_added_tokens=False)

    def __len__(self) -> int:
        return self.backend.size()

    def __bool__(self) -> bool:
        return True


def content_of(token: str | AddedToken) -> str:
    """The characters of a token."""
    return token if isinstance(token, str) else str(token.content)


def cleaned_up(text: str) -> str:
    """Take out the spaces that English does not put before punctuation and contractions."""
    for mark in (".", "?", "!", ","):
        text = text.replace(f" {mark}", mark)
    text = text.replace(" ' ", "'")
    for ending in ("n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {ending}", ending)
    return text
