"""What becomes of texts by their next token."""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def token_kernel(
    words, scores, ends, token, running, highest, new, batch, count, padding,
    rows: tl.constexpr, seats: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    seat = tl.arange(0, seats)
    end = tl.load(ends + seat, mask=seat < count, other=0)
    before = tl.load(highest)
    top = tl.full([rows], float("-inf"), tl.float32)
    broken = tl.zeros([rows], tl.int32)
    for begin in range(0, batch, rows):
        row = begin + tl.arange(0, rows)
        real = row < batch
        goes = tl.load(running + row, mask=real, other=0) != 0
        word = tl.where(goes, tl.load(words + row, mask=real, other=0), padding)
        ended = tl.max(((word[:, None] == end[None, :]) & (seat < count)[None, :]).to(tl.int32), 1) > 0
        goes = goes & (ended == 0)
        tl.store(token + row, word, mask=real)
        tl.store(running + row, goes.to(tl.uint8), mask=real)
        tl.store(new + row, tl.where(goes, word, 0), mask=real)
        score = tl.load(scores + row, mask=real, other=float("-inf")).to(tl.float32)
        broken |= (score != score).to(tl.int32)
        top = tl.maximum(top, tl.where(score != score, float("-inf"), score))
    now = tl.maximum(before, tl.max(top))
    tl.store(highest, tl.where((before != before) | (tl.max(broken) > 0), float("nan"), now))
