"""Digests of tensors: one number for each that changes with any bit of it, and with where the bits stand.

What is made from weights once must know when they change. torch counts the changes it makes itself, but not those of
fused optimisers or through `.data`, and a sum does not see two rows that trade places. Here every 32-bit word is
multiplied by a number of its own, modulo 2**64: one changed word always changes the digest, as do two that trade places
within 4 KB; any other change is missed with a chance of about 2**-64. The weights are read once.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import kernels, native

WORDS = 1 << 12  # of 32 bits, in a stretch
STRETCHES = {"cpu": 1 << 4}  # at a time, so that what is made of them stays in the cache; elsewhere
MANY = 1 << 10
Digest = Callable[[], Tensor]
"""The digests (N,) of N tensors as they are now, in int64."""


def digest_of(tensors: Sequence[Tensor]) -> Digest:
    """What gives the digests of these tensors again and again; they must stay where they are in memory."""
    plain = [tensor.detach() for tensor in tensors]
    on_cpu = all(tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in plain)
    if on_cpu and native.kernels() is not None:
        return lambda: _native(plain)
    if (
        all(kernels.on_current_gpu(x) and x.is_contiguous() and x.nbytes % 4 == 0 for x in plain)
        and kernels.available()
    ):
        return kernels.GpuDigest(plain)
    return lambda: torch.stack([digest_in_torch(tensor) for tensor in plain])


def _native(tensors: Sequence[Tensor]) -> Tensor:
    found = native.kernels()
    assert found is not None
    starts = torch.tensor([tensor.data_ptr() for tensor in tensors], device="cpu")
    sizes = torch.tensor([tensor.nbytes for tensor in tensors], device="cpu")
    digests = torch.zeros(len(tensors), dtype=torch.int64, device="cpu")
    job = native.DigestJob(starts.data_ptr(), sizes.data_ptr(), digests.data_ptr(), len(tensors), 0)
    found.digest(found.threads, torch.get_num_threads(), ctypes.addressof(job))
    return digests


def digest_in_torch(tensor: Tensor) -> Tensor:
    """The digest () of one tensor, on any device: another number than the kernel's, which tells the same."""
    raw = tensor.contiguous().reshape(-1).view(torch.uint8)
    raw = raw.clone() if raw.storage_offset() % 4 else raw  # a view that begins within a word
    count = STRETCHES.get(tensor.device.type, MANY)
    of_words, of_stretches = _numbers(WORDS, tensor.device), _numbers(count, tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    products = torch.empty(count, WORDS, dtype=torch.int64, device=tensor.device)  # fresh memory costs more than sums
    for part in raw.split(4 * WORDS * count) if len(raw) else ():
        whole = pad(part, (0, -len(part) % (4 * WORDS))) if len(part) % (4 * WORDS) else part
        words = whole.view(torch.int32).view(-1, WORDS)
        sums = torch.mul(words, of_words, out=products[: len(words)]).sum(1)
        total = total * of_words[0] + (sums * of_stretches[: len(sums)]).sum()
    return total


@cache
def _numbers(count: int, device: torch.device) -> Tensor:
    """Odd numbers, all different."""
    with torch.inference_mode(False):
        chance = torch.Generator("cpu").manual_seed(count)
        drawn = torch.randint(-(2**62), 2**62, (count,), generator=chance, device="cpu")
        return (2 * drawn + 1).to(device)
