"""Disentangled attention (He et al. 2020): scores between what a token says and how far away another stands.

T target length, S source length, L = T + S − 1 distances between them, R rows of the table, H heads, K head width,
D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from .point import Point
from .relative import Once

Term = Literal["c2p", "p2c"]
"""Content of the query to position of the key, and position of the query to content of the key."""


class RelativePositions(nn.Module):
    """A vector for each distance, or each bucket of distances; one module that all layers share."""

    def __init__(
        self, width: int, max_distance: int, *, buckets: int | None, norm: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        """Distances up to `max_distance` are told apart; with `buckets` to each side, far ones share them."""
        super().__init__()
        self.max_distance, self.buckets = max_distance, buckets
        self.reach = buckets or max_distance  # rows to each side
        if buckets is not None and not 0 < buckets // 2 < max_distance - 1:
            raise ValueError(f"{buckets} buckets cannot hold distances up to {max_distance}; give 2 to twice as many")
        self.table = nn.Embedding(2 * self.reach, width)
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(self) -> Tensor:
        """(R, D)"""
        return self.table.weight if self.norm is None else self.norm(self.table.weight)  # type: ignore[no-any-return]

    def rows(self, distances: Tensor) -> Tensor:
        """Which row belongs to a distance, key less query."""
        back = -distances if self.buckets is None else self.bucket(-distances)
        return (back + self.reach).clamp(0, 2 * self.reach - 1)

    def bucket(self, distances: Tensor) -> Tensor:
        """Near distances as they are, far ones by their logarithm; in 32 bits, as models were trained."""
        assert self.buckets is not None
        exact = self.buckets // 2
        away = distances.abs().clamp(min=exact)
        growth = torch.log(away / exact) / torch.log(torch.tensor((self.max_distance - 1) / exact))
        far = torch.ceil(growth * (exact - 1)).long() + exact
        return torch.where(distances.abs() <= exact, distances, far * distances.sign())


class DisentangledScores(nn.Module):
    """(q · k(r) + k · q(r)) · scale, where r is the vector of the distance between a query and a key.

    k(r) and q(r) are projections of their own or, where there are none, those of the attention.
    """

    def __init__(
        self,
        positions: RelativePositions,
        terms: Sequence[Term],
        heads: int,
        head_width: int,
        *,
        scale: float,
        own: bool,
    ) -> None:
        super().__init__()
        assert terms, f"choose some of {get_args(Term)}"
        self.positions, self.terms, self.heads, self.scale = positions, tuple(terms), heads, scale
        width = positions.table.embedding_dim
        self.key = nn.Linear(width, heads * head_width) if own and "c2p" in terms else None
        self.query = nn.Linear(width, heads * head_width) if own and "p2c" in terms else None
        self.shares = not own
        self.content_to_position = Point()  # (B, H, T, S), unscaled
        self.position_to_content = Point()

    def bound(self, query: nn.Module, key: nn.Module) -> "BoundScores":
        return BoundScores(self, query, key)


@dataclass(frozen=True)
class BoundScores:
    """Disentangled scores beside the projections of their attention, which an adapter may have replaced."""

    part: DisentangledScores
    query: nn.Module
    key: nn.Module

    def bound(self, query: nn.Module, key: nn.Module) -> "BoundScores":
        return BoundScores(self.part, query, key)

    def prepare(self, distances: Tensor, once: Once) -> Tensor:
        """(terms, H, L, K): the projected positions of all distances, in the order that `skew` reads them in."""
        projected = once(self.part, lambda: self.projected(once))
        rows = self.part.positions.rows(torch.cat([distances[1:, 0].flip(0), distances[0]]))
        order = {"c2p": rows, "p2c": rows.flip(0)}
        return torch.stack([table[:, order[term]] for term, table in projected.items()])

    def projected(self, once: Once) -> dict[Term, Tensor]:
        """(H, R, K) of each term."""
        part, table = self.part, once(self.part.positions, self.part.positions)
        table = part.positions.dropout(table)
        if part.shares:  # not as modules: whoever listens to these wants to hear of tokens
            found = {"c2p": lambda: self.key.forward(table), "p2c": lambda: self.query.forward(table)}
        else:
            found = {"c2p": lambda: part.key(table), "p2c": lambda: part.query(table)}
        return {term: found[term]().unflatten(-1, (part.heads, -1)).transpose(0, 1) for term in part.terms}

    def scores(self, query: Tensor, key: Tensor, prepared: Tensor) -> Tensor:
        part, found = self.part, []
        for term, positions in zip(part.terms, prepared, strict=True):
            if term == "c2p":
                scores = skew(torch.einsum("...htk,hlk->...htl", query, positions), key.shape[-2])
                found.append(part.content_to_position(scores))
            else:
                scores = skew(torch.einsum("...hsk,hlk->...hsl", key, positions), query.shape[-2])
                found.append(part.position_to_content(scores.mT))
        return sum(found[1:], found[0]) * part.scale


def skew(x: Tensor, width: int) -> Tensor:
    """(…, R, L) -> (…, R, width), L = R + width − 1: the number at [r, c] is that at [r, c − r + R − 1], without a copy.

    A column of x is a distance; one row further down, the same other token is one less away.
    """
    rows, columns = x.shape[-2:]
    assert columns == rows + width - 1
    flat = x.flatten(-2)[..., rows - 1 : rows - 1 + rows * (columns - 1)]
    return flat.unflatten(-1, (rows, columns - 1))[..., :width]
