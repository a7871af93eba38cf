"""What the server and its worker processes say to each other; plain values alone, so that the server needs no torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["predict", "embed", "tokenize", "decode", "generate"]
Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is to load, and how it is to run it."""

    source: str
    device: str | None = None
    dtype: str | None = None
    threads: int | None = None  # of torch; None: as many as it likes
    batch_tokens: int = 4096  # of one batch of texts
    rows: int = 16  # texts written at once
    max_length: int | None = None  # tokens of a text, prompt included; None: what the model reads, up to a bound
    max_results: int = 2048  # words for the masks of one text
    deadline: float = 60.0  # seconds after which nobody waits for a text any more


@dataclass(frozen=True)
class ModelInfo:
    """What a loaded model says of itself."""

    task: str
    tasks: tuple[str, ...]  # all that it can be asked for; the first is `task`
    model_type: str
    parameters: int
    dtype: str
    device: str
    max_length: int | None  # tokens of a text that are read
    vocab_size: int
    hidden_size: int | None
    labels: tuple[str, ...] = ()
    chat: bool = False  # whether there is a chat template


@dataclass(frozen=True)
class Call:
    """What is asked of a model: some inputs, each as if it came alone, with the same options."""

    kind: Kind
    task: str
    inputs: list[Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Equal where two calls may share a batch."""
        return json.dumps([self.kind, self.task, self.options], sort_keys=True)


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that one worker of a model will take, and how many its device has free."""

    source: str
    device: str
    weights: int
    caches: int
    free: int


# To a worker.


@dataclass(frozen=True)
class Submit:
    """A part of a request."""

    id: int
    part: int
    call: Call


@dataclass(frozen=True)
class Cancel:
    """Nobody waits for this request any more."""

    id: int


# From a worker, in lists: what one batch or one step has given.


@dataclass(frozen=True)
class WorkerLoaded:
    info: ModelInfo


@dataclass(frozen=True)
class NotLoaded:
    """The worker ends after this."""

    message: str


@dataclass(frozen=True)
class Answer:
    """The results of a part, one for each input, and the tokens that were read for them."""

    id: int
    part: int
    results: list[Any]
    tokens: int = 0


@dataclass(frozen=True)
class WrittenToken:
    """A token as it is told to clients: its text alone may be a piece of a character."""

    id: int
    text: str
    logprob: float | None
    special: bool = False
    top: tuple[tuple[int, str, float], ...] = ()  # id, text, logprob; likeliest first


@dataclass(frozen=True)
class WrittenText:
    """What was added to one of the texts of a part."""

    id: int
    part: int
    index: int  # which of the n texts
    text: str
    tokens: tuple[WrittenToken, ...]
    prompt_tokens: int
    finish: Finish | None = None  # the text's last
    stop_string: str | None = None  # that ended it


@dataclass(frozen=True)
class Fault:
    """Why a part has no answer. 422: what was asked for cannot be; 500: the model has failed."""

    id: int
    part: int
    status: int
    message: str


@dataclass(frozen=True)
class Batched:
    """What a batch was: for metrics."""

    kind: Kind
    rows: int
    seconds: float


FromWorker = WorkerLoaded | NotLoaded | Answer | WrittenText | Fault | Batched
ToWorker = Submit | Cancel
