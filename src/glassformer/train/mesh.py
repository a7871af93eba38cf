"""What a run on a mesh of GPUs would exchange and hold, counted from the very layout that it would have.

N processes compute one model together (tensor_parallel), P parameters of it are on each, S such rows share them, R such
groups, W = N·S·R processes, A micro-batches, c bytes of a number in the forward pass. Gradients are summed and weights
kept in float32, 4 bytes.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch.distributed as dist
from torch import nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.transformer import FeedForward, GatedFeedForward
from glassformer.models.contract import as_model

from .plan import COMPUTE_BYTES, Plan
from .sharding import units_of
from .tensor_mesh import all_reduces, dealt_blocks, dealt_shapes

WEIGHT, MOMENTS = 4, 8  # bytes of a weight, and of what AdamW keeps of it


@dataclass(frozen=True)
class Mesh:
    """Machines, and the processes on each, one for each of its GPUs."""

    nodes: int
    per_node: int

    @classmethod
    def parse(cls, text: str) -> Self:
        nodes, _, per_node = text.partition("x")
        if not (nodes.isdecimal() and per_node.isdecimal() and int(nodes) and int(per_node)):
            raise ValueError(f"{text!r} is no mesh; write machines x GPUs on each, as 16x8")
        return cls(int(nodes), int(per_node))

    @classmethod
    def running(cls) -> Self:
        """That of the processes which torchrun has started."""
        everyone = dist.get_world_size()
        per_node = int(os.environ.get("LOCAL_WORLD_SIZE", everyone))
        return cls(everyone // per_node, per_node)

    @property
    def world_size(self) -> int:
        return self.nodes * self.per_node

    def rows(self, plan: Plan) -> int:
        """How many rows of processes there are that compute one model together; each has its share of the data."""
        size = plan.tensor_parallel
        if self.per_node % size:
            raise ValueError(
                f"tensor_parallel is {size}, and {self.per_node} processes of a machine do not fall into groups of that"
            )
        return self.world_size // size

    def shard_size(self, plan: Plan) -> int:
        """Rows that share one model, as the plan says."""
        rows = self.rows(plan)
        if plan.parallel == "ddp":
            return 1
        size = rows if plan.parallel == "fsdp" else plan.shard_size or self.per_node // plan.tensor_parallel
        if rows % size:
            raise ValueError(f"shard_size is {size}, and {rows} processes do not fall into groups of that")
        return size


@dataclass(frozen=True)
class Exchange:
    """What a process receives in one step by collectives of one kind; `between`: from other machines."""

    what: str
    formula: str
    count: int
    bytes: float
    between: bool


@dataclass(frozen=True)
class Held:
    """Bytes that a process holds, by what they are."""

    weights: float
    gradients: float
    moments: float
    gathered: float  # layers whose weights are whole at one time
    activations: float
    scores: float  # of the vocabulary, in float32, and their gradients

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.moments + self.gathered + self.activations + self.scores


def padded_sizes(model: nn.Module, plan: Plan, shard_size: int) -> list[int]:
    """The parameters of each unit that is gathered as one, the rest of the model last; rows are dealt out evenly."""
    shapes = dealt_shapes(model, plan.tensor_parallel)
    seen: set[nn.Parameter] = set()
    sizes = []
    for modules in [*units_of(model, plan.min_num_params), [model]]:
        own = {tensor for module in modules for tensor in module.parameters()} - seen
        seen |= own
        each = [shapes[tensor] for tensor in own]
        sizes.append(sum(-(-shape[0] // shard_size) * shard_size * (shape.numel() // shape[0]) for shape in each))
    return sizes


def exchanges(
    model: nn.Module, plan: Plan, mesh: Mesh, *, tokens: float = 0.0, scored: float = 0.0, chunk: int | None = None
) -> list[Exchange]:
    """The collectives of one step, without those of a few numbers.

    With tensor_parallel a row of processes works at so many tokens at once and scores `scored` of them, `chunk` at a
    time where it is given.
    """
    shared, size = mesh.shard_size(plan), plan.tensor_parallel
    groups = mesh.rows(plan) // shared
    sizes = padded_sizes(model, plan, shared)
    numbers, found = sum(sizes), list[Exchange]()
    if size > 1:
        for one in all_reduces(model, plan, tokens=tokens, scored=scored, chunk=chunk):
            received = 2 * (size - 1) / size * one.bytes * plan.accumulate
            formula = f"{plan.accumulate} · 2 · (N−1)/N · {one.formula}"
            found.append(
                Exchange(f"all-reduce {one.what}", formula, one.count * plan.accumulate, received, between=False)
            )
    if shared > 1:
        passes = (2 if plan.reshard else 1) * plan.accumulate
        wide, bytes_each = shared * size > mesh.per_node, COMPUTE_BYTES[plan.precision]
        gathered = passes * (shared - 1) / shared * numbers * bytes_each
        formula = f"{passes} · (S−1)/S · P · {bytes_each}"
        found.append(Exchange("all-gather of weights", formula, passes * len(sizes), gathered, wide))
        scattered = (shared - 1) / shared * numbers * WEIGHT
        found.append(Exchange("reduce-scatter of gradients", "(S−1)/S · P · 4", len(sizes), scattered, wide))
    if groups > 1:
        summed = 2 * (groups - 1) / groups * numbers / shared * WEIGHT
        found.append(Exchange("all-reduce of gradients", "2 · (R−1)/R · P/S · 4", len(sizes), summed, mesh.nodes > 1))
    return found


def held(model: nn.Module, plan: Plan, mesh: Mesh, *, tokens: float, scored: float = 0.0) -> Held:
    """What a process holds while its row works at so many tokens at once, and scores all words at `scored` of them."""
    shared, size = mesh.shard_size(plan), plan.tensor_parallel
    sizes = padded_sizes(model, plan, shared)
    words = as_model(model).config.target_vocab_size
    numbers, bytes_each = sum(sizes), COMPUTE_BYTES[plan.precision]
    whole_gradients = shared == 1 or plan.accumulate > 1  # summed where they are until the last micro-batch
    return Held(
        weights=WEIGHT * numbers / shared,
        gradients=WEIGHT * numbers / (1 if whole_gradients else shared),
        moments=MOMENTS * numbers / shared,
        gathered=0.0 if shared == 1 else bytes_each * (2 * max(sizes) if plan.reshard else numbers),
        activations=tokens * _kept_numbers(model, size, checkpointing=plan.checkpointing) * bytes_each,
        scores=scored * words / (1 if words % size else size) * 2 * WEIGHT,
    )


def _kept_numbers(model: nn.Module, size: int, *, checkpointing: bool) -> float:
    """Numbers that the backward pass needs of one token; with checkpointing what every layer reads, and one layer's."""
    dealt = dealt_blocks(model, size)

    def kept(parts: Iterable[nn.Module]) -> float:
        return sum(_kept_by(part, size if part in dealt else 1) for part in parts)

    layers = [layer for unit in units_of(model) for layer in unit]
    inside = [kept(layer.modules()) for layer in layers]
    outside = kept(model.modules()) - sum(inside)
    if checkpointing and layers:
        return outside + sum(map(_width, layers)) + max(inside)
    return outside + sum(inside)


def _kept_by(part: nn.Module, size: int) -> float:
    """Of one block of the model, or of one of `size` shares of it, what autograd keeps of a token: what it reads, and
    what its products read."""
    match part:
        case MultiHeadAttention():  # x, queries, keys, values, what the heads gathered, and queries and keys unturned
            turned = 0 if part.rotary is None else part.heads + part.key_heads
            return part.query.in_features + part.head_width * (2 * part.heads + 2 * part.key_heads + turned) / size
        case GatedFeedForward():  # x, both products, the activation, and what is projected down
            return part.up.in_features + 4 * part.up.out_features / size
        case FeedForward():
            return part.up.in_features + 2 * part.up.out_features / size
        case nn.LayerNorm() | nn.RMSNorm():
            return int(part.normalized_shape[0])
    return 0


def _width(layer: nn.Module) -> int:
    return next(part.query.in_features for part in layer.modules() if isinstance(part, MultiHeadAttention))


def flops_per_token(model: nn.Module, *, length: int, checkpointing: bool) -> float:
    """Of training: 6 for every weight that is multiplied with, and attention's products over a text of this length."""
    tables = {part.weight for part in model.modules() if isinstance(part, nn.Embedding)}
    tied = {part.weight for part in model.modules() if isinstance(part, nn.Linear)} & tables
    weights = sum(one.numel() for one in model.parameters() if one not in tables) + sum(one.numel() for one in tied)
    pairs = sum(part.heads * part.head_width for part in model.modules() if isinstance(part, MultiHeadAttention))
    forward = 2 * weights + 4 * pairs * length / (2 if as_model(model).is_causal else 1)
    return forward * (4 if checkpointing else 3)
