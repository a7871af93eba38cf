"""What a tokenizer call gives: the model's inputs by name, and where every token came from."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from glassformer.text.assemble import RowLayout

Words = list[list[list[int | None]]]  # the word each token belongs to: text (0) and pair (1), then sample, then token


class Encoding(dict[str, Any]):
    """A dict of model inputs: `model(**encoding)`. `num_truncated` counts the tokens truncation took from each text."""

    def __init__(
        self,
        inputs: dict[str, Any],
        *,
        batch: RowLayout | None = None,
        words: Callable[[], Words] | None = None,
        to_tokens: Callable[[list[int]], list[str]] | None = None,
        num_truncated: Sequence[int] = (),
    ) -> None:
        """`batch` and `words` say where its tokens came from, and `to_tokens` what they are, where that is known."""
        super().__init__(inputs)
        self.num_truncated = list(num_truncated)
        self._batch = batch
        self._to_tokens = to_tokens
        self._words: Callable[[], Words] | Words | None = words  # found out when first asked for

    def __getstate__(self) -> dict[str, Any]:
        return {
            "num_truncated": self.num_truncated,
            "_batch": self._batch,
            "_words": None,
            "_to_tokens": None,
        }  # the tokenizer stays behind

    @property
    def cut(self) -> list[int]:
        """An earlier name of num_truncated."""
        warnings.warn("Encoding.cut is called num_truncated now", DeprecationWarning, stacklevel=2)
        return self.num_truncated

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self) or "nothing"
            raise AttributeError(f"this encoding has no {name!r}; it has {known}") from None

    def to(self, device: Any) -> "Encoding":
        """Move every tensor to a device, in place; lists stay as they are."""
        for name, value in self.items():
            if hasattr(value, "to"):
                self[name] = value.to(device)
        return self

    def tokens(self, row: int = 0) -> list[str]:
        """The tokens of a row."""
        if self._to_tokens is None:
            raise ValueError("an encoding that was pickled or padded has no tokenizer: tok.convert_ids_to_tokens(ids)")
        ids = self["input_ids"]
        return self._to_tokens(ids if isinstance(ids, list) and all(isinstance(one, int) for one in ids) else ids[row])

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """Which text (0 or 1) each token of a row is from; None for special tokens and padding."""
        return self._layout().sequence_ids(row)

    def word_ids(self, row: int = 0) -> list[int | None]:
        """Which word of its text each token of a row belongs to; None for special tokens and padding."""
        if self._words is None:
            raise ValueError("an encoding that was pickled or padded knows no word numbers: ask for word_ids before")
        if not isinstance(self._words, list):
            self._words = self._words()
        return self._layout().row(row, self._words, None, None)

    def _layout(self) -> RowLayout:
        if self._batch is None:
            raise ValueError("an encoding of tok.pad knows no texts: ask the encodings that it was made of")
        return self._batch
