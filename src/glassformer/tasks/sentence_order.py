"""ALBERT's pretraining: hidden n-grams to guess, in pairs of texts that stand in their order or have changed places."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batches import Indices
from glassformer.data.masking import Ids, Masking, Pair, ngram_numbers, sentence_order_pairs, word_numbers
from glassformer.files.schema import Probability, Size
from glassformer.text.tokenizer import Tokenizer

from .pretraining import BertPretraining


class SentenceOrder(BertPretraining):
    """Pretraining whose pairs are of one document, so that what they are about does not tell their order.

    Masks are of whole n-grams: one to `ngrams` words in a row, n of them with a chance in proportion to 1/n.
    """

    name = "sentence-order-prediction"
    answers = ("in order", "swapped")
    prefix = "sop_"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        mask_rate: Probability = Masking.rate,
        ngrams: Size = 3,
        copies: Size = 1,
    ) -> None:
        """
        Args:
            ngrams: Longest run of words that one mask hides; n words with a chance in proportion to 1/n.
        """
        super().__init__(tokenizer, max_length=max_length, mask_rate=mask_rate, whole_words=True, copies=copies)
        self.ngrams = ngrams

    def pairs(self, documents: Sequence[Sequence[Ids]], *, limit: int, epoch: int) -> Iterator[Pair]:
        return sentence_order_pairs(documents, limit=limit, epoch=epoch)

    def own(self, pair: Pair) -> int:
        return len(pair.first) + len(pair.second)

    def wholes(self, ids: NDArray[np.int64], indices: Indices, seed: int) -> NDArray[np.int64]:
        return ngram_numbers(word_numbers(ids, self.starts), indices, longest=self.ngrams, seed=seed)
