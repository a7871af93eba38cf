"""torch.export: the padded forward as one graph of torch's own operators, with a batch and texts of any length."""

from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from glassformer.models.contract import as_model
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderAlone, Transformer

from .check import ExportComparison, ExportSource, compare_outputs
from .traced import TracedDecoder, TracedEncoder, TracedSeq2Seq, TracedSource

FILE = "model.pt2"
LONGEST = 2**20  # tokens, where a model has no limit


def write(source: ExportSource, folder: Path) -> dict[str, Any]:
    """Trace the model on one of the batches, and write the graph."""
    batch = max(source.samples.batches, key=lambda one: one["input_ids"].numel())
    limit = as_model(source.model).config.max_positions or LONGEST
    rows, length, target = Dim("batch"), Dim("sequence", max=limit), Dim("target", max=limit)
    shapes = {name: {0: rows, 1: target if name == "decoder_input_ids" else length} for name in batch}
    with torch.no_grad():
        program = torch.export.export(traced(source), (), kwargs=batch, dynamic_shapes=shapes, strict=False)
    content = BytesIO()  # its own writer ends the process where a disk is full
    torch.export.save(program, content)
    (folder / FILE).write_bytes(content.getbuffer())
    return {"inputs": list(batch), "max_length": None if limit == LONGEST else limit}


def compare(source: ExportSource, folder: Path) -> ExportComparison:
    """The outputs of the graph as it is read back, and of the model."""
    graph = torch.export.load(folder / FILE).module()
    return compare_outputs(source, lambda batch: graph(**batch))


def traced(source: ExportSource) -> nn.Module:
    """The padded forward of a model over whole texts."""
    match source.model:
        case Encoder() as model:
            return TracedEncoder(model, source.pooling).eval()
        case EncoderAlone() as model:
            return TracedSource(model, source.pooling).eval()
        case CausalDecoder() as model:
            return TracedDecoder(model).eval()
        case Transformer() as model:
            return TracedSeq2Seq(model).eval()
    raise AssertionError(f"a {type(source.model).__name__} has no graph")
