"""A small NLLB of transformers, with its tokenizer, for the tests of languages."""

from pathlib import Path

import transformers

from families import shake

LETTERS = "▁abcdefghijklmnopqrstuvwxyz.,"
MERGES = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("a", "t"), ("c", "at")]


def vocabulary() -> dict[str, int]:
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *LETTERS, *("".join(pair) for pair in MERGES)]
    return {token: number for number, token in enumerate(tokens)}


def nllb_tokenizer(*, legacy: bool = False) -> transformers.PreTrainedTokenizerBase:
    return transformers.NllbTokenizer(vocab=vocabulary(), merges=MERGES, legacy_behaviour=legacy)


def nllb_folder(folder: Path, *, seed: int = 0) -> Path:
    """A random M2M-100 as NLLB's folders have it."""
    tokenizer = nllb_tokenizer()
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=64,
    )
    shake(transformers.M2M100ForConditionalGeneration(config), seed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
