"""The walk of disentangled scores: positions projected as queries and keys are, and what they add to each head's scores.

B batch, T target length, S source length, R rows of the table of distances, K head width, D model width.
"""

import torch
from torch import Tensor

from glassformer.blocks.disentangled import DisentangledScores, RelativePositions
from glassformer.blocks.masks import distances

from ..formulas import Formula
from ..walk import Walk, walks
from .attention import one_head

CONTENT_TO_POSITION = Formula("qᵢ · k_r[δ(i, j)]", r"q_i \cdot k^r_{\delta(i, j)}", lambda q, k, row: picked(q, k, row))
POSITION_TO_CONTENT = Formula(
    "q_r[δ(i, j)] · kⱼ", r"q^r_{\delta(i, j)} \cdot k_j", lambda k, q, row: picked(k, q, row.mT).mT
)


@walks(RelativePositions)
def walk_relative_positions(walk: Walk, name: str) -> str:
    table = f"{name}.table.weight"
    return table if f"{name}.norm" not in walk.parts else walk.block(f"{name}.norm", table)


@walks(DisentangledScores)
def walk_disentangled(walk: Walk, name: str, step: str, number: int, query: str, key: str) -> str:
    """What a head's positions add: the terms that the model has, summed and scaled."""
    part, attention = walk.part(name, DisentangledScores), name.rpartition(".")[0]
    head_width = walk.out(f"{attention}.context").shape[-1]
    targets, sources = walk.out(f"{attention}.scores").shape[-2:]
    row = part.positions.rows(distances(targets, sources, torch.device("cpu")))
    rows = walk.give(f"{name}.rows", row)
    table = f"{name}.positions.norm" if part.positions.norm is not None else f"{name}.positions.table.weight"
    if number == 0:  # one table for all heads
        table = walk.block(f"{name}.positions")
    found = {}
    for term in part.terms:
        kind = "key" if term == "c2p" else "query"
        weights = walk.weights(f"{attention if part.shares else name}.{kind}", W="weight", b="bias")
        positions = walk.add(f"{step}.{kind}", one_head(number, head_width), {"x": table, **weights})
        if term == "c2p":
            seen = walk.out(f"{name}.content_to_position")[:, number]
            operands = {"q": query, "k_r": positions, "δ": rows}
            found[term] = walk.add(f"{step}.content_to_position", CONTENT_TO_POSITION, operands, seen)
        else:
            seen = walk.out(f"{name}.position_to_content")[:, number]
            operands = {"k": key, "q_r": positions, "δ": rows}
            found[term] = walk.add(f"{step}.position_to_content", POSITION_TO_CONTENT, operands, seen)
    return walk.add(step, scaled_sum(part.scale, list(found)), found)


def picked(content: Tensor, positions: Tensor, row: Tensor) -> Tensor:
    """(B, T, K) content against (R, K) positions: of all products, that of the row (T, S) of each distance."""
    return (content @ positions.mT).gather(-1, row.expand(len(content), *row.shape))


def scaled_sum(scale: float, terms: list[str]) -> Formula:
    text = " + ".join(terms)
    return Formula(f"({text}) · {scale:.4g}", rf"{scale:.4g} \, ({text})", lambda *found: sum(found) * scale)
