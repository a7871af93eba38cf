"""Translation: any text to text, with an encoder-decoder.

B batch, S source length, T target length, R real target tokens, D width, V target vocabulary.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.data.examples import Parallel
from glassformer.data.parallel import read_parallel
from glassformer.data.ragged import Ragged
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.files.schema import Probability, Size
from glassformer.generate.api import generate
from glassformer.generate.result import Generated
from glassformer.text.tokenizer import Tokenizer

from . import metrics
from .encoded import CHUNK, quiet
from .task import Batch, Task, device_of

LOG = logging.getLogger("glassformer")
BUCKET = 16  # sources whose lengths are rounded up to the same multiple may grow equally long targets
NAMES = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


@dataclass(frozen=True)
class Marks:
    """Ids that are no text."""

    start: int  # what the decoder reads first
    ends: tuple[int, ...]  # the first is what it is taught to end with
    pad: int
    first: int  # what stands for a source without any token

    @classmethod
    def of(cls, tokenizer: Tokenizer, known: Mapping[str, Any]) -> Self:
        """What a model's config says, else the tokenizer's own: BERT's begin with [CLS] and end with [SEP]."""
        end = _some(known.get("eos_token_id"), tokenizer.eos_token_id, tokenizer.sep_token_id)
        if end is None:
            raise ValueError("the tokenizer has no end token, so no model could learn to stop: set tok.eos_token")
        ends = (end,) if isinstance(end, int) else tuple(end)
        bos = known.get("bos_token_id") if known else _some(tokenizer.bos_token_id, tokenizer.cls_token_id)
        start = _some(known.get("decoder_start_token_id"), bos, ends[0])
        pad = _some(known.get("pad_token_id"), tokenizer.pad_token_id, ends[0])
        return cls(start, ends, pad, _some(bos, ends[0]))


@dataclass
class Translated:
    """Encoded pairs of texts."""

    sources: Ragged
    targets: Ragged | None  # with the end token; None where they are to be written
    references: list[str]
    bleu_tokenizer: str
    cut: int
    lengths: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = self.sources.lengths
        if self.targets is not None:
            self.lengths = np.maximum(self.lengths, self.targets.lengths)


class Translation(Task[Parallel, Translated]):
    """The loss is cross-entropy over the real target tokens, told by their number, never by their value.

    Sources are tokenised as `generate` does it. A target is what the tokenizer makes of it as a target, and one end
    token; a target that had to be cut has none, since it does not end there. The final score sheet has BLEU and chrF
    of what the model writes with the settings in `generate`; with `bleu` (or `exact_match`) so has every evaluation
    while training, and the best model is told by it.
    """

    name = "translation"
    head = "text2text-generation"
    one_in_a_list = True
    vocabulary = "unigram"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        label_smoothing: Probability = 0.0,
        bleu: bool = False,
        exact_match: bool = False,
        bleu_lowercase: bool = False,
        bleu_tokenize: str | None = None,
        generate: Mapping[str, Any] | None = None,
    ) -> None:
        """`bleu_lowercase` and `bleu_tokenize` say how sacreBLEU compares; no text is changed."""
        self.tokenizer, self.max_length, self.label_smoothing = tokenizer, max_length, label_smoothing
        self.bleu, self.exact_match = bleu, exact_match
        self.bleu_lowercase, self.bleu_tokenize = bleu_lowercase, bleu_tokenize
        self.generate = dict(generate or {})
        self.metric = "bleu" if bleu else "exact_match" if exact_match else "-loss"
        self.marks = Marks.of(tokenizer, {})
        self.before = self._before_targets()

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        file_format: Format | None = None,
        header: bool | None = None,
        require_target: bool = True,
        **_: Any,
    ) -> Read[Parallel]:
        return read_parallel(sources, columns, require_target=require_target, file_format=file_format, header=header)

    @classmethod
    def texts(cls, examples: Iterable[Parallel]) -> Iterator[str]:
        for one in examples:
            yield one.source
            if one.target is not None:
                yield one.target

    @classmethod
    def key(cls, example: Parallel) -> str:
        return example.source

    def fit_to(self, model: nn.Module) -> None:
        """Also begin, end and pad texts as the model does."""
        super().fit_to(model)
        config: Any = model.config
        stated = getattr(model, "generation_config", None) or {}
        known = {name: _some(stated.get(name), getattr(config, name, None)) for name in NAMES}
        for name, value in known.items():  # many a small model has kept the special ids of a large one
            known[name] = None if isinstance(value, int) and value >= config.target_vocab_size else value
        self.marks = Marks.of(self.tokenizer, known)
        if self.generate:  # so that the folder translates as it was scored
            model.generation_config = {**stated, **self.generate}  # type: ignore[assignment]
        self.before = self._before_targets()

    def settings(self) -> dict[str, Any]:
        sizes = {"vocab_size": max(self.tokenizer.get_vocab().values()) + 1}
        if getattr(self.tokenizer.backend, "separate", False):  # Marian's two vocabularies
            sizes["decoder_vocab_size"] = self.tokenizer.backend.last_id() + 1
        marks = self.marks
        return sizes | dict(zip(NAMES, (marks.pad, marks.first, marks.ends[0], marks.start), strict=True))

    def _before_targets(self) -> list[int]:
        """What the tokenizer puts before a target, as BART's does: it is learnt, unless the decoder begins with it."""
        special = self.tokenizer(text_target="")["input_ids"]
        before = special[: -1 if special[-1:] == [self.marks.ends[0]] else None]
        return [] if before == [self.marks.start] else before

    def encode(self, examples: Sequence[Parallel]) -> Translated:
        sources, cut = self._sources([one.source for one in examples])
        references = [one.target for one in examples if one.target is not None]
        if len(references) < len(examples):
            return Translated(sources, None, [], "", cut)
        targets, lost = self._targets(references)
        return Translated(sources, targets, references, metrics.bleu_tokenizer(references[:1000]), cut + lost)

    def _sources(self, texts: Sequence[str]) -> tuple[Ragged, int]:
        """Rows as `generate` makes them, and how many tokens they lost; a text of no token still has its first."""
        rows, cut = self._rows(self.max_length, texts=texts)
        return Ragged.of(row or [self.marks.first] for row in rows), sum(cut)

    def _targets(self, texts: Sequence[str]) -> tuple[Ragged, int]:
        """Rows that end, unless they were cut, and how many tokens they lost."""
        room = None if self.max_length is None else self.max_length - len(self.before) - 1
        rows, cut = self._rows(room, text_target=texts, add_special_tokens=False)
        end = self.marks.ends[:1]
        return Ragged.of(
            [*self.before, *row, *(() if lost else end)] for row, lost in zip(rows, cut, strict=True)
        ), sum(cut)

    def _rows(
        self, room: int | None, *, add_special_tokens: bool = True, **side: Sequence[str]
    ) -> tuple[list[list[int]], list[int]]:
        """The ids of each text of a side (texts or text_target), and how many each lost to truncation."""
        ((name, texts),) = side.items()
        rows, cut = list[list[int]](), list[int]()
        for start in range(0, len(texts), CHUNK):
            some: dict[str, Any] = {name: list(texts[start : start + CHUNK])}
            with quiet():
                found = self.tokenizer(**some, add_special_tokens=add_special_tokens, truncation=True, max_length=room)
            rows += found["input_ids"]
            cut += found.cut
        return rows, cut

    def batch(self, items: Translated, indices: Indices, seed: int = 0) -> Batch:
        """Real target tokens are listed by their places, so that the output layer never sees padding."""
        del seed  # nothing is random here
        inputs = {
            "input_ids": items.sources.padded(indices, self.marks.pad),
            "attention_mask": items.sources.mask(indices),
        }
        if items.targets is None:
            return Batch(inputs, {}, count=len(indices))
        labels, real = items.targets.padded(indices, self.marks.pad), items.targets.mask(indices).bool()  # (B, T)
        inputs["decoder_input_ids"] = F.pad(labels[:, :-1], (1, 0), value=self.marks.start)
        inputs["decoder_attention_mask"] = real  # as many as there are labels
        places = real.flatten().nonzero()[:, 0]
        targets = {"labels": labels[real], "places": places, "rows": places // real.shape[1]}  # (R,)
        references = [items.references[place] for place in indices.tolist()]
        extra = {"references": references, "bleu_tokenizer": items.bleu_tokenizer}
        return Batch(inputs, targets, count=len(targets["labels"]), extra=extra)

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """(R, V): the scores of every real target token."""
        places = batch.targets["places"]
        states = self.hidden(model, batch).flatten(0, 1).index_select(0, places)  # (R, D)
        return model.logits(states).float()  # type: ignore[no-any-return]

    def hidden(self, model: Any, batch: Batch) -> Tensor:
        """What the output layer reads, (B, T, D)."""
        return model.hidden(**batch.inputs)  # type: ignore[no-any-return]

    def loss(self, model: Any, batch: Batch) -> Tensor:
        logits, smoothing = self.logits(model, batch), self.label_smoothing
        return F.cross_entropy(logits, batch.targets["labels"], reduction="sum", label_smoothing=smoothing)

    def metrics(self, *, keep_examples: bool = False) -> "TranslationMetrics":
        return TranslationMetrics(self, bleu=self.bleu, keep_examples=keep_examples)

    def final_metrics(self, *, keep_examples: bool = False) -> "TranslationMetrics":
        return TranslationMetrics(self, bleu=self.bleu or not self.exact_match, keep_examples=keep_examples)

    def prompts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is read before writing begins, (B, S), and its mask."""
        return batch.inputs["input_ids"], batch.inputs["attention_mask"]

    def room(self, length: int, model: Any) -> int:
        """How many tokens a translation may have where nobody says it: half as many again as its source, and ten."""
        wanted = 10 + 3 * rounded_up(length) // 2
        return min(wanted, (model.config.max_positions or wanted + 1) - 1)

    def request(self, model: Any, length: int, settings: dict[str, Any]) -> dict[str, Any]:
        """What generate is asked for a source of so many tokens."""
        given = {"decoder_start_token_id": self.marks.start, "eos_token_id": list(self.marks.ends)}
        given |= {"pad_token_id": self.marks.pad} | self.generate | settings
        stated = {**(getattr(model, "generation_config", None) or {}), **given}
        limited = stated.get("max_new_tokens") is not None or stated.get("max_length") is not None
        return given if limited else {**given, "max_new_tokens": self.room(length, model)}

    def write(self, model: Any, ids: Tensor, mask: Tensor, **settings: Any) -> list[list[str]]:
        """What the model makes of each source: one text, or num_return_sequences of them."""
        return [[one["translation_text"] for one in found] for found in self.told(model, ids, mask, **settings)]

    def told(self, model: Any, ids: Tensor, mask: Tensor, **settings: Any) -> list[list[dict[str, Any]]]:
        """The same as dicts with translation_text and, with return_dict_in_generate, the score."""
        lengths = mask.sum(1).tolist()
        asked = [self.request(model, length, settings) for length in lengths]
        limits = [one.get("max_new_tokens") for one in asked]
        told: list[list[dict[str, Any]]] = [[]] * len(lengths)
        for limit in dict.fromkeys(limits):  # all that share a limit at once, so that each is as if alone
            rows = [row for row, other in enumerate(limits) if other == limit]
            width = max(lengths[row] for row in rows)
            found = generate(model, None, ids[rows, :width], attention_mask=mask[rows, :width], **asked[rows[0]])
            listed = self._dicts(found, 1 if model.config.is_encoder_decoder else width)
            share = len(listed) // len(rows)
            for place, row in enumerate(rows):
                told[row] = listed[place * share : (place + 1) * share]
        return told

    def _dicts(self, found: Any, start: int) -> list[dict[str, Any]]:
        """What generate gives, from this column on, as texts."""
        ids = found.sequences if isinstance(found, Generated) else found
        texts = self.tokenizer.batch_decode(ids[:, start:].tolist(), skip_special_tokens=True)
        if not isinstance(found, Generated):
            return [{"translation_text": text} for text in texts]
        scores = found.sequences_scores.tolist()
        return [{"translation_text": text, "score": score} for text, score in zip(texts, scores, strict=True)]

    @torch.inference_mode()
    def predict(
        self,
        model: Any,
        inputs: Sequence[Any],
        *,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        progress: Callable[[int, int], None] | None = None,
        **settings: Any,
    ) -> list[Any]:
        """For each text a dict with translation_text, or a list of num_return_sequences; settings are generate's.

        A batch has batch_size texts of like length, or else batch_tokens tokens; `progress` hears after each how many
        texts are done, and of how many.
        """
        items = self.encode([Parallel(as_source(one)) for one in inputs])
        if items.cut:
            LOG.warning("%s tokens of the texts were cut: the model reads %s a text", items.cut, self.max_length)
        found: list[Any] = [None] * len(inputs)
        done, budget = 0, Budget.of(batch_size, batch_tokens)
        for indices in in_order(items.lengths, budget):
            batch = self.batch(items, indices).to(device_of(model))
            for place, some in zip(indices.tolist(), self.told(model, *self.prompts(batch), **settings), strict=True):
                found[place] = some if len(some) > 1 else some[0]
            done += len(indices)
            if progress is not None:
                progress(done, len(inputs))
        return found


class TranslationMetrics:
    """Loss, perplexity and accuracy a token given the right ones before it; BLEU, chrF and exact match of own texts.

    With bleu_lowercase, bleu and chrf compare lowercased, and bleu_cased and chrf_cased do not.
    """

    def __init__(self, task: Translation, *, bleu: bool, keep_examples: bool) -> None:
        self.task: Translation | None = task
        self.bleu = bleu
        self.keep = {"keep_examples": keep_examples}
        self.parts: dict[str, Any] = {"likelihood": metrics.Likelihood(**self.keep)}
        if task.exact_match:
            self.parts["exact_match"] = metrics.ExactMatch(**self.keep)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}  # counts travel, tokenizers do not

    def update(self, model: Any, batch: Batch) -> None:
        assert self.task is not None
        logits, labels = self.task.logits(model, batch), batch.targets["labels"]
        losses, right = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(-1) == labels
        rows = batch.targets["rows"]
        none = torch.zeros(len(batch.inputs["input_ids"]), dtype=torch.float64, device=rows.device)
        loss, correct = (none.index_add(0, rows, each.double()) for each in (losses, right))
        self.parts["likelihood"].update(loss, rows.bincount(minlength=len(none)), correct=correct)
        if self.bleu and "bleu" not in self.parts:
            self._begin_bleu(self.task, batch.extra["bleu_tokenizer"])
        if len(self.parts) > 1:
            texts = [found[0] for found in self.task.write(model, *self.task.prompts(batch))]
            for name, part in self.parts.items():
                if name != "likelihood":
                    part.update(texts, batch.extra["references"])

    def _begin_bleu(self, task: Translation, language: str) -> None:
        """With the first batch, since it says what language the references are in."""
        tokenize = task.bleu_tokenize or language
        self.parts["bleu"] = metrics.Translation(tokenize=tokenize, lowercase=task.bleu_lowercase, **self.keep)
        if task.bleu_lowercase:
            self.parts["bleu_cased"] = metrics.Translation(tokenize=tokenize, **self.keep)

    def merge(self, other: Self) -> None:
        for name, part in other.parts.items():
            if name in self.parts:
                self.parts[name].merge(part)
            else:
                self.parts[name] = part

    def compute(self) -> dict[str, float]:
        return self._joined("compute")

    def intervals(self) -> dict[str, metrics.Interval]:
        return self._joined("intervals")

    def signatures(self) -> dict[str, str]:
        """How BLEU and chrF were made, in sacreBLEU's words."""
        return self._joined("signatures")

    def report(self) -> dict[str, dict[str, float]]:
        return {}

    def _joined(self, question: str) -> dict[str, Any]:
        """What all parts answer to a question, each score under its name."""
        found: dict[str, Any] = {}
        for name, part in self.parts.items():
            suffix = "_cased" if name == "bleu_cased" else ""
            if hasattr(part, question):
                found |= {key + suffix: value for key, value in getattr(part, question)().items()}
        return found


def as_source(given: Any) -> str:
    """A text, or a dict with text, as Hugging Face takes them."""
    match given:
        case str():
            return given
        case Parallel():
            return given.source
        case {"text": str(text)}:
            return text
    raise ValueError(f"a text or a dict with 'text' is wanted, not {given!r}")


def rounded_up(length: int) -> int:
    return BUCKET * -(-length // BUCKET)


def _some(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)
