"""Translation: any text to text, with an encoder-decoder.

B batch, S source length, T target length, R real target tokens, D width, V target vocabulary.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.examples import Parallel
from glassformer.data.input_rows import InputColumns, TextColumn
from glassformer.data.parallel import TRANSLATIONS, SideNames, read_parallel
from glassformer.data.ragged import Ragged
from glassformer.data.report import Read
from glassformer.data.roles import SOURCES, TEXTS
from glassformer.data.rows import Format
from glassformer.files.schema import NotNegative, Probability, Size
from glassformer.generate.api import generate
from glassformer.models.contract import Model, as_module, as_token_scorer, generation_config
from glassformer.text.bpe_dropout import BpeDropout
from glassformer.text.marian import MarianBackend
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .metrics import BleuChrf, ExactMatch, Likelihood, Meter, Metric, Rouge, ScoreSheet, bleu_tokenizer
from .r_drop import r_drop_loss
from .spec import Spec, SpecialIds
from .task import Task
from .task_params import options_for, write_prefix
from .text_pairs import (
    PairWords,
    Translated,
    as_source,
    encode_sources,
    encode_targets,
    rounded_up,
    score_targets,
    words_of,
    written_texts,
)

LOG = logging.getLogger("glassformer")
TextMetric = BleuChrf | Rouge


class Translation(Task[Parallel, Translated]):
    """The loss is cross-entropy over the real target tokens, told by their number, never by their value.

    Sources are tokenised as `generate` does it. A target is what the tokenizer makes of it as a target, and one end
    token; a target that had to be cut has none, since it does not end there. The final score sheet has BLEU and chrF
    of what the model writes with the settings in `generate`; with `bleu` (or `exact_match`) so has every evaluation
    while training, and the best model is told by it.
    """

    name = "translation"
    head = "text2text-generation"
    vocabulary = "unigram"
    result = "translation"  # what a result is called: translation_text
    sides: ClassVar[SideNames] = TRANSLATIONS  # what the columns of a table may be called
    input_columns: ClassVar[InputColumns] = TextColumn("source", (*SOURCES, *TEXTS))

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        prefix: str = "",
        label_smoothing: Probability = 0.0,
        r_drop: NotNegative = 0.0,
        bpe_dropout: Probability = 0.0,
        bleu: bool = False,
        exact_match: bool = False,
        bleu_lowercase: bool = False,
        bleu_tokenize: str | None = None,
        generate: Mapping[str, Any] | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        """`special_ids` are those of the model; without them, those that a new model is built with.

        Args:
            max_length: Tokens of a source and of a target at most. By default what the model reads, up to 1024.
            src_lang: Code of the sources' language, for a multilingual tokenizer (NLLB, M2M-100, mBART).
            tgt_lang: Code of the targets' language, for a multilingual tokenizer.
            prefix: What is put before every source, as T5 is told what to do: "translate English to German: ".
            r_drop: Weight (alpha) of how far two passes with different dropout differ; 5 is usual, for twice the time.
            bpe_dropout: Share of BPE merges left out in training, anew each epoch; 0.1 helps with little data.
            bleu: Measure BLEU at every evaluation, and keep the best by it; else only at the end.
            exact_match: Measure the share of texts that are right from end to end, and keep the best by it.
            bleu_lowercase: Compare lowercased in BLEU and chrF; bleu_cased and chrf_cased stand beside them.
            bleu_tokenize: sacreBLEU's tokenizer, as 13a or zh; by default by the references' language.
            generate: Settings of generation that texts are scored with, as generate.num_beams=4; the folder keeps them.
        """
        self.max_length, self.max_target_length = max_length, max_length
        self.prefix, self.label_smoothing = prefix, label_smoothing
        self.r_drop, self.bleu, self.exact_match = r_drop, bleu, exact_match
        self.bleu_lowercase, self.bleu_tokenize = bleu_lowercase, bleu_tokenize
        self.generate = dict(generate or {})
        self.metric = "bleu" if bleu else "exact_match" if exact_match else "-loss"
        self.special_ids = special_ids or SpecialIds.of(tokenizer, {})
        self._speak(tokenizer.adapted(src_lang=src_lang, tgt_lang=tgt_lang))
        self.cut = BpeDropout.of(tokenizer, bpe_dropout) if bpe_dropout else None

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
    ) -> Read[Parallel]:
        """
        Args:
            columns: Which column is the source and which the target.
        """
        return read_parallel(
            sources, columns, names=cls.sides, require_target=require_target, file_format=file_format, header=header
        )

    @classmethod
    def spec_of_data(cls, examples: Sequence[Parallel], **options: Any) -> Spec:
        del examples
        return cls.make_spec(options, generation=options.get("generate") or {})

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        """Also with the ids by which the model begins, ends and pads texts, and the language that it is to write."""
        fitted, ids = super().fit_spec(spec, tokenizer, model), SpecialIds.of_model(tokenizer, model)
        if tokenizer.settings.languages is None:
            return replace(fitted, special_ids=ids)
        ids = ids.speaking(tokenizer.adapted(tgt_lang=spec.options.get("tgt_lang")))
        begins = {"decoder_start_token_id": ids.start, "forced_bos_token_id": ids.forced}
        return replace(fitted, special_ids=ids, generation={**begins, **spec.generation})

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        sizes = {"vocab_size": max(tokenizer.get_vocab().values()) + 1}
        if isinstance(tokenizer.backend, MarianBackend) and tokenizer.backend.separate:  # two vocabularies
            sizes["decoder_vocab_size"] = tokenizer.backend.last_id() + 1
        return sizes | (spec.special_ids or SpecialIds.of(tokenizer, {})).config()

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        options: dict[str, Any] = {cls.length_option: spec.max_length, **spec.options}
        return cls(tokenizer, special_ids=spec.special_ids, **options)

    @classmethod
    def config_extras(cls, config: Mapping[str, Any], task: str | None = None) -> dict[str, Any]:
        return options_for(config, *((cls.name,) if task is None else (task, cls.name)))

    def write_extras(self, folder: Path) -> None:
        write_prefix(folder, self.name, self.prefix)

    @property
    def spec(self) -> Spec:
        return replace(super().spec, special_ids=self.special_ids, generation=self.generate)

    def _before_targets(self) -> list[int]:
        """What the tokenizer puts before a target, as BART's does: it is learnt, unless the decoder begins with it."""
        if (marked := self.special_ids.forced) is not None:
            return [marked]
        if self.tokenizer.settings.languages is not None:  # the decoder begins with the language
            return []
        special = self.tokenizer(text_target="")["input_ids"]
        before = special[: -1 if special[-1:] == [self.special_ids.ends[0]] else None]
        return [] if before == [self.special_ids.start] else before

    def encode(self, examples: Sequence[Parallel]) -> Translated:
        read = [self.prefix + one.source for one in examples]
        sources, num_truncated = self._sources(read)
        references = [one.target for one in examples if one.target is not None]
        if len(references) < len(examples):
            return Translated(sources, None, [], "", num_truncated)
        targets, lost = encode_targets(
            self.tokenizer, references, self.special_ids, before=self.before, max_length=self.max_target_length
        )
        words = None if self.cut is None else self._words(read, references, sources, targets)
        tokenizer = self.score_tokenizer(references[:1000])
        return Translated(sources, targets, references, tokenizer, num_truncated + lost, words)

    def _words(self, read: Sequence[str], written: Sequence[str], sources: Ragged, targets: Ragged) -> PairWords:
        longest, before = self.max_target_length, len(self.before)
        return PairWords(
            words_of(self.tokenizer, read, sources, max_length=self.max_length),
            words_of(self.tokenizer, written, targets, max_length=longest, before=before),
        )

    def _sources(self, texts: Sequence[str]) -> tuple[Ragged, int]:
        return encode_sources(self.tokenizer, texts, self.special_ids, max_length=self.max_length)

    def batch(self, items: Translated, indices: Indices, seed: int = 0) -> Batch:
        """Real target tokens are listed by their places, so that the output layer never sees padding.

        A seed of 0, as evaluations have it, leaves texts as the tokenizer cuts them.
        """
        if self.cut is not None and items.words is not None and seed:
            longest = (self.max_length, self.max_target_length)
            items, indices = items.cut_anew(self.cut, indices, longest, seed), np.arange(len(indices))
        inputs = {
            "input_ids": items.sources.padded(indices, self.special_ids.pad),
            "attention_mask": items.sources.mask(indices),
        }
        if items.targets is None:
            return Batch(inputs, {}, count=len(indices))
        labels, real = items.targets.padded(indices, self.special_ids.pad), items.targets.mask(indices).bool()  # (B, T)
        inputs["decoder_input_ids"] = F.pad(labels[:, :-1], (1, 0), value=self.special_ids.start)
        inputs["decoder_attention_mask"] = real  # as many as there are labels
        places = real.flatten().nonzero()[:, 0]
        targets = {"labels": labels[real], "places": places, "rows": places // real.shape[1]}  # (R,)
        references = [items.references[place] for place in indices.tolist()]
        extra = {"references": references, "score_tokenizer": items.score_tokenizer}
        return Batch(inputs, targets, count=len(targets["labels"]), extra=extra)

    def logits(self, model: Model, batch: Batch) -> Tensor:
        """(R, V): the scores of every real target token."""
        places = batch.targets["places"]
        states = model.hidden(**batch.inputs).flatten(0, 1).index_select(0, places)  # (R, D)
        return as_token_scorer(model).logits(states).float()

    def loss(self, model: Model, batch: Batch) -> Tensor:
        def compare(logits: Tensor) -> Tensor:
            labels, smoothing = batch.targets["labels"], self.label_smoothing
            return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)

        if self.r_drop and model.training:
            return r_drop_loss(lambda: self.logits(model, batch), compare, self.r_drop)
        return compare(self.logits(model, batch))

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        return self._sheet(self.text_metrics(final=False, keep_examples=keep_examples), keep_examples=keep_examples)

    def final_metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        return self._sheet(self.text_metrics(final=True, keep_examples=keep_examples), keep_examples=keep_examples)

    def text_metrics(self, *, final: bool, keep_examples: bool) -> dict[str, TextMetric]:
        """Metrics of what the model writes: BLEU and chrF, once it is trained or while it learns if asked for.

        With bleu_lowercase, bleu and chrf compare lowercased, and bleu_cased and chrf_cased do not.
        """
        if not (self.bleu or (final and not self.exact_match)):
            return {}
        ways = {"bleu": True, "bleu_cased": False} if self.bleu_lowercase else {"bleu": False}
        return {
            name: BleuChrf(tokenize=self.bleu_tokenize, lowercase=way, keep_examples=keep_examples)
            for name, way in ways.items()
        }

    def score_tokenizer(self, references: Sequence[str]) -> str:
        """What a metric that was told of no tokenizer takes, by the language of the references."""
        return bleu_tokenizer(references)

    def _sheet(self, judges: Mapping[str, TextMetric], *, keep_examples: bool) -> ScoreSheet:
        """Loss, perplexity and accuracy a token given the right ones before it; exact match and metrics of texts."""
        likelihood, exact = Likelihood(keep_examples=keep_examples), ExactMatch(keep_examples=keep_examples)
        meters: dict[str, Metric | Meter] = {"likelihood": likelihood}
        if self.exact_match:
            meters["exact_match"] = exact
        cased = {name: "_cased" if name.endswith("_cased") else "" for name in judges}
        meters |= {name: Meter(one, suffix=cased[name]) for name, one in judges.items()}

        def update(model: Model, batch: Batch) -> None:
            score_targets(likelihood, self.logits(model, batch), batch)
            if len(meters) > 1:
                texts = [found[0][f"{self.result}_text"] for found in self.write(model, *self.prompts(batch))]
                exact.update(texts, batch.extra["references"])
                for one in judges.values():
                    one.tokenize = one.tokenize or batch.extra["score_tokenizer"]
                    one.update(texts, batch.extra["references"])

        return ScoreSheet(update, **meters)

    def prompts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is read before writing begins, (B, S), and its mask."""
        return batch.inputs["input_ids"], batch.inputs["attention_mask"]

    def max_new_tokens(self, length: int, model: Model) -> int:
        """How many tokens a translation may have where nobody says it: half as many again as its source, and ten."""
        wanted = 10 + 3 * rounded_up(length) // 2
        return min(wanted, (model.config.max_positions or wanted + 1) - 1)

    def request(self, model: Model, length: int, settings: dict[str, Any]) -> dict[str, Any]:
        """What generate is asked for a source of so many tokens."""
        given = {"decoder_start_token_id": self.special_ids.start, "eos_token_id": list(self.special_ids.ends)}
        given |= {"pad_token_id": self.special_ids.pad, "forced_bos_token_id": self.special_ids.forced}
        given |= self.generate | settings
        stated = {**generation_config(model), **{name: value for name, value in given.items() if value is not None}}
        self._check_language(stated)
        limited = stated.get("max_new_tokens") is not None or stated.get("max_length") is not None
        return given if limited else {**given, "max_new_tokens": self.max_new_tokens(length, model)}

    def _check_language(self, stated: Mapping[str, object]) -> None:
        """Refuse to write in no language, where the model knows several."""
        if self.tokenizer.settings.languages is None or self.tgt_lang is not None:
            return
        if stated.get("forced_bos_token_id") is None:
            raise ValueError("say which language to translate to: tgt_lang=CODE, or --tgt-lang CODE")

    def speaking(self, src_lang: str | None, tgt_lang: str | None) -> Self:
        """The task with other languages, where any is given."""
        if src_lang is None and tgt_lang is None:
            return self
        twin = copy(self)
        twin._speak(self.tokenizer.adapted(src_lang=src_lang, tgt_lang=tgt_lang))
        return twin

    def _speak(self, tokenizer: Tokenizer) -> None:
        """Read and write in the tokenizer's languages, if it has any."""
        self.tokenizer, self.src_lang, self.tgt_lang = tokenizer, tokenizer.src_lang, tokenizer.tgt_lang
        self.special_ids = self.special_ids.speaking(tokenizer)
        self.before = self._before_targets()

    def write(
        self,
        model: Model,
        ids: Tensor,
        mask: Tensor,
        *,
        tensors: bool = False,
        clean: bool | None = None,
        **settings: Any,
    ) -> list[list[dict[str, Any]]]:
        """What the model makes of each source, one text or num_return_sequences of them: dicts with translation_text
        (or summary_text, as `result` says) or, with `tensors`, translation_token_ids; and, with
        return_dict_in_generate, the score."""
        lengths = mask.sum(1).tolist()
        requests = [self.request(model, length, settings) for length in lengths]
        limits = [one.get("max_new_tokens") for one in requests]
        written: list[list[dict[str, Any]]] = [[]] * len(lengths)
        for limit in dict.fromkeys(limits):  # all that share a limit at once, so that each is as if alone
            rows = [row for row, other in enumerate(limits) if other == limit]
            width = max(lengths[row] for row in rows)
            found = generate(
                as_module(model), None, ids[rows, :width], attention_mask=mask[rows, :width], **requests[rows[0]]
            )
            start = 1 if model.config.is_encoder_decoder else width
            listed = written_texts(self.tokenizer, found, start, name=self.result, tensors=tensors, clean=clean)
            share = len(listed) // len(rows)
            for place, row in enumerate(rows):
                written[row] = listed[place * share : (place + 1) * share]
        return written

    @torch.inference_mode()
    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        return_tensors: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
        **settings: Any,
    ) -> list[Any]:
        """Settings are generate's; `on_progress` hears after each batch how many texts are done, and of how many.

        Args:
            inputs: A text.
            src_lang: Code of the text's language, where the tokenizer marks several.
            tgt_lang: Code of the language to write.
            return_tensors: Give ids (NAME_token_ids) in the place of texts.
            clean_up_tokenization_spaces: Take out blanks before punctuation; by default as the tokenizer says.

        Returns:
            A dict of translation_text (summarization: summary_text, text2text-generation: generated_text); a list of
            num_return_sequences where more than one is asked for.
        """
        if "progress" in settings:
            warnings.warn("progress is called on_progress now", DeprecationWarning, stacklevel=2)
            on_progress = settings.pop("progress")
        task = self.speaking(src_lang, tgt_lang)
        items = task.encode([Parallel(as_source(one)) for one in inputs])
        if items.num_truncated:
            LOG.warning(
                "%s tokens of the texts were cut: the model reads %s a text", items.num_truncated, self.max_length
            )

        def predict(indices: Indices) -> Iterator[Any]:
            batch = task.batch(items, indices).to(device_of(model))
            prompts, clean = task.prompts(batch), clean_up_tokenization_spaces
            written = task.write(model, *prompts, tensors=return_tensors, clean=clean, **settings)
            return (some if len(some) > 1 else some[0] for some in written)

        return predict_in_batches(items.lengths, Budget.of(batch_size, batch_tokens), predict, on_progress)

    def wraps_one(self, found: object, options: Mapping[str, object]) -> bool:
        del options
        return isinstance(found, dict)


class Text2TextGeneration(Translation):
    """A text from a text, of whatever kind: as translation is learnt and scored."""

    name = "text2text-generation"
    result = "generated"
