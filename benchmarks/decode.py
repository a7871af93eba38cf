"""Greedy decoding with a GPT-2 of 124M parameters: ours against transformers, the same tokens."""

import tempfile

import torch
import transformers

import glassformer as gf

from .measure import Row, interleaved, row


def run(prompt: int = 32, new: int = 64) -> list[Row]:
    """A batch of one, and a batch of eight prompts of different lengths."""
    config = transformers.GPT2Config(eos_token_id=None, bos_token_id=None, pad_token_id=0)
    peer = transformers.GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        ours = gf.load(folder)
    rows = []
    for batch in (1, 8):
        ids = torch.randint(1, 50000, (batch, prompt), generator=torch.Generator().manual_seed(0))
        mask = (torch.arange(prompt) >= torch.arange(batch)[:, None] * 3).long()
        request = {"attention_mask": mask, "max_new_tokens": new}
        contestants = {
            "transformers": lambda ids=ids, request=request: peer.generate(ids, do_sample=False, **request),
            "ours": lambda ids=ids, request=request: gf.generate(ours, None, ids, **request),
        }
        seconds = interleaved(contestants, rounds=3)
        name = f"GPT-2 124M greedy, fp32, batch {batch}, {prompt}+{new} tokens"
        rows.append(row(name, seconds["ours"], seconds["transformers"], "transformers"))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
