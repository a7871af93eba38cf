"""The tensors of a trace: a list of them all, slices of one, and a whole board pooled into one picture."""

import io
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
import torch
from fastapi import APIRouter, Query, Response
from numpy.typing import NDArray
from torch import Tensor

from glassformer.view.colours import ColourScale
from glassformer.web.safe import SafeJSONResponse

from .app_state import Missing, Studio
from .traces import Trace

DTYPES = {"f32": "<f4", "f16": "<f2"}
BINARY = "application/octet-stream"
Side = Annotated[int, Query(ge=1, le=512)]


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/tensors")
    def listed(trace_id: str) -> SafeJSONResponse:
        trace = studio.traces[trace_id]
        with studio.work():
            return SafeJSONResponse(trace.once("tensors", lambda: entries(trace)))

    @routes.get("/traces/{trace_id}/tensors/{name:path}")
    def sliced(
        trace_id: str,
        name: str,
        indices: Annotated[str, Query(alias="slice")] = "",
        dtype: Literal["f32", "f16", "u8"] = "f32",
        form: Annotated[Literal["raw", "npy"], Query(alias="format")] = "raw",
        scale: str | None = None,
        minus: str | None = None,
    ) -> Response:
        values = piece(studio.traces[trace_id], name, indices)
        if minus is not None:
            values = less(values, piece(studio.traces[minus], name, indices), name)
        return raw(values, dtype, scale) if form == "raw" else download(f"{name}.npy", np.save, values)

    @routes.get("/traces/{trace_id}/mosaic")
    def mosaic(trace_id: str, board: str, side: Side = 64, minus: str | None = None) -> Response:
        with studio.work():
            other = None if minus is None else studio.traces[minus]
            tiles, scales = pooled(studio.traces[trace_id], board, side, other)
        headers = {"X-Shape": ",".join(map(str, tiles.shape)), "X-Reach": ",".join(repr(one.high) for one in scales)}
        return Response(tiles.tobytes(), media_type=BINARY, headers=headers)

    @routes.get("/traces/{trace_id}/npz")
    def archive(trace_id: str, names: Annotated[list[str], Query()]) -> Response:
        trace = studio.traces[trace_id]
        with studio.work():
            values = {name: array(found(trace, name)) for name in names}
            return download(f"{trace.loaded.name}.npz", np.savez_compressed, **values)

    return routes


def entries(trace: Trace) -> list[dict[str, Any]]:
    """Everything that can be looked at, in the order of computation: what modules gave, outputs, weights."""
    rows = [(name, value, f'seen["{name}"]', "activation") for name, value in trace.seen.items()]
    rows += [(f"outputs.{name}", value, f"outputs.{name}", "output") for name, value in trace.outputs.items()]
    weights = trace.loaded.model.named_parameters()
    rows += [(name, value, f'model.get_parameter("{name}")', "weight") for name, value in weights]
    return [
        {"name": name, "kind": kind, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        | {"bytes": value.nbytes, "python": python, **statistics(value)}
        for name, value, python, kind in rows
    ]


@torch.inference_mode()
def statistics(value: Tensor) -> dict[str, float | None]:
    if value.numel() == 0:
        return dict.fromkeys(("min", "max", "mean", "std"))
    wide = value.detach().float()
    low, high = torch.aminmax(wide)
    std, mean = torch.std_mean(wide, correction=0)
    found = {"min": low, "max": high, "mean": mean, "std": std}
    return {name: float(one) for name, one in found.items()}


def found(trace: Trace, name: str) -> Tensor:
    """A tensor by the name it is listed under."""
    if name in trace.seen:
        return trace.seen[name]
    edited: dict[str, Tensor] = trace.kept.get("edited", {})  # as it was edited last
    between: dict[str, Tensor] = trace.kept.get("flow_values", {})  # residuals and the like, which no module gives
    of, _, output = name.partition(".")
    outputs = {"outputs": trace.outputs, "edited": edited, "flow": between}.get(of, {})
    if output in outputs:
        return outputs[output]
    weights = dict(trace.loaded.model.named_parameters(remove_duplicate=False))
    if name in weights:
        return weights[name].detach()
    raise Missing(f"this trace has no tensor {name!r}; GET …/tensors lists what it has")


def array(value: Tensor) -> NDArray[Any]:
    """As numpy knows it; it has no bfloat16."""
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def piece(trace: Trace, name: str, indices: str) -> NDArray[np.floating]:
    """A slice in numpy's words: "0,3,:,10:20"; what is left away at the end is taken whole."""
    value = found(trace, name)
    parts = [part.strip() for part in indices.split(",")] if indices.strip() else []
    try:
        index = tuple(one_axis(part) for part in parts)
        return array(value[index].float())
    except (ValueError, IndexError):
        raise ValueError(
            f"the slice {indices!r} does not fit {name!r} of shape {tuple(value.shape)}; e.g. 0,:,0:5"
        ) from None


def one_axis(part: str) -> int | slice:
    if ":" not in part:
        return int(part)
    ends = [int(end) if end else None for end in part.split(":")]
    if len(ends) != 2:
        raise ValueError(part)
    return slice(*ends)


def raw(values: NDArray[Any], dtype: str, scale: str | None) -> Response:
    """Little-endian numbers, or one byte each with the scale they are steps of."""
    shape = {"X-Shape": ",".join(map(str, values.shape))}
    if dtype != "u8":
        return Response(values.astype(DTYPES[dtype]).tobytes(), media_type=BINARY, headers=shape)
    found = scale_of(scale, values)
    limits = {"X-Low": repr(found.low), "X-High": repr(found.high), "X-Root": str(int(found.root))}
    return Response(found.steps(values).tobytes(), media_type=BINARY, headers=shape | limits)


def less(values: NDArray[Any], others: NDArray[Any], name: str) -> NDArray[Any]:
    if values.shape != others.shape:
        raise ValueError(f"{name!r} is {values.shape} here and {others.shape} there: they cannot be subtracted")
    with np.errstate(invalid="ignore"):  # ∞ - ∞
        found: NDArray[Any] = values - others
    return found


def scale_of(text: str | None, values: NDArray[Any]) -> ColourScale:
    """The scale "low,high,root", or one as far as the values go, with zero in the middle if there are some below."""
    if text is not None:
        try:
            low, high, root = (float(part) for part in text.split(","))
            return ColourScale(low, high, bool(root))
        except ValueError:
            raise ValueError(f"scale is low,high,root, e.g. 0,1,1, not {text!r}") from None
    values = values[np.isfinite(values)]
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    reach = max(-low, high)
    low, high = (-reach, reach) if low < 0 else (0.0, reach)
    return ColourScale(low, high if high > low else low + 1.0)


def pooled(
    trace: Trace, name: str, side: int, other: Trace | None = None
) -> tuple[NDArray[np.uint8], list[ColourScale]]:
    """Every matrix of a board in at most side × side cells, (R, C, h, w): each the value furthest from zero.

    As colour steps of the scales of its C columns; differences are small, so theirs reach as far as the largest does.
    """
    entry = next((one for one in trace.kept["boards"] if one["name"] == name), None)
    if entry is None:
        there = ", ".join(one["name"] for one in trace.kept["boards"]) or "none"
        raise Missing(f"there is no board {name!r} here; there are: {there}")
    rows, columns, high, wide = entry["shape"]
    down, across = math.ceil(high / side), math.ceil(wide / side)
    cells = np.empty((rows * columns, math.ceil(high / down), math.ceil(wide / across)), np.float32)
    for place, cell in enumerate(entry["cells"]):
        values = piece(trace, cell["tensor"], cell["slice"])
        if other is not None:
            values = less(values, piece(other, cell["tensor"], cell["slice"]), cell["tensor"])
        cells[place] = furthest(values, down, across)
    grid = cells.reshape(rows, columns, *cells.shape[1:])
    scales = [ColourScale(*one) if other is None else around(grid[:, at]) for at, one in enumerate(entry["scales"])]
    return np.stack([scale.steps(grid[:, at]) for at, scale in enumerate(scales)], axis=1), scales


def around(values: NDArray[Any]) -> ColourScale:
    """A scale with zero in the middle that holds all values that are numbers."""
    reach = float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    return ColourScale(-reach, reach)


def furthest(values: NDArray[Any], down: int, across: int) -> NDArray[Any]:
    """Of every down × across cells the value furthest from zero, so that no strong one is lost."""
    high, wide = values.shape

    def reduced(how: np.ufunc) -> NDArray[Any]:  # rows first: they lie together in memory
        rows = how.reduceat(values, np.arange(0, high, down), axis=0)
        return how.reduceat(rows, np.arange(0, wide, across), axis=1)

    top = reduced(np.maximum)
    if values.min(initial=0.0) >= 0:  # weights of attention: half of the work
        return top
    low = reduced(np.minimum)
    return np.where(-low > top, low, top)


def download(name: str, write: Callable[..., None], *values: object, **named: object) -> Response:
    """A file of this name; programs that know only ASCII see it with the other letters replaced."""
    file, plain = io.BytesIO(), re.sub(r"[^a-zA-Z0-9._-]", "_", name)
    write(file, *values, **named)
    kept = {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(file.getvalue(), media_type=BINARY, headers=kept)
