"""A small case of every task on every kind of model that takes it, assembled as the command line does it."""

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from glassformer.jobs.data import Splits
from glassformer.jobs.models import head_for, model_type
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.tasks import TASKS, task_class
from glassformer.jobs.train import assemble
from glassformer.tasks.task import Task
from glassformer.train.plan import Plan
from microworld_files import write_examples

WHERE = TemporaryDirectory()  # for as long as the tests run
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
SIDES = {"layers": 1, "attention_heads": 2, "ffn_dim": 24}
SMALL: dict[str, dict[str, Any]] = {  # by model_type
    "bert": BERT,
    "roberta": BERT,
    "distilbert": DISTILBERT,
    "albert": BERT | {"embedding_size": 8},
    "electra": BERT | {"embedding_size": 8},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "glassformer-decoder": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2},
    "glassformer-rnn": {"embedding_size": 12, "hidden_size": 12},
    "glassformer-cnn": {"embedding_size": 12, "num_filters": 4},
    "glassformer-bow": {},
    "glassformer-seq2seq": {"embedding_size": 12, "hidden_size": 12},
    "glassformer-transformer": {"d_model": 16}
    | {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIDES.items()},
}
VOCABULARY = {"wordpiece": 200, "bpe": 330, "unigram": 120, "word": 300, "character": 100}
WRITERS = ("translation", "summarization")  # and one kind without, whose limit is that of each source
FEW_TOKENS = {"max_new_tokens": 8}  # what has learnt nothing never ends a text by itself
ENCODERS = ("bert", "roberta", "distilbert")
ATTENTIONS = ("additive", "dot", "general", "concat", "scaled_dot")

RECIPES: dict[str, dict[str, Any]] = {}


def _case(task: str, arch: str, variant: str = "", **settings: Any) -> None:
    RECIPES["/".join(filter(None, (task, arch, variant)))] = {"task": task, "arch": arch, **settings}


for arch in ("rnn", "gru", "lstm", "cnn", "bow", "transformer", *ENCODERS):
    _case("text-classification", arch)
for arch in ("gru", "bow", "bert"):
    _case("text-classification", arch, "multi-label", problem_type="multi_label_classification", made="multi-label")
    _case("text-classification", arch, "regression", problem_type="regression", made="scored")
_case("text-classification", "bert", "smoothed", label_smoothing=0.1, max_length=9)
for arch in ("rnn", "gru", "lstm", *ENCODERS):
    _case("token-classification", arch)
_case("token-classification", "bert", "windows", max_length=8, context=1, label_smoothing=0.1)
for arch in ENCODERS:
    _case("question-answering", arch)
_case("question-answering", "bert", "windows", max_length=24, doc_stride=4)
for arch in ENCODERS:
    _case("fill-mask", arch, max_length=24)
_case("fill-mask", "bert", "lines", packing=False, whole_words=True)
_case("pretraining", "bert", max_length=32)
_case("sentence-order-prediction", "albert", max_length=32)
_case("replaced-token-detection", "electra", max_length=24)
_case("span-corruption", "t5", block_size=20)
_case("span-corruption", "transformer", block_size=20, noise_density=0.5, mean_noise_span_length=2.0)
_case("replaced-token-detection", "electra", "lines", packing=False, generator_size=0.5)
for arch in ("rnn", "gru", "lstm", "gpt2", "transformer"):
    _case("text-generation", arch, block_size=16)
    _case("text-generation", arch, "rows", packing=False, block_size=32)
for positions in ("sinusoidal", "learned", None):
    _case("text-generation", "decoder", str(positions), config={"positions": positions}, block_size=16)
_case("text-generation", "gpt2", "drawn", random_windows=True, block_size=16, chunk=20)
_case("text-generation", "lstm", "carried", carry_state=True, block_size=16)
_case("text-generation", "gpt2", "overlapping", stride=5, block_size=16)
for arch in ("rnn", "gru", "lstm", "transformer"):
    _case("translation", arch)
for attention in ATTENTIONS:
    _case("translation", "gru", attention, config={"attention": attention, "bidirectional": "dot" not in attention})
for arch in ("gru", "transformer"):
    _case("summarization", arch)
_case("text2text-generation", "transformer")
for arch in ("gru", "bert"):
    _case("zero-shot-classification", arch)
_case("translation", "gru", "without attention", config={"attention": None, "bidirectional": False})
_case("translation", "transformer", "smoothed", label_smoothing=0.1, max_length=8)
_case("translation", "transformer", "r_drop", r_drop=5.0)
_case("translation", "gru", "bpe_dropout", tokenizer="bpe", bpe_dropout=0.3)
_case("text-classification", "bert", "r_drop", r_drop=1.0)
for pooling in ("mean", "cls", "max"):
    _case("sentence-similarity", "bert", pooling, pooling=pooling)
_case("sentence-similarity", "lstm")
_case("sentence-similarity", "bert", "contrastive", loss="contrastive")
_case("feature-extraction", "distilbert")
_case("sentence-embedding", "bert")
for lesson in ("copy", "reverse", "parity", "adding"):
    for arch in ("rnn", "gru", "lstm", "transformer", "gpt2"):
        _case(lesson, arch)
_case("parity", "bert")
_case("adding", "bert", "long", length=30)

NAMES = list(RECIPES)
ONE_OF_EACH_TASK = [next(name for name in NAMES if name.split("/")[0] == task) for task in TASKS]


@dataclass(frozen=True)
class Case:
    """What `assemble` gives; the model is a copy, to do with as one likes."""

    recipe: Recipe
    splits: Splits
    task: Task[Any, Any]
    model: nn.Module
    plan: Plan
    items: Any  # of the training split


def recipe_of(name: str, **changes: Any) -> dict[str, Any]:
    """The settings of a case, flat, as `gf.train` takes them."""
    settings = {"out": f"{WHERE.name}/run", "device": "cpu", "limit": 40, "data": "microworld", **RECIPES[name]}
    if kind := settings.pop("made", None):
        settings["data"] = str(_file(kind))
    if settings["task"] in WRITERS:
        settings["generate"] = FEW_TOKENS
    settings |= changes
    cls, arch = task_class(settings["task"]), settings["arch"]
    settings["config"] = {**SMALL[model_type(arch, head_for(arch, cls))], **settings.get("config", {})}
    settings.setdefault("vocab_size", VOCABULARY[settings.get("tokenizer", cls.vocabulary)])
    return settings


def case(name: str, **changes: Any) -> Case:
    """A case put together."""
    found = _assembled(name) if not changes else _assemble(recipe_of(name, **changes))
    return Case(found.recipe, found.splits, found.task, copy.deepcopy(found.model), found.plan, found.items)


@cache
def _assembled(name: str) -> Case:
    return _assemble(recipe_of(name))


def _assemble(settings: dict[str, Any]) -> Case:
    recipe = Recipe.of(settings)
    splits, task, model, plan = assemble(recipe, torch.device("cpu"))
    return Case(recipe, splits, task, model, plan, task.encode(splits.train))


@cache
def _file(kind: str) -> Path:
    (path,) = write_examples(Path(WHERE.name) / kind, kind, 60)
    return path
