"""When a text is over: its stop tokens, its stop strings, and the clock.

L tokens so far, the prompt included.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stop:
    """Asked after every token."""

    ends: Tensor  # the ids that end a text
    strings: Sequence[str] = ()
    decode: Callable[[list[int]], str] | None = None  # needed for strings
    start: int = 0  # where the new text begins; a prompt does not stop it
    deadline: float = float("inf")  # by time.monotonic

    def __call__(self, ids: Tensor) -> Tensor:
        """(…, L) -> (…): which texts their last token has ended."""
        finished = (ids[..., -1:] == self.ends).any(-1)
        if not self.strings:
            return finished
        found = [self.has_stop_string(row) for row in ids[..., self.start :].flatten(0, -2).tolist()]
        return finished | torch.tensor(found, device=ids.device).view(finished.shape)

    def has_stop_string(self, new: list[int]) -> bool:
        """Whether the text of these ids holds a stop string, wherever its tokens begin and end."""
        assert self.decode is not None, "stop strings need a tokenizer"
        text = self.decode([id_ for id_ in new if id_ >= 0])
        return any(string in text for string in self.strings)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline
