"""Greedy decoding: the likeliest token, again and again.

B batch, P tokens before, N new tokens.
"""

import torch
from torch import Tensor

from glassformer.blocks.state import S, Stepper


@torch.no_grad()
def greedy(
    stepper: Stepper[S],
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    start_ids: Tensor | None = None,
    max_new_tokens: int,
    eos_token_id: int | None = None,
) -> Tensor:
    """The ids (B, P + N): the prompt, or an encoder-decoder's `start_ids` (B, 1), and what follows it.

    A row that has ended is filled with eos; once all have, no more steps are taken.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
    if start_ids is None and attention_mask is not None and not attention_mask[:, -1].all():
        raise ValueError("a prompt goes on at its last token, so pad it on the left; this one is padded on the right")
    written = input_ids if start_ids is None else start_ids
    ended = torch.zeros(len(written), dtype=torch.bool, device=written.device)
    new, room = written, written.shape[1] + max_new_tokens - 1  # the last token is never fed
    state = stepper.start(input_ids, attention_mask, length=room)
    for _ in range(max_new_tokens):
        logits, state = stepper.step(new, state)
        new = logits[:, -1:].argmax(dim=-1)  # (B, 1)
        if eos_token_id is not None:
            new = new.masked_fill(ended[:, None], eos_token_id)
            ended |= new[:, 0] == eos_token_id
        written = torch.cat([written, new], dim=1)
        if ended.all():
            break
    return written
