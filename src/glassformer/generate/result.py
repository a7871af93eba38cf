"""What generate gives where more than the texts is asked for.

B prompts, R results a prompt, P prompt length, N new tokens, k alternatives.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Generated:
    """Texts with their scores, best first for each prompt; row b·R + r is the r-th result of prompt b."""

    sequences: Tensor  # (B·R, P + N), filled up with padding
    sequences_scores: Tensor  # (B·R,): beams: log-probability over lengthᵖ, filters counted; else the sum of logprobs
    lengths: Tensor  # (B·R,): new tokens
    logprobs: Tensor  # (B·R, N): of each new token under the model itself, before filters; 0 behind the end
    top_ids: Tensor  # (B·R, N, k): the likeliest tokens in its place
    top_logprobs: Tensor  # (B·R, N, k)
    texts: list[str] | None = None  # B·R of them, with a tokenizer

    def steps(self, row: int, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """Token by token: what was written, its log-probability, and the alternatives with theirs."""
        length, start = int(self.lengths[row]), self.sequences.shape[1] - self.logprobs.shape[1]
        ids = self.sequences[row, start : start + length].tolist()
        return [
            {
                "token": tokenizer.decode([id_]),
                "id": id_,
                "logprob": float(self.logprobs[row, place]),
                "top": [
                    {"token": tokenizer.decode([other]), "id": other, "logprob": logprob}
                    for other, logprob in zip(
                        self.top_ids[row, place].tolist(), self.top_logprobs[row, place].tolist(), strict=True
                    )
                ],
            }
            for place, id_ in enumerate(ids)
        ]
