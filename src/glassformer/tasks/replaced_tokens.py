"""ELECTRA's pretraining: a small generator guesses hidden tokens, and the model tells which of all were replaced.

B batch, T length, M masked places, D model width, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.masking import LOW, Masking, philox
from glassformer.files.schema import NotNegative, Probability, Size
from glassformer.models.contract import Model, ScoresTokens, as_model, as_module, as_token_scorer
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .fill_mask import MaskedTexts, MaskedTextTask, at_places, enter_rows
from .metrics import Detection, Likelihood, MeanLoss, Meter, ScoreSheet
from .running_text import as_text
from .task import longest_input
from .words import Head, weighted_sum

READ = 4096  # characters read at a time when nothing is learnt
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Guesses(NamedTuple):
    """What a generator made of the masked places."""

    losses: Tensor  # (M,)
    right: Tensor  # (M,): whether its first guess is
    drawn: Tensor  # (M,): a token for each, drawn from what it thinks likely


def draw_and_judge(rows: Tensor, head: Head, words: Tensor, draws: Tensor) -> Guesses:
    """Of hidden states (M, D): the loss of the words (M,), and tokens drawn by numbers (M,) from 0 to 1."""
    scores = head(rows).float()  # (M, V)
    with torch.no_grad():
        sums = scores.softmax(-1).cumsum(-1)
        wanted = draws[:, None] * sums[:, -1:]  # the last is what rounding has left of 1
        drawn = torch.searchsorted(sums, wanted, right=True)[:, 0].clamp(max=scores.shape[-1] - 1)
        right = scores.argmax(-1) == words
    return Guesses(F.cross_entropy(scores, words, reduction="none"), right, drawn)


class ReplacedTokens(MaskedTextTask):
    """An example's loss is the generator's mean over masked tokens + `detection_weight` x the model's over all tokens.

    So each example weighs the same whatever its length, and parts of a batch add up to the whole. Every chosen token is
    masked; where the generator draws the token that stood there, it counts as original. No gradient passes through what
    is drawn. The generator stands beside the model, as its child `generator`, with `generator_size` of its width.
    """

    name = "replaced-token-detection"
    head = "replaced-token-detection"
    shares: ClassVar[dict[str, float]] = {"masked": 1.0, "replaced": 0.0}
    guess = staticmethod(draw_and_judge)

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        packing: bool = True,
        mask_rate: Probability = Masking.rate,
        whole_words: bool = False,
        generator_size: Probability = 0.25,
        detection_weight: NotNegative = 50.0,
    ) -> None:
        """
        Args:
            generator_size: Share of the model's width and heads that the generator has; the paper's 0.25 to 0.5.
            detection_weight: Weight of the model's loss beside the generator's.
        """
        super().__init__(
            tokenizer, max_length=max_length, packing=packing, mask_rate=mask_rate, whole_words=whole_words
        )
        self.generator_size, self.detection_weight = generator_size, detection_weight

    def compile(self) -> None:
        self.guess = torch.compile(draw_and_judge)

    def batch(self, items: MaskedTexts, indices: Indices, seed: int = 0) -> Batch:
        """`draws`: a number from 0 to 1 for each masked place, which decides what the generator draws there."""
        masked = super().batch(items, indices, seed)
        ids, places = masked.inputs["input_ids"], masked.targets["places"]
        rows, columns = np.divmod(places.numpy(), ids.shape[1])
        counter = (columns, indices[rows], np.zeros_like(rows), np.full_like(rows, 2))  # 0 and 1 are those of masks
        draws = philox([part.astype(np.uint64) & LOW for part in counter], seed)[0] / 2**32
        weights = 1 / torch.from_numpy(rows).bincount(minlength=len(indices))[rows]  # (M,) an example's make 1
        targets = {**masked.targets, "weights": weights, "draws": torch.from_numpy(draws).float()}
        return Batch(masked.inputs, targets, count=len(indices))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        guesses, corrupted, replaced = self.corrupt(model, batch)
        keep = kept(batch, replaced.device)
        losses = detection_losses(detect(model, corrupted), replaced, keep)
        means = losses.sum(1) / keep.sum(1)  # (B,)
        return weighted_sum(guesses.losses, batch.targets["weights"]) + self.detection_weight * means.sum()

    def corrupt(self, model: Model, batch: Batch) -> tuple[Guesses, dict[str, Tensor], Tensor]:
        """The generator's guesses, inputs with what it drew at the masked places, and which were replaced (B, T)."""
        generator, targets, ids = generator_of(model), batch.targets, batch.inputs["input_ids"]
        rows = at_places(generator.hidden(**batch.inputs), batch)
        guesses = self.guess(rows, generator.logits, targets["words"], targets["draws"])
        places, other = targets["places"], guesses.drawn != targets["words"]
        corrupted = ids.flatten().index_copy(0, places, guesses.drawn).view_as(ids)
        replaced = torch.zeros_like(ids, dtype=torch.bool).flatten().index_copy(0, places, other).view_as(ids)
        return guesses, {**batch.inputs, "input_ids": corrupted}, replaced

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """The loss of an example; the generator's loss and accuracy; how well replaced tokens are detected."""
        loss, words = MeanLoss(), Likelihood(keep_examples=keep_examples)
        detection = Detection(keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            guesses, corrupted, replaced = self.corrupt(model, batch)
            scores = detect(model, corrupted)
            keep = kept(batch, scores.device).bool()
            sums, real, found = detection_losses(scores, replaced, keep).sum(1), keep.sum(1), keep & (scores > 0)
            counts = {"correct": keep & (found == replaced), "hits": found & replaced, "found": found, "gold": replaced}
            detection.update(sums, real, **{name: value.sum(1) for name, value in counts.items()})
            means = enter_rows(words, guesses.losses, guesses.right, batch)
            loss.update(float(means.sum()) + self.detection_weight * float((sums / real).sum()), batch.count)

        generator = Meter(words, prefix="generator_")
        return ScoreSheet(update, loss=loss, generator=generator, detection=Meter(detection, prefix="detection_"))

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        threshold: Probability = 0.0,
        batch_size: Size | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """A text longer than the model reads is cut.

        Args:
            inputs: A text.
            threshold: Give only tokens that were replaced with at least this probability.

        Returns:
            A list of dicts of entity ("replaced"), score (how likely it is), index, word, start and end.
        """
        texts, limit = [as_text(one) for one in inputs], longest_input(model, self.tokenizer)

        @torch.inference_mode()
        def predict(indices: Indices) -> list[Any]:
            some = [texts[place] for place in indices.tolist()]
            encoded = self.tokenizer(
                some,
                padding=True,
                truncation=limit is not None,
                max_length=limit,
                return_tensors="pt",
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
            )
            given = {name: encoded[name].to(device_of(model)) for name in INPUTS if name in encoded}
            chances = detect(model, given).sigmoid().tolist()
            found = (self._tokens(encoded, row, scores) for row, scores in enumerate(chances))
            return [[token for token in tokens if token["score"] >= threshold] for tokens in found]

        characters = np.array([len(text) for text in texts], np.int64)
        return predict_in_batches(characters, Budget.of(batch_size, READ), predict, on_progress)

    def _tokens(self, encoded: Any, row: int, chances: Sequence[float]) -> list[dict[str, Any]]:
        """The tokens of a row that are text."""
        words = self.tokenizer.convert_ids_to_tokens(encoded["input_ids"][row].tolist())
        spans, special = (encoded[name][row].tolist() for name in ("offset_mapping", "special_tokens_mask"))
        return [
            {
                "entity": "replaced",
                "score": chances[index],
                "index": index,
                "word": words[index],
                "start": start,
                "end": end,
            }
            for index, (start, end) in enumerate(spans)
            if not special[index]
        ]


def generator_of(model: Model) -> ScoresTokens:
    """The generator that stands beside a discriminator; refused where there is none."""
    found = dict(as_module(model).named_children()).get("generator")
    if found is None:
        raise ValueError("no generator stands beside this model: score a run folder, which has one in generator/")
    return as_token_scorer(as_model(found))


def detect(model: Model, inputs: dict[str, Tensor]) -> Tensor:
    """(B, T): above 0 where a token seems to have been replaced."""
    return model(**inputs).logits.float()  # type: ignore[no-any-return]


def detection_losses(scores: Tensor, replaced: Tensor, keep: Tensor) -> Tensor:
    """(B, T): the binary cross-entropy of every token, 0 at padding."""
    return F.binary_cross_entropy_with_logits(scores, replaced.float(), reduction="none") * keep


def kept(batch: Batch, device: torch.device) -> Tensor:
    """(B, T): which tokens are real."""
    keep = batch.inputs.get("attention_mask")
    return torch.ones_like(batch.inputs["input_ids"]) if keep is None else keep.to(device)
