"""Edits of a trace: some parts put out, and what the model says then, beside what it said before.

T places, V choices.
"""

import json
from collections.abc import Iterator
from time import monotonic
from typing import Any, Literal

import torch
from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from torch import Tensor

from glassformer.inspect.edits import Edits
from glassformer.inspect.lens import scores
from glassformer.inspect.record import record
from glassformer.inspect.switches import off, python_of, switches

from .answers import Answers, divergence
from .desk import Busy, Studio
from .traces import Trace

WRITTEN = 40  # tokens: an edited model may never end by itself
SHOWN = 12  # choices of one place
PATIENCE = 120.0  # seconds that trying every head may take


class Order(BaseModel):
    """What is to be put out; `place` is where Δlogits are wanted, else where most has changed."""

    off: list[str]
    to: Literal["zero", "mean"] = "zero"
    place: int | None = None


class Trial(BaseModel):
    """How heads are put out when every one of them is tried."""

    to: Literal["zero", "mean"] = "zero"


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/editable")
    def editable(trace_id: str) -> list[dict[str, Any]]:
        found = switches(studio.traces[trace_id].loaded.model)
        return [{"name": one.name, "kind": one.kind, "size": one.size} for one in found]

    @routes.post("/traces/{trace_id}/edits")
    def edits(trace_id: str, order: Order) -> dict[str, Any]:
        trace = studio.traces[trace_id]
        with studio.work(), trace.loaded.lock:
            return edited(trace, order)

    @routes.post("/traces/{trace_id}/edits/heads")
    def heads(trace_id: str, trial: Trial) -> StreamingResponse:
        trace = studio.traces[trace_id]
        Answers(trace).model  # noqa: B018 - a model that says nothing is refused before the stream begins
        lines = (json.dumps(line) + "\n" for line in every_head(studio, trace, trial.to))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return routes


def edited(trace: Trace, order: Order) -> dict[str, Any]:
    """Before and after: the scores at one place, how far every place moved, and the answer in the task's words."""
    answers = Answers(trace)
    changes = off(answers.model, order.off, order.to, trace.reading.inputs)
    before, after = answers.scores, run(trace, changes)
    moved = divergence(before, after) if answers.exclusive else None
    place = _place(answers, (before - after).abs().amax(-1) if moved is None else moved, order.place)
    return {
        "off": order.off,
        "to": order.to,
        "side": answers.side,
        "places": answers.places,
        "asked": answers.asked,
        "kl": None if moved is None else moved.tolist(),
        "best": {"before": _best(answers, before), "after": _best(answers, after)},
        "place": place,
        "changes": _changes(answers, before[place], after[place]),
        "largest": float((after - before).abs().max()),
        "said": {"before": trace.once("said", lambda: said(trace, {})), "after": said(trace, changes)},
        "task": trace.loaded.task,
        "python": python_of(order.off, order.to) if order.off else "",
    }


@torch.inference_mode()
def run(trace: Trace, changes: Edits) -> Tensor:
    """(T, V): the scores of the trace's own inputs, edited."""
    with record(trace.loaded.model, edit=changes):
        outputs = trace.loaded.model(**trace.reading.inputs)
    return scores(outputs)[0].float()


def _place(answers: Answers, moved: Tensor, wanted: int | None) -> int:
    if wanted is None:
        return max(answers.asked, key=lambda place: float(moved[place]))
    if not 0 <= wanted < len(answers.places):
        raise ValueError(f"place={wanted}: the places go from 0 to {len(answers.places) - 1}")
    return wanted


def _best(answers: Answers, scores: Tensor) -> list[str]:
    """The likeliest choice of every place."""
    return [answers.name(number) for number in scores.argmax(-1).tolist()]


def _changes(answers: Answers, before: Tensor, after: Tensor) -> list[dict[str, Any]]:
    """The likeliest choices before and after, then those whose score moved most."""
    delta = after - before
    few = min(SHOWN // 3, len(before))
    chosen = [before.topk(few).indices, after.topk(few).indices, delta.abs().topk(min(SHOWN, len(delta))).indices]
    numbers = list(dict.fromkeys(torch.cat(chosen).tolist()))[:SHOWN]
    old, new = answers.shares(before), answers.shares(after)
    return [
        {
            "id": number,
            "name": answers.name(number),
            "before": float(before[number]),
            "after": float(after[number]),
            "delta": float(delta[number]),
            "share_before": float(old[number]),
            "share_after": float(new[number]),
        }
        for number in numbers
    ]


def said(trace: Trace, changes: Edits) -> Any:
    """What the pipeline of the model's task makes of the text; None where there is no task or no tokenizer."""
    loaded, text = trace.loaded, trace.text
    if loaded.task is None or loaded.tokenizer is None or not isinstance(text, str):
        return None
    written = {"max_new_tokens": _room(trace), "do_sample": False, "num_beams": 1}
    match loaded.task:
        case "text-classification":
            given: Any = text if trace.pair is None else {"text": text, "text_pair": trace.pair}
            options: dict[str, Any] = {"top_k": None}
        case "question-answering":
            given, options = {"question": text, "context": trace.pair or ""}, {}
        case "fill-mask":
            if not Answers(trace).masks:
                return None
            given, options = text, {}
        case "token-classification":
            given, options = text, {}
        case "text-generation" | "translation":
            given, options = text, written
        case _:
            return None
    with record(loaded.model, edit=changes):
        return loaded.pipeline(given, **options)


def _room(trace: Trace) -> int:
    """How many tokens may be written: few, and no more than the model has positions for."""
    config: Any = trace.loaded.model.config
    limit = getattr(config, "n_positions", None)
    read = trace.reading.inputs["input_ids"].shape[1]
    return WRITTEN if limit is None else max(1, min(WRITTEN, limit - read))


def every_head(studio: Studio, trace: Trace, to: Literal["zero", "mean"]) -> Iterator[dict[str, Any]]:
    """One pass for each head, and how far it moves the answer; it stops when nobody listens, or takes too long."""
    answers, start = Answers(trace), monotonic()
    heads = [f"{one.name}:{n}" for one in switches(answers.model) if one.kind == "head" for n in range(one.size or 0)]
    yield {"kind": "start", "total": len(heads)}
    before, places = answers.scores, answers.asked
    done = 0
    for done, name in enumerate(heads, 1):
        try:
            with studio.work(), trace.loaded.lock:
                after = run(trace, off(answers.model, [name], to, trace.reading.inputs))
        except Busy as error:  # the answer has begun, so that its status cannot say it
            yield {"kind": "problem", "status": 429, "detail": str(error)}
            return
        yield {"kind": "head", "name": name, "done": done, **effect(answers, before[places], after[places])}
        if monotonic() - start > PATIENCE:
            break
    yield {"kind": "end", "done": done, "seconds": monotonic() - start}


def effect(answers: Answers, before: Tensor, after: Tensor) -> dict[str, float | None]:
    """KL as a mean over the places asked, and the mean change of the score that was highest."""
    best = before.argmax(-1, keepdim=True)
    kl = float(divergence(before, after).mean()) if answers.exclusive else None
    return {"kl": kl, "delta": float((after.gather(-1, best) - before.gather(-1, best)).mean())}
