"""Sentence similarity: texts as vectors whose cosine says how alike they are (Sentence-BERT), and those vectors alone.

B batch, N texts in all, T length, D width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.examples import Labelled
from glassformer.data.input_rows import InputColumns, PairColumns, TextColumn
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.data.table import read_labelled
from glassformer.files.schema import Positive, Size
from glassformer.models.contract import Model
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .encoded import EncodedTexts
from .metrics import Correlation, ScoreSheet, VectorRetrieval
from .pooling import Mode, PoolingOptions, read_pooling, write_pooling
from .spec import Spec
from .task import Task

Loss = Literal["cosine", "contrastive"]
BARE = (None, "feature-extraction")  # heads that leave hidden states as they are: of a bare model, of an encoder alone


@dataclass
class EmbeddedPairs:
    """Encoded texts, all first ones before all second ones."""

    texts: EncodedTexts
    scores: NDArray[np.float32] | None  # (N,), as they were given
    same: NDArray[np.int64] | None  # (N,): equal numbers for equal second texts; None where there are only first ones
    lengths: NDArray[np.int64] = field(init=False)  # of the two rows that a pair is padded to
    num_truncated: int = field(init=False)

    def __post_init__(self) -> None:
        sides = self.texts.lengths.reshape(1 if self.same is None else 2, -1)
        self.lengths, self.num_truncated = len(sides) * sides.max(0), self.texts.num_truncated


class SentenceSimilarity(Task[Labelled, EmbeddedPairs]):
    """Two losses, both sums over pairs.

    cosine: the squared error of the cosine against the pair's score, scaled to 0..1 by `score_range`. It is a loss of
    each pair alone, so that micro-batches add up to the whole batch.

    contrastive (InfoNCE, multiple negatives ranking): cross-entropy of finding a text's own second among all different
    second texts of the batch, cosines times `scale`. A text's negatives are those of its micro-batch, by design: more
    accumulation means easier questions, so give micro-batches as many rows as memory holds.
    """

    name = "sentence-similarity"
    head = None
    input_columns: ClassVar[InputColumns] = PairColumns(required=True)

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        loss: Loss = "cosine",
        score_range: tuple[float, float] = (0.0, 1.0),
        scale: Positive = 20.0,
        pooling: Mode = "mean",
        normalize: bool = True,
        max_length: Size | None = None,
    ) -> None:
        """
        Args:
            loss: cosine: pairs with scores; contrastive: pairs that belong together, against the others of the batch.
            score_range: The least and the highest score that a pair can have. By default those of the data.
            scale: What cosines are multiplied by in the contrastive loss (1 / temperature).
            pooling: How the vectors of tokens become one of the text.
            normalize: Whether vectors have the length 1.
        """
        low, high = score_range
        if loss not in get_args(Loss):
            raise ValueError(f"loss must be one of {', '.join(get_args(Loss))}, not {loss!r}")
        if not low < high:
            raise ValueError(f"score_range must be the least and the highest score, not {low} and {high}")
        self.tokenizer, self.kind, self.score_range, self.scale = tokenizer, loss, (low, high), scale
        self.max_length, self.pooling = max_length, PoolingOptions(pooling, normalize=normalize)
        self.metric = "spearman" if loss == "cosine" else "mrr"

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        loss: Loss = "cosine",
        file_format: Format | None = None,
        header: bool | None = None,
        require_target: bool = True,
        **_: object,
    ) -> Read[Labelled]:
        """Pairs with scores; for contrastive learning pairs that belong together, whose scores are not read.

        Args:
            columns: Which column is the text, the pair and the label (its score).
        """
        if loss == "cosine":
            return read_labelled(
                sources,
                columns,
                kind="regression",
                require_target=require_target,
                file_format=file_format,
                header=header,
            )
        found = read_labelled(
            sources, columns, kind="regression", require_target=False, file_format=file_format, header=header
        )
        return replace(found, examples=[replace(one, label=None) for one in found.examples])

    @classmethod
    def spec_of_data(cls, examples: Sequence[Labelled], **options: Any) -> Spec:
        """Scores are scaled by the least and the highest in the data, unless score_range is given."""
        if not any(one.pair is not None for one in examples):
            raise ValueError(
                f"{cls.name} is learnt from pairs, and the training data has no second text: give --columns pair=NAME"
            )
        scores = [float(one.label) for one in examples if isinstance(one.label, (int, float))]
        if options.get("loss", "cosine") == "cosine" and "score_range" not in options:
            if len(set(scores)) < 2:
                raise ValueError(
                    "the training data has no two different scores: give pairs with scores, or pairs that belong "
                    "together and loss=contrastive"
                )
            options["score_range"] = (min(scores), max(scores))
        return cls.make_spec(options)

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        """The vectors of a text are those of a bare model, or of an encoder alone."""
        if model.head_name not in BARE:
            raise ValueError(
                f"{cls.name} reads a bare model, not one with the head {model.head_name!r}: gf.load(…, head=None)"
            )
        return super().spec_of_model(tokenizer, model, **options)

    def write_extras(self, folder: Path) -> None:
        write_pooling(folder, replace(self.pooling, max_length=self.max_length))

    @classmethod
    def read_extras(cls, folder: Path, task: str | None = None) -> dict[str, Any]:
        """The options that `write_extras`, or Sentence-Transformers, has left in a folder."""
        del task
        found = read_pooling(folder)
        return {} if found is None else asdict(found)

    def encode(self, examples: Sequence[Labelled]) -> EmbeddedPairs:
        firsts, seconds = [one.text for one in examples], [one.pair for one in examples if one.pair is not None]
        if seconds and len(seconds) < len(firsts):
            alone = next(place for place, one in enumerate(examples) if one.pair is None)
            raise ValueError(f"example {alone} has no second text, and others have: give one for each, or for none")
        texts = EncodedTexts.of(self.tokenizer, firsts + seconds, max_length=self.max_length)
        scored = seconds and all(one.label is not None for one in examples)
        scores = np.array([one.label for one in examples], np.float32) if scored else None
        numbers: dict[str, int] = {}
        same = np.array([numbers.setdefault(text, len(numbers)) for text in seconds]) if seconds else None
        return EmbeddedPairs(texts, scores, same)

    def batch(self, items: EmbeddedPairs, indices: Indices, seed: int = 0) -> Batch:
        """Both sides in one table, the first texts above the second ones."""
        del seed  # nothing is random here
        targets = {}
        rows = indices if items.same is None else np.concatenate([indices, indices + len(items.same)])
        if items.same is not None:
            targets["same"] = torch.from_numpy(items.same[indices])
        if items.scores is not None:
            targets["scores"] = torch.from_numpy(items.scores[indices])
        inputs = items.texts.inputs(rows, self.tokenizer.pad_token_id or 0)
        if not inputs["input_ids"].shape[1]:  # texts without a token: a model reads one place at least
            inputs = {name: F.pad(table, (0, 1)) for name, table in inputs.items()}
        return Batch(inputs, targets, count=len(indices))

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """(B, D), or (2·B, D) of pairs."""
        return self.pooling(model(**batch.inputs).last_hidden_state, batch.inputs["attention_mask"])

    def _sides(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        """The vectors of first and second texts, of length 1, so that products are cosines."""
        first, second = F.normalize(self.vectors(model, batch), dim=-1).chunk(2)
        return first, second

    def loss(self, model: Model, batch: Batch) -> Tensor:
        first, second = self._sides(model, batch)
        if self.kind == "cosine":
            low, high = self.score_range
            return F.mse_loss((first * second).sum(-1), (batch.targets["scores"] - low) / (high - low), reduction="sum")
        same = batch.targets["same"]
        own = torch.arange(len(same), device=same.device)
        twins = (same == same[:, None]) & (own != own[:, None])  # the right answer once more is no wrong one
        with torch.autocast(first.device.type, enabled=False):  # cosines need float32, whatever the model runs in
            likeness = self.scale * first @ second.T  # (B, B)
        return F.cross_entropy(likeness.masked_fill(twins, float("-inf")), own, reduction="sum")

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """Of pairs with scores Pearson and Spearman of the cosine; of others how well seconds are found by firsts."""
        correlation, retrieval = Correlation(), VectorRetrieval(keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            if "same" not in batch.targets:
                raise ValueError(
                    f"{self.name} is scored on pairs, and there is no second text: give --columns pair=NAME"
                )
            first, second = self._sides(model, batch)
            if "scores" in batch.targets:
                correlation.update((first * second).sum(-1), batch.targets["scores"])
            if "scores" not in batch.targets or self.kind == "contrastive":
                retrieval.update(first, second, batch.targets["same"])

        return ScoreSheet(update, correlation=correlation, retrieval=retrieval)

    def embed(
        self,
        model: Model,
        texts: Sequence[str],
        *,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> Tensor:
        """The vector of each text, (N, D), on the CPU."""
        items = self.encode([Labelled(text) for text in texts])
        return self.embed_items(model, items, Budget.of(batch_size, batch_tokens), on_progress)

    @torch.inference_mode()
    def embed_items(
        self, model: Model, items: EmbeddedPairs, budget: Budget, on_progress: OnProgress | None = None
    ) -> Tensor:
        """The same of texts that are encoded."""

        def vectors(indices: Indices) -> Tensor:
            return self.vectors(model, self.batch(items, indices).to(device_of(model))).cpu()

        found = predict_in_batches(items.lengths, budget, vectors, on_progress)
        return torch.stack(found) if found else torch.empty(0, 0)

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """
        Args:
            inputs: A pair of texts, or a dict of source_sentence and sentences.

        Returns:
            The cosine; of a dict, a list of them.
        """
        comparisons = [as_comparison(one) for one in inputs]
        texts = list(dict.fromkeys(text for source, others in comparisons for text in (source, *others)))
        vectors = self.embed(model, texts, batch_size=batch_size, batch_tokens=batch_tokens, on_progress=on_progress)
        rows = dict(zip(texts, F.normalize(vectors, dim=-1), strict=True))
        found: list[Any] = []
        for given, (source, others) in zip(inputs, comparisons, strict=True):
            cosines = [float(rows[source] @ rows[other]) for other in others]
            found.append(cosines if isinstance(given, Mapping) else cosines[0])
        return found


class FeatureExtraction(SentenceSimilarity):
    """The vectors of a text's tokens: the model of sentence similarity, asked for what it makes of each."""

    name = "feature-extraction"
    input_columns = TextColumn()
    pools: ClassVar[bool] = False  # whether a text is one vector, unless a call says otherwise

    @torch.inference_mode()
    def predict(
        self,
        model: Model,
        inputs: Sequence[Any],
        *,
        pooled: bool | None = None,
        return_tensors: bool = False,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """
        Args:
            inputs: A text.
            pooled: One vector a text; else one a token. By default only sentence-embedding pools.
            return_tensors: Give a tensor in the place of lists.

        Returns:
            Numbers: (D,) of the text or, not pooled, (1, T, D) of its tokens.
        """
        texts = [one.text if isinstance(one, Labelled) else one for one in inputs]
        if self.pools if pooled is None else pooled:
            vectors = self.embed(
                model, texts, batch_size=batch_size, batch_tokens=batch_tokens, on_progress=on_progress
            )
            return list(vectors) if return_tensors else vectors.tolist()
        items = self.encode([Labelled(text) for text in texts])

        def predict(indices: Indices) -> Iterator[Any]:
            batch = self.batch(items, indices).to(device_of(model))
            hidden = model(**batch.inputs).last_hidden_state.cpu()
            lengths = items.lengths[indices].tolist()
            found = (row[None, :length] for row, length in zip(hidden, lengths, strict=True))
            return found if return_tensors else (one.tolist() for one in found)

        return predict_in_batches(items.lengths, Budget.of(batch_size, batch_tokens), predict, on_progress)


class SentenceEmbedding(FeatureExtraction):
    """One vector a text, as Sentence-Transformers' `encode` gives it."""

    name = "sentence-embedding"
    pools = True


def as_comparison(given: object) -> tuple[str, list[str]]:
    """A pair, or a dict with source_sentence and sentences, as Hugging Face's hosted models take it."""
    match given:
        case Labelled(text, str(pair)):
            return text, [pair]
        case (str(text), str(pair)):
            return text, [pair]
        case {"source_sentence": str(text), "sentences": [*others]} if all(isinstance(one, str) for one in others):
            return text, others
    raise ValueError(f"a pair of texts or a dict with source_sentence and sentences is wanted, not {given!r}")
