"""Disentangled attention (He et al. 2020): scores between what a token says and how far away another stands.

T target length, S source length, L = T + S − 1 distances between them, R rows of the table, H heads, K head width,
D model width.
"""

import torch
from torch import Tensor, nn

from .point import Point
from .relative import Memoize


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
            raise ValueError(
                f"{buckets} buckets cannot hold distances up to {max_distance}; give at least 2, and a distance "
                "of more than half of them and 1"
            )
        self.table = nn.Embedding(2 * self.reach, width)
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(self) -> Tensor:
        """(R, D)"""
        return self.table.weight if self.norm is None else self.norm(self.table.weight)

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
    """(q · k(r) + k · q(r)) · scale, where r is the vector of the distance between a query and a key."""

    depends_on_content = True

    def __init__(
        self, positions: RelativePositions, heads: int, *, key: nn.Module | None, query: nn.Module | None, scale: float
    ) -> None:
        """`key` projects positions to keys, for content to position, `query` for position to content: D -> H·K."""
        super().__init__()
        self.positions, self.heads, self.scale = positions, heads, scale
        self.key, self.query = key, query
        self.content_to_position = Point()  # (B, H, T, S), unscaled
        self.position_to_content = Point()

    def prepare(self, distances: Tensor, memoize: Memoize) -> Tensor:
        """(1 or 2, H, L, K): the projected positions of all distances, in the order that `skew` reads them in."""
        rows = self.positions.rows(torch.cat([distances[1:, 0].flip(0), distances[0]]))
        order = [rows] * (self.key is not None) + [rows.flip(0)] * (self.query is not None)
        tables = memoize(self, lambda: self.projected(memoize(self.positions, self.positions)))
        return torch.stack([table[:, row] for table, row in zip(tables, order, strict=True)])

    def projected(self, positions: Tensor) -> list[Tensor]:
        """(R, D) -> (H, R, K), as keys and as queries."""
        positions = self.positions.dropout(positions)
        found = [part(positions) for part in (self.key, self.query) if part is not None]
        return [x.unflatten(-1, (self.heads, -1)).transpose(0, 1) for x in found]

    def scores(self, query: Tensor, key: Tensor, prepared: Tensor) -> Tensor:
        tables, found = list(prepared), []
        if self.key is not None:
            products = torch.einsum("...htk,hlk->...htl", query, tables[0])
            found.append(self.content_to_position(skew(products, key.shape[-2])))
        if self.query is not None:
            products = torch.einsum("...hsk,hlk->...hsl", key, tables[-1])
            found.append(self.position_to_content(skew(products, query.shape[-2]).mT))
        return sum(found[1:], found[0]) * self.scale


def skew(x: Tensor, width: int) -> Tensor:
    """(…, T, L) -> (…, T, S = width): the number at [i, j] is that at [i, j − i + T − 1], without a copy.

    A column of x is a distance; one row further down, the same other token is one less away.
    """
    rows, columns = x.shape[-2:]
    assert columns == rows + width - 1
    if rows == 1:
        return x
    flat = x.flatten(-2)[..., rows - 1 : rows - 1 + rows * (columns - 1)]
    return flat.unflatten(-1, (rows, columns - 1))[..., :width]
