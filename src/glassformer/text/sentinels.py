"""T5's sentinels: <extra_id_0>, <extra_id_1> …, each of which stands for a stretch of text that was taken out."""

from itertools import count, takewhile
from typing import TYPE_CHECKING

from tokenizers import AddedToken

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

NUMBER = 100  # of them in T5's vocabulary


def sentinel_tokens(number: int = NUMBER) -> tuple[AddedToken, ...]:
    """In the order of their ids, as T5 has them: the first has the highest, and each takes the spaces beside it."""
    names = (f"<extra_id_{place}>" for place in reversed(range(number)))
    return tuple(AddedToken(name, lstrip=True, rstrip=True, normalized=False, special=True) for name in names)


def sentinel_ids(tokenizer: "Tokenizer") -> list[int]:
    """The ids of <extra_id_0>, <extra_id_1> and so on, as many as the vocabulary has."""
    found = (tokenizer.backend.token_to_id(f"<extra_id_{place}>") for place in count())
    return [index for index in takewhile(lambda index: index is not None, found) if index is not None]
