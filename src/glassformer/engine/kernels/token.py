"""What becomes of texts by their next token, on a GPU in one launch: a dozen small ones take longer than the choice.

B rows, E stop tokens.
"""

import torch
from torch import Tensor

from .launch import early, power_of_two

TILE_NUMBERS = 4096


def write_tokens(
    words: Tensor,
    scores: Tensor,
    *,
    ends: Tensor,
    padding: int,
    token: Tensor,
    running: Tensor,
    highest: Tensor,
    new: Tensor,
) -> None:
    """Put each row's next word (B,) where it belongs, in place, as generate/search.py's TokenUpdate says.

    `token` (B,): the word, padding where no text was `running` (B,); running: unless the word is in `ends` (E,);
    `highest` (): also of scores (B,), NaN with NaN; `new` (B, 1): the word where the text goes on, else 0.
    """
    from .device.token import token_kernel

    assert all(x.is_contiguous() for x in (words, scores, ends, token, running, highest, new))
    seats = power_of_two(max(1, len(ends)))
    shape = {"rows": max(1, min(128, TILE_NUMBERS // seats)), "seats": seats, "num_warps": 4}
    tensors = (words, scores, ends, token, running.view(torch.uint8), highest, new)
    token_kernel[(1,)](*tensors, len(words), len(ends), padding, **shape, **early())
