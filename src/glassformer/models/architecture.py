"""What an architecture file tells the rest of the project about itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .contract import ModelConfig
from .pretrained import PreTrainedModel


class Op(Enum):
    """What happens to a tensor between their file and our module."""

    TRANSPOSE = "transpose"  # GPT-2 keeps its linear weights as (in, out)


Row = tuple[str, str | list[str] | None] | tuple[str, str | list[str] | None, Op]
"""(theirs, ours[, op]): `*` is the layer number; `.weight` and `.bias` follow by themselves; a list on the right
splits a fused tensor; None drops. Where several rows name one tensor of ours (tied copies, old names), the first
that is in the file is read, and the first is written."""


@dataclass(frozen=True)
class Head:
    """One way to use an architecture: its class name in `transformers`, and the rows of its own weights."""

    hf_class: str
    weights: Sequence[Row] = ()


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build, load and save a family of models."""

    model_type: str
    config: type[ModelConfig]
    build: Callable[[Any, str | None], PreTrainedModel]  # of a config of its own, as all that follow
    heads: Mapping[str | None, Head]
    weights: Sequence[Row] | Callable[[Any], Sequence[Row]] | None = None  # None: the file uses our own names
    prefix: str = ""  # what `transformers` puts before the body's names once there is a head
    may_be_idle: tuple[str, ...] = ()  # tensors of theirs that some models have no use for
    zero_if_absent: tuple[str, ...] = ()  # tensors of ours that old files may lack
    small: Mapping[str, Any] = field(default_factory=dict)  # sizes that a laptop trains from nothing; empty: never so
    fit_config: Callable[[Any, str | None, set[str]], Any] = field(default=lambda config, _head, _names: config)

    def rows(self, config: ModelConfig) -> Sequence[Row] | None:
        """The weight table of a model's body: the same for every config, or one that follows from it."""
        return self.weights(config) if callable(self.weights) else self.weights
