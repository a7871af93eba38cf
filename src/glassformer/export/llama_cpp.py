"""llama.cpp through llama-cpp-python: a GGUF file asked for logits and texts.

B batch, S length, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .samples import NEW_TOKENS, Batch

CONTEXT = 256  # tokens; texts to compare on are shorter
F32 = 0  # ggml's number for it: keys and values in 16 bits would be an error of their own


class LlamaCppModel:
    """A file opened by llama.cpp. It has no padding: texts are read one by one."""

    def __init__(self, file: Path, vocabulary: int, *, context: int) -> None:
        from llama_cpp import Llama

        self.vocabulary, threads = vocabulary, torch.get_num_threads()
        self.llama = Llama(
            str(file),
            n_ctx=context,
            n_threads=threads,
            n_threads_batch=threads,
            type_k=F32,
            type_v=F32,
            logits_all=True,
            verbose=False,
        )

    def logits(self, ids: Sequence[int]) -> Tensor:
        """(S, V)"""
        self.llama.reset()
        self.llama.eval(list(ids))
        return torch.from_numpy(np.array(self.llama.scores[: len(ids), : self.vocabulary]))

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Logits (B, S, V) at real tokens, zero elsewhere."""
        ids, keep = batch["input_ids"], batch["attention_mask"].bool()
        found = torch.zeros(*ids.shape, self.vocabulary)
        for row, real in enumerate(keep):
            found[row, real] = self.logits(ids[row, real].tolist())
        return {"logits": found}

    def greedy(self, prompts: Batch, stop: int | list[int] | None) -> Tensor:
        """(B, T): what follows prompts, the likeliest token each time, up to and with an end; -1 after it."""
        ends = {stop} if isinstance(stop, int) else set(stop or ())
        texts = []
        for ids, keep in zip(prompts["input_ids"], prompts["attention_mask"].bool(), strict=True):
            written: list[int] = []
            prompt: list[int] = ids[keep].tolist()
            while len(written) < NEW_TOKENS and not ends & set(written):
                written.append(int(self.logits(prompt + written)[-1].argmax()))
            texts.append(torch.tensor(written))
        return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=-1)

    def tokenize(self, text: str) -> list[int]:
        """The ids of a prompt, after a beginning where the file says so."""
        return list(self.llama.tokenize(text.encode(), add_bos=True, special=False))
