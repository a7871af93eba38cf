"""The walks of the attentions of the RNN era, and of the scores that they compare with.

Queries are (B, T, W), or one of them (B, W); keys (B, S, ·).
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from glassformer.blocks.alignment import AdditiveScore, Alignment, ConcatScore, DotScore, GeneralScore

from ..formulas import Formula, masked_softmax
from ..numbers import Number, Place, row_of
from ..walk import Walk, walks


@dataclass(frozen=True)
class ScoreOperands:
    """How queries are compared with a memory: the formula, and its operands after the query."""

    formula: Formula
    operands: dict[str, str]


@walks(DotScore)
def walk_dot(walk: Walk, name: str, memory: str) -> ScoreOperands:
    return ScoreOperands(dot(walk.part(name, DotScore).scale), {"m": memory})


@walks(GeneralScore)
def walk_general(walk: Walk, name: str, memory: str) -> ScoreOperands:
    return ScoreOperands(dot(1.0), {"m": walk.block(f"{name}.memory", memory)})


@walks(AdditiveScore)
def walk_additive(walk: Walk, name: str, memory: str) -> ScoreOperands:
    keys = walk.block(f"{name}.memory", memory)
    return ScoreOperands(additive(), {"k": keys, "W": walk.weight(f"{name}.query"), "v": walk.weight(f"{name}.weigh")})


@walks(ConcatScore)
def walk_concat(walk: Walk, name: str, memory: str) -> ScoreOperands:
    width, weight = walk.part(name, ConcatScore).query_width, f"{name}.both.weight"
    keys = walk.add(f"{name.removesuffix('.scorer')}.keys", concat_keys(width), {"m": memory, "W": weight})
    return ScoreOperands(additive(width), {"k": keys, "W": weight, "v": f"{name}.weigh.weight"})


@walks(Alignment)
def walk_alignment(
    walk: Walk, name: str, query: str, memory: str, keep: str, compared: ScoreOperands, *, time: int | None = None
) -> str:
    """Scores, softmax and context of one query (`time`), or of all at once."""
    ending, call = ("", -1) if time is None else (f".step.{time}", time)
    operands = {"q": query, **compared.operands}
    scores = walk.add(f"{name}.scores{ending}", compared.formula, operands, walk.out(f"{name}.scores", call))
    operands = {"scores": scores, "keep": keep}
    pattern = walk.add(f"{name}.pattern{ending}", ALIGN, operands, walk.out(f"{name}.pattern", call))
    context = walk.out(name, call)
    seen = context if time is None else context[:, 0]
    return walk.add(f"{name}.context{ending}", CONTEXT, {"pattern": pattern, "memory": memory}, seen)


def walk_scorer(walk: Walk, name: str, memory: str) -> ScoreOperands:
    """How an alignment will compare its queries with this memory."""
    found = walk.walk_of(f"{name}.scorer")(walk, f"{name}.scorer", memory)
    assert isinstance(found, ScoreOperands)
    return found


def dot(scale: float) -> Formula:
    text, latex = ("q mᵀ", r"q m^\top") if scale == 1.0 else (f"q mᵀ · {scale:.4g}", rf"{scale:.4g} \, q m^\top")
    return Formula(text, latex, lambda q, m: _beside(q, m, lambda a, b: (a * b).sum(-1) * scale), _number_of_dot)


def additive(query_width: int | None = None) -> Formula:
    """Of a concatenation W's first columns are the query's: the two halves are applied apart, as (q; m) Wᵀ is a sum."""
    whole = query_width is None
    return Formula(
        "v · tanh(q Wᵀ + k)" if whole else "v · tanh(W [q; m])",
        r"v^\top \tanh(W q + k)" if whole else r"v^\top \tanh(W [q; m])",
        lambda q, k, w, v: _beside(q @ w[:, :query_width].mT, k, lambda a, b: (a + b).tanh() @ v[0]),
        _number_of_additive(query_width),
    )


def concat_keys(query_width: int) -> Formula:
    return Formula("m W[:, q:]ᵀ", r"m W_m^\top", lambda m, w: m @ w[:, query_width:].mT)


ALIGN = Formula(
    "softmax(scores where real, else −∞)",
    r"\mathrm{softmax}(s + \log m)",
    lambda found, keep: masked_softmax(found, keep if found.dim() == 2 else keep[:, None]),
)
CONTEXT = Formula(
    "pattern · memory",
    r"\sum_s a_s m_s",
    lambda pattern, memory: (pattern[:, None] @ memory)[:, 0] if pattern.dim() == 2 else pattern @ memory,
)


def _beside(query: Tensor, keys: Tensor, meet: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Every query with every key: (B, T, S), or (B, S) where there is one query."""
    if query.dim() == 2:
        return meet(query[:, None], keys)
    return meet(query[:, :, None], keys[:, None])


def _number_of_dot(place: Place, q: Tensor, m: Tensor) -> dict[str, Tensor]:
    query, key = row_of(q, place[0]), m[0, place[1]]
    return {"q": query, f"m[{place[1]}]": key, "q · m": query @ key}


def _number_of_additive(query_width: int | None) -> Number:
    def number(place: Place, q: Tensor, k: Tensor, w: Tensor, v: Tensor) -> dict[str, Tensor]:
        query, key = row_of(q, place[0]), k[0, place[1]]
        projected = w[:, :query_width] @ query
        met = (projected + key).tanh()
        return {"q": query, "q Wᵀ": projected, f"k[{place[1]}]": key, "tanh(q Wᵀ + k)": met, "v": v[0]}

    return number
