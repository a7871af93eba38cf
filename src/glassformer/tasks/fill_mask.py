"""Fill-mask: masked language modelling, where a model guesses the tokens that were hidden from it.

B batch, T length, M masked places, D model width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.blocks import Blocks, Reframed, TokenStream, joined, tokenised
from glassformer.data.examples import Document
from glassformer.data.masking import Masking, mask_tokens, word_numbers, word_starts
from glassformer.data.ragged import Ragged
from glassformer.data.shards import Shards
from glassformer.files.schema import Count, Probability, Size
from glassformer.generate.fill import fill_mask
from glassformer.models.contract import Model, as_module, as_token_scorer
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .metrics import Likelihood, MeanLoss, ScoreSheet
from .metrics.metric import Array
from .running_text import RunningTextTask, as_text
from .spec import Spec
from .windows import Frame, ragged
from .words import Head, judged, summed_cross_entropy

SAMPLE = 16  # examples whose every token is masked in turn when a trained model is scored
MASKS = ("[MASK]", "<mask>")  # as BERT's and RoBERTa's tokenizers write it
READ = 4096  # tokens read at a time when nothing is learnt


class Rows(Protocol):
    """Texts with their special tokens, in memory or made when asked for."""

    lengths: NDArray[np.int64]

    def __getitem__(self, index: int, /) -> NDArray[Any]: ...


@dataclass
class MaskedTexts:
    """Texts whose tokens will be hidden; of pairs, where the second begins and whether it follows the first."""

    rows: Rows
    num_truncated: int  # tokens lost to truncation
    segments: Ragged | None = None
    follows: NDArray[np.bool_] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.rows.lengths

    @property
    def sample(self) -> NDArray[np.int64]:
        """A few examples from all over the split."""
        return np.unique(np.linspace(0, len(self.lengths) - 1, SAMPLE).astype(np.int64))


class MaskedTextTask(RunningTextTask[MaskedTexts]):
    """Text of which some tokens are hidden.

    `packing` joins all documents into one stream and cuts it into blocks of max_length; without it each line of a
    document is an example, cut to max_length. A share `mask_rate` of the tokens (by default what the model's paper has)
    is chosen, and of those `shares` become the mask or any token. `whole_words` chooses all tokens of a word or none.
    The choice is made anew in every epoch; with `static_masks`, an epoch draws one of so many that stay the same.
    """

    longest = 128
    shares: ClassVar[dict[str, float]] = {"masked": 0.8, "replaced": 0.1}  # of the chosen tokens; the rest stays

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        packing: bool = True,
        mask_rate: Probability = Masking.rate,
        whole_words: bool = False,
        static_masks: Count = 0,
    ) -> None:
        """
        Args:
            max_length: Tokens of an example at most. By default what the model reads, up to 128.
            packing: Join all documents and cut them into full blocks; else each line is an example, cut to max_length.
            mask_rate: Share of the tokens that are to be guessed. By default the paper's: 0.15, ModernBERT 0.3.
            whole_words: Choose all tokens of a word or none: harder guesses.
            static_masks: Choices of masks an epoch draws from, as 10 (BERT's); 0 for new ones in every epoch.
        """
        self.tokenizer, self.max_length, self.packing = tokenizer, max_length, packing
        self.masking = Masking.of(tokenizer, rate=mask_rate, **self.shares)
        self.starts = word_starts(tokenizer)  # (V,)
        self.ordinary = np.isin(np.arange(len(self.starts)), self.masking.replacements)  # (V,)
        self.whole_words, self.static_masks = whole_words, static_masks

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        fitted = super().fit_spec(spec, tokenizer, model)
        return replace(fitted, options={"mask_rate": model.config.mask_rate, **fitted.options})

    def encode(self, examples: Sequence[Document] | Shards) -> MaskedTexts:
        """Tokenise documents, once; shards are tokenised, and the last token of each document is its end."""
        frame = Frame(self.tokenizer, pair=False)
        capacity = frame.capacity(self.max_length or self.longest)
        if self.packing:
            around, middle = frame.row([]), frame.before(0)
            ids = self._between(examples) if isinstance(examples, Shards) else self._stream(examples)
            return MaskedTexts(Blocks(ids, capacity, before=around[:middle], after=around[middle:]), num_truncated=0)
        if isinstance(examples, Shards):
            raise ValueError("shards hold one stream of text: leave packing on, or give documents")
        lines = [line for one in examples for line in one.text.split("\n") if line.strip()]
        found = [row for row in tokenised(self.tokenizer, lines) if len(row)]
        num_truncated = sum(max(0, len(row) - capacity) for row in found)
        return MaskedTexts(ragged([frame.row(row[:capacity]) for row in found]), num_truncated)

    @property
    def end(self) -> int | None:
        return self.tokenizer.sep_token_id

    def _between(self, shards: Shards) -> TokenStream:
        """A stream without the separator at its end."""
        return shards if self.end is None or not len(shards) else Reframed(shards, without=1)

    def _stream(self, examples: Sequence[Document]) -> NDArray[np.int32]:
        """All documents, with a separator between two."""
        stream = joined(tokenised(self.tokenizer, [one.text for one in examples]), self.end)
        return stream if self.end is None else stream[1:-1]

    def stream(self, items: MaskedTexts) -> Blocks | None:
        return items.rows if isinstance(items.rows, Blocks) else None

    def batch(self, items: MaskedTexts, indices: Indices, seed: int = 0) -> Batch:
        table = ragged([items.rows[index] for index in indices.tolist()])
        every = np.arange(len(indices))
        ids, real = table.padded(every, self.tokenizer.pad_token_id or 0).numpy(), table.mask(every).numpy()
        maskable = self.ordinary[ids] & (real > 0)  # what is padding is told by lengths
        choice = seed % self.static_masks if self.static_masks else seed
        words = self.wholes(ids, indices, choice) if self.whole_words else None
        masked = mask_tokens(ids, maskable, indices, masking=self.masking, seed=choice, words=words)
        places = np.flatnonzero(masked.chosen)  # (M,) in the flattened batch, known before a GPU is asked
        inputs = {"input_ids": torch.from_numpy(masked.ids)}
        if not real.all():
            inputs["attention_mask"] = torch.from_numpy(real)
        targets = {"places": torch.from_numpy(places), "words": torch.from_numpy(ids.ravel()[places])}
        rows = np.flatnonzero(np.isin(indices, items.sample)).tolist()
        sampled = [(table[row], np.flatnonzero(maskable[row])) for row in rows]
        return Batch(inputs, targets, count=len(places), extra={"sampled": sampled})

    def wholes(self, ids: NDArray[np.int64], indices: Indices, seed: int) -> NDArray[np.int64]:
        """(B, T): tokens of one number are chosen together or not at all."""
        del indices, seed
        return word_numbers(ids, self.starts)


class FillMask(MaskedTextTask):
    """The loss is the cross-entropy at the masked places, and only there is anything predicted."""

    name = "fill-mask"
    head = "fill-mask"
    summed = staticmethod(summed_cross_entropy)

    def compile(self) -> None:
        self.summed = torch.compile(summed_cross_entropy)

    def word_head(self, model: Model) -> Head:
        """The layers that score words."""
        return as_token_scorer(model).logits

    def loss(self, model: Model, batch: Batch) -> Tensor:
        hidden = model.hidden(**batch.inputs)
        return self.summed(at_places(hidden, batch), self.word_head(model), batch.targets["words"])

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """Loss, perplexity and accuracy at the masked places."""
        likelihood = Likelihood(keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            hidden = model.hidden(**batch.inputs)
            score_rows(likelihood, hidden, self.word_head(model), batch)

        return ScoreSheet(update, likelihood=likelihood)

    def final_metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """Also the pseudo-perplexity of some examples."""
        plain, pseudo, mask_id = self.metrics(keep_examples=keep_examples), PseudoPerplexity(), self.masking.mask_id

        def update(model: Model, batch: Batch) -> None:
            plain.update(model, batch)
            for ids, places in batch.extra["sampled"]:
                pseudo.update(pseudo_loss(model, self.word_head(model), ids, places, mask_id=mask_id), len(places))

        return ScoreSheet(update, **plain.meters, pseudo=pseudo)

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        top_k: Size = 5,
        targets: Sequence[str] | str | None = None,
        batch_size: Size | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """
        Args:
            inputs: A text with one mask or more, written as the tokenizer's mask token, or as BERT or RoBERTa write it.
            top_k: Words to give for each mask, the likeliest first.
            targets: Words to choose from; by default the whole vocabulary.
            batch_size: Taken and without effect: each text is read by itself.

        Returns:
            A list of dicts of score, token, token_str and sequence; of several masks a list of such lists.
        """
        Budget.of(batch_size, 1)  # refuses what is no size; each text is read by itself
        texts = [self.with_own_mask(as_text(one)) for one in inputs]

        def predict(indices: Indices) -> list[Any]:
            some = [texts[place] for place in indices.tolist()]
            found: list[Any] = fill_mask(as_module(model), self.tokenizer, some, top_k=top_k, targets=targets)
            return found

        characters = np.array([len(text) for text in texts], np.int64)
        return predict_in_batches(characters, Budget(rows=1), predict, on_progress)

    def with_own_mask(self, text: str) -> str:
        """The text; where it has no mask of this tokenizer but another's, with its own in that one's place."""
        own = self.tokenizer.mask_token
        if own is None or own in text:
            return text
        for other in MASKS:
            text = text.replace(other, own)
        return text


class PseudoPerplexity(MeanLoss):
    """How surprised a model is, a token, by texts whose every token is masked in turn."""

    def _scores(self, total: Array) -> dict[str, float]:
        return {"pseudo_perplexity": exp(total[0] / total[1])} if total[1] else {}


def at_places(hidden: Tensor, batch: Batch) -> Tensor:
    """The hidden states (M, D) of the masked places."""
    return hidden.flatten(0, 1).index_select(0, batch.targets["places"])


def score_rows(sheet: Likelihood, hidden: Tensor, head: Head, batch: Batch) -> Tensor:
    """Enter the guesses of a batch, example by example; gives the mean loss of each (B,)."""
    return enter_rows(sheet, *judged(at_places(hidden, batch), head, batch.targets["words"]), batch)


def enter_rows(sheet: Likelihood, losses: Tensor, right: Tensor, batch: Batch) -> Tensor:
    """Enter the losses (M,) of a batch's masked places and which guesses are right; gives the mean of each example."""
    size, length = batch.inputs["input_ids"].shape
    rows = (batch.targets["places"] // length).cpu()  # (M,)
    sums = torch.zeros(3, size, dtype=torch.float64)
    sums.index_add_(1, rows, torch.stack([losses, torch.ones_like(losses), right.float()]).cpu().double())
    sheet.update(sums[0], sums[1], correct=sums[2])
    return sums[0] / sums[1].clamp(min=1)


def pseudo_loss(model: Model, head: Head, ids: NDArray[Any], places: NDArray[np.int64], *, mask_id: int) -> float:
    """The loss, in nats, of the tokens at some places of a text (T,), each of them masked by itself."""
    text, total = torch.from_numpy(ids.astype(np.int64)).to(device_of(model)), 0.0
    for some in torch.from_numpy(places).to(text.device).split(max(1, READ // len(ids))):
        rows, every = text.repeat(len(some), 1), torch.arange(len(some), device=text.device)
        rows[every, some] = mask_id
        hidden = model.hidden(rows)
        total += float(judged(hidden[every, some], head, text[some])[0].sum())
    return total
