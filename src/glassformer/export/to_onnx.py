"""ONNX: graphs of a model with axes of any length, under the names of files and tensors that Optimum gives them.

B batch, T new tokens, P tokens before them, S source length, G heads of keys and values, K head width, D model width.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model, can_generate
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderAlone, Transformer

from .check import ExportComparison, ExportSource, compare_outputs, greedy
from .formats import EXACT
from .onnx_model import DECODER, ENCODER, LATER, MODEL, OnnxModel
from .quantize import quantize_graph
from .traced import (
    TracedDecoder,
    TracedEncoder,
    TracedFirstStep,
    TracedLaterStep,
    TracedSeq2Seq,
    TracedSource,
    TracedStep,
)

OPSET = 18
B, T, P, S = 3, 2, 4, 5  # sizes that a graph is traced with; none of them is in it
Axes = dict[int, str]
BATCH_ONLY: Axes = {0: "batch_size"}
TOKENS: Axes = {0: "batch_size", 1: "sequence_length"}
SOURCE: Axes = {0: "batch_size", 1: "encoder_sequence_length"}
CACHE: Axes = {0: "batch_size", 2: "past_sequence_length"}
SOURCE_CACHE: Axes = {0: "batch_size", 2: "encoder_sequence_length"}


@dataclass(frozen=True)
class Graph:
    """A graph to be: what is traced, with which inputs, which of their axes may be of any length, and their names."""

    module: nn.Module
    inputs: dict[str, Any]
    axes: dict[str, Any]
    names: list[str]


def write(source: ExportSource, folder: Path) -> dict[str, Any]:
    """Write the graphs of a model, in 8 bits if asked for; gives what is to be said of them."""
    details: dict[str, Any] = {"opset": OPSET}
    for name, graph in graphs_of(source).items():
        write_graph(graph, folder / name)
    if source.quant == "int8":  # which would hide an error of the graph: that is looked for first
        exact = compare(source, folder)
        exact.require(EXACT, exact=True)
        details |= {"float32": {"bytes": sum(path.stat().st_size for path in folder.iterdir()), **exact.as_dict()}}
        for path in sorted(folder.glob("*.onnx")):
            details |= quantize_graph(path)
    return details


def compare(source: ExportSource, folder: Path) -> ExportComparison:
    """The outputs of onnxruntime and of the model and, where it writes, the tokens of both."""
    theirs = OnnxModel(source.model, folder)
    found = compare_outputs(source, theirs.outputs)
    if can_generate(as_model(source.model)):
        found.add_texts(greedy(source.model, source.prompts), greedy(theirs, source.prompts))
    return found


def graphs_of(source: ExportSource) -> dict[str, Graph]:
    """The graphs of a model by the names of their files: one, or those that it is decoded with."""
    model, writes = source.model, bool(can_generate(as_model(source.model)))
    tokens: dict[str, Any] = {"input_ids": _ids(B, S), "attention_mask": torch.ones(B, S, dtype=torch.long)}
    axes: dict[str, Any] = {"input_ids": TOKENS, "attention_mask": TOKENS}
    if isinstance(model, Encoder):
        if model.config.has_segments:
            tokens["token_type_ids"], axes["token_type_ids"] = torch.zeros_like(tokens["input_ids"]), TOKENS
        return {MODEL: _graph(TracedEncoder(model, source.pooling), tokens, axes)}
    if isinstance(model, EncoderAlone):
        return {MODEL: _graph(TracedSource(model, source.pooling), tokens, axes)}
    if isinstance(model, CausalDecoder):
        if writes:
            return {MODEL: _step_graph(model)}
        return {MODEL: _graph(TracedDecoder(model), tokens, axes)}
    assert isinstance(model, Transformer), f"a {type(model).__name__} has no graph"
    if writes:
        side = _graph(TracedSource(model.encoder), tokens, axes)
        return {ENCODER: side, DECODER: _first_graph(model), LATER: _later_graph(model)}
    if model.head_name != "text-classification":  # which reads its source twice
        tokens["decoder_input_ids"] = _ids(B, T)
        axes["decoder_input_ids"] = {0: "batch_size", 1: "decoder_sequence_length"}
    return {MODEL: _graph(TracedSeq2Seq(model), tokens, axes)}


def _step_graph(model: CausalDecoder) -> Graph:
    pairs = [_cache(model.cache, P, 2) for _ in model.layers]
    inputs = {"input_ids": _ids(B, T), "attention_mask": torch.ones(B, P + T, dtype=torch.long)}
    axes: dict[str, Any] = {"input_ids": TOKENS, "attention_mask": {0: "batch_size", 1: "total_sequence_length"}}
    axes["past_key_values"] = [(CACHE, CACHE)] * len(pairs)
    names = [*inputs, *(f"past_key_values.{n}.{part}" for n in range(len(pairs)) for part in ("key", "value"))]
    return Graph(TracedStep(model), {**inputs, "past_key_values": pairs}, axes, names)


def _first_graph(model: Transformer) -> Graph:
    inputs = {
        "input_ids": _ids(B, T),
        "encoder_hidden_states": torch.randn(B, S, model.encoder.embeddings.token.embedding_dim),
        "encoder_attention_mask": torch.ones(B, S, dtype=torch.long),
    }
    axes = {"input_ids": TOKENS, "encoder_hidden_states": SOURCE, "encoder_attention_mask": SOURCE}
    return _graph(TracedFirstStep(model), inputs, axes)


def _later_graph(model: Transformer) -> Graph:
    layers = range(len(model.decoder.layers))
    inputs = {"input_ids": _ids(B, T), "encoder_attention_mask": torch.ones(B, S, dtype=torch.long)}
    past = [(*_cache(model.cache, P, 2), *_cache(model.cache, S, 2)) for _ in layers]
    axes: dict[str, Any] = {"input_ids": TOKENS, "encoder_attention_mask": SOURCE}
    axes["past_key_values"] = [(CACHE, CACHE, SOURCE_CACHE, SOURCE_CACHE)] * len(past)
    parts = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
    names = [*inputs, *(f"past_key_values.{number}.{part}" for number in layers for part in parts)]
    return Graph(TracedLaterStep(model), {**inputs, "past_key_values": past}, axes, names)


def _graph(module: nn.Module, inputs: dict[str, Any], axes: dict[str, Any]) -> Graph:
    return Graph(module, inputs, axes, list(inputs))


def _ids(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long)


def _cache(heads_and_width: tuple[int, int], length: int, count: int) -> tuple[Tensor, ...]:
    heads, width = heads_and_width
    return tuple(torch.randn(B, heads, length, width) for _ in range(count))


def write_graph(graph: Graph, path: Path) -> None:
    """Trace a graph and write it; beyond what one file may hold, its weights stand beside it."""
    with torch.inference_mode():
        outputs = list(graph.module(**graph.inputs))
    with quietly():
        program = torch.onnx.export(
            graph.module.eval(),
            (),
            kwargs=graph.inputs,
            dynamo=True,
            dynamic_shapes=graph.axes,
            input_names=graph.names,
            output_names=outputs,
            opset_version=OPSET,
            verbose=False,
        )
        program.save(path)


@contextmanager
def quietly() -> Iterator[None]:
    """Without what torch's exporter says of packages that it looked for, and warns of in its own code."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
