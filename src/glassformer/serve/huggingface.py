"""The face of Hugging Face's inference API: POST /models/{id}, with the task of the model, as InferenceClient asks."""

import base64
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from .errors import Problem
from .fields import (
    Count,
    Direction,
    Flag,
    Number,
    Seed,
    Strict,
    Text,
    check_count,
    check_inputs,
    check_prompt_name,
    side_of,
    within,
)
from .limits import Limits
from .messages import Call, WrittenText
from .served_model import ServedModel
from .service import EMBEDDING, Service, check_task, known_task, loaded, model_info
from .streaming import EventStream, event, unless_gone

ModelId = Annotated[str, Path(description="a model of /v1/models")]
SIMILARITY, FEATURES, WRITES = "sentence-similarity", "feature-extraction", "text-generation"
ZERO_SHOT, MASKS, ANSWERS = "zero-shot-classification", "fill-mask", "question-answering"
SEQ2SEQ = ("translation", "summarization", "text2text-generation")
DEFAULTS: dict[str, dict[str, Any]] = {  # as the hosted API has them
    "text-classification": {"top_k": None},
    "token-classification": {"aggregation_strategy": "simple"},
}
FINISH = {"length": "length", "stop": "eos_token"}


class Question(Strict):
    question: Text
    context: Text


class SimilarityInputs(Strict):
    source_sentence: Text
    sentences: Annotated[list[Text], Field(min_length=1)]


class TextPair(Strict):
    text: Text
    text_pair: Text | None = None


Input = Text | Question | SimilarityInputs | TextPair


class InferenceRequest(Strict):
    """`parameters` are those of the task's pipeline or of generation; those of feature-extraction stand at the root."""

    inputs: Input | list[Input]
    parameters: dict[str, Any] | None = None
    stream: Flag | None = None
    options: dict[str, Any] | None = Field(None, description="of the hosted API; without effect here")
    normalize: Flag | None = Field(None, description="feature-extraction: to length 1; by default as the model says")
    truncate: Flag | None = Field(None, description="feature-extraction: cut a text that is too long; default true")
    truncation_direction: Direction | None = Field(None, description="feature-extraction: where a text is cut")
    prompt_name: Text | None = None
    dimensions: Count | None = Field(None, description="feature-extraction: the first so many numbers of a vector")
    encoding_format: Literal["float", "base64"] | None = None


class WritingParameters(Strict):
    """The parameters of text-generation."""

    max_new_tokens: Count | None = None
    do_sample: Flag | None = None
    temperature: Number | None = Field(None, gt=0)
    top_k: Count | None = None
    top_p: Number | None = Field(None, gt=0, le=1)
    typical_p: Number | None = Field(None, gt=0, le=1)
    repetition_penalty: Number | None = Field(None, gt=0)
    frequency_penalty: Number | None = Field(None, ge=-2, le=2)
    presence_penalty: Number | None = Field(None, ge=-2, le=2)
    seed: Seed | None = None
    stop: list[Text] | None = None
    num_return_sequences: Count | None = None
    return_full_text: Flag | None = None
    details: Flag | None = None
    top_n_tokens: Count | None = None
    truncate: Count | None = Field(None, description="read the last so many tokens of the prompt")
    decoder_input_details: Flag | None = Field(None, description="refused, where it is true")
    watermark: Flag | None = Field(None, description="refused, where it is true")
    best_of: Count | None = Field(None, description="refused, where it is more than 1")
    adapter_id: Text | None = Field(None, description="refused")
    grammar: dict[str, Any] | None = Field(None, description="refused")


REFUSED = {  # what text-generation-inference can do, and this server cannot
    "decoder_input_details": "the tokens of a prompt are not scored here",
    "watermark": "texts are not marked here",
    "best_of": "of several texts all are given here (num_return_sequences)",
    "adapter_id": "models are served as they are, without adapters",
    "grammar": "texts are written without a grammar here",
}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["Hugging Face"])

    @routes.get("/models/{model_id:path}/info")
    async def info(model_id: ModelId) -> dict[str, Any]:
        """What a model is, and the server's limits."""
        return {**model_info(service.model(model_id)), "limits": service.info()["limits"]}

    @routes.get("/models/{model_id:path}/health")
    async def health(model_id: ModelId) -> dict[str, str]:
        """200 when the model answers, else 503."""
        loaded(model := service.model(model_id))
        if not model.ready:
            raise model.unready()
        return {"status": "ok"}

    @routes.post("/models/{model_id:path}/pipeline/{task}", response_class=Response)
    async def pipeline(model_id: ModelId, task: str, body: InferenceRequest, request: Request) -> Response:
        """The same for another task that the model can do, as feature-extraction and sentence-similarity."""
        return await answer(service, service.model(model_id), known_task(task), body, request)

    @routes.post("/models/{model_id:path}", response_class=Response)
    async def infer(model_id: ModelId, body: InferenceRequest, request: Request) -> Response:
        """What the model's task says of the inputs, in the shapes of Hugging Face's inference API."""
        model = service.model(model_id)
        return await answer(service, model, loaded(model).task, body, request)

    return routes


async def answer(service: Service, model: ServedModel, task: str, body: InferenceRequest, request: Request) -> Response:
    if task in (EMBEDDING, FEATURES) and isinstance(body.inputs, SimilarityInputs):
        task = SIMILARITY
    check_task(model, task)
    inputs = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    check_inputs(service.limits, inputs, param="inputs")
    if task == WRITES:
        return await written(service, model, body, request)
    if body.stream:
        raise Problem(400, f"{task} is not written token by token: leave stream out", param="stream")
    pooled = task == EMBEDDING or loaded(model).task == EMBEDDING
    if task in (EMBEDDING, FEATURES):
        call = embedding_call(body, inputs, pooled=pooled)
    else:
        call = Call("predict", task, [_plain(one) for one in inputs], _parameters(service.limits, task, body))
        check_work(service.limits, task, call)
    results, _ = await unless_gone(request, model.run(call))
    if call.kind == "embed":
        results = vectors(results, body) if pooled else [one[None] for one in results]
    return json_response(shaped(task, results, single=not isinstance(body.inputs, list)))


def json_response(value: object) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


def _plain(one: Input) -> Any:
    return one if isinstance(one, str) else one.model_dump(exclude_none=True)


def _parameters(limits: Limits, task: str, body: InferenceRequest) -> dict[str, Any]:
    """The options of the task's pipeline; generate_parameters are among them. None is left out."""
    given = {**(body.parameters or {})}
    inner = given.pop("generate_parameters", None) or {}
    if not isinstance(inner, dict):
        raise Problem(400, "generate_parameters is no object of names and values", param="generate_parameters")
    asked = {name: value for name, value in {**given, **inner}.items() if value is not None}
    for name, limit in {"num_beams": "n", "num_return_sequences": "n", "max_new_tokens": "new_tokens"}.items():
        value = asked.get(name)
        if isinstance(value, int):
            within(limits, limit, value, param=name)
    if task in SEQ2SEQ and isinstance(asked.get("max_length"), int):
        within(limits, "new_tokens", asked["max_length"], param="max_length")
    if task in (MASKS, ANSWERS) and isinstance(asked.get("top_k"), int):
        within(limits, "top_k", asked["top_k"], param="top_k")
    for name, value in asked.items():
        if isinstance(value, list | dict):
            check_count(limits, len(value), f"{name} holds", param=name)
    return {**DEFAULTS.get(task, {}), **asked}


def check_work(limits: Limits, task: str, call: Call) -> None:
    """Refuse what is many inputs by another name: the sentences of comparisons, and each text with each label."""
    if task == SIMILARITY:
        sentences = sum(len(one["sentences"]) for one in call.inputs if isinstance(one, dict) and "sentences" in one)
        check_count(limits, sentences, "sentences holds", param="sentences")
    if task == ZERO_SHOT:
        labels, template = call.options.get("candidate_labels", ()), str(call.options.get("hypothesis_template", ""))
        count = labels.count(",") + 1 if isinstance(labels, str) else len(labels) if isinstance(labels, list) else 1
        named = f"{len(call.inputs):,} texts with {count:,} candidate_labels each are"
        check_count(limits, count * len(call.inputs), named, param="candidate_labels")
        size = count * (sum(map(len, map(str, call.inputs))) + len(template) * len(call.inputs))
        if size > (most := limits.body_bytes):
            message = f"{named} {size:,} characters to read, and a request may hold {most:,}"
            raise Problem(413, message, param="candidate_labels")


def embedding_call(body: InferenceRequest, inputs: list[Any], *, pooled: bool) -> Call:
    """Vectors of texts; of a model that was not made for them, those of their tokens."""
    if any(not isinstance(one, str) for one in inputs):
        raise Problem(400, "an embedding is of a text, or of a list of texts", param="inputs")
    check_prompt_name(body.prompt_name)
    for name in () if pooled else ("normalize", "dimensions", "encoding_format"):
        if getattr(body, name) not in (None, False, "float"):
            raise Problem(422, f"this model gives a vector of each token: leave {name} out", param=name)
    if body.parameters:
        name = next(iter(body.parameters))
        raise Problem(422, f"{FEATURES} has no parameter {name!r}; what it has stands at the root", param=name)
    truncate = True if body.truncate is None else body.truncate
    options = {"truncate": truncate, **side_of(body.truncation_direction)}
    return Call(
        "embed", EMBEDDING, inputs, {**options, "normalize": body.normalize} if pooled else {**options, "pooled": False}
    )


def vectors(found: list[Any], body: InferenceRequest) -> list[Any]:
    cut = [shortened(one, body.dimensions, normalize=body.normalize is not False) for one in found]
    return [encoded(one) for one in cut] if body.encoding_format == "base64" else cut


def shortened(vector: Any, dimensions: int | None, *, normalize: bool = True) -> Any:
    """The first numbers of a vector, of length 1 again."""
    if dimensions is None:
        return vector
    if dimensions > len(vector):
        message = f"dimensions is {dimensions}, and the model's vectors have {len(vector)} numbers"
        raise Problem(422, message, param="dimensions")
    part = vector[:dimensions]
    return part / max(float(np.linalg.norm(part)), 1e-12) if normalize else part


def encoded(vector: object) -> str:
    """A vector in base64: float32, little-endian."""
    return base64.b64encode(np.ascontiguousarray(vector, "<f4").tobytes()).decode()


def shaped(task: str, results: list[Any], *, single: bool) -> Any:
    """Results as the hosted API gives them."""
    if task == "zero-shot-classification":
        results = [
            [{"label": label, "score": score} for label, score in zip(one["labels"], one["scores"], strict=True)]
            for one in results
        ]
    if task in SEQ2SEQ:
        return [text for one in results for text in (one if isinstance(one, list) else [one])]
    return results[0] if single and task != "text-classification" else results


async def written(service: Service, model: ServedModel, body: InferenceRequest, request: Request) -> Response:
    """What a language model makes of prompts, whole or token by token."""
    several = isinstance(body.inputs, list)
    prompts = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    if any(not isinstance(one, str) for one in prompts):
        raise Problem(400, "text-generation goes on from a text, or from a list of texts", param="inputs")
    asked = WritingParameters.model_validate(body.parameters or {})
    settings = settings_of(service.limits, asked, scored=bool(body.stream or asked.details))
    calls = [Call("generate", WRITES, [prompt], settings) for prompt in prompts]
    if body.stream:
        if several or (asked.num_return_sequences or 1) > 1:
            raise Problem(400, "a stream is one text of one prompt", param="stream")
        return EventStream(stream(model, calls[0], asked), on_problem=broken, seconds=service.limits.deadline)
    texts = await unless_gone(request, collected(model, calls, asked))
    return json_response(texts if several else texts[0])


def settings_of(limits: Limits, asked: WritingParameters, *, scored: bool) -> dict[str, Any]:
    """Generation's own settings; `scored`: with the log-probability of each token."""
    within(limits, "n", asked.num_return_sequences, param="num_return_sequences")
    within(limits, "logprobs", asked.top_n_tokens, param="top_n_tokens")
    within(limits, "stop", len(asked.stop or ()), param="stop")
    within(limits, "new_tokens", asked.max_new_tokens, param="max_new_tokens")
    for name, why in REFUSED.items():
        if getattr(asked, name) and not (name == "best_of" and asked.best_of == 1):
            raise Problem(422, f"{why}: leave {name} out", param=name)
    own = {"stop", "return_full_text", "details", "top_n_tokens", *REFUSED}
    settings: dict[str, Any] = asked.model_dump(exclude_none=True, exclude=own)
    if (asked.num_return_sequences or 1) > 1 and asked.do_sample is None:
        settings["do_sample"] = True
    if asked.stop:
        settings["stop_strings"] = asked.stop
    if asked.top_n_tokens:
        settings["top_logprobs"] = asked.top_n_tokens
    if scored:
        settings["return_dict_in_generate"] = True
    return settings


async def collected(model: ServedModel, calls: list[Call], asked: WritingParameters) -> list[list[dict[str, Any]]]:
    """Of each prompt its texts."""
    count = asked.num_return_sequences or 1
    found: dict[tuple[int, int], list[WrittenText]] = {}
    async for one in model.write(calls):
        found.setdefault((one.part, one.index), []).append(one)
    prefix = [call.inputs[0] if asked.return_full_text else "" for call in calls]

    def generated(part: int, index: int) -> dict[str, Any]:
        pieces = found[part, index]
        text = {"generated_text": prefix[part] + "".join(one.text for one in pieces)}
        return {**text, "details": details(pieces, asked)} if asked.details else text

    return [[generated(part, index) for index in range(count)] for part in range(len(calls))]


def details(pieces: list[WrittenText], asked: WritingParameters) -> dict[str, Any]:
    tokens = [token for one in pieces for token in one.tokens]
    details: dict[str, Any] = {
        "finish_reason": finish_reason(pieces[-1]),
        "generated_tokens": len(tokens),
        "seed": asked.seed,
        "prefill": [],
        "tokens": [_token(one.id, one.text, one.logprob, special=one.special) for one in tokens],
    }
    if asked.top_n_tokens:
        details["top_tokens"] = [[_token(*other) for other in one.top] for one in tokens]
    return details


def finish_reason(last: WrittenText) -> str:
    return "stop_sequence" if last.stop_string is not None else FINISH[last.finish or "length"]


def _token(id_: int, text: str, logprob: float | None, *, special: bool = False) -> dict[str, Any]:
    return {"id": id_, "text": text, "logprob": logprob, "special": special}


async def stream(model: ServedModel, call: Call, asked: WritingParameters) -> AsyncIterator[bytes]:
    """Token by token; the last event has the whole text."""
    text, count = call.inputs[0] if asked.return_full_text else "", 0
    async for one in model.write([call]):
        (token,) = one.tokens
        text, count = text + one.text, count + 1
        payload: dict[str, Any] = {
            "index": count,
            "token": _token(token.id, one.text, token.logprob, special=token.special),
            "generated_text": None,
            "details": None,
        }
        if asked.top_n_tokens:
            payload["top_tokens"] = [_token(*other) for other in token.top]
        if one.finish is not None:
            ended = {"finish_reason": finish_reason(one), "generated_tokens": count, "seed": asked.seed}
            payload |= {"generated_text": text, "details": {**ended, "input_length": one.prompt_tokens}}
        yield event(payload)


def broken(problem: Problem) -> bytes:
    return event(problem.huggingface)
