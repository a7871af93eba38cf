"""Constraints: phrases that a text must contain, followed word by word, and beams spread over their progress.

B texts, K beams, V vocabulary, O phrases, M length of the longest, A different ids in them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Options = Sequence[Sequence[int]]
"""Phrases of which one is enough."""


@dataclass(frozen=True)
class PhrasalConstraint:
    """These ids, one after another."""

    token_ids: Sequence[int]

    @property
    def options(self) -> Options:
        return [self.token_ids]


@dataclass(frozen=True)
class DisjunctiveConstraint:
    """One of these sequences of ids."""

    nested_token_ids: Options

    @property
    def options(self) -> Options:
        return self.nested_token_ids


@dataclass(frozen=True)
class Phrases:
    """All phrases of all constraints, as one automaton: a phrase's state is how many of its ids have just been written.

    A phrase that is complete stays so. Phrases may overlap in a text; the prompt does not count.
    """

    table: Tensor  # (O, M + 1, A + 1): the next state, by state and letter
    alphabet: Tensor  # (A,), ascending: the ids that matter; letter 0 is any other
    lengths: Tensor  # (O,)
    constraints: Sequence[Sequence[int]]  # the phrases of each, by number

    @staticmethod
    def of(constraints: Sequence[Options], device: torch.device) -> "Phrases":
        phrases = [tuple(phrase) for options in constraints for phrase in options]
        alphabet = sorted({id_ for phrase in phrases for id_ in phrase})
        longest = max(map(len, phrases), default=0)
        rows = [
            [[_next(phrase, state, id_) for id_ in (None, *alphabet)] for state in range(longest + 1)]
            for phrase in phrases
        ]
        table = torch.tensor(rows, dtype=torch.long, device=device).view(len(phrases), longest + 1, len(alphabet) + 1)
        lengths = torch.tensor([len(phrase) for phrase in phrases], dtype=torch.long, device=device)
        numbers = iter(range(len(phrases)))
        grouped = [[next(numbers) for _ in options] for options in constraints]
        return Phrases(table, torch.tensor(alphabet, dtype=torch.long, device=device), lengths, grouped)

    def __len__(self) -> int:
        return len(self.lengths)

    def check(self, max_new_tokens: int) -> None:
        """Refuse what cannot be written."""
        needed = int(self.needed(torch.zeros_like(self.lengths)))
        if needed > max_new_tokens:
            raise ValueError(
                f"the words asked for have {needed} tokens and there is room for {max_new_tokens}: raise max_new_tokens"
            )

    def after(self, progress: Tensor, token: Tensor) -> Tensor:
        """(…, O): the states after one more token (…)."""
        if not len(self):
            return progress
        place = torch.searchsorted(self.alphabet, token).clamp(max=len(self.alphabet) - 1)
        letter = torch.where(self.alphabet[place] == token, place + 1, 0)
        return self.table[torch.arange(len(self), device=token.device), progress, letter[..., None]]

    def needed(self, progress: Tensor) -> Tensor:
        """(…): in how many tokens all can be complete, if only one may count on what it already has."""
        missing = saved = torch.zeros_like(progress[..., :1].sum(-1))
        for numbers in self.constraints:
            least = int(self.lengths[numbers].min())
            near = (self.lengths - progress)[..., numbers].min(-1).values
            missing = missing + least * (near > 0)
            saved = torch.maximum(saved, (least - near) * (near > 0))
        return missing - saved

    def spread(self, progress: Tensor, total: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """The `number` best of the ways to go on (B, K·V) for each possible need: scores, best first, and places."""
        letters = torch.zeros(total.shape[1] // progress.shape[1], dtype=torch.long, device=total.device)
        letters[self.alphabet] = torch.arange(1, len(self.alphabet) + 1, device=total.device)
        every = torch.arange(len(self), device=total.device)
        after = self.table[every, progress].permute(0, 1, 3, 2)  # (B, K, A + 1, O)
        banks = self.needed(after)[..., letters].flatten(1)  # (B, K·V)
        best = [total.masked_fill(banks != need, -math.inf).topk(number) for need in range(int(banks.max()) + 1)]
        scores, order = torch.cat([each.values for each in best], dim=1).sort(dim=1, descending=True, stable=True)
        return scores, torch.cat([each.indices for each in best], dim=1).gather(1, order)

    def turns(self, alive: Tensor, needed: Tensor, max_new_tokens: int) -> Tensor:
        """(B, offers): a rank for each offer, the higher the sooner: by turns the best of each need.

        Offers are best first; those that `max_new_tokens` are too few for come after all others, dead ones last.
        """
        most = int(needed.max()) + 1
        same = (needed[:, :, None] == needed[:, None]) & alive[:, None]  # (B, offers, offers)
        rank = same.tril().sum(-1) * most + needed
        late = needed > max_new_tokens
        return -(rank + late * rank.max() + 1).double().masked_fill(~alive, math.inf)


def _next(phrase: tuple[int, ...], state: int, id_: int | None) -> int:
    """How much of a phrase is written after one more id."""
    if state >= len(phrase):
        return len(phrase)
    text = (*phrase[:state], id_)
    return next(n for n in range(state + 1, -1, -1) if text[len(text) - n :] == phrase[:n])
