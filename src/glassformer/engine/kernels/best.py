"""The highest score of each row on a GPU: a program for every block of scores, and then one for every row.

B rows, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .launch import early, multiprocessors, power_of_two

GROUP = 128  # scores at least, of which the highest is known
MOST_GROUPS = 4096  # of a row: one program holds them all
BLOCKS = (1024, 4096)  # scores of a program: few where rows are few, so that all of a GPU is at work


@dataclass(frozen=True)
class Scan:
    """The highest score of every group of scores (B, V): what is chosen is looked for in few of them."""

    logits: Tensor  # (B, V)
    readable: int  # scores of a row that may be read: with what pads it, odd ends are not read in bits
    group: int
    block: int
    maxima: Tensor  # (B, groups), fp32; NaN with NaN
    masses: Tensor | None  # (B, blocks, 2), fp32: a block's highest score, and Σ exp((x − highest) · cool)

    @staticmethod
    def of(logits: Tensor, cool: float | None = None) -> "Scan":
        """With masses, where `cool`, one over the temperature, is given."""
        from .device.scan import scan_kernel

        (batch, size), logits = logits.shape, logits if logits.stride(1) == 1 else logits.contiguous()
        padded = logits.storage_offset() + batch * logits.stride(0)
        whole = logits.stride(0) >= size and padded * logits.element_size() <= logits.untyped_storage().nbytes()
        readable = logits.stride(0) if whole else size
        group = max(GROUP, power_of_two(-(-size // MOST_GROUPS)))
        few, many = (max(group, block) for block in BLOCKS)
        block = few if batch * -(-size // few) <= 8 * multiprocessors() else many
        blocks = -(-size // block)
        maxima = torch.empty(batch, blocks * (block // group), dtype=torch.float32, device=logits.device)
        masses = None if cool is None else torch.empty(batch, blocks, 2, dtype=torch.float32, device=logits.device)
        scan = Scan(logits, readable, group, block, maxima, masses)
        shape = {"group": group, "block": block, "num_warps": scan.warps}
        scan_kernel[(batch, blocks)](logits, maxima, masses, *scan.sizes, cool, **shape, **early())
        return scan

    @property
    def sizes(self) -> tuple[int, int, int]:
        """V, how much of it may be read, and how far apart rows lie."""
        return self.logits.shape[1], self.readable, self.logits.stride(0)

    @property
    def blocks(self) -> int:
        """How many of a row: a program for each reads it."""
        return -(-self.logits.shape[1] // self.block)

    @property
    def warps(self) -> int:
        return min(8, self.block // 256)

    @property
    def groups(self) -> dict[str, int]:
        """What a kernel that reads all maxima of a row is told of them."""
        count = self.maxima.shape[1]
        return {"groups": count, "tile": power_of_two(count)}


def best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's first of the highest scores of logits (B, V): its id (B,), and the score in fp32, NaN with NaN."""
    from .device.scan import best_kernel

    scan = Scan.of(logits)
    ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    highest = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    tensors = (scan.logits, scan.maxima, ids, highest)
    best_kernel[(len(logits),)](*tensors, *scan.sizes, **scan.groups, group=scan.group, num_warps=4, **early())
    return ids, highest
