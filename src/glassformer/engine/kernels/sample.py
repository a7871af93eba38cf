"""Drawing a token of each row on a GPU: temperature, top_k, top_p, min_p and the draw in one launch, without a sort.

What the best k tokens, or those of mass p, have in common is a lowest score, and that is found by bisection over its
bits. B rows, V vocabulary.
"""

import torch
from torch import Tensor

from .launch import early

CHUNK = 4096  # scores that a program looks at together


def sample(
    logits: Tensor,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(B,) ids drawn from logits (B, V) by exponential noise (B, V), fp32; and each row's highest score, NaN with NaN.

    As the filters of generate/warpers.py one after another, and pick.draw. Of tokens that are as likely as the last of
    the nucleus those of the highest ids stay, as a stable sort leaves them.
    """
    from .device.sample import sample_kernel

    batch, size = logits.shape
    assert logits.stride(1) == 1
    padded = logits.storage_offset() + batch * logits.stride(0)  # what may be read whole; odd ends are read in bits
    whole = logits.stride(0) >= size and padded * logits.element_size() <= logits.untyped_storage().nbytes()
    readable = logits.stride(0) if whole else size
    ids = torch.empty(batch, dtype=torch.int64, device=logits.device)
    highest = torch.empty(batch, dtype=torch.float32, device=logits.device)
    kept = places = None
    if top_k is not None and top_k < size:
        kept = torch.empty(batch, size, dtype=torch.float32, device=logits.device)
        places = torch.empty(batch, size, dtype=torch.int32, device=logits.device)
    mass = None if top_p is None or top_p >= 1 else top_p
    kind = {"unused_bits": 16 if logits.dtype == torch.bfloat16 else 0, "chunk": CHUNK}
    tensors, sizes = (logits, noise.contiguous(), ids, highest, kept, places), (size, readable, logits.stride(0))
    sample_kernel[(batch,)](*tensors, *sizes, 1.0 / temperature, top_k, mass, min_p, **kind, num_warps=16, **early())
    return ids, highest
