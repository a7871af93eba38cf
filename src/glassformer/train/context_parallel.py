"""Context parallelism: the positions of each text over several processes, for texts too long for the memory of one.

What crosses positions is attention alone. A process runs all layers on its own places; in each layer keys and values of
all places are gathered, and its queries look at those that come before them. It belongs to the stack of layers, so that
every architecture made of one is covered and none knows of it. A text is cut into two pieces a process, and each has
one from its beginning and the one as far from its end: of causal attention all then have the same to do. (The prototype
of torch, `distributed.tensor.experimental.context_parallel`, is for some GPU kernels, without windows and biases.)

B batch, T length, N processes, C length of a piece, t = 2C places of this process, G heads of keys, K head width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Shard

from glassformer.blocks.batch_masks import AttentionOptions, BatchMask, CausalMask, Memo
from glassformer.blocks.masks import send
from glassformer.blocks.transformer import Stack
from glassformer.models.contract import as_model
from glassformer.tasks.batch import Batch, Carried
from glassformer.tasks.task import AnyTask
from glassformer.tasks.words import NO_TARGET

from .layout import Objective
from .tensor_parallel import OwnDraws


@dataclass(frozen=True)
class ContextMask(BatchMask):
    """A causal mask for the places of a text that this process has, as keys and values of all of them are gathered."""

    mesh: DeviceMesh
    pieces: tuple[CausalMask, ...]  # of which each process has as many
    lengths: Tensor  # (B or 1, 1), of the whole texts

    @property
    def dense(self) -> None:
        raise AssertionError("the readable path runs on whole texts: nothing is dealt out while a hook is there")

    @property
    def text_lengths(self) -> Tensor:
        return self.lengths

    def with_empty_memo(self) -> Self:
        return replace(self, memo=Memo(), pieces=tuple(piece.with_empty_memo() for piece in self.pieces))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """(B, t, H, K) queries and (B, t, G, K) keys and values of this process; gives (B, t, H, K)."""
        key, value = self.whole(key), self.whole(value)
        found = []
        for piece, queries in zip(self.pieces, query.chunk(len(self.pieces), 1), strict=True):
            end = piece.before + piece.length
            found.append(piece.attend(queries, key[:, :end], value[:, :end], options))
        return torch.cat(found, 1)

    def whole(self, x: Tensor) -> Tensor:
        """(B, t, G, K) of each process -> (B, T, G, K), in the order of the text."""
        pieces = _gathered(x, self.mesh, Shard(1)).chunk(2 * self.mesh.size(), 1)  # two of each process
        return torch.cat([*pieces[::2], *pieces[::-2]], 1)


class ContextObjective(Objective):
    """An objective whose texts several processes read together; the loss it gives is that of all their places.

    Refused: what is not a causal decoder's loss at each token.
    """

    def __init__(self, model: nn.Module, task: AnyTask, mesh: DeviceMesh) -> None:
        super().__init__(model, task)
        self.mesh = mesh
        self._stacks = [part for part in model.modules() if isinstance(part, Stack)]
        config = as_model(model).config
        if not (task.by_token and self._stacks and as_model(model).is_causal) or config.is_encoder_decoder:
            raise ValueError(
                f"context_parallel is {mesh.size()}, and is for text-generation by decoders such as gpt2 and llama; "
                f"for {task.name} by {config.model_type} leave it at 1"
            )
        OwnDraws(self, mesh.get_local_rank())

    def forward(self, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
        own, mask = dealt_out(batch, self.mesh)
        with self._reading(mask):
            loss, carried = super().forward(own, carried)
        return _gathered(loss, self.mesh, Partial()).clone(), carried  # FSDP hooks what it gives: no view

    @contextmanager
    def _reading(self, mask: ContextMask) -> Iterator[None]:
        """Layers see this mask; outside of it the model reads whole texts, as an evaluation does."""
        handles = [stack.register_forward_pre_hook(lambda _, inputs: (inputs[0], mask)) for stack in self._stacks]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def dealt_out(batch: Batch, mesh: DeviceMesh) -> tuple[Batch, ContextMask]:
    """This process's places of a batch whose padding, if any, comes last, and the mask of its layers.

    Where the pieces do not come out even the last ones are filled up with places that have no target.
    """
    ids, keep = batch.inputs["input_ids"], batch.inputs.get("attention_mask")
    length, device = ids.shape[1], ids.device
    starts, width = pieces_of(length, mesh.get_local_rank(), mesh.size())
    places = torch.cat([torch.arange(start, start + width, device=device) for start in starts])  # (t,)
    inside = places.clamp(max=length - 1)
    labels = batch.targets["labels"][:, inside].masked_fill(places >= length, NO_TARGET)
    inputs = {"input_ids": ids[:, inside], "position_ids": inside[None]}
    lengths = torch.tensor([[length]], device=device) if keep is None else send(keep.sum(1, keepdim=True), device)
    pieces = tuple(CausalMask(width, device, start) for start in starts)
    mask = ContextMask(mesh, pieces, lengths, positions=inputs["position_ids"])
    return replace(batch, inputs=inputs, targets={"labels": labels}), mask


def pieces_of(length: int, rank: int, size: int) -> tuple[tuple[int, int], int]:
    """Where the two pieces of a process start, and how long both are; the last of all may go beyond the text."""
    width = -(-length // (2 * size))
    return (rank * width, (2 * size - 1 - rank) * width), width


def _gathered(x: Tensor, mesh: DeviceMesh, placement: Placement) -> Tensor:
    """What the processes have between them, on each of them; its gradients are summed over them on the way back."""
    whole = DTensor.from_local(x, mesh, [placement], run_check=False).full_tensor(grad_placements=[Partial()])
    assert isinstance(whole, Tensor)
    return whole


def context_mesh(device: torch.device, size: int, tensor_size: int) -> DeviceMesh:
    """The processes that read the same texts as this one, and have the same share of the model."""
    groups = dist.get_world_size() // (size * tensor_size)
    names = ("data", "context", "tensor")
    return init_device_mesh(device.type, (groups, size, tensor_size), mesh_dim_names=names)["context"]
