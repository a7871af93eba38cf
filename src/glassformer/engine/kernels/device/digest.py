"""Digests of many tensors."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def digest_kernel(starts, sizes, owners, numbers, found, words: tl.constexpr):
    owner, number = tl.load(owners + tl.program_id(0)), tl.load(numbers + tl.program_id(0))
    start = tl.load(starts + owner).to(tl.pointer_type(tl.int32))
    lane = tl.arange(0, words).to(tl.int64)
    place = number * words + lane
    word = tl.load(start + place, mask=place < tl.load(sizes + owner), other=0).to(tl.int64)
    own = (lane * 0x9E3779B1 & 0xFFFFFFFF) ^ 0x85EBCA6B  # of each word: all different, and none 0
    mixed = (number + 1) * 0x1E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 29)) * 0x3F58476D1CE4E5B9 | 1  # of each stretch
    tl.atomic_add(found + owner, tl.sum(word * own, 0) * mixed)
