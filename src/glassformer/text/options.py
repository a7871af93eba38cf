"""What a tokenizer call is asked for: checked once, with words that say what is wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from glassformer.text.assemble import Side, Truncation
from glassformer.text.cache import Text

Padding = Literal["longest", "max_length", "do_not_pad"]
TRUNCATIONS: dict[Any, Truncation] = {
    False: "do_not_truncate",
    None: "do_not_truncate",
    True: "longest_first",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
    "do_not_truncate": "do_not_truncate",
}
PADDINGS: dict[Any, Padding] = {
    False: "do_not_pad",
    None: "do_not_pad",
    True: "longest",
    "longest": "longest",
    "max_length": "max_length",
    "do_not_pad": "do_not_pad",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything a call may ask for, under transformers' names."""

    padding: bool | str | None = False
    truncation: bool | str | None = None
    max_length: int | None = None
    stride: int = 0
    return_tensors: str | None = None
    return_offsets_mapping: bool = False
    return_overflowing_tokens: bool = False
    return_special_tokens_mask: bool = False
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None = None
    add_special_tokens: bool = True
    padding_side: Side | None = None
    pad_to_multiple_of: int | None = None
    is_split_into_words: bool = False

    def __post_init__(self) -> None:
        one_of("padding", self.padding, PADDINGS)
        one_of("truncation", self.truncation, TRUNCATIONS)
        one_of("return_tensors", self.return_tensors, (None, "pt", "np"))
        one_of("padding_side", self.padding_side, (None, "left", "right"))
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length={self.max_length}: give at least 1")
        if self.pad_to_multiple_of is not None and self.pad_to_multiple_of < 1:
            raise ValueError(f"pad_to_multiple_of={self.pad_to_multiple_of}: give at least 1, or None")
        if self.stride < 0:
            raise ValueError(f"stride={self.stride}: give 0 or more")

    @property
    def pads(self) -> Padding:
        """How rows are padded."""
        return PADDINGS[self.padding]

    @property
    def truncates(self) -> Truncation:
        """How rows are truncated: as asked; a max_length alone asks for it too."""
        if self.truncation is None and self.max_length is not None and self.pads == "do_not_pad":
            return "longest_first"
        return TRUNCATIONS[self.truncation]


def one_of(name: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a value that is not one of the known ones."""
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known: use one of {', '.join(map(repr, known))}")


def as_batch(texts: Any, name: str, split: bool) -> tuple[list[Text], bool]:
    """Texts as a list, and whether there was only one. With `split`, a text is a list of words."""
    single = isinstance(texts, str) or (split and is_words(texts))
    if single:
        batch = [texts]
    elif isinstance(texts, Iterable) and not isinstance(texts, (dict, bytes)):
        batch = list(texts)
    else:
        raise ValueError(f"{name} is {shown(texts)}: give a string or a list of strings")
    for index, text in enumerate(batch):
        if split:
            check_words(text, f"{name}[{index}]")
        elif not isinstance(text, str):
            hint = "; words need is_split_into_words=True, pairs go to the second argument"
            raise ValueError(
                f"{name}[{index}] is {shown(text)}, not a string: drop it or replace it by ''"
                + (hint if isinstance(text, (list, tuple)) else "")
            )
    return batch, single


def is_words(text: Any) -> bool:
    """Whether a value is one text in words."""
    return isinstance(text, (list, tuple)) and all(isinstance(word, str) for word in text)


def check_words(text: Any, name: str) -> None:
    """Refuse what is not a list of words."""
    if isinstance(text, str):
        raise ValueError(f"{name} is the string {text[:40]!r}: is_split_into_words=True needs a list of words")
    if not is_words(text):
        raise ValueError(f"{name} is {shown(text)}: is_split_into_words=True needs a list of words")


def shown(value: Any) -> str:
    """A wrong value with its type, shortened."""
    return f"{str(value)[:40]} ({type(value).__name__})"
