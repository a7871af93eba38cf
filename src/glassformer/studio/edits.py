"""Edits of a trace: some parts put out, and what the model says then, beside what it said before.

T places, V choices.
"""

from collections.abc import Iterator
from time import monotonic
from typing import Any, Literal

import torch
from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from torch import Tensor

from glassformer.generate.api import generate
from glassformer.inspect.ablation import ablate, ablation_targets, python_of
from glassformer.inspect.edits import Edits
from glassformer.inspect.record import record
from glassformer.jobs.defaults import TEXT_TO_TEXT
from glassformer.models.contract import as_model, can_generate
from glassformer.web.safe import SafeJSONResponse, dump, one_line

from .answers import TraceAnswers, divergence
from .app_state import Busy, Studio
from .limits import Late
from .results import PredictionRequest, given
from .sizes import held_bytes
from .traces import Trace, outputs_of
from .writing import request

WRITTEN = 40  # tokens: an edited model may never end by itself
SHOWN = 12  # choices of one place
PATIENCE = 120.0  # seconds that trying every head may take


class AblationRequest(BaseModel):
    """What is to be put out; `place` is where Δlogits are wanted, else where most has changed."""

    off: list[str]
    to: Literal["zero", "mean"] = "zero"
    place: int | None = None


class HeadSweepRequest(BaseModel):
    """How heads are put out when every one of them is tried."""

    to: Literal["zero", "mean"] = "zero"


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/editable")
    def editable(trace_id: str) -> list[dict[str, Any]]:
        found = ablation_targets(studio.traces[trace_id].loaded.model)
        return [{"name": one.name, "kind": one.kind, "size": one.size} for one in found]

    @routes.post("/traces/{trace_id}/edits")
    def edits(trace_id: str, order: AblationRequest) -> SafeJSONResponse:
        trace = studio.traces[trace_id]
        with studio.work() as deadline, trace.loaded.lock, deadline.watching(trace.loaded.model):
            studio.traces.reserve(trace, held_bytes(trace.outputs), "an edit")
            return SafeJSONResponse(edited(trace, order))

    @routes.post("/traces/{trace_id}/edits/heads")
    def heads(trace_id: str, trial: HeadSweepRequest) -> StreamingResponse:
        trace = studio.traces[trace_id]
        TraceAnswers(trace).model  # noqa: B018 - a model that says nothing is refused before the stream begins
        lines = (f"{dump(line)}\n" for line in every_head(studio, trace, trial.to))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return routes


def edited(trace: Trace, order: AblationRequest) -> dict[str, Any]:
    """Before and after: the scores at one place, how far every place moved, and the answer in the task's words."""
    answers = TraceAnswers(trace)
    changes = ablate(trace.loaded.model, order.off, order.to, trace.reading.inputs, seen=trace.seen)
    before = answers.scores
    outputs = trace.keep("edited", run(trace, changes) if changes else trace.outputs)
    after = answers.scores_of(outputs)
    moved = divergence(before, after) if answers.exclusive else None
    place = _place(answers, (before - after).abs().amax(-1) if moved is None else moved, order.place)
    return {
        "off": order.off,
        "to": order.to,
        "side": answers.side,
        "places": answers.places,
        "asked": answers.answer_places,
        "kl": None if moved is None else moved.tolist(),
        "best": {"before": _best(answers, before), "after": _best(answers, after)},
        "place": place,
        "changes": _changes(answers, before[place], after[place]),
        "largest": float((after - before).abs().max()),
        "said": _both(trace, changes),
        "task": trace.loaded.task or "text-generation",
        "python": python_of(order.off, order.to) if order.off else "",
    }


@torch.inference_mode()
def run(trace: Trace, changes: Edits) -> dict[str, Tensor]:
    """What the edited model gives for the trace's own inputs."""
    with record(trace.loaded.model, edit=changes):
        return outputs_of(trace.loaded, trace.reading)


def _place(answers: TraceAnswers, moved: Tensor, wanted: int | None) -> int:
    if wanted is None:
        return max(answers.answer_places, key=lambda place: float(moved[place]))
    if not 0 <= wanted < len(answers.places):
        raise ValueError(f"place={wanted}: the places go from 0 to {len(answers.places) - 1}")
    return wanted


def _best(answers: TraceAnswers, scores: Tensor) -> list[str]:
    """The likeliest choice of every place."""
    return [answers.name(number) for number in scores.argmax(-1).tolist()]


def _changes(answers: TraceAnswers, before: Tensor, after: Tensor) -> list[dict[str, Any]]:
    """The likeliest choices before and after, then those whose score moved most."""
    delta = after - before
    few = min(SHOWN // 3, len(before))
    moved = delta.abs() if delta.any() else before
    chosen = [before.topk(few).indices, after.topk(few).indices, moved.topk(min(SHOWN, len(delta))).indices]
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


def _both(trace: Trace, changes: Edits) -> dict[str, Any]:
    before = trace.once("said", lambda: prediction(trace, {}))
    return {"before": before, "after": prediction(trace, changes) if changes else before}


def prediction(trace: Trace, changes: Edits) -> Any:
    """What the model makes of the text in the words of its task, or in ids; None where it has none."""
    loaded, text = trace.loaded, trace.text
    max_new_tokens = _max_new_tokens(trace)
    writes = can_generate(as_model(loaded.model))
    if writes and max_new_tokens < 1:
        return None
    with record(loaded.model, edit=changes):
        if isinstance(text, str):
            call = _pipeline_call(trace, max_new_tokens)
            return None if call is None else loaded.pipeline(call[0], **call[1])
        if not writes:
            return None
        read = trace.reading.inputs["input_ids"]
        ids = generate(loaded.model, None, read, **request({"max_new_tokens": max_new_tokens}))[0].tolist()
        new = ids if as_model(loaded.model).config.is_encoder_decoder else ids[read.shape[1] :]
        return [{"generated_text": " ".join(map(str, new))}]


def _pipeline_call(trace: Trace, max_new_tokens: int) -> tuple[Any, dict[str, Any]] | None:
    """What the pipeline of the model's task is given, and its options; None where it has no words, or no question."""
    loaded, task, few = trace.loaded, trace.loaded.task, {"max_new_tokens": max_new_tokens}
    known: dict[str, dict[str, Any]] = {"text-classification": {}, "token-classification": {}, "text-generation": few}
    known |= {"replaced-token-detection": {}, **dict.fromkeys(TEXT_TO_TEXT, few)}
    if trace.pair:
        known["question-answering"] = {"top_k": 1}
    if loaded.tokenizer is not None and loaded.tokenizer.mask_token_id in trace.reading.tokens["read"].ids:
        known["fill-mask"] = {"top_k": 5}
    if task not in known:
        return None
    question = PredictionRequest(model=loaded.name, inputs=trace.text, pair=trace.pair, options=known[task])
    inputs, options = given(loaded.pipeline, question)
    return inputs, options | ({"return_full_text": False} if task == "text-generation" else {})


def _max_new_tokens(trace: Trace) -> int:
    """How many tokens may be written: few, and no more than the model has positions for."""
    config = as_model(trace.loaded.model).config
    taken = 1 if config.is_encoder_decoder else trace.reading.inputs["input_ids"].shape[1]
    return WRITTEN if config.max_positions is None else min(WRITTEN, config.max_positions - taken)


def every_head(studio: Studio, trace: Trace, to: Literal["zero", "mean"]) -> Iterator[dict[str, Any]]:
    """One pass for each head, and how far it moves the answer; it stops when nobody listens, or takes too long."""
    answers, start = TraceAnswers(trace), monotonic()
    targets = ablation_targets(trace.loaded.model)
    heads = [f"{one.name}:{number}" for one in targets if one.kind == "head" for number in range(one.size or 0)]
    yield {"kind": "start", "total": len(heads)}
    before, places = answers.scores, answers.answer_places
    done = 0
    for done, name in enumerate(heads, 1):
        try:
            with studio.work() as deadline, trace.loaded.lock, deadline.watching(trace.loaded.model):
                given = run(trace, ablate(trace.loaded.model, [name], to, trace.reading.inputs, seen=trace.seen))
            after = answers.scores_of(given)
        except (Busy, Late) as error:  # the answer has begun, so that its status cannot say it
            yield {"kind": "problem", "status": 429 if isinstance(error, Busy) else 422, "detail": one_line(error)}
            return
        yield {"kind": "head", "name": name, "done": done, **effect(answers, before[places], after[places])}
        if monotonic() - start > PATIENCE:
            break
    yield {"kind": "end", "done": done, "seconds": monotonic() - start}


def effect(answers: TraceAnswers, before: Tensor, after: Tensor) -> dict[str, float | None]:
    """KL as a mean over the places asked, and the mean change of the score that was highest."""
    best = before.argmax(-1, keepdim=True)
    kl = float(divergence(before, after).mean()) if answers.exclusive else None
    return {"kl": kl, "delta": float((after.gather(-1, best) - before.gather(-1, best)).mean())}
