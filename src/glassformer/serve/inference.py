"""What a worker does with a batch: one model at its tasks, many requests at once, each answered as if it came alone.

N texts, D width.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from glassformer.data.batches import Budget, Indices
from glassformer.data.ragged import Ragged
from glassformer.engine.prepare import prepared_reader
from glassformer.files import conform
from glassformer.files.schema import TokenId
from glassformer.generate.settings import SAMPLING, GenerationSettings
from glassformer.jobs.predict import Pipeline, head_of, pipeline, task_of
from glassformer.jobs.tasks import task_class
from glassformer.models.contract import as_model, label_names
from glassformer.tasks.batch import OnProgress, device_of, predict_in_batches
from glassformer.tasks.encoded import EncodedTexts
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.pooling import WIDTHS
from glassformer.tasks.sentence_similarity import EmbeddedPairs, FeatureExtraction, SentenceEmbedding
from glassformer.tasks.task import AnyTask, longest_input, takes_settings

from .client_options import check_length, client_options, cut_on, lengths_of, prepared, split_options, whole_words
from .messages import Answer, Call, Fault, ModelInfo, Submit, WorkerSpec

LOG = logging.getLogger("glassformer")
FAMILIES = (  # tasks that one model can be asked for
    ("text-classification", "zero-shot-classification"),
    ("sentence-embedding", "feature-extraction", "sentence-similarity", "zero-shot-classification"),
    ("translation", "summarization", "text2text-generation"),
)
OWN = {"batch_size", "batch_tokens", "return_tensors", "padding"}  # options that are the server's business
REFUSED = {"assistant_model", "constraints", "force_words_ids", "return_dict_in_generate", "top_logprobs"}
SETTINGS = GenerationSettings.__dataclass_fields__.keys() - REFUSED
ALONE = {*SAMPLING, "do_sample", "seed", "max_time"}  # what is drawn, and when, depends on the rest of a batch
LONG = 512  # new tokens, beyond which a search also looks at the time: beams that do are slower
NOT_NUMBERS = "the model's scores are not numbers (NaN): its weights or its precision are at fault"


class NotFinite(ArithmeticError):
    """A model gave NaN or infinity where a client expects a number."""


class Dropped(Exception):
    """Nobody waits any more for what is being worked on."""


class Inference:
    """A loaded model and the tasks that it can be asked for.

    `on_progress` is called between the steps of a long batch with what it answers; it may raise Dropped.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.on_progress: Callable[[Sequence[Submit]], None] = lambda _: None
        pipe = pipeline(_task_of(spec.source), spec.source, device=spec.device, dtype=spec.dtype)
        self.model, self.tokenizer = as_model(pipe.model), pipe.tokenizer
        self.pipelines = _at_all_tasks(pipe)
        self.reader = prepared_reader(self.model)  # asked for once: nobody changes the weights of a worker's model
        self.info = self._info(pipe)

    def _info(self, pipe: Pipeline) -> ModelInfo:
        weights, config = list(pipe.model.parameters()), self.model.config
        widths = (getattr(config, name, None) for name in WIDTHS)
        return ModelInfo(
            task=pipe.task.name,
            tasks=tuple(self.pipelines),
            model_type=config.model_type,
            parameters=sum(one.numel() for one in weights),
            dtype=str(weights[0].dtype).removeprefix("torch."),
            device=str(pipe.device),
            max_length=pipe.task.max_length or longest_input(self.model, self.tokenizer),
            vocab_size=config.vocab_size,
            hidden_size=next((width for width in widths if width is not None), None),
            labels=tuple(label_names(config)) if "classification" in pipe.task.name else (),
            chat=bool(self.tokenizer.chat_template),
        )

    def answer(self, batch: Sequence[Submit]) -> list[Answer | Fault]:
        """The answers to some calls of one key. Where the batch fails, each is tried alone, and fails alone; of what
        nobody waits for there is none."""
        alone = len(batch) == 1
        if not alone and self._draws(batch[0].call):
            return [found for one in batch for found in self.answer([one])]
        try:
            return self._together(batch)
        except Dropped:
            return []
        except Exception as error:
            if not alone:
                return [found for one in batch for found in self.answer([one])]
            return [fault_of(batch[0], error)]

    def _draws(self, call: Call) -> bool:
        """Whether its texts are drawn at random; top_k means something else where nothing is written."""
        own = self.pipelines.get(call.task)
        writes = call.kind == "predict" and own is not None and takes_settings(own.task.predict)
        return writes and bool(call.options.keys() & ALONE)

    @torch.inference_mode()
    def _together(self, batch: Sequence[Submit]) -> list[Answer | Fault]:
        call = batch[0].call
        inputs = [value for one in batch for value in one.call.inputs]
        whole = replace(call, inputs=inputs)

        def on_progress(done: int, of: int) -> None:
            if done < of:
                self.on_progress(batch)

        match call.kind:
            case "predict":
                results, tokens = self.predict(whole, on_progress)
            case "embed":
                results, tokens = self.embed(whole, on_progress)
            case "tokenize":
                results, tokens = self.tokenize(whole)
            case _:
                results, tokens = self.decode(whole)
        answers, start = [], 0
        for one in batch:
            end = start + len(one.call.inputs)
            check_finite(results[start:end])
            answers.append(Answer(one.id, one.part, results[start:end], sum(tokens[start:end])))
            start = end
        return list(answers)

    def predict(self, call: Call, on_progress: OnProgress | None = None) -> tuple[list[Any], list[int]]:
        """What the task says of each input, as gf.pipeline gives it."""
        task = self._task(call.task)
        given, extra = split_options(task, call.options)
        options = self._options(task, given)
        inputs = [task.call_inputs(one, (), {}) for one in call.inputs]
        if isinstance(task, FillMask):
            self._check_masks(inputs, options)
        ready = prepared(task, inputs, options, extra)
        found = task.shaped(ready.predict(self.reader, inputs, **options, on_progress=on_progress), given)
        if extra.get("align_to_words"):
            found = [whole_words(task.tokenizer, one, answers) for one, answers in zip(inputs, found, strict=True)]
        return found, []

    def _check_masks(self, texts: Sequence[Any], options: Mapping[str, Any]) -> None:
        """Refuse a text with so many masks that their words are too many."""
        top_k, most = options.get("top_k", 5), self.spec.max_results
        masks = max((str(one).count(self.tokenizer.mask_token or "\0") for one in texts), default=0)
        if masks * top_k > most:
            message = f"a text has {masks:,} masks and top_k is {top_k:,}: {masks * top_k:,} words, and it may have"
            raise ValueError(f"{message} {most:,}; lower top_k, or send less of the text")

    def embed(self, call: Call, on_progress: OnProgress | None = None) -> tuple[list[Any], list[int]]:
        """A vector (D,) of each text, or of ids that are read as they are; and how many tokens each has.

        Options: ids (the inputs are rows of them), normalize (None: as the folder says), truncate (else a text that is
        too long is refused; False, where the client could have asked for it), truncation_side, and pooled (False: a
        vector of each token, (T, D)).
        """
        own = self._task(SentenceEmbedding.name)
        assert isinstance(own, SentenceEmbedding)
        task, limit, normalize = copy(own), own.max_length, call.options.get("normalize")
        if normalize is not None:
            task.pooling = replace(task.pooling, normalize=normalize)
        if call.options.get("ids"):
            for row in call.inputs:
                self._check_ids(row)
            texts = EncodedTexts(Ragged.of(call.inputs), None, 0)
            check_length(texts.lengths.tolist(), limit)
        else:
            tokenizer, truncate = (
                cut_on(task, call.options.get("truncation_side")).tokenizer,
                call.options.get("truncate"),
            )
            texts = EncodedTexts.of(tokenizer, call.inputs, max_length=limit)
            if texts.num_truncated and not truncate:
                fix = "shorten it" if truncate is None else 'shorten it, or send "truncate": true'
                check_length(lengths_of(tokenizer, call.inputs), int(texts.lengths.max()), fix=fix)
        items, budget = EmbeddedPairs(texts, None, None), Budget(tokens=self.spec.batch_tokens)
        if call.options.get("pooled") is False:
            return self._token_vectors(task, items, budget, on_progress), items.lengths.tolist()
        vectors = task.embed_items(self.reader, items, budget, on_progress)
        return list(vectors.float().numpy()), items.lengths.tolist()

    def _token_vectors(
        self, task: SentenceEmbedding, items: EmbeddedPairs, budget: Budget, on_progress: OnProgress | None
    ) -> list[Any]:
        """(T, D) of each text."""

        def vectors(indices: Indices) -> list[Any]:
            batch = task.batch(items, indices).to(device_of(self.reader))
            hidden = self.reader(**batch.inputs).last_hidden_state.float().cpu().numpy()
            lengths = items.lengths[indices].tolist()
            return [row[:length].copy() for row, length in zip(hidden, lengths, strict=True)]

        return predict_in_batches(items.lengths, budget, vectors, on_progress)

    def tokenize(self, call: Call) -> tuple[list[Any], list[int]]:
        """Of each text its tokens: id, text, special, start and stop (characters)."""
        special = bool(call.options.get("add_special_tokens", True))
        found = self.tokenizer(
            call.inputs, add_special_tokens=special, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        rows = zip(found["input_ids"], found["special_tokens_mask"], found["offset_mapping"], strict=True)
        tokens = [
            [
                {"id": id_, "text": token, "special": bool(mark), "start": span[0], "stop": span[1]}
                for id_, token, mark, span in zip(ids, self._tokens(ids), marks, offsets, strict=True)
            ]
            for ids, marks, offsets in rows
        ]
        return tokens, [len(row) for row in tokens]

    def decode(self, call: Call) -> tuple[list[Any], list[int]]:
        """Of each row of ids its text."""
        skip = bool(call.options.get("skip_special_tokens", True))
        for row in call.inputs:
            self._check_ids(row)
        return [self.tokenizer.decode(row, skip_special_tokens=skip) for row in call.inputs], []

    def _tokens(self, ids: list[int]) -> list[str]:
        return self.tokenizer.convert_ids_to_tokens(ids)  # type: ignore[no-any-return]

    def _check_ids(self, ids: Sequence[int]) -> None:
        conform(ids, Sequence[TokenId], "ids")
        if wrong := [id_ for id_ in ids if not 0 <= id_ < len(self.tokenizer)]:
            raise ValueError(f"{wrong[0]} is no token: this vocabulary has {len(self.tokenizer):,}")

    def _task(self, name: str) -> AnyTask:
        if name not in self.pipelines:
            raise ValueError(f"this model is for {', '.join(self.pipelines)}, not for {name}")
        return self.pipelines[name].task

    def _options(self, task: AnyTask, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call, those that a client may give, and the size of a batch."""
        writes = takes_settings(task.predict)
        known = {*(task.predict_options().keys() - OWN), *(SETTINGS if writes else ())}
        if wrong := [name for name in given if name not in known]:
            names = ", ".join(sorted({*known, *client_options(task)}))
            raise ValueError(f"{task.name} has no parameter {wrong[0]!r}; it has: {names}")
        task.check_predict(given)
        options = {**given}
        if "batch_tokens" in task.predict_options():
            options["batch_tokens"] = self.spec.batch_tokens
        lengths = [given.get(name) for name in ("max_new_tokens", "max_length", "min_new_tokens", "min_length")]
        if writes and any(isinstance(one, int) and one > LONG for one in lengths):
            options["max_time"] = min(self.spec.deadline, given.get("max_time") or self.spec.deadline)
        return options


def fault_of(one: Submit, error: Exception) -> Fault:
    """A fault for a client: what is wrong with the request, in the words of who refused it; of anything else no more
    than that it happened, and a line for the log that holds nothing of the request."""
    if isinstance(error, ValueError):
        return Fault(one.id, one.part, 422, str(error))
    trace, place = error.__traceback__, "nowhere"
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    LOG.error("a %s request failed: %s at %s", one.call.kind, type(error).__name__, place)
    message = str(error) if isinstance(error, NotFinite) else f"the model failed on this input ({type(error).__name__})"
    return Fault(one.id, one.part, 500, message)


def check_finite(values: Iterable[object]) -> None:
    """Refuse results in which a number is NaN or infinite."""
    for value in values:
        if isinstance(value, np.ndarray):
            if not np.isfinite(value).all():
                raise NotFinite(NOT_NUMBERS)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise NotFinite(NOT_NUMBERS)
        elif isinstance(value, Mapping):
            check_finite(value.values())
        elif isinstance(value, list | tuple):
            check_finite(value)


def _task_of(source: str) -> str:
    """The task of a folder; of a bare model, its vectors."""
    try:
        return task_of(source)
    except ValueError:
        if head_of(source) is None:
            return FeatureExtraction.name
        raise


def _at_all_tasks(pipe: Pipeline) -> dict[str, Pipeline]:
    """A pipeline for each task that the model can be asked for, its own first; all share its weights."""
    found = {pipe.task.name: pipe}
    for family in FAMILIES:
        for name in family if pipe.task.name in family else ():
            if name not in found:
                with suppress(ValueError):  # a classifier that knows no entailment, or has no vectors
                    found[name] = pipe.at(task_class(name).name)
    return found
