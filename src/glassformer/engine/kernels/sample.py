"""Drawing a token of each row on a GPU: temperature, top_k, top_p, min_p and the draw, without a sort.

What the best k tokens, or those of mass p, have in common is a lowest score. The highest scores of groups of tokens
tell nearly where it lies, so few groups are read again; among what is in them it is found by bisection over its bits.
B rows, V vocabulary.
"""

import torch
from torch import Tensor

from .best import Scan
from .launch import early

CHUNK = 1024  # scores that a program looks at together
TILE_NUMBERS = 4096  # scores that it looks for them in


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
    from .device.sample import draw_kernel, sample_kernel, winner_kernel

    (batch, size), cool = logits.shape, 1.0 / temperature
    top_k = None if top_k is None or top_k >= size else top_k
    top_p = None if top_p is None or top_p >= 1 else top_p
    scan = Scan.of(logits, cool if top_k is None and top_p is not None else None)
    blocks, shape, noise = -(-size // scan.block), scan.groups, noise.contiguous()

    def empty(count: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(batch, count, dtype=dtype, device=logits.device)

    ids, highest = empty(1, torch.int64)[:, 0], empty(1, torch.float32)[:, 0]
    if top_k is not None or top_p is not None:
        chosen, places = empty(shape["groups"], torch.int32), empty(size, torch.int32)
        tensors = (
            scan.logits,
            scan.maxima,
            scan.masses,
            noise,
            ids,
            highest,
            chosen,
            empty(size, torch.float32),
            places,
        )
        asked = {"blocks": blocks, "cool": cool, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        bits = 16 if logits.dtype == torch.bfloat16 else 0
        kind = {"unused_bits": bits, "seats": max(1, TILE_NUMBERS // scan.group), "chunk": CHUNK, "num_warps": 8}
        sample_kernel[(batch,)](*tensors, *scan.sizes, **shape, **asked, **kind, **early())
        return ids, highest
    lots, words, tile = empty(blocks, torch.float32), empty(blocks, torch.int32), shape["tile"]
    more = {"groups": shape["groups"], "tile": tile}
    draw = (scan.logits, scan.maxima, noise, lots, words, *scan.sizes)
    kind = {"block": scan.block, "num_warps": 4 if scan.block < 4096 else 8}
    draw_kernel[(batch, blocks)](*draw, cool=cool, min_p=min_p, **more, **kind, **early())
    last = (scan.maxima, lots, words, ids, highest, size)
    winner_kernel[(batch,)](*last, blocks=blocks, **more, num_warps=4, **early())
    return ids, highest
