"""The Rust library behind the tokenizer: ids of texts, texts of ids, and where special tokens go."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from glassformer.files import write_text
from glassformer.text.assemble import Ids, Template, template_of
from glassformer.text.cache import Text, WordCache, encoded, glue_of
from glassformer.text.pretokens import MANY, MOST_ADDED, PretokenCache, functions
from glassformer.text.rust import rust_border


class Pieces(NamedTuple):
    """One text in full: ids, the (start, stop) characters of each token, and the word it belongs to."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int | None]


class RustBackend:
    """Ids of texts, and texts of ids, by the Rust library. Its settings never change during a call."""

    def __init__(self, rust: tokenizers.Tokenizer) -> None:
        self.rust = rust
        self._cache: WordCache | None = None
        self.refresh()

    def refresh(self) -> None:
        """Take note of new added tokens or a changed pipeline."""
        self.rust.no_truncation()
        self.rust.no_padding()
        normalizer, splitter = state_of(self.rust.normalizer), state_of(self.rust.pre_tokenizer)
        glue = glue_of(self.rust, normalizer, splitter)
        chinese = glue == "" and bool(normalizer["handle_chinese_chars"])
        cuts = not splitter.get("add_prefix_space")
        sound = glue is not None and WordCache.is_sound(self.rust)
        self._cache = WordCache(self.rust, glue or "", chinese, cuts=cuts) if sound else None
        few = len(self.rust.get_added_tokens_decoder()) <= MOST_ADDED
        in_c = glue == " " and cuts and few
        self._pretokens = PretokenCache(self.rust, self._cache) if self._cache and in_c else None
        self._templates: dict[tuple[bool, bool], Template] = {}

    def rows(self, texts: Sequence[Text], *, split: bool, target: bool) -> list[Ids]:  # noqa: ARG002
        """The ids of each text, without special tokens."""
        with rust_border("this text"):
            if self._cache is None or split:
                return encoded(self.rust, texts, split)
            if self._pretokens is not None and sum(map(len, texts)) >= MANY and functions() is not None:
                return self._pretokens.rows(texts)  # type: ignore[arg-type]
            return self._cache.rows(texts)  # type: ignore[arg-type]

    def pieces(self, texts: Sequence[Text], *, split: bool, target: bool) -> list[Pieces]:  # noqa: ARG002
        """The ids of each text with offsets and word numbers."""
        with rust_border("this text"):
            batch = self.rust.encode_batch(texts, is_pretokenized=split, add_special_tokens=False)
        return [Pieces(one.ids, one.offsets, one.word_ids) for one in batch]

    def template(self, *, pair: bool, special: bool) -> Template:
        """Where special tokens go, read off an encoded example."""
        key = (pair, special)
        if key not in self._templates:
            with rust_border("this tokenizer's post_processor"):
                word = self._probe()
                one = self.rust.encode(word, word if pair else None, add_special_tokens=special)
            self._templates[key] = template_of(one.ids, one.type_ids, one.sequence_ids)
        return self._templates[key]

    def _probe(self) -> str:
        """A word that gives at least one token."""
        for word in ("a", *self.rust.get_vocab()):
            if self.rust.encode(word, add_special_tokens=False).ids:
                return word
        raise ValueError("this tokenizer knows no token at all: its vocabulary is empty")

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """The text of ids."""
        with rust_border("decoding these ids"):
            return str(self.rust.decode(ids, skip_special_tokens=skip_special_tokens))

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, None if it is not in the vocabulary."""
        found: int | None = self.rust.token_to_id(token)
        return found

    def id_to_token(self, index: int) -> str | None:
        """The token of an id, None if there is none."""
        found: str | None = self.rust.id_to_token(index)
        return found

    def vocab(self) -> dict[str, int]:
        """Every token with its id."""
        found: dict[str, int] = self.rust.get_vocab(with_added_tokens=True)
        return found

    def size(self, *, with_added_tokens: bool = True) -> int:
        """The number of tokens."""
        return int(self.rust.get_vocab_size(with_added_tokens=with_added_tokens))

    def last_id(self) -> int:
        """The highest id there is."""
        return max(self.vocab().values(), default=-1)

    def add_tokens(self, tokens: list[Any], *, special: bool) -> int:
        """Add tokens to the vocabulary; those already there keep their ids. Gives how many are new."""
        before = self.size()
        self.rust.add_special_tokens(tokens) if special else self.rust.add_tokens(tokens)
        self.refresh()
        return self.size() - before

    def save(self, folder: Path) -> None:
        """Write tokenizer.json."""
        write_text(folder / "tokenizer.json", self.rust.to_str(pretty=True))


def state_of(part: Any) -> dict[str, Any]:
    """A normalizer or another part of the pipeline as tokenizer.json writes it; empty where there is none."""
    state: dict[str, Any] = json.loads(part.__getstate__()) if part is not None else {}
    return state
