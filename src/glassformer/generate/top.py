"""The best words of many rows of scores, in few passes over memory."""

import torch
from torch import Tensor

SPAN = 128  # scores


def log_softmax(logits: Tensor, *, in_place: bool) -> Tensor:
    """In place where that can be: to be given so much memory takes a CPU longer than the sums."""
    ordinary = logits.device.type == "cpu" and logits.dtype == torch.float and logits.is_contiguous()
    in_place = in_place and ordinary and not torch.is_grad_enabled()
    return torch.log_softmax(logits, -1, dtype=torch.float, out=logits if in_place else None)


def top(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """As topk; all where there are fewer."""
    if scores.shape[-1] > number * SPAN:
        return top_by_spans(scores, number)
    values, indices = scores.topk(min(number, scores.shape[-1]))
    return values, indices


def top_by_spans(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The same in two rounds, several times as fast: only spans whose largest is among the largest can hold any."""
    size, device = scores.shape[-1], scores.device
    whole = size - size % SPAN  # what is left over is looked at in any case
    spans = scores[..., :whole].unflatten(-1, (-1, SPAN))
    first = spans.amax(-1).topk(number).indices[..., None]  # (…, number, 1)
    left = torch.arange(whole, size, device=device).expand(*scores.shape[:-1], -1)
    some = spans.gather(-2, first.expand(*first.shape[:-1], SPAN)).flatten(-2)
    values = torch.cat([some, scores[..., whole:]], dim=-1)
    places = torch.cat([(first * SPAN + torch.arange(SPAN, device=device)).flatten(-2), left], dim=-1)
    values, best = values.topk(number)
    return values, places.gather(-1, best)
