"""The face of OpenAI's API, base /v1: models, embeddings, completions and chat, as its official client asks."""

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from .errors import Problem
from .fields import check_count, check_inputs, within
from .huggingface import ModelId, encoded, json_response, shortened
from .limits import Limits
from .messages import Call, WrittenText, WrittenToken
from .openai_schema import (
    ChatMessage,
    ChatReply,
    ChatRequest,
    CompletionReply,
    CompletionRequest,
    EmbeddingReply,
    EmbeddingRequest,
    ModelCard,
    ModelList,
    WritingRequest,
)
from .served_model import ServedModel
from .service import EMBEDDING, Service, loaded
from .streaming import DONE, EventStream, event, unless_gone

WRITES = "text-generation"
COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"
MAX_TOKENS = 16  # of a completion that does not say, as OpenAI has it


STREAMED: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["OpenAI"])

    @routes.get("/v1/models")
    async def models() -> ModelList:
        """The models of this server."""
        return ModelList(data=[_card(one) for one in service.models.values()])

    @routes.get("/v1/models/{model_id:path}")
    async def model(model_id: ModelId) -> ModelCard:
        """One model."""
        return _card(service.model(model_id))

    @routes.post("/v1/embeddings", response_class=Response, responses={200: {"model": EmbeddingReply}})
    async def embeddings(body: EmbeddingRequest, request: Request) -> Response:
        """A vector for each text, or for each row of the model's own token ids."""
        return json_response(await unless_gone(request, embedded(service, body)))

    @routes.post(COMPLETION, response_class=Response, responses={200: {"model": CompletionReply, "content": STREAMED}})
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """What follows a prompt, or each of several."""
        return await respond(service, Completion.of(service, body), body, request)

    @routes.post(CHAT, response_class=Response, responses={200: {"model": ChatReply, "content": STREAMED}})
    async def chat(body: ChatRequest, request: Request) -> Response:
        """The next message of a conversation, by a model that has a chat template."""
        return await respond(service, Chat.of(service, body), body, request)

    @routes.post("/models/{model_id:path}/v1/chat/completions", response_class=Response, include_in_schema=False)
    async def chat_of_model(model_id: str, body: ChatRequest, request: Request) -> Response:
        """The same for Hugging Face's client, which names the model in the address."""
        return await respond(service, Chat.of(service, body, model_id), body, request)

    return routes


def _card(model: ServedModel) -> ModelCard:
    return ModelCard(id=model.name, created=model.created, task=None if model.info is None else model.info.task)


async def embedded(service: Service, body: EmbeddingRequest) -> dict[str, Any]:
    model = service.model_for(EMBEDDING, body.model)
    inputs, ids = rows_of(body.input)
    check_inputs(service.limits, inputs, param="input")
    found, tokens = await model.run(Call("embed", EMBEDDING, inputs, {"ids": ids}))
    vectors = [shortened(one, body.dimensions) for one in found]
    embeddings = [encoded(one) for one in vectors] if body.encoding_format == "base64" else vectors
    return {
        "object": "list",
        "model": model.name,
        "data": [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(embeddings)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def rows_of(given: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]) -> tuple[list[Any], bool]:
    """Inputs as a list, and whether they are rows of ids."""
    if isinstance(given, str):
        return [given], False
    if given and isinstance(given[0], int):
        return [list(given)], True
    return list(given), bool(given) and not isinstance(given[0], str)


def settings_of(limits: Limits, body: WritingRequest) -> dict[str, Any]:
    """Generation's own settings of what completions and chat share.

    Without a temperature a text is drawn, as OpenAI does it, by what the model's folder says; 0 takes the best.
    """
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    within(limits, "n", body.n, param="n")
    within(limits, "stop", len(stop), param="stop")
    check_count(limits, len(body.logit_bias or ()), "logit_bias holds", param="logit_bias")
    drawn = body.temperature is None or body.temperature > 0
    settings: dict[str, Any] = {
        "do_sample": drawn,
        "temperature": (body.temperature or None) if drawn else None,
        "top_p": body.top_p if drawn else None,
        "presence_penalty": body.presence_penalty or None,
        "frequency_penalty": body.frequency_penalty or None,
        "stop_strings": [one for one in stop if one] or None,
        "seed": body.seed,
        "num_return_sequences": (body.n or 1) if drawn else 1,
        "sequence_bias": _bias(body.logit_bias),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _bias(given: dict[str, float] | None) -> list[tuple[list[int], float]] | None:
    if not given:
        return None
    if wrong := [name for name in given if not (name.isascii() and name.isdecimal() and len(name) < 10)]:
        raise Problem(400, f"logit_bias has the key {wrong[0][:20]!r}, which is no token's id", param="logit_bias")
    return [([int(name)], value) for name, value in given.items()]


@dataclass
class Usage:
    """Tokens read and written."""

    prompts: dict[int, int]
    written: int = 0

    def count(self, one: WrittenText) -> None:
        self.prompts[one.part] = one.prompt_tokens
        self.written += len(one.tokens)

    def as_dict(self) -> dict[str, int]:
        read = sum(self.prompts.values())
        return {"prompt_tokens": read, "completion_tokens": self.written, "total_tokens": read + self.written}


class Completion:
    """A request for completions, and the shape of what comes of it."""

    object, chunk, prefix = "text_completion", "text_completion", "cmpl"

    def __init__(
        self, model: ServedModel, calls: list[Call], *, n: int, scored: bool, echoes: Sequence[str] = ()
    ) -> None:
        """`n` texts of each call; where it writes one, the best, that is told n times."""
        self.model, self.calls, self.scored, self.echoes = model, calls, scored, echoes
        self.n = n

    @classmethod
    def of(cls, service: Service, body: CompletionRequest) -> "Completion":
        model, limits = service.model_for(WRITES, body.model), service.limits
        prompts, ids = rows_of(body.prompt)
        check_inputs(limits, prompts, param="prompt")
        within(limits, "logprobs", body.logprobs, param="logprobs")
        within(limits, "new_tokens", body.max_tokens, param="max_tokens")
        if body.best_of not in (None, body.n or 1):
            raise Problem(400, f"best_of is {body.best_of} and n {body.n or 1}: leave best_of out", param="best_of")
        if body.echo and (ids or body.logprobs is not None):
            raise Problem(400, "echo is of texts alone, and without logprobs: leave one of them out", param="echo")
        settings = {**settings_of(limits, body), "max_new_tokens": body.max_tokens or MAX_TOKENS}
        if body.logprobs is not None:
            settings |= {"top_logprobs": body.logprobs, "return_dict_in_generate": True}
        calls = [Call("generate", WRITES, [prompt], settings) for prompt in prompts]
        echoes = prompts if body.echo else ()
        return cls(model, calls, n=body.n or 1, scored=body.logprobs is not None, echoes=echoes)

    def choice(self, index: int, pieces: list[WrittenText]) -> dict[str, Any]:
        """A whole text."""
        echo = self.echoes[pieces[0].part] if self.echoes else ""
        return self._choice(index, echo + "".join(one.text for one in pieces), pieces, 0)

    def delta(self, index: int, one: WrittenText, *, first: bool, offset: int) -> dict[str, Any]:
        """A piece of one, after `offset` characters."""
        echo = self.echoes[one.part] if self.echoes and first else ""
        return self._choice(index, echo + one.text, [one], offset)

    def _choice(self, index: int, text: str, pieces: list[WrittenText], offset: int) -> dict[str, Any]:
        logprobs = None
        if self.scored:
            tokens = [token for one in pieces for token in one.tokens]
            logprobs = {
                "tokens": [one.text for one in tokens],
                "token_logprobs": [one.logprob for one in tokens],
                "top_logprobs": [{text: logprob for _, text, logprob in one.top} for one in tokens],
                "text_offset": _offsets(pieces, offset),
            }
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": pieces[-1].finish}

    def begin(self, index: int) -> dict[str, Any] | None:
        """What a stream says of a text before its first token."""
        del index
        return None


def _offsets(pieces: list[WrittenText], offset: int) -> list[int]:
    """Where the text of each token begins, as far as it has one of its own."""
    found = []
    for one in pieces:
        found += [offset] * len(one.tokens)
        offset += len(one.text)
    return found


class Chat(Completion):
    """The same of a conversation."""

    object, chunk, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"

    @classmethod
    def of(cls, service: Service, body: ChatRequest, name: str | None = None) -> "Chat":  # type: ignore[override]
        model, limits = service.model_for(WRITES, name or body.model), service.limits
        if not loaded(model).chat:
            raise Problem(400, f"{model.name} has no chat template: ask it at {COMPLETION}", param="messages")
        within(limits, "logprobs", body.top_logprobs, param="top_logprobs")
        if body.top_logprobs and not body.logprobs:
            raise Problem(400, "top_logprobs needs logprobs: true", param="top_logprobs")
        asked = body.max_completion_tokens or body.max_tokens
        within(limits, "new_tokens", asked, param="max_completion_tokens")
        settings = settings_of(limits, body)
        settings |= {"fill": limits.new_tokens} if asked is None else {"max_new_tokens": asked}
        if body.logprobs:
            settings |= {"top_logprobs": body.top_logprobs or 0, "return_dict_in_generate": True}
        messages = [_message(one) for one in body.messages]
        call = Call("generate", WRITES, [{"messages": messages}], settings)
        return cls(model, [call], n=body.n or 1, scored=bool(body.logprobs))

    def choice(self, index: int, pieces: list[WrittenText]) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(one.text for one in pieces), "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(pieces),
            "finish_reason": pieces[-1].finish,
        }

    def delta(self, index: int, one: WrittenText, *, first: bool, offset: int) -> dict[str, Any]:
        del first, offset
        delta = {"content": one.text} if one.text or self.scored else {}
        return {"index": index, "delta": delta, "logprobs": self._logprobs([one]), "finish_reason": one.finish}

    def begin(self, index: int) -> dict[str, Any]:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, pieces: list[WrittenText]) -> dict[str, Any] | None:
        if not self.scored:
            return None
        return {"content": [_scored(token) for one in pieces for token in one.tokens], "refusal": None}


def _message(one: ChatMessage) -> dict[str, Any]:
    text = one.content if isinstance(one.content, str) else "".join(part.text for part in one.content or ())
    return {"role": one.role, "content": text, **({"name": one.name} if one.name else {})}


def _scored(token: WrittenToken) -> dict[str, Any]:
    def scored(text: str, logprob: float | None) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    return {
        **scored(token.text, token.logprob),
        "top_logprobs": [scored(text, logprob) for _, text, logprob in token.top],
    }


async def respond(service: Service, asked: Completion, body: WritingRequest, request: Request) -> Response:
    """Whole, or as a stream."""
    envelope = {
        "id": f"{asked.prefix}-{request.scope['request_id']}",
        "object": asked.chunk if body.stream else asked.object,
        "created": int(time.time()),
        "model": asked.model.name,
    }
    if not body.stream:
        return json_response({**envelope, **await unless_gone(request, _whole(asked))})
    usage = bool(body.stream_options and body.stream_options.include_usage)
    events = _pieces(asked, envelope, usage=usage)
    return EventStream(events, on_problem=lambda problem: event(problem.openai), seconds=service.limits.deadline)


def _places(asked: Completion, one: WrittenText) -> range:
    """The choices that a piece belongs to: the texts of the first prompt come first, then those of the second."""
    first, written = one.part * asked.n, int(asked.calls[0].options.get("num_return_sequences", 1))
    return range(first, first + asked.n) if written < asked.n else range(first + one.index, first + one.index + 1)


async def _whole(asked: Completion) -> dict[str, Any]:
    found: dict[int, list[WrittenText]] = {}
    usage = Usage({})
    async for one in asked.model.write(asked.calls):
        for index in _places(asked, one):
            found.setdefault(index, []).append(one)
            usage.count(one)
    return {"choices": [asked.choice(index, found[index]) for index in sorted(found)], "usage": usage.as_dict()}


async def _pieces(asked: Completion, envelope: dict[str, Any], *, usage: bool) -> AsyncIterator[bytes]:
    more = {"usage": None} if usage else {}  # null in all chunks but the last, as OpenAI has it
    counted, offsets = Usage({}), dict[int, int]()
    async for one in asked.model.write(asked.calls):
        for index in _places(asked, one):
            counted.count(one)
            first = index not in offsets
            if first and (choice := asked.begin(index)) is not None:
                yield event({**envelope, "choices": [choice], **more})
            if one.text or one.finish or asked.scored or (first and asked.echoes):
                choice = asked.delta(index, one, first=first, offset=offsets.get(index, 0))
                yield event({**envelope, "choices": [choice], **more})
            offsets[index] = offsets.get(index, 0) + len(one.text)
    if usage:
        yield event({**envelope, "choices": [], "usage": counted.as_dict()})
    yield DONE
