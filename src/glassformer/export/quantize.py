"""ONNX in 8 bits: weights are kept so, activations are made so as they come (dynamic quantisation)."""

import logging
import platform
from pathlib import Path
from typing import Any

from glassformer.files.compiled import processor


def quantize_graph(path: Path) -> dict[str, Any]:
    """Put a graph in 8 bits in the place of one in 32; gives how that was done."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(path)
    del graph.graph.value_info[:]  # shapes of before, which the quantiser does not follow where it changes a node
    target = path.with_name(f"{path.stem}_quantized.onnx")
    log = logging.getLogger()
    before = log.level
    log.setLevel(logging.ERROR)  # it recommends steps for pictures and other kinds of quantisation
    try:
        quantize_dynamic(graph, target, per_channel=True, reduce_range=saturates(), weight_type=QuantType.QInt8)
    finally:
        log.setLevel(before)
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    target.rename(path)
    return {"reduce_range": saturates()}


def saturates() -> bool:
    """Whether sums of 8-bit products overflow 16 bits here: on x86 without VNNI, where weights then get 7 bits."""
    return platform.machine() in ("x86_64", "AMD64") and "vnni" not in processor()
