"""Digests of tensors on a GPU, as engine/digest.py has them, of all in one launch."""

from collections.abc import Sequence

import torch
from torch import Tensor


class GpuDigest:
    """Digests of tensors as engine/digest.py has them, of all in one launch: a program for each stretch of words."""

    words = 8192

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """Contiguous tensors of whole words of 32 bits, which stay where they are."""
        self.device, self.count = tensors[0].device, len(tensors)
        sizes = [tensor.nbytes // 4 for tensor in tensors]
        stretches = [-(-size // self.words) for size in sizes]
        owners = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(stretches))
        numbers = torch.cat([torch.arange(many) for many in stretches])
        starts = torch.tensor([tensor.data_ptr() for tensor in tensors])
        self.work = [x.to(self.device) for x in (starts, torch.tensor(sizes), owners, numbers)]

    def __call__(self) -> Tensor:
        from .device.digest import digest_kernel

        found = torch.zeros(self.count, dtype=torch.int64, device=self.device)
        digest_kernel[(len(self.work[-1]),)](*self.work, found, words=self.words, num_warps=8)
        return found
