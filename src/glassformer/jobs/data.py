"""The splits of a run: read from files, taken from the micro-world, or cut from one file."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from glassformer.data.corpus import Corpus, account_of
from glassformer.data.examples import Document
from glassformer.data.joined import JoinedShards
from glassformer.data.report import Read, ReadReport
from glassformer.data.shard_writer import is_complete
from glassformer.data.shards import Shards
from glassformer.data.splits import draw, keep_labels
from glassformer.tasks.running_text import RunningTextTask
from glassformer.tasks.task import AnyTask
from glassformer.text.train import MOST_BYTES
from glassformer.train.processes import Processes

from .built_in import built_in_examples, is_built_in
from .progress import shown
from .recipe import Recipe, expanded
from .tokenised import check_made_for, is_tokenised, opened_shards

HELD_TOKENS = 250_000  # of shards that are kept for dev, or a tenth of few


@dataclass
class Splits:
    """Examples by split, and what the readers had to say.

    A split is a list; where it is larger than memory, a Corpus, and Shards once there is a tokenizer to make them with.
    Shards that `glassformer data tokenize` made are there from the beginning, with a tokenizer of their own.
    """

    train: Any
    dev: Any
    test: Any
    messages: list[str] = field(default_factory=list)
    accounts: dict[str, Any] = field(default_factory=dict)

    def by_name(self) -> dict[str, Any]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def read_splits(recipe: Recipe, task: type[AnyTask]) -> Splits:
    """Train, dev and test; where no dev is given, a part of the data that is chosen by a hash."""
    splits = Splits([], [], [])
    splits.train = _read(recipe.data, "train", recipe, task, splits)
    if recipe.dev:
        splits.dev = _read(recipe.dev, "dev", recipe, task, splits)
    elif is_built_in(recipe.data):
        splits.dev = _read(recipe.data, "dev", recipe, task, splits)
    elif isinstance(splits.train, Corpus):
        if splits.train.labels:
            raise ValueError("the end of a labelled text is not like all of it: give dev data of its own (--dev)")
        splits.train, splits.dev = splits.train.split()
        splits.messages.append(f"no dev data given: the last {splits.dev.held:,} characters of the text are held out")
    elif isinstance(splits.train, Shards):
        splits.train, splits.dev = _held_out(splits.train)
        splits.messages.append(f"no dev data given: the last {len(splits.dev):,} tokens are held out")
    else:
        splits.train, splits.dev, rare = keep_labels(*task.split(splits.train), lambda one: one.key, task.labels_in)
        splits.messages.append(f"no dev data given: {len(splits.dev)} examples are held out of the training data")
        if rare:
            names = ", ".join(map(repr, rare[:8])) + (", …" if len(rare) > 8 else "")
            splits.messages.append(f"too rare to be held out, so in training: {names}")
    if recipe.test:
        splits.test = _read(recipe.test, "test", recipe, task, splits)
    splits.train = _weighted(splits.train, recipe.weights)
    if isinstance(splits.train, Corpus):
        splits.train = replace(splits.train, limit=recipe.limit)
    elif recipe.limit is not None and isinstance(splits.train, Shards):
        raise ValueError("limit counts documents, which shards hold tokenised: give steps, to train on a part of them")
    elif recipe.limit is not None and recipe.limit < len(splits.train):
        splits.train = draw(splits.train, recipe.limit, task.labels_in, seed=int(recipe.plan.get("seed", 0)))
    return splits


def _read(sources: Sequence[str], split: str, recipe: Recipe, task: type[AnyTask], splits: Splits) -> Any:
    if is_built_in(sources):
        return built_in_examples(sources[0], split, task, limit=recipe.limit, length=recipe.options.get("length"))
    files, columns = expanded(sources), recipe.columns or None
    if is_tokenised(files):
        shards = opened_shards(task, files, split)
        splits.messages += [
            f"{split}: {len(one):,} tokens of {one.documents:,} documents in {len(one.shards)} shards, in {one.place}"
            for one in (shards.parts if isinstance(shards, JoinedShards) else [shards])
        ]
        return shards
    if issubclass(task, RunningTextTask) and (corpus := task.corpus(files, columns=columns, **recipe.options)):
        return corpus
    with shown(f"reading {split}"):
        read = task.read(files, columns=columns, **reading(task, recipe.options))
    splits.messages += [f"{split}: {line}" for line in read.report.lines()]
    splits.accounts[split] = read.report.as_dict()
    return read.examples


def _held_out(shards: Shards) -> tuple[Shards, Shards]:
    """All but the end, and the end; of several, of each."""
    parts = shards.parts if isinstance(shards, JoinedShards) else [shards]
    most = HELD_TOKENS // len(parts)
    borders = [len(one) - min(most, len(one) // 10) for one in parts]
    train = [one.between(0, border) for one, border in zip(parts, borders, strict=True)]
    dev = [one.between(border, len(one)) for one, border in zip(parts, borders, strict=True)]
    return (train[0], dev[0]) if len(parts) == 1 else (JoinedShards(train), JoinedShards(dev))


def _weighted(train: Any, weights: Sequence[float] | None) -> Any:
    """Folders of shards, each with its share."""
    if weights is None:
        return train
    parts = train.parts if isinstance(train, JoinedShards) else []
    if len(weights) != len(parts):
        raise ValueError(f"weights has {len(weights)} numbers: give one for each of several folders of shards in data")
    if not all(weight > 0 for weight in weights):
        raise ValueError(f"weights are {', '.join(map(str, weights))}: each must be above 0")
    return JoinedShards(parts, weights)


def examples_with_labels(task: type[AnyTask], splits: Splits) -> list[Any]:
    """What the labels of a task are learnt from; of streams they are known beforehand."""
    sides = (splits.train, splits.dev, splits.test) if task.labels_of_all else (splits.train,)
    streams = [side for side in sides if isinstance(side, Corpus)]
    known = [Document("", label) for side in streams for label in side.labels]
    return [*known, *(one for side in sides if not isinstance(side, Corpus | Shards) for one in side)]


def texts_of(task: type[AnyTask], examples: Any) -> Iterator[str]:
    """What a vocabulary is learnt from; of a text larger than memory, lines from all over it."""
    return examples.lines(MOST_BYTES) if isinstance(examples, Corpus) else task.texts(examples)


def tokenise(splits: Splits, task: AnyTask, processes: Processes) -> None:
    """Put shards in the place of streams; one process makes them for all."""
    for name, corpus in splits.by_name().items():
        if isinstance(corpus, Shards):
            check_made_for(task, corpus)
        if isinstance(corpus, Corpus):
            assert isinstance(task, RunningTextTask)
            shards = _shards(corpus, task, processes, what=f"tokenising {name}")
            account = account_of(shards)
            splits.messages += [f"{name}: {line}" for line in account.lines]
            splits.messages.append(f"{name}: {len(shards):,} tokens in shards, in {shards.folder}")
            splits.accounts[name] = account.facts
            setattr(splits, name, shards)


def _shards(corpus: Corpus, task: RunningTextTask[Any], processes: Processes, *, what: str) -> Shards:
    def make(still_at_it: Callable[[], None]) -> None:
        with shown(what) as show:

            def on_progress(done: int, total: int) -> None:
                show(done, total)
                still_at_it()

            corpus.to_shards(task.tokenizer, task.frame, on_progress, marked=task.marked)

    processes.run_on_main(make)
    homes = processes.all_gather(corpus.home(task.tokenizer, task.frame))
    home = homes[0]  # the first's, wherever others see the files
    if not is_complete(home):
        raise ValueError(f"there is no {home} here: set GLASSFORMER_CACHE to a folder that all machines share")
    return Shards(home, verify=False)  # which the first has done


def read_examples(
    task: type[AnyTask],
    sources: Sequence[str],
    *,
    split: str,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any],
) -> Read[Any]:
    """One split by itself."""
    if is_built_in(sources):
        examples = built_in_examples(sources[0], split, task, length=options.get("length"))
        return Read(examples, ReadReport(rows={sources[0]: len(examples)}))
    files = expanded(sources)
    if is_tokenised(files):
        shards: Any = opened_shards(task, files, split)
        return Read(shards, ReadReport(rows={files[0]: shards.documents}))
    return task.read(files, columns=columns, **reading(task, options))


def reading(task: type[AnyTask], options: Mapping[str, Any]) -> dict[str, Any]:
    """Of a recipe's options, those that concern reading."""
    known = set(inspect.signature(task.read).parameters) - {"sources", "columns"}
    return {name: value for name, value in options.items() if name in known}
