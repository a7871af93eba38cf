"""BERT's pretraining: hidden tokens to guess, in pairs of texts of which the second follows the first or does not.

B pairs, M masked places.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.blocks import tokenised
from glassformer.data.documents import Unit, read_documents
from glassformer.data.examples import Document
from glassformer.data.masking import Ids, Masking, Pair, next_sentence_pairs, sentences_of
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.data.shards import Shards
from glassformer.files.schema import Count, Probability, Size
from glassformer.models.contract import Model, as_summariser
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch
from .fill_mask import FillMask, MaskedTexts, at_places, score_rows
from .metrics import Classification, Likelihood, MeanLoss, Meter, ScoreSheet
from .windows import Frame, ragged
from .words import Head


class BertPretraining(FillMask):
    """A pair's loss is the mean over its masked tokens plus that of its second text; a batch's is the sum over pairs.

    So each pair weighs the same whatever its length, and parts of a batch add up to the whole. Pairs are made `copies`
    times from the documents, each time others; the masks are anew in every epoch, or `static_masks` many.
    """

    name = "pretraining"
    head = "pretraining"
    reads_shards = False
    answers: ClassVar[tuple[str, str]] = ("follows", "another")  # in the order of the model's classes
    prefix: ClassVar[str] = "nsp_"  # of their scores

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        mask_rate: Probability = Masking.rate,
        whole_words: bool = False,
        static_masks: Count = 0,
        copies: Size = 1,
    ) -> None:
        """
        Args:
            copies: Times that pairs are made from the documents, each time others; 10 for a small text.
        """
        super().__init__(
            tokenizer, max_length=max_length, mask_rate=mask_rate, whole_words=whole_words, static_masks=static_masks
        )
        self.copies = copies

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        unit: Unit | None = None,
        file_format: Format | None = None,
        **_: object,
    ) -> Read[Document]:
        """
        Args:
            unit: What is a document; by default an article or file or, if there is only one, a block.
        """
        read = read_documents(sources, columns, unit=unit or "article", file_format=file_format)
        if unit is not None or len(read.examples) > 1 or "-" in sources:
            return read
        return read_documents(sources, columns, unit="block", file_format=file_format)

    @classmethod
    def corpus(cls, sources: Sequence[str], **_: object) -> None:
        """Pairs are made of sentences, which shards do not tell apart."""
        del sources

    def word_head(self, model: Model) -> Head:
        words = model.get_submodule("head.words")
        return lambda rows: words(rows).logits

    def encode(self, examples: Sequence[Document] | Shards) -> MaskedTexts:
        """Cut documents into sentences, and put these together to pairs."""
        if isinstance(examples, Shards):
            raise ValueError("shards do not tell where a sentence ends: give documents, or train on fill-mask alone")
        sentences = [sentences_of(one.text) for one in examples]
        ids = iter(tokenised(self.tokenizer, [sentence for one in sentences for sentence in one]))
        documents = [[next(ids) for _ in one] for one in sentences]
        frame = Frame(self.tokenizer, pair=True)
        capacity = frame.capacity(self.max_length or self.longest)
        pairs = [pair for copy in range(self.copies) for pair in self.pairs(documents, limit=capacity, epoch=copy)]
        used = sum(map(self.own, pairs))  # each sentence once a copy
        return MaskedTexts(
            ragged([frame.row(pair.first, pair.second) for pair in pairs]),
            num_truncated=self.copies * sum(len(row) for one in documents for row in one) - used,
            segments=ragged([frame.types(len(pair.first), len(pair.second)) for pair in pairs]),
            follows=np.array([pair.follows for pair in pairs]),
        )

    def pairs(self, documents: Sequence[Sequence[Ids]], *, limit: int, epoch: int) -> Iterator[Pair]:
        """The pairs of all documents, other ones in another epoch."""
        return next_sentence_pairs(documents, limit=limit, epoch=epoch)

    def own(self, pair: Pair) -> int:
        """How many tokens of a pair are those of the document that it was made for."""
        return len(pair.first) + len(pair.second) * pair.follows

    def batch(self, items: MaskedTexts, indices: Indices, seed: int = 0) -> Batch:
        masked = super().batch(items, indices, seed)
        assert items.segments is not None
        assert items.follows is not None
        inputs = {**masked.inputs, "token_type_ids": items.segments.padded(indices, 0)}
        rows = masked.targets["places"] // inputs["input_ids"].shape[1]
        weights = 1 / rows.bincount(minlength=len(indices))[rows]  # (M,) a pair's make 1
        answers = torch.from_numpy(np.where(items.follows[indices], 0, 1))
        targets = {**masked.targets, "weights": weights, "answers": answers}
        return Batch(inputs, targets, count=len(indices), extra=masked.extra)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        hidden = model.hidden(**batch.inputs)
        targets = batch.targets
        words = self.summed(
            at_places(hidden, batch), self.word_head(model), targets["words"], weights=targets["weights"]
        )
        return words + F.cross_entropy(answer_scores(model, hidden, batch), targets["answers"], reduction="sum")

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """The loss of a pair; of masked tokens their loss and accuracy; how often the second text is judged rightly."""
        loss, words = MeanLoss(), Likelihood(keep_examples=keep_examples)
        answers = Classification(self.answers, keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            hidden = model.hidden(**batch.inputs)
            means = score_rows(words, hidden, self.word_head(model), batch)
            scores, gold = answer_scores(model, hidden, batch), batch.targets["answers"]
            answers.update(scores.argmax(-1), gold)
            sums = float(means.sum()) + float(F.cross_entropy(scores, gold, reduction="sum"))
            loss.update(sums, batch.count)

        sentences = Meter(answers, prefix=self.prefix, only=("accuracy",))
        return ScoreSheet(update, loss=loss, words=Meter(words, prefix="mlm_"), sentences=sentences)

    def final_metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        return self.metrics(keep_examples=keep_examples)


def answer_scores(model: Model, hidden: Tensor, batch: Batch) -> Tensor:
    """(B, 2), from the hidden states of a batch."""
    summary = as_summariser(model).summary(hidden, batch.inputs.get("attention_mask"))
    return model.get_submodule("head.sentences")(hidden, summary).logits.float()  # type: ignore[no-any-return]
