"""What the tests of exports share: small models of every family as something to export."""

from typing import Any

from torch import nn

from boards import SIZES
from families import CASES, random_model
from glassformer.export.check import ExportSource
from glassformer.export.formats import can_be_traced
from glassformer.export.samples import samples
from glassformer.hub.registry import ARCHITECTURES, skeleton

LAYERS = {"num_layers": 2, "num_decoder_layers": 2}  # of T5, which has six
WINDOWS = {"local_attention": 4, "sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1}


def small(model_type: str, head: str | None, **settings: Any) -> nn.Module:
    """A random model whose windows are shorter than the texts."""
    return random_model(model_type, head, SIZES | LAYERS | WINDOWS | {"num_labels": 3} | settings)


def source_of(model: nn.Module, quant: str = "float32", **beside: Any) -> ExportSource:
    return ExportSource(model, None, samples(model, None), quant, **beside)


def is_traced(model_type: str, head: str | None) -> bool:
    architecture = ARCHITECTURES[model_type]
    return can_be_traced(skeleton(architecture, architecture.config.from_hf({"vocab_size": 9}), head))


TRACED = [case for case in CASES if is_traced(*case)]
