"""Tensor parallelism: heads, inner neurons and words of one model over several processes.

A plan belongs to a class of blocks, so that every architecture made of them is covered and none knows of it: which
parts give a share of their outputs (columns), and which take a share of their inputs and are summed (rows). What x a
block reads, all processes have; what it gives is summed over them once, and so is the gradient of x on the way back.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.distributed.tensor.parallel.style import ParallelStyle

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.disentangled import DisentangledScores
from glassformer.blocks.lora import LoraLinear, NewTokens
from glassformer.blocks.point import ignore_hooks
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer
from glassformer.models.contract import as_model

from .update import combine_seeds
from .vocabulary_scores import VocabularyScores, check_words

Styles = dict[str, ParallelStyle]  # by the names of a block's parts; none: the block stays whole
COLUMNS, ROWS = ColwiseParallel(), RowwiseParallel()
HEADS = SequenceParallel(sequence_dim=-2, use_local_output=True)  # a norm whose weights serve all heads


class VocabularyColumns(ColwiseParallel):
    """Of an output layer: each process scores its own words."""

    def __init__(self) -> None:
        super().__init__(use_local_output=False)


def _attention(block: MultiHeadAttention, size: int) -> Styles:
    if block.heads % size or block.key_heads % size:
        return {}
    found: Styles = {"query": COLUMNS, "key": COLUMNS, "value": COLUMNS, "output": ROWS}
    if block.query_norm is not None:
        found |= {"query_norm": HEADS, "key_norm": HEADS}
    match block.position_scores:
        case None:
            return found
        case RelativeBias():
            return found | {"position_scores.table": COLUMNS}  # (buckets, H)
        case DisentangledScores() as scores:
            projections = {"key": scores.key, "query": scores.query}
            return found | {
                f"position_scores.{name}": COLUMNS for name, part in projections.items() if part is not None
            }
    return {}


def _feed_forward(block: FeedForward | GatedFeedForward, size: int) -> Styles:
    if block.up.out_features % size:
        return {}
    gate: Styles = {"gate": COLUMNS} if isinstance(block, GatedFeedForward) else {}
    return gate | {"up": COLUMNS, "down": ROWS}


PLANS: Mapping[type[nn.Module], Callable[[Any, int], Styles]] = {
    MultiHeadAttention: _attention,
    FeedForward: _feed_forward,
    GatedFeedForward: _feed_forward,
}


def block_styles(model: nn.Module, size: int) -> dict[nn.Module, Styles]:
    """The blocks that are dealt out to `size` processes, and how each of their parts is."""
    plans = {block: PLANS[type(block)](block, size) for block in model.modules() if type(block) in PLANS}
    return {block: styles for block, styles in plans.items() if styles}


def vocabulary_styles(model: nn.Module, size: int) -> dict[nn.Module, ParallelStyle]:
    """Tables of words, and layers outside the stacks that give each word a score, where they come out even."""
    config = as_model(model).config
    rows = {count for count in (config.vocab_size, config.target_vocab_size) if count % size == 0}
    inside = {part for layer in model.modules() if isinstance(layer, Layer) for part in layer.modules()}
    found: dict[nn.Module, ParallelStyle] = {}
    for part in model.modules():
        if type(part) is nn.Embedding and part.num_embeddings in rows:
            found[part] = RowwiseParallel(input_layouts=Replicate())
        elif type(part) is nn.Linear and part.out_features in rows and part not in inside:
            found[part] = VocabularyColumns()
    return found


def part_styles(model: nn.Module, size: int) -> dict[nn.Module, ParallelStyle]:
    """Every part of a model that is dealt out."""
    blocks = block_styles(model, size)
    parts = {block.get_submodule(name): style for block, named in blocks.items() for name, style in named.items()}
    return vocabulary_styles(model, size) | parts  # a table of a block may have as many rows as there are words


def parallelise(model: nn.Module, mesh: DeviceMesh) -> None:
    """Deal a model out to the processes of a mesh of one dimension, in place.

    Parameters that are dealt out are DTensors from now on, tied as they were. What does not come out even (heads, inner
    neurons, words) stays whole on every process, and so does a block whose class has no plan. Refused: a model of which
    nothing can be dealt out, and adapters (LoRA).
    """
    size = mesh.size()
    if any(isinstance(part, LoraLinear | NewTokens) for part in model.modules()):
        raise ValueError("adapters train too little to be dealt out: leave tensor_parallel at 1, or lora out")
    blocks, parts, tied = block_styles(model, size), part_styles(model, size), _owners(model)
    trained = {name: tensor.requires_grad for name, tensor in model.named_parameters(remove_duplicate=False)}
    if not parts:
        raise ValueError(f"tensor_parallel is {size}, and no heads, neurons or words of this model come out even by it")
    for part, style in parts.items():
        parallelize_module(part, mesh, style)
        if isinstance(style, VocabularyColumns):
            part.register_forward_hook(_scored)
        if isinstance(part, nn.Embedding):
            part.register_forward_pre_hook(_known_words)
    for owners in tied:
        first = next(((part, name) for part, name in owners if part in parts), owners[0])
        for part, name in owners:
            part.register_parameter(name, first[0].get_parameter(first[1]))
    for name, tensor in model.named_parameters(remove_duplicate=False):
        tensor.requires_grad_(trained[name])  # not all styles keep it
    for block in blocks:
        _divide_heads(block, size)
        block.register_forward_pre_hook(partial(_shared, mesh))
        OwnDraws(block, mesh.get_local_rank())
    for module in (*parts, *blocks):
        ignore_hooks(module)


def _divide_heads(block: nn.Module, size: int) -> None:
    """Of an attention: this process has its share of the heads."""
    if isinstance(block, MultiHeadAttention):
        block.heads, block.key_heads = block.heads // size, block.key_heads // size
        if isinstance(block.position_scores, DisentangledScores):
            block.position_scores.heads //= size


def _shared(mesh: DeviceMesh, _block: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """All parts of a block read one x, so that its gradient is summed over the processes once."""
    return DTensor.from_local(inputs[0], mesh, [Replicate()], run_check=False), *inputs[1:]


class OwnDraws:
    """Hooks of a block: what is drawn in it while it trains (dropout of its heads, of its neurons) each process draws
    for itself, and what is drawn after it, of what all processes have, all draw alike."""

    def __init__(self, block: nn.Module, rank: int) -> None:
        self.rank, self.forks = rank, list[AbstractContextManager[None]]()
        block.register_forward_pre_hook(self._enter)
        block.register_forward_hook(self._leave, always_call=True)

    def _enter(self, block: nn.Module, _inputs: object) -> None:
        if not block.training:
            return
        seed = combine_seeds(int(torch.randint(2**62, ())), self.rank)  # drawn on the CPU, by all processes alike
        device = next(block.parameters()).device
        fork = torch.random.fork_rng([device.index] if device.type == "cuda" else [])
        fork.__enter__()
        self.forks.append(fork)
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _leave(self, _block: nn.Module, _inputs: object, _outputs: object) -> None:
        if self.forks:
            self.forks.pop().__exit__(None, None, None)


def _known_words(table: nn.Embedding, inputs: tuple[Tensor, ...]) -> None:
    check_words(inputs[0], table.num_embeddings)


def _scored(_layer: nn.Module, _inputs: object, scores: DTensor) -> VocabularyScores:
    return VocabularyScores(scores)


def _owners(model: nn.Module) -> list[list[tuple[nn.Module, str]]]:
    """The modules that share a parameter, with its name in each."""
    owners: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for part in model.modules():
        for name, tensor in part.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(tensor, []).append((part, name))
    return [found for found in owners.values() if len(found) > 1]
