"""Summarization: a text in fewer words, learnt as a translation is, and scored by ROUGE."""

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.data.examples import Parallel
from glassformer.data.input_rows import TextColumn
from glassformer.data.parallel import SUMMARIES
from glassformer.files.schema import Probability, Size
from glassformer.models.contract import Model
from glassformer.text.tokenizer import Tokenizer

from .metrics import Rouge, rouge_tokenizer
from .spec import SpecialIds
from .text_pairs import Translated
from .translation import TextMetric, Translation

LONGEST_SUMMARY = 256  # tokens, where nobody says how many


class Summarization(Translation):
    """The final score sheet has ROUGE-1, ROUGE-2 and ROUGE-L of what the model writes with the settings in `generate`;
    with `rouge` so has every evaluation while training, and the best model is told by ROUGE-L."""

    name = "summarization"
    result = "summary"
    sides = SUMMARIES
    input_columns = TextColumn("source", SUMMARIES.sources)
    length_option = "max_source_length"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_source_length: Size | None = None,
        max_target_length: Size | None = None,
        prefix: str = "",
        label_smoothing: Probability = 0.0,
        rouge: bool = False,
        generate: Mapping[str, Any] | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        """
        Args:
            max_source_length: Tokens of a text at most. By default what the model reads, up to 1024.
            max_target_length: Tokens of a summary at most. By default what the model can write.
            prefix: What is put before every text, as T5 is told what to do: "summarize: ".
            rouge: Measure ROUGE at every evaluation, and keep the best by it; else only at the end.
        """
        super().__init__(
            tokenizer,
            max_length=max_source_length,
            prefix=prefix,
            label_smoothing=label_smoothing,
            generate=generate,
            special_ids=special_ids,
        )
        self.max_target_length, self.rouge = max_target_length or max_source_length, rouge
        self.metric = "rougeL" if rouge else "-loss"

    def encode(self, examples: Sequence[Parallel]) -> Translated:
        empty = next((place for place, one in enumerate(examples) if not one.source.strip()), None)
        if empty is not None:
            raise ValueError(f"text {empty} is {examples[empty].source!r}, with nothing to summarise: leave it out")
        return super().encode(examples)

    def text_metrics(self, *, final: bool, keep_examples: bool) -> dict[str, TextMetric]:
        """ROUGE, once the model is trained or while it learns if asked for."""
        return {"rouge": Rouge(tokenize=None, keep_examples=keep_examples)} if self.rouge or final else {}

    def score_tokenizer(self, references: Sequence[str]) -> str:
        return rouge_tokenizer(references)

    def max_new_tokens(self, length: int, model: Model) -> int:
        """As many as a summary of the training data may have, whatever the length of the text."""
        del length
        wanted = min(LONGEST_SUMMARY, self.max_target_length or LONGEST_SUMMARY)
        return min(wanted, (model.config.max_positions or wanted + 1) - 1)
