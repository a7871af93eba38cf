"""The walks of pooling: one vector a text from those of its tokens, which are zero at padding.

B batch, T length, D width.
"""

from glassformer.blocks.pooling import AttentionPooling, MaxPooling, MeanPooling, SumPooling

from ..formulas import TANH, Formula
from ..walk import Walk, walks
from .alignment import ALIGN, CONTEXT
from .recurrent import MEAN

SUM = Formula("the sum of x over tokens", r"\sum_t x_t", lambda x: x.sum(1))
LARGEST = Formula("the largest of x over time", r"\max_t x_t", lambda x: x.amax(1))
SCORES = Formula("v · x", r"v^\top x", lambda x, v: x @ v[0])


@walks(SumPooling)
def walk_sum(walk: Walk, name: str, x: str, *_: object) -> str:
    return walk.add("summary", SUM, {"x": x}, walk.out(name))


@walks(MaxPooling)
def walk_max(walk: Walk, name: str, x: str, *_: object) -> str:
    return walk.add("summary", LARGEST, {"x": x}, walk.out(name))


@walks(MeanPooling)
def walk_mean(walk: Walk, name: str, x: str, _state: object, keep: str) -> str:
    return walk.add("summary", MEAN, {"x": x, "keep": keep}, walk.out(name))


@walks(AttentionPooling)
def walk_attention_pooling(walk: Walk, name: str, x: str, _state: object, keep: str) -> str:
    keys = walk.add(f"{name}.tanh", TANH, {"x": walk.block(f"{name}.dense", x)}, walk.fed(f"{name}.weigh"))
    operands = {"x": keys, "v": f"{name}.weigh.weight"}
    scores = walk.add(f"{name}.scores", SCORES, operands, walk.out(f"{name}.weigh").squeeze(-1))
    operands = {"scores": scores, "keep": keep}
    pattern = walk.add(f"{name}.pattern", ALIGN, operands, walk.out(f"{name}.pattern"))
    return walk.add("summary", CONTEXT, {"pattern": pattern, "memory": x}, walk.out(name))
