"""Token, position and segment embeddings.

B batch, S length, D model width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class TokenEmbeddings(nn.Module):
    """One vector a token, with dropout."""

    def __init__(self, vocab_size: int, width: int, *, dropout: nn.Dropout, std: float) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, width)
        self.dropout = dropout
        nn.init.normal_(self.token.weight, std=std)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.dropout(look_up(self.token, input_ids, "token"))  # (B, S, D)


class Embeddings(nn.Module):
    """The sum of token, position and segment vectors, normalised, dropped out and projected where asked."""

    def __init__(
        self,
        token: nn.Embedding,
        position: nn.Module | None,
        *,
        segment: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scale: float = 1.0,
        projection: nn.Module | None = None,
    ) -> None:
        """`projection`: from the width of the vectors to the model's, where that differs."""
        super().__init__()
        self.token = token
        self.position = position
        self.segment = segment
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.scale = scale
        self.projection = projection

    def check_length(self, length: int, max_positions: int | None) -> None:
        """Refuse a text of no tokens, or of more than the table has positions; where there is none, any number goes."""
        check_length(length, None if self.position is None else max_positions)

    def forward(self, input_ids: Tensor, position_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        x = look_up(self.token, input_ids, "token")
        if self.scale != 1.0:
            x = x * self.scale
        if self.segment is not None:
            first = self.segment.weight[0]
            x = x + (first if token_type_ids is None else look_up(self.segment, token_type_ids, "segment"))
        elif token_type_ids is not None:
            raise ValueError("this model has no segment embeddings; leave token_type_ids out")
        if self.position is not None:
            x = x + self.position(position_ids)
        x = self.dropout(x if self.norm is None else self.norm(x))
        return x if self.projection is None else self.projection(x)


class ProjectedNorm(nn.Module):
    """norm(projection(x)), in place of the norm of embeddings that are narrower than the model (DeBERTa)"""

    def __init__(self, projection: nn.Linear, norm: nn.Module) -> None:
        super().__init__()
        self.projection = projection
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.projection(x))


class Sinusoidal(nn.Module):
    """The fixed positions of the 2017 paper, sines in the first half of the vector and cosines in the second."""

    table: Tensor

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.positions, self.width = positions, width
        self.register_buffer("table", torch.empty(positions, width), persistent=False)
        if not self.table.is_meta:  # where torch would load half of its compiler for numbers that are not kept
            self.reset_buffers()

    def reset_buffers(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> None:
        """Fill the table, which no checkpoint holds; computed in float64, as its far positions need."""
        device, dtype = device or self.table.device, dtype or self.table.dtype
        places = torch.arange(self.positions, dtype=torch.float64, device=device)
        self.table = self.vectors(places).to(dtype)

    def vectors(self, places: Tensor) -> Tensor:
        """(…) -> (…, D), of places in float64."""
        rates = 10000.0 ** (-torch.arange(0, self.width, 2, dtype=torch.float64, device=places.device) / self.width)
        angles = places[..., None] * rates
        return torch.cat([angles.sin(), angles[..., : self.width // 2].cos()], dim=-1)

    def forward(self, position_ids: Tensor) -> Tensor:
        return self.table[position_ids]


class FairseqSinusoidal(Sinusoidal):
    """M2M-100's fixed positions: counted from `offset`, the slowest rate is 1/10000 itself, an odd width ends in 0."""

    def __init__(self, positions: int, width: int, *, offset: int) -> None:
        self.offset = offset
        super().__init__(positions, width)

    def vectors(self, places: Tensor) -> Tensor:
        half = self.width // 2
        rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=places.device) / (half - 1))
        angles = (places + self.offset)[..., None] * rates
        return pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, self.width % 2))


class OffsetPositions(nn.Embedding):
    """Learned positions whose first `offset` rows are never used (BART keeps two)."""

    def __init__(self, positions: int, width: int, *, offset: int) -> None:
        super().__init__(positions + offset, width)
        self.offset = offset

    def forward(self, position_ids: Tensor) -> Tensor:
        return super().forward(position_ids + self.offset)


def look_up(table: nn.Embedding, ids: Tensor, what: str) -> Tensor:
    """The rows of these ids. On a CPU an id beyond the table is named; a GPU does not say which it was."""
    try:
        return table(ids)
    except IndexError:
        wrong = next(id_ for id_ in ids.flatten().tolist() if not 0 <= id_ < table.num_embeddings)
        raise ValueError(
            f"a {what} has the id {wrong}, and the model's table {table.num_embeddings} rows: the tokenizer is not "
            "this model's, or tokens were added to it that the model was not trained with"
        ) from None


def check_length(length: int, limit: int | None) -> None:
    """Refuse a text of no tokens, or of more than a model has positions (None: any number)."""
    if length < 1:
        raise ValueError("there is no token to look at: give at least one for each text")
    if limit is not None and length > limit:
        raise ValueError(
            f"{length} tokens do not fit into this model's {limit} positions; "
            f"shorten the text, or tokenize with truncation=True, max_length={limit}"
        )
