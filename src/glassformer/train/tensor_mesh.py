"""What tensor parallelism sums over the processes of a row, and what each of them holds, by the plans of the blocks.

T tokens that a row has at once, Q of them that are scored, D the width of their vectors.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor, nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.distributed.tensor.parallel.style import ParallelStyle

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.disentangled import DisentangledScores
from glassformer.blocks.transformer import Layer

from .plan import COMPUTE_BYTES, Plan
from .tensor_parallel import block_styles, part_styles, vocabulary_styles


@dataclass(frozen=True)
class AllReduces:
    """Tensors of one micro-batch that are summed over a row (all-reduced), of one kind."""

    what: str
    formula: str
    count: int
    bytes: float


def dealt_blocks(model: nn.Module, size: int) -> Collection[nn.Module]:
    """The attentions and feed-forwards of which each process has a share."""
    return block_styles(model, size) if size > 1 else ()


def dealt_shapes(model: nn.Module, size: int) -> dict[nn.Parameter, torch.Size]:
    """The shape that each parameter has on a process."""
    found = {tensor: tensor.shape for tensor in model.parameters()}
    for part, style in part_styles(model, size).items() if size > 1 else ():
        for name, tensor in part.named_parameters(recurse=False):
            if (dim := _dealt_dim(part, style, name)) is not None:
                sizes = list(tensor.shape)
                sizes[dim] //= size
                found[tensor] = torch.Size(sizes)
    return found


def _dealt_dim(part: nn.Module, style: ParallelStyle, name: str) -> int | None:
    """Which dimension of a parameter is dealt out; None: it is whole on each process."""
    is_table = isinstance(part, nn.Embedding)
    match style:
        case ColwiseParallel():
            return 1 if is_table else 0
        case RowwiseParallel():
            return 0 if is_table else 1 if name == "weight" else None
    return None


def all_reduces(model: nn.Module, plan: Plan, *, tokens: float, scored: float, chunk: int | None) -> list[AllReduces]:
    """What is summed for one micro-batch of `tokens`, `scored` of which are scored, `chunk` at a time where given.

    Source and target of an encoder-decoder are taken to be as long as each other.
    """
    blocks, words = block_styles(model, plan.tensor_parallel), vocabulary_styles(model, plan.tensor_parallel)
    wide = COMPUTE_BYTES[plan.precision]
    found = []
    for what, widths in (
        ("of what blocks and tables give", [*_given(model, blocks, words, checkpointing=plan.checkpointing)]),
        ("of gradients of what blocks read", [*_read(model, blocks)]),
    ):
        formula = f"{len(widths)} · T · D · {wide}"
        found.append(AllReduces(what, formula, len(widths), tokens * sum(widths) * wide))
    if tables := [table for block in blocks for table in _distances(block)]:
        numbers = sum(table.numel() for table in tables)
        formula = f"{len(tables)} · distances · D · {wide}"
        found.append(AllReduces("of gradients of tables of distances", formula, len(tables), numbers * wide))
    outputs = [part for part in words if isinstance(part, nn.Linear)]
    if outputs and scored:
        parts, passes = (1, 1) if chunk is None or scored <= chunk else (ceil(scored / chunk), 2)
        sums = passes * scored * 4 * 4  # the largest score, and three sums, in float32
        found.append(AllReduces("of what the loss sums over words", f"{passes} · Q · 16", 2 * passes * parts, sums))
        gradients = scored * outputs[0].in_features * wide
        found.append(AllReduces("of gradients of what is scored", f"Q · D · {wide}", parts, gradients))
    return found


def _given(
    model: nn.Module, blocks: Collection[nn.Module], words: Collection[nn.Module], *, checkpointing: bool
) -> Iterator[int]:
    """The widths of what is summed in the forward pass, and again where a layer is run again."""
    yield from (_output(block).out_features for block in blocks)
    for _, part in model.named_modules(remove_duplicate=False):  # a table of both sides is read by both
        if isinstance(part, nn.Embedding) and part in words:
            yield part.embedding_dim
    for layer in _layers(model) if checkpointing else ():
        again: list[nn.Module | None] = [layer.attention, layer.cross_attention]
        if not layer.pre_norm or layer.dropout.p:  # a norm or a dropout behind it, whose gradient needs it
            again.append(layer.feed_forward)
        yield from (_output(block).out_features for block in again if block is not None and block in blocks)


def _read(model: nn.Module, blocks: Collection[nn.Module]) -> Iterator[int]:
    """The widths of the gradients that are summed in the backward pass."""
    for block in blocks:
        yield (block.query if isinstance(block, MultiHeadAttention) else _part(block, "up")).in_features
    for cross in (layer.cross_attention for layer in _layers(model)):
        if cross is not None and cross in blocks:  # its keys and its values read the source apart from each other
            yield from (cross.key.in_features, cross.value.in_features)


def _distances(block: nn.Module) -> list[Tensor]:
    """The tables that an attention reads beside x, once for each of its projections of them."""
    scores = block.position_scores if isinstance(block, MultiHeadAttention) else None
    if not isinstance(scores, DisentangledScores):
        return []
    return [scores.positions.table.weight for part in (scores.key, scores.query) if part is not None]


def _layers(model: nn.Module) -> Iterator[Layer]:
    return (part for part in model.modules() if isinstance(part, Layer))


def _output(block: nn.Module) -> nn.Linear:
    """The part of a block whose outputs are summed."""
    return _part(block, "output" if isinstance(block, MultiHeadAttention) else "down")


def _part(block: nn.Module, name: str) -> nn.Linear:
    found = block.get_submodule(name)
    assert isinstance(found, nn.Linear)
    return found
