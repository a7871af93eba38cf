"""The walk of disentangled scores: positions projected as queries and keys are, and what they add to scores.

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
    """The table, normed where the model does so: one for all heads."""
    table, norm = f"{name}.table.weight", f"{name}.norm"
    if norm not in walk.parts:
        return table
    return norm if any(step.name == norm for step in walk.steps) else walk.block(norm, table)


@walks(DisentangledScores)
def walk_disentangled(walk: Walk, name: str, step: str, number: int, query: str, key: str) -> str:
    """What a head's positions add: the terms that the model has, summed and scaled."""
    part, (targets, sources) = (
        walk.part(name, DisentangledScores),
        walk.out(f"{name.rpartition('.')[0]}.scores").shape[-2:],
    )
    rows = walk.give(f"{name}.rows", part.positions.rows(distances(targets, sources, torch.device("cpu"))))
    found = {}
    if part.key is not None:
        operands = {"q": query, "k_r": _positions(walk, name, "key", number), "δ": rows}
        seen = walk.out(f"{name}.content_to_position")[:, number]
        found["c2p"] = walk.add(f"{step}.content_to_position", CONTENT_TO_POSITION, operands, seen)
    if part.query is not None:
        operands = {"k": key, "q_r": _positions(walk, name, "query", number), "δ": rows}
        seen = walk.out(f"{name}.position_to_content")[:, number]
        found["p2c"] = walk.add(f"{step}.position_to_content", POSITION_TO_CONTENT, operands, seen)
    return walk.add(step, scaled_sum(part.scale, list(found)), found)


def _positions(walk: Walk, name: str, kind: str, number: int) -> str:
    """(R, K): the table of distances as one head's queries or keys."""
    part, seen = walk.part(name, DisentangledScores), walk.out(f"{name}.{kind}")
    width = seen.shape[-1] // part.heads
    operands = {"x": walk.block(f"{name}.positions"), **walk.weights(f"{name}.{kind}", W="weight", b="bias")}
    rows = slice(number * width, (number + 1) * width)
    return walk.add(f"{name}.head.{number}.{kind}", one_head(number, width), operands, seen[:, rows])


def picked(content: Tensor, positions: Tensor, row: Tensor) -> Tensor:
    """(B, T, K) content against (R, K) positions: of all products, that of the row (T, S) of each distance."""
    return (content @ positions.mT).gather(-1, row.expand(len(content), *row.shape))


def scaled_sum(scale: float, terms: list[str]) -> Formula:
    text = " + ".join(terms)
    return Formula(f"({text}) · {scale:.4g}", rf"{scale:.4g} \, ({text})", lambda *found: sum(found) * scale)
