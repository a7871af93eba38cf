"""What every route of the studio is given: the models, the traces that are kept, and a turn to work."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore, Lock, RLock
from typing import TYPE_CHECKING, Any

from torch import nn

from glassformer.blocks.alignment import Alignment
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.recurrent import Recurrent
from glassformer.hub.describe import describe, totals
from glassformer.hub.fetch import config_folder, has_tokenizer
from glassformer.hub.load import load, load_tokenizer
from glassformer.jobs.predict import Pipeline, pipeline, task_of
from glassformer.jobs.tasks import task_class
from glassformer.models.contract import as_model
from glassformer.tasks.text_classification import TextClassification
from glassformer.tasks.zero_shot_classification import ZeroShotClassification
from glassformer.text.tokenizer import Tokenizer
from glassformer.zoo import card_of, is_built_in

from . import model_name
from .example_inputs import built_in_inputs, example_inputs
from .limits import SECONDS, Deadline

if TYPE_CHECKING:
    from .traces import Traces

WAITING = 8  # requests that may wait for their turn; more are sent away


class Missing(LookupError):
    """There is no such thing: 404."""


class Gone(LookupError):
    """There was such a thing: 410."""


class Busy(RuntimeError):
    """Too many wait already: 429."""


@dataclass(frozen=True)
class Loaded:
    """A model that is open. Hold `lock` while it runs: hooks of two readers must not meet in it."""

    name: str
    source: str
    model: nn.Module
    tokenizer: Tokenizer | None
    task: str | None
    pipe: Pipeline | None
    lock: AbstractContextManager[bool] = field(default_factory=RLock, repr=False)

    @property
    def pipeline(self) -> Pipeline:
        """The model at its task, with the settings of its run folder."""
        if self.pipe is None:
            raise ValueError(f"{self.name} is for no task that can be run here; its head is {self.model.head_name!r}")
        return self.pipe


class ModelStore:
    """Models by their folder's name; one is opened when it is first asked for."""

    def __init__(self, sources: Iterable[str], *, device: str | None = None) -> None:
        self._sources: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = []  # what is said of every model before it is opened
        self._device = device
        self._open: dict[str, Loaded] = {}
        self._lock = Lock()
        for source in sources:
            name = model_name(source)
            if name in self._sources:
                raise ValueError(f"{source} and {self._sources[name]} are both called {name!r}; rename one of them")
            self._sources[name] = source
            self.entries.append(_entry(name, source))  # an error now rather than at the first look

    def __getitem__(self, name: str) -> Loaded:
        with self._lock:
            if name not in self._open:
                self._open[name] = opened(name, self._source(name), self._device)
            return self._open[name]

    def _source(self, name: str) -> str:
        if name not in self._sources:
            raise Missing(f"there is no model {name!r}; there are: {', '.join(self._sources) or 'none'}")
        return self._sources[name]

    @property
    def folders(self) -> dict[str, Path]:
        """Where each model lies."""
        return {name: config_folder(source) for name, source in self._sources.items()}


def opened(name: str, source: str, device: str | None) -> Loaded:
    """A model, its tokenizer where it has one, and its task where its head is for one."""
    if not has_tokenizer(source):
        return Loaded(name, source, load(source, device=device), None, None, None)
    with suppress(ValueError):  # a model without a task can be looked into all the same
        task = _task_of(source)
        pipe = pipeline(task, source, device=device)
        return Loaded(name, source, pipe.model, pipe.task.tokenizer, task, pipe)
    return Loaded(name, source, load(source, device=device), load_tokenizer(source), None, None)


def _entry(name: str, source: str) -> dict[str, Any]:
    """What a model's config alone says of it."""
    try:
        module = describe(source)
    except ValueError as error:
        raise ValueError(str(error) if source in str(error) else f"{source}: {error}") from None
    model = as_model(module)
    attentions = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    recurrent = any(isinstance(part, Recurrent) for part in model.modules())
    aligned = any(isinstance(part, Alignment) for part in model.modules())
    return {
        "name": name,
        "model_type": model.config.model_type,
        "head": model.head_name,
        "task": _task(source),
        "parameters": totals(module)["parameters"],
        "layers": len(attentions),
        "heads": attentions[0].heads if attentions else 0,
        "vocab_size": model.config.vocab_size,
        "attends": bool(attentions) or aligned,
        "recurrent": recurrent,
        "writes": model.config.is_encoder_decoder,
        "pairs": not (model.is_causal or recurrent),
        "tokenizer": has_tokenizer(source),
        "examples": _examples(source) if has_tokenizer(source) else [],
    }


def _examples(source: str) -> list[dict[str, str]]:
    if is_built_in(source):
        return built_in_inputs(card_of(source))
    task = _task(source)
    with suppress(ValueError):  # a tokenizer that cannot be read is refused when the model is opened
        return example_inputs(task, load_tokenizer(source).mask_token if task == "fill-mask" else None)
    return []


def _task(source: str) -> str | None:
    with suppress(ValueError):
        return _task_of(source)
    return None


def _task_of(source: str) -> str:
    """The task by its own name; a model of inference says of two texts how they stand, and asks for no labels."""
    name = task_class(task_of(source)).name
    return TextClassification.name if name == ZeroShotClassification.name else name


class WorkQueue:
    """One works at a time, for torch takes every core by itself; a few may wait. A turn ends after some seconds."""

    def __init__(self, waiting: int = WAITING, *, seconds: float = SECONDS) -> None:
        self._room, self._turn, self._seconds = BoundedSemaphore(waiting + 1), Lock(), seconds

    @contextmanager
    def __call__(self) -> Iterator[Deadline]:
        if not self._room.acquire(blocking=False):
            raise Busy("too many requests are waiting; try again in a moment")
        try:
            with self._turn:
                yield Deadline.after(self._seconds)
        finally:
            self._room.release()


@dataclass(frozen=True)
class Studio:
    """All that routes share. Anything heavy is done within `with studio.work() as deadline:`, and looks at it."""

    models: ModelStore
    traces: "Traces"
    runs: Path = Path("runs")
    work: Callable[[], AbstractContextManager[Deadline]] = field(default_factory=WorkQueue)
