"""gf.pipeline, eval and predict: a folder used for its task, with Hugging Face's names and result shapes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.data.batches import Budget
from glassformer.data.report import Read, ReadReport
from glassformer.data.rows import json_value
from glassformer.data.shards import Shards
from glassformer.data.source import check_length, checked_lines, resolve
from glassformer.engine.prepare import prepared_reader
from glassformer.generate.settings import GenerationSettings
from glassformer.hub.fetch import config_folder
from glassformer.hub.folder import read_config
from glassformer.hub.load import load, load_tokenizer
from glassformer.hub.registry import architecture_for, head_for, reading_head
from glassformer.hub.tensors import short
from glassformer.models.contract import as_model, label_names
from glassformer.models.pretrained import RECORDED, how_to_record
from glassformer.tasks.batch import device_of
from glassformer.tasks.metrics import ScoreSheet
from glassformer.tasks.pooling import MODULES
from glassformer.tasks.sentence_similarity import BARE, SentenceEmbedding
from glassformer.tasks.summarization import Summarization
from glassformer.tasks.task import AnyTask, call_options, evaluate, takes_settings
from glassformer.tasks.task_params import task_params
from glassformer.tasks.text_classification import TextClassification
from glassformer.tasks.zero_shot_classification import ZeroShotByVectors, ZeroShotClassification
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.notebook import facts_line, facts_table, shortened
from glassformer.zoo import default_for

from .data import read_examples, reading
from .generator import complete
from .models import check_fit, check_model
from .progress import shown
from .recipe import RECIPE, read_made, task_options
from .tasks import PAIR, TASKS, taken, task_class
from .tokenised import check_made_for

UNANSWERED: dict[str, Any] = {"label": None, "tags": None, "answers": (), "target": None}
LANGUAGES = ("src_lang", "tgt_lang")
CHUNK = 32  # inputs of an iterator at a time
LABELLED = ("text-classification", "token-classification")
CLASSIFIERS = (*LABELLED, "question-answering")  # heads that are linear layers, of whatever width
WORTH_PREPARING = 8  # inputs: to look whether the weights have changed costs as much as to read one or two
TABLES = ("csv", "tsv", "jsonl", "json", "parquet", "conll")


class Pipeline:
    """A model and its task: call it with a text, or with a list of them.

    `made` is the recipe it was trained by, `defaults` the options of a call that does not give them, `folder` where the
    model lies, with what stands beside it.
    """

    def __init__(
        self,
        model: nn.Module,
        task: AnyTask,
        made: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        self.model, self.task, self.folder = model, task, folder
        self.made, self.defaults = dict(made or {}), dict(defaults or {})
        task.check_predict(self.defaults)

    def __call__(self, inputs: Any = None, *more: Any, **options: Any) -> Any:
        """One result for one input, a list of results for a list of inputs; each as if it came alone.

        Of an iterator, the results come as its inputs do: the first at once, later ones in growing batches, or in those
        of batch_size.
        """
        _check_recorded(options)
        inputs = self.task.call_inputs(_listed(inputs), more, options)
        asked = {**self.defaults, **options}
        self.task.check_predict(asked)
        if isinstance(inputs, Iterator):
            parts = chunks(inputs, asked.get("batch_size"))
            return (found for some in parts for found in self._results(some, asked))
        if isinstance(inputs, list):
            return self._results(inputs, asked)
        (found,) = self._results([inputs], asked)
        return [found] if isinstance(inputs, str) and self.task.wraps_one(found, options) else found

    def at(self, task: str) -> "Pipeline":
        """The same model, its weights shared, at another task that its head is for."""
        model, kept = as_model(self.model), dict[str, Any]()
        cls = _class_for(task, self.model)
        if self.folder is not None:
            kept = {**taken(cls, _made(self.folder, cls)), **cls.read_extras(self.folder, task)}
        return Pipeline(self.model, cls.for_model(self.tokenizer, model, **kept), folder=self.folder)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    def _facts(self) -> dict[str, str]:
        """What it is, in a few words."""
        model, weights = as_model(self.model), list(self.model.parameters())
        facts = {
            "model": f"{model.config.model_type}, {sum(one.numel() for one in weights):,} parameters",
            "weights": f"{short(weights[0].dtype)} on {self.device}",
            "tokenizer": f"{len(self.tokenizer):,} tokens",
            "max_length": "" if self.task.max_length is None else str(self.task.max_length),
            "labels": shortened(label_names(model.config)) if model.head_name in LABELLED else "",
            "folder": "" if self.folder is None else str(self.folder),
            "options": ", ".join(f"{name}={value!r}" for name, value in self.defaults.items()),
        }
        return {name: fact for name, fact in facts.items() if fact}

    def __repr__(self) -> str:
        return facts_line("Pipeline", {"task": self.task.name, **self._facts()})

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        return facts_table(f"Pipeline {self.task.name!r}", self._facts())

    def _results(self, inputs: list[Any], options: Mapping[str, Any]) -> list[Any]:
        model = as_model(self.model)
        model = model if len(inputs) < WORTH_PREPARING else prepared_reader(model)
        return self.task.shaped(self.task.predict(model, inputs, **options), options)

    def read(
        self,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        require_target: bool = True,
        **options: Any,
    ) -> Read[Any]:
        """Examples for this task, read as those it was trained on, and how they were come by."""
        settings = {
            name: value for name, value in self.task.settings().items() if name != "labels"
        }  # the data has its own
        options = {**self.made, **settings, **options, "require_target": require_target}
        if require_target:
            columns = columns or self.made.get("columns")
        with shown("reading"):
            return read_examples(type(self.task), sources, split="test", columns=columns, options=options)

    def score(self, examples: Sequence[Any], *, batch_tokens: int = 8192) -> ScoreSheet:
        """The score sheet of some examples, with what intervals need."""
        budget = Budget(tokens=batch_tokens)
        with shown("scoring") as on_progress:
            if isinstance(examples, Shards):
                check_made_for(self.task, examples)
            items = self.task.encode(examples)
            return evaluate(
                prepared_reader(as_model(complete(self.task, self.model, self.folder))),
                self.task,
                items,
                budget=budget,
                keep_examples=True,
                final=True,
                on_progress=on_progress,
            )


def pipeline(
    task: str | None = None,
    model: str | Path | nn.Module | None = None,
    tokenizer: Tokenizer | str | Path | None = None,
    *,
    device: str | int | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    quant: str | None = None,
    **options: Any,
) -> Pipeline:
    """A pipeline for a task: pipeline("text-classification", "folder-or-hub-name")(["a text", "another"]).

    Without a task, that of the folder; without a model, the built-in one of the task (`zoo:NAME`). `device` may be a
    number, as Hugging Face has it: -1 is the CPU, 0 the first GPU. Further options are the task's own, or of each call
    that does not give them itself.
    """
    if task is None:
        if not isinstance(model, str | Path):
            raise ValueError('name a task, a model folder, or both: pipeline("summarization", "folder")')
        task = task_of(str(model))
    _check_recorded(options)
    task = _pair_name(task, options)
    dtype = options.pop("torch_dtype", dtype)  # its name before version 5 of transformers
    if isinstance(tokenizer, str | Path):
        tokenizer = load_tokenizer(tokenizer)
    if isinstance(model, nn.Module):
        if tokenizer is None:
            raise ValueError("a pipeline over a model needs its tokenizer as well: pipeline(task, model, tokenizer)")
        return _over(model.eval(), tokenizer, task, options)
    if model is None:
        model = default_for(task_class(task).name, named_languages(task))
    cls = _class_for(task, model)
    of_task, of_call = _split_options(task, cls, options)
    check_model(model, cls)
    check_trained_for(model, cls)
    found = load(model, head=_head(cls, model), device=_device(device), dtype=dtype, quant=quant)
    if new := found.load_report.new:
        raise ValueError(f"{model} was not trained for {task}: it has no {new[0]}; train it first")
    folder = config_folder(model)
    made = _made(folder, cls)
    of_task = {**taken(cls, made), **cls.read_extras(folder, task), **of_task}
    tokenizer = tokenizer or load_tokenizer(model)
    check_fit(found, tokenizer)
    of_task = _languages(task, tokenizer, of_task)
    return Pipeline(found, cls.for_model(tokenizer, as_model(found), **of_task), made, of_call, folder=folder)


def _over(model: nn.Module, tokenizer: Tokenizer, task: str, options: Mapping[str, Any]) -> Pipeline:
    """A pipeline of a model that is in memory."""
    made, cls = as_model(model), _class_for(task, model)
    of_task, of_call = _split_options(task, cls, options)
    of_task = _languages(task, tokenizer, {**cls.config_extras(made.config.to_hf(), task), **of_task})
    return Pipeline(model, cls.for_model(tokenizer, made, **of_task), defaults=of_call)


def _pair_name(task: str, options: Mapping[str, Any]) -> str:
    """The task; translation with src_lang and tgt_lang is translation_en_to_de."""
    pair = [options[name] for name in LANGUAGES if task == "translation" and options.get(name)]
    return "translation_{}_to_{}".format(*pair) if len(pair) == 2 else task


def _languages(task: str, tokenizer: Tokenizer, options: Mapping[str, Any]) -> dict[str, Any]:
    """A task's options with the languages that its name says, if the tokenizer marks languages; else without any."""
    rest = {name: value for name, value in options.items() if name not in LANGUAGES}
    given = {name: options[name] for name in LANGUAGES if options.get(name)}
    if tokenizer.settings.languages is None:
        if len(given) == 1:
            (one,) = given.values()
            raise ValueError(f"translation goes from one language to another: give src_lang and tgt_lang, not {one!r}")
        return rest  # the two were part of the task's name
    named = named_languages(task)
    return {**rest, **(dict(zip(LANGUAGES, named, strict=True)) if named else {}), **given}


def named_languages(task: str) -> tuple[str, ...]:
    """The two languages in a task's name, translation_en_to_de; none in any other."""
    pair = PAIR.fullmatch(task)
    return pair.groups() if pair else ()


def _split_options(task: str, cls: type[AnyTask], options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a task (or of its reader, which are left out), and those of every call."""
    known, calls = task_options(cls), call_options(cls.predict)
    settings = GenerationSettings.__dataclass_fields__ if takes_settings(cls.predict) else {}
    if wrong := [name for name in options if name not in {*known, *calls, *settings}]:
        near = get_close_matches(wrong[0], settings, n=3)
        written = f", and to write with: {', '.join(near)}" if near else ""
        raise ValueError(f"{task} has no option {wrong[0]!r}; it has: {', '.join(sorted({*known, *calls}))}{written}")
    return taken(cls, options), {name: value for name, value in options.items() if name not in known}


def _class_for(task: str, model: str | Path | nn.Module) -> type[AnyTask]:
    """The task, as this model does it: one of vectors chooses among labels without a class of entailment."""
    cls = task_class(task)
    if cls is not ZeroShotClassification:
        return cls
    bare = as_model(model).head_name in BARE if isinstance(model, nn.Module) else gives_vectors(model)
    return ZeroShotByVectors if bare else cls


def gives_vectors(model: str | Path) -> bool:
    """Whether a folder is one of Sentence-Transformers with a model of vectors; it writes its classifiers so, too."""
    return (config_folder(model) / MODULES).is_file() and head_of(model) != TextClassification.head


def _device(device: str | int | torch.device | None) -> str | torch.device | None:
    """A device as torch has it; a number is a GPU, and -1 none."""
    if isinstance(device, int):
        return "cpu" if device < 0 else f"cuda:{device}"
    return device


def _made(folder: Path, cls: type[AnyTask]) -> dict[str, Any]:
    """The recipe of a run folder, if it is for this task; what was said there holds until something else is said."""
    values = read_made(folder / RECIPE) if (folder / RECIPE).is_file() else {}
    return values if values and issubclass(cls, task_class(values["task"])) else {}


def chunks(inputs: Iterator[Any], size: int | None = None) -> Iterator[list[Any]]:
    """So many inputs at a time; else one, then twice as many each time: no one waits long, and batches get full.

    What came before inputs broke off with an error is given before the error.
    """
    count, some = size or 1, list[Any]()
    try:
        for one in inputs:
            some.append(one)
            if len(some) == count:
                yield some
                count, some = size or min(2 * count, CHUNK), []
    except Exception:
        if some:
            yield some
        raise
    if some:
        yield some


def _listed(inputs: Any) -> Any:
    """A column of a data set, an array or a series as a list; anything else as it is."""
    if isinstance(inputs, Collection) and not isinstance(inputs, str | bytes | tuple | Mapping | Set):
        return inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
    return inputs


def _check_recorded(options: dict[str, Any]) -> None:
    """Say how attention is recorded; to be asked for none is no mistake."""
    for name in RECORDED:
        if options.pop(name, None):
            raise ValueError(f"a pipeline takes no {name}: {how_to_record(name, 'pipe.model', 'pipe(text)')}")


def _head(cls: type[AnyTask], model: str | Path) -> str | None:
    """The head a task asks for; a lesson takes the one that is there."""
    if cls.built_in:
        return head_of(model)
    return reading_head(architecture_for(read_config(config_folder(model)).get("model_type")), cls.head)


def check_trained_for(model: str | Path, cls: type[AnyTask]) -> None:
    """Refuse a classifier of another kind: its last layer may fit a task that it has never learnt."""
    own = head_of(model)
    if own in CLASSIFIERS and cls.head in CLASSIFIERS and own != cls.head:
        raise ValueError(f"{model} was trained for {own}, not for {cls.name}: take another model, or train it first")


def head_of(model: str | Path) -> str | None:
    """The head of a folder's model, by its config alone."""
    raw = read_config(config_folder(model))
    return head_for(architecture_for(raw.get("model_type")), raw.get("architectures"))


def task_of(model: str) -> str:
    """The task that a folder was trained for: as its recipe says, else by the model's head."""
    recipe = config_folder(model) / RECIPE
    if recipe.is_file():
        return str(read_made(recipe)["task"])
    if gives_vectors(model):
        return SentenceEmbedding.name
    head = head_of(model)
    if head == Summarization.head and list(task_params(read_config(config_folder(model)))) == [Summarization.name]:
        return Summarization.name
    for name in TASKS:
        if head is not None and head in (name, task_class(name).head):
            return name
    raise ValueError(f"{model} has head {head!r}, which is for no task; name one with --task: {', '.join(TASKS)}")


def inputs_of(
    pipe: Pipeline,
    sources: Sequence[str],
    columns: Mapping[str, str] | None,
    log: Callable[[str], None],
    **options: Any,
) -> Iterator[Any]:
    """What is to be predicted, one for one: the rows of tables, with or without labels; the lines of anything else.

    A line that is a JSON object is taken as one, so that questions with their contexts can be piped. The options are
    those of the task's reader; with file_format, a file of any name is a table.
    """
    for source in resolve(sources):
        if source.extension in TABLES or "file_format" in options:
            read = pipe.read([source.name], columns=columns, require_target=False, **options)
            report = read.report
            yield from map(_unanswered, read.examples)
        else:
            report = ReadReport()
            yield from (as_input(text.rstrip("\r\n")) for _, text in checked_lines(source.lines(report), source.name))
        for line in report.lines()[1:]:
            log(line)


def _unanswered(example: Any) -> Any:
    """An example without what is to be predicted, which may be of other classes than the model's."""
    return replace(example, **{one.name: UNANSWERED[one.name] for one in fields(example) if one.name in UNANSWERED})


def reader_options(pipe: Pipeline, options: dict[str, Any]) -> dict[str, Any]:
    """Taken out of some options, those of the task's reader that are none of its call."""
    own = pipe.task.predict_options()
    return {name: options.pop(name) for name in reading(type(pipe.task), options) if name not in own}


def as_input(text: str) -> Any:
    """A text as it is typed; a JSON object is taken as one, for what has two parts."""
    check_length(len(text), "a line")
    if text.startswith("{"):
        with suppress(ValueError):
            return json_value(text)
    return text
