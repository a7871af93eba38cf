"""Real inputs that an export is compared on: texts of a file or of the micro-world, as the model reads them.

B batch, S length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from glassformer.data import microworld
from glassformer.inspect.laws import some_target
from glassformer.jobs.reading import reads_prompts
from glassformer.models.contract import ModelConfig, as_model, can_generate
from glassformer.tasks.encoded import EncodedTexts, quiet
from glassformer.text.tokenizer import Tokenizer

COUNT, ALONE, TOGETHER = 32, 8, 8  # inputs in all, the first of them by themselves, the others in batches
LONGEST = 128  # tokens, where a model reads more
NEW_TOKENS = 16  # that a model that writes is asked for
PARTS = (("labelled", "en", 14), ("documents", "en", 6), ("labelled", "de", 6), ("labelled", "zh", 6))
Batch = dict[str, Tensor]
Row = tuple[list[int], list[int] | None]  # ids, and segments where the model has them


@dataclass(frozen=True)
class Samples:
    """What a model is given: rows by themselves, then padded batches, the last of them with the padding in front."""

    batches: list[Batch]

    @cached_property
    def inputs(self) -> int:
        return sum(len(batch["input_ids"]) for batch in self.batches)

    @cached_property
    def padded(self) -> int:
        """How many rows have padding."""
        return sum(int((~batch["attention_mask"].bool()).any(1).sum()) for batch in self.batches)

    @property
    def left_padded(self) -> Batch:
        """A batch as a model that goes on from prompts takes it."""
        return self.batches[-1]


def built_in_texts() -> list[str]:
    """Sentences and stories in three languages, the same everywhere."""
    found = [microworld.examples(kind, count, seed=1, language=language) for kind, language, count in PARTS]
    return [one.texts[0] for part in found for one in part]


def samples(model: nn.Module, tokenizer: Tokenizer | None, texts: Sequence[str] = ()) -> Samples:
    """Inputs of these texts, or else of built-in ones; made-up ids where there is no tokenizer."""
    known = as_model(model)
    limit = min(LONGEST, known.config.max_positions or LONGEST)
    if can_generate(known) and not known.config.is_encoder_decoder:
        limit -= NEW_TOKENS if limit > 2 * NEW_TOKENS else limit // 2
    if tokenizer is None:
        rows = _made_up(known.config, limit)
    else:
        rows = _encoded(model, tokenizer, list(texts)[:COUNT] or built_in_texts(), limit)
    groups = [[row] for row in rows[:ALONE]]
    groups += [rows[start : start + TOGETHER] for start in range(ALONE, len(rows), TOGETHER)]
    last = len(groups) - 1
    return Samples([_batch(model, group, left=place == last and last > 0) for place, group in enumerate(groups)])


def _encoded(model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[Row]:
    config = as_model(model).config
    if reads_prompts(model):
        with quiet():  # a text is cut here, not refused
            return [(ids[:limit], None) for ids in tokenizer.encode_prompts(texts) if ids]
    pairs = [texts[place - 1] if config.has_segments and place % 2 else None for place in range(len(texts))]
    found = EncodedTexts.of(tokenizer.adapted(segments=config.has_segments), texts, pairs, limit)
    segments = found.segments or found.rows
    rows = [
        (found.rows[place].tolist(), segments[place].tolist() if config.has_segments else None)
        for place in range(len(texts))
        if len(found.rows[place])
    ]
    if not rows:
        raise ValueError("the texts have no token to compare on: give others with --data")
    if (top := max(max(ids) for ids, _ in rows)) >= config.vocab_size:
        raise ValueError(f"the tokenizer gives id {top}, but the model knows {config.vocab_size} tokens")
    return rows


def _made_up(config: ModelConfig, limit: int) -> list[Row]:
    """Ids of every part of the vocabulary, none of them padding."""
    known = [number for number in range(config.vocab_size) if number != config.pad_token_id] or [0]
    lengths = [1 + (7 * row) % min(limit, 24) for row in range(COUNT)]
    places = [[11 * row + 7 * place + 3 for place in range(length)] for row, length in enumerate(lengths)]
    return [([known[place % len(known)] for place in row], None) for row in places]


def _batch(model: nn.Module, rows: Sequence[Row], *, left: bool) -> Batch:
    """Ids, mask and what else the model takes, (B, S) each."""
    config, width = as_model(model).config, max(len(ids) for ids, _ in rows)

    def padded(row: Sequence[int], fill: int) -> list[int]:
        rest = [fill] * (width - len(row))
        return [*rest, *row] if left else [*row, *rest]

    batch = {
        "input_ids": torch.tensor([padded(ids, config.pad_token_id or 0) for ids, _ in rows]),
        "attention_mask": torch.tensor([padded([1] * len(ids), 0) for ids, _ in rows]),
    }
    if config.has_segments:
        batch["token_type_ids"] = torch.tensor([padded(segments or [0] * len(ids), 0) for ids, segments in rows])
    if config.is_encoder_decoder and as_model(model).head_name != "text-classification":
        batch["decoder_input_ids"] = some_target(model, len(rows))
    return batch
