"""Zero-shot classification: classes that nobody trained, by hypotheses asked of a model of inference, or by vectors.

N texts, L candidate labels, C classes of the model, D width.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.examples import Labelled
from glassformer.data.input_rows import TextColumn
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.data.table import read_labelled
from glassformer.files.schema import Size
from glassformer.models.contract import Model
from glassformer.text.tokenizer import Tokenizer

from .batch import OnProgress, device_of, predict_in_batches
from .sentence_similarity import SentenceSimilarity
from .spec import Spec
from .text_classification import TextClassification, as_labelled

TEMPLATE, LABEL_ALONE = "This example is {}.", "{}"
MARK = "\0"  # a label that no template holds
ENTAILMENT, DENIAL = ("entail",), ("contradict", "not_entail", "not entail", "non_entail", "non-entail")


class ZeroShotClassification(TextClassification):
    """A classifier of pairs, a premise and a hypothesis, one of whose classes is entailment (NLI).

    Each text is a premise, and "This example is LABEL." a hypothesis for each candidate label. It is trained and scored
    as text-classification is, on pairs.
    """

    name = "zero-shot-classification"
    input_columns = TextColumn()

    @classmethod
    def spec_of_data(cls, examples: Sequence[Labelled], **options: Any) -> Spec:
        if not any(one.pair is not None for one in examples):
            raise ValueError(
                f"{cls.name} is learnt from pairs, a premise and a hypothesis, and the training data has no second "
                "text: give --columns pair=NAME"
            )
        spec = super().spec_of_data(examples, **options)
        entailment_id(spec.labels)  # which there must be
        return spec

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        spec = super().spec_of_model(tokenizer, model, **options)
        entailment_id(spec.labels)
        return spec

    @torch.inference_mode()
    def predict(  # type: ignore[override] # other options than those of one fixed set of classes
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        candidate_labels: str | Sequence[str] | None = None,
        hypothesis_template: str = TEMPLATE,
        multi_label: bool = False,
        multi_class: bool | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """
        Args:
            inputs: A text.
            candidate_labels: The labels to choose from: a list, or one text with commas.
            hypothesis_template: What is asked of each label, which stands in the place of {}; a model of sentence
                vectors is asked the label alone, unless this is given.
            multi_label: Score each label by itself, against its contradiction (by vectors: its cosine, or 0); else they
                share 1.
            multi_class: An old name of multi_label.

        Returns:
            A dict of sequence, labels and scores, the likeliest first.
        """
        labels = as_labels(candidate_labels)
        hypotheses = [hypothesis(hypothesis_template, label) for label in labels]
        texts = [as_premise(place, one) for place, one in enumerate(inputs)]
        items = self.encode([Labelled(text, one) for text in texts for one in hypotheses])

        def predict(indices: Indices) -> Iterator[list[float]]:
            batch = self.batch(items, indices).to(device_of(model))
            return iter(model(**batch.inputs).logits.float().tolist())

        budget = Budget.of(batch_size, batch_tokens)
        logits = predict_in_batches(items.lengths, budget, predict, on_progress)
        several = multi_label if multi_class is None else multi_class
        table = torch.tensor(logits).reshape(len(texts), len(labels), -1)  # (N, L, C)
        return ranked(texts, labels, self.label_scores(table, multi_label=several or len(labels) == 1))

    def label_scores(self, logits: Tensor, *, multi_label: bool) -> Tensor:
        """(N, L) of logits (N, L, C)."""
        entailed = entailment_id(self.labels)
        if not multi_label:
            return logits[..., entailed].softmax(-1)
        return logits[..., [contradiction_id(self.labels), entailed]].softmax(-1)[..., 1]

    def call_inputs(self, inputs: object, more: Sequence[object], options: dict[str, Any]) -> Any:
        return super().call_inputs(inputs, without_labels(more, options), options)

    def wraps_one(self, found: object, options: Mapping[str, object]) -> bool:
        del found, options
        return False


class ZeroShotByVectors(SentenceSimilarity):
    """The same of a model of sentence vectors: a text is what its vector is near to.

    The scores are those that the contrastive loss learns by, cosines times `scale` in a softmax.
    """

    name = ZeroShotClassification.name
    input_columns = ZeroShotClassification.input_columns

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        file_format: Format | None = None,
        header: bool | None = None,
        require_target: bool = True,
        **_: object,
    ) -> Read[Labelled]:
        """Texts to choose for; there is nothing to learn from, or to be scored on.

        Args:
            columns: Which column is the text.
        """
        if require_target:
            raise ValueError(
                f"a model of sentence vectors learns nothing for {cls.name}, and is not scored at it: name the task "
                "sentence-similarity, or take a model of inference (NLI)"
            )
        return read_labelled(sources, columns, require_target=False, file_format=file_format, header=header)

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        candidate_labels: str | Sequence[str] | None = None,
        hypothesis_template: str = LABEL_ALONE,
        multi_label: bool = False,
        multi_class: bool | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """As ZeroShotClassification's; with multi_label the score of a label is its cosine, and none is below 0."""
        labels = as_labels(candidate_labels)
        texts = [as_premise(place, one) for place, one in enumerate(inputs)]
        asked = [hypothesis(hypothesis_template, label) for label in labels]
        vectors = self.embed(
            model, [*texts, *asked], batch_size=batch_size, batch_tokens=batch_tokens, on_progress=on_progress
        )
        found, wanted = F.normalize(vectors, dim=-1).split([len(texts), len(asked)])  # (N, D), (L, D)
        cosines = found @ wanted.T
        several = multi_label if multi_class is None else multi_class
        alone = several or len(labels) == 1
        return ranked(texts, labels, cosines.clamp(0, 1) if alone else (self.scale * cosines).softmax(-1))

    def call_inputs(self, inputs: object, more: Sequence[object], options: dict[str, Any]) -> Any:
        return super().call_inputs(inputs, without_labels(more, options), options)


def without_labels(more: Sequence[object], options: dict[str, Any]) -> Sequence[object]:
    """What stands behind the inputs of a call, but for the labels, which are moved to its options."""
    if len(more) == 1 and "candidate_labels" not in options:
        options["candidate_labels"] = more[0]
        return ()
    return more


def ranked(texts: Sequence[str], labels: Sequence[str], scores: Tensor) -> list[Any]:
    """The labels of each text by their scores (N, L), the likeliest first."""
    rows = scores.numpy()
    orders = [np.argsort(-row, kind="stable").tolist() for row in rows]
    return [
        {"sequence": text, "labels": [labels[at] for at in order], "scores": row[order].tolist()}
        for text, row, order in zip(texts, rows, orders, strict=True)
    ]


def entailment_id(labels: Sequence[str]) -> int:
    """The class that says that a hypothesis follows from its premise."""
    found = _starting_with(labels, ENTAILMENT)
    if found is None:
        raise ValueError(
            f"of the labels {', '.join(labels[:8])} none begins with 'entail': zero-shot-classification needs a model "
            "of inference (NLI), or the right names in the id2label of its config.json"
        )
    return found


def contradiction_id(labels: Sequence[str]) -> int:
    """The class that says the opposite, by its name; else the first of the others, or of many the last."""
    found = _starting_with(labels, DENIAL)
    return found if found is not None else -1 if entailment_id(labels) == 0 else 0


def _starting_with(labels: Sequence[str], beginnings: tuple[str, ...]) -> int | None:
    return next((place for place, label in enumerate(labels) if label.lower().startswith(beginnings)), None)


def as_labels(given: str | Sequence[str] | None) -> list[str]:
    """Labels in a list, or between commas; at least one."""
    listed = given.split(",") if isinstance(given, str) else list(given or ())
    found = [label.strip() for label in listed] if isinstance(given, str) else listed
    found = [label for label in found if label.strip()]
    if not found:
        raise ValueError(f"candidate_labels is {given!r}: give the classes to choose from, as politics,sport")
    return found


def hypothesis(template: str, label: str) -> str:
    """The template with the label in the place of its {}."""
    try:
        holds_label = MARK in template.format(MARK)
    except (IndexError, KeyError, ValueError, AttributeError):  # {1}, {label}, a lone {, {0.name}
        holds_label = False
    if not holds_label:
        raise ValueError(f"hypothesis_template is {template!r}: write {{}} where the label goes, as {TEMPLATE!r}")
    return template.format(label)


def as_premise(place: int, given: object) -> str:
    """A text that is not empty."""
    text = as_labelled(given).text
    if not text.strip():
        raise ValueError(f"text {place} is {text!r}, with nothing to classify: leave it out")
    return text
