"""Drawing a token of each row on a GPU: temperature, top_k, top_p, min_p and the draw, without a sort.

What the best k tokens, or those of mass p, have in common is a lowest score. For the best k, the highest scores of
groups of tokens tell nearly where it lies: few groups are read again, and it is found among what is in them by
bisection over its bits. For a nucleus of any size all of a GPU looks for it, four bits at a time.
B rows, V vocabulary.
"""

import torch
from torch import Tensor

from .best import Scan
from .launch import early

CHUNK = 1024  # scores that a program looks at together
TILE_NUMBERS = 4096  # scores that it looks for them in
SEATS = 16  # bounds that are tried in a round
UNUSED_BITS = {torch.bfloat16: 16, torch.float16: 13}  # of an fp32 number


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
    top_p = None if top_p is None or top_p >= 1 else top_p
    asked = {"cool": 1.0 / temperature, "top_p": top_p, "min_p": min_p}
    if top_k is None or top_k >= logits.shape[1]:
        return _from_all(logits, noise.contiguous(), asked)
    return _from_best(logits, noise.contiguous(), asked | {"top_k": top_k})


def _from_best(logits: Tensor, noise: Tensor, asked: dict[str, float | None]) -> tuple[Tensor, Tensor]:
    """With top_k: a program a row."""
    from .device.sample import sample_kernel

    scan, batch = Scan.of(logits), len(logits)
    ids, highest = logits.new_empty(batch, dtype=torch.int64), logits.new_empty(batch, dtype=torch.float32)
    chosen, kept = torch.empty_like(scan.maxima, dtype=torch.int32), torch.empty_like(noise)
    tensors = (scan.logits, scan.maxima, noise, ids, highest, chosen, kept, torch.empty_like(noise, dtype=torch.int32))
    kind = {"unused_bits": UNUSED_BITS.get(logits.dtype, 0), "group": scan.group, **scan.groups}
    kind |= {"seats": max(1, TILE_NUMBERS // scan.group), "chunk": CHUNK, "num_warps": 8}
    sample_kernel[(batch,)](*tensors, *scan.sizes, **asked, **kind, **early())
    return ids, highest


def _from_all(logits: Tensor, noise: Tensor, asked: dict[str, float | None]) -> tuple[Tensor, Tensor]:
    """Without: a program for each block of scores, and at last one a row."""
    from .device.draw import draw_kernel, nucleus_kernel, winner_kernel

    cool, top_p, batch, sums, equals = asked["cool"], asked["top_p"], len(logits), None, None
    bits = UNUSED_BITS.get(logits.dtype, 0)
    rounds = 0 if top_p is None else (32 - bits + 3) // 4
    if rounds:
        sums = logits.new_zeros(batch, rounds, SEATS, dtype=torch.int64)
    scan = Scan.of(logits, None if top_p is None else cool)
    blocks, told = scan.blocks, (scan.logits, scan.maxima, scan.masses, sums)
    kind = {"rounds": rounds, "unused_bits": bits, "block": scan.block, "seats": SEATS, **scan.groups}
    kind |= {"num_warps": scan.warps, **early()}
    for done in range(rounds):
        nucleus_kernel[(batch, blocks)](*told, None, *scan.sizes, cool=cool, top_p=top_p, done=done, **kind)
    lots, words = (logits.new_empty(batch, blocks, dtype=dtype) for dtype in (torch.float32, torch.int32))
    if rounds:
        equals = torch.empty_like(words)
        nucleus_kernel[(batch, blocks)](*told, equals, *scan.sizes, cool=cool, top_p=top_p, done=rounds, **kind)
    draw_kernel[(batch, blocks)](*told, equals, noise, lots, words, *scan.sizes, **asked, **kind)
    ids, highest = logits.new_empty(batch, dtype=torch.int64), logits.new_empty(batch, dtype=torch.float32)
    tensors = (scan.maxima, lots, words, ids, highest, logits.shape[1])
    winner_kernel[(batch,)](*tensors, blocks=blocks, **scan.groups, num_warps=4, **early())
    return ids, highest
