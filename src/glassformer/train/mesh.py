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
    """What a process receives in one step by collectives of one kind; `between`: from other machines; `in_row`: from
    those that compute one model with it."""

    what: str
    formula: str
    count: int
    bytes: float
    between: bool
    in_row: bool = False


@dataclass(frozen=True)
class Held:
    """Bytes that a process holds, by what they are."""

    weights: float
    gradients: float
    moments: float
    gathered: float  # units whose weights are whole at one time
    activations: float
    scores: float  # of the vocabulary, in float32, and their gradients
    offloaded: float = 0.0  # of the first three, what is in the memory of the CPU

    @property
    def total(self) -> float:
        """On the GPU."""
        kept = self.weights + self.gradients + self.moments - self.offloaded
        return kept + self.gathered + self.activations + self.scores


def padded_sizes(model: nn.Module, plan: Plan, shard_size: int, *, trained: bool = False) -> list[int]:
    """The parameters of each unit that is gathered as one, the rest of the model last; rows are dealt out evenly.

    With `trained` only those that have gradients.
    """
    shapes = dealt_shapes(model, plan.tensor_parallel)
    seen: set[nn.Parameter] = set()
    sizes = []
    for modules in [*units_of(model, plan.min_num_params), [model]]:
        own = {tensor for module in modules for tensor in module.parameters()} - seen
        seen |= own
        each = [shapes[tensor] for tensor in own if tensor.requires_grad or not trained]
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
    summed = [one for one in padded_sizes(model, plan, shared, trained=True) if one]
    numbers, learning, found = sum(sizes), sum(summed), list[Exchange]()
    if size > 1:
        for one in all_reduces(model, plan, tokens=tokens, scored=scored, chunk=chunk):
            received = 2 * (size - 1) / size * one.bytes * plan.accumulate
            formula = f"{plan.accumulate} · 2 · (N−1)/N · {one.formula}"
            calls = one.count * plan.accumulate
            found.append(Exchange(f"all-reduce {one.what}", formula, calls, received, between=False, in_row=True))
    if shared > 1:
        wide, bytes_each = shared * size > mesh.per_node, COMPUTE_BYTES[plan.precision]
        again = numbers - sizes[-1] if plan.reshard else 0  # units of layers, on the way back
        gathered = plan.accumulate * (shared - 1) / shared * (numbers + again) * bytes_each
        formula = f"{plan.accumulate} · (S−1)/S · {'(2P − P₀)' if plan.reshard else 'P'} · {bytes_each}"
        calls = plan.accumulate * (len(sizes) + (len(sizes) - 1 if plan.reshard else 0))
        found.append(Exchange("all-gather of weights", formula, calls, gathered, wide))
        scattered = (shared - 1) / shared * learning * WEIGHT
        found.append(Exchange("reduce-scatter of gradients", "(S−1)/S · P · 4", len(summed), scattered, wide))
    if groups > 1:
        received = 2 * (groups - 1) / groups * learning / shared * WEIGHT
        calls = len(summed)
        found.append(Exchange("all-reduce of gradients", "2 · (R−1)/R · P/S · 4", calls, received, mesh.nodes > 1))
    return found


def held(model: nn.Module, plan: Plan, mesh: Mesh, *, tokens: float, scored: float = 0.0) -> Held:
    """What a process holds while its row works at so many tokens at once, and scores all words at `scored` of them."""
    shared, size = mesh.shard_size(plan), plan.tensor_parallel
    sizes = padded_sizes(model, plan, shared)
    words = as_model(model).config.target_vocab_size
    numbers, bytes_each = sum(sizes), COMPUTE_BYTES[plan.precision]
    learning = sum(padded_sizes(model, plan, shared, trained=True))
    whole_gradients = shared == 1 or plan.accumulate > 1  # summed where they are until the last micro-batch
    shards = (WEIGHT * numbers + (WEIGHT + MOMENTS) * learning) / shared
    at_once = sizes[-1] + sum(sorted(sizes[:-1])[-2:])  # the rest of the model, a unit that is run, the next on its way
    return Held(
        weights=WEIGHT * numbers / shared,
        gradients=WEIGHT * learning / (1 if whole_gradients else shared),
        moments=MOMENTS * learning / shared,
        gathered=0.0 if shared == 1 else bytes_each * (at_once if plan.reshard else numbers),
        activations=tokens * _kept_numbers(model, size, checkpointing=plan.checkpointing) * bytes_each,
        scores=scored * words / (1 if words % size else size) * 2 * WEIGHT,
        offloaded=shards if plan.offload else 0.0,
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
        case nn.RNNBase():  # of each layer what it reads, and of each direction gates and states, as on a CPU
            ways, states = 1 + part.bidirectional, {"LSTM": 18, "GRU": 8}.get(part.mode, 2)
            reads = part.input_size + (part.num_layers - 1) * ways * part.hidden_size
            return reads + part.num_layers * ways * states * part.hidden_size
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
