"""Text as a worker writes it: many requests at once by continuous batching, or one beside the other where a model has
no keys and values to batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Protocol

import torch

from glassformer.engine.prepare import prepared
from glassformer.generate.continuous import ContinuousBatch
from glassformer.generate.job import Job
from glassformer.generate.needs import check_needs
from glassformer.generate.pieces import TextPieces
from glassformer.generate.prompts import prompt_of, request_of
from glassformer.generate.requests import GenerationEvent
from glassformer.generate.search import Token, tokens
from glassformer.models.contract import Model, as_generative, as_module, has_attention_decoder
from glassformer.tasks.conversation import Conversation
from glassformer.tasks.text_generation import TextGeneration

from .inference import SETTINGS, Inference, fault_of
from .messages import Fault, Submit, WorkerSpec, WrittenText, WrittenToken

LONGEST = 4096  # tokens that memory is reserved for, of a model that reads more
SCORED = {"return_dict_in_generate", "top_logprobs"}  # settings that tell more of a text
TRUNCATE = "truncate"  # option of a call: read the last so many tokens of a prompt
FILL = "fill"  # option of a call: write until the model's end, or so many tokens, or as many as fit
NO_SCORES = "log-probabilities are told of Transformers alone: leave logprobs out"


class Writer(Protocol):
    """Requests that are written a token at a time."""

    @property
    def idle(self) -> bool: ...

    @property
    def rows(self) -> int:
        """Texts that are written by the next step, about."""
        ...

    def add(self, one: Submit) -> None:
        """Take a request on; one that cannot be carried out is a ValueError."""
        ...

    def cancel(self, request: int) -> None: ...

    def step(self) -> Sequence[WrittenText | Fault]: ...


def writer_of(inference: Inference) -> Writer | None:
    """What writes for a language model; None for any other."""
    if TextGeneration.name not in inference.pipelines:
        return None
    return (ContinuousWriter if has_attention_decoder(inference.model) else StepwiseWriter)(inference)


class Prompts:
    """What a call asks to be written, as the search reads it."""

    def __init__(self, inference: Inference) -> None:
        self.tokenizer, self.longest = inference.tokenizer, longest_text(inference.model, inference.spec)
        self.decode = partial(self.tokenizer.decode, skip_special_tokens=True)

    def read(self, one: Submit) -> tuple[list[int], dict[str, Any]]:
        """The ids of a prompt, and the settings. A prompt is a text, its ids, or a conversation."""
        (given,), options = one.call.inputs, {**one.call.options}
        fill, truncate = options.pop(FILL, None), options.pop(TRUNCATE, None)
        if wrong := [name for name in options if name not in SETTINGS | SCORED]:
            raise ValueError(f"text-generation has no parameter {wrong[0]!r}; it has: {', '.join(sorted(SETTINGS))}")
        if isinstance(given, list):
            ids = given
        elif isinstance(given, Mapping):
            text = Conversation(given["messages"]).prompt(self.tokenizer)
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has written its own
        else:
            (ids,) = self.tokenizer.encode_prompts([given])
        if truncate is not None:
            ids = ids[-truncate:]
        if fill is not None:
            left = fill if self.longest is None else self.longest - len(ids) + 1  # the last token is not read
            options["max_new_tokens"] = max(1, min(fill, left))
        return ids, options


def longest_text(model: Model, spec: WorkerSpec) -> int | None:
    """Tokens of a text that is written, prompt included."""
    own, asked = model.config.max_positions, spec.max_length
    if has_attention_decoder(model):
        return min(own or LONGEST, asked or LONGEST)
    return asked if own is None else min(own, asked or own)


class ContinuousWriter:
    """A step writes a token of every text there is."""

    def __init__(self, inference: Inference) -> None:
        self.inference, self.prompts, self.tokenizer = inference, Prompts(inference), inference.tokenizer
        self.special = {*self.tokenizer.all_special_ids}
        self.text_of = lru_cache(1 << 16)(lambda id_: self.tokenizer.decode([id_]))
        self.taken: dict[tuple[int, int], tuple[Submit, int]] = {}  # with the tokens of its prompt
        self.batch = self._new_batch()

    def _new_batch(self) -> ContinuousBatch:
        spec = self.inference.spec
        longest = longest_text(self.inference.model, spec)
        assert longest is not None
        return ContinuousBatch(as_module(self.inference.model), self.tokenizer, max_rows=spec.rows, max_length=longest)

    @property
    def idle(self) -> bool:
        return self.batch.idle

    @property
    def rows(self) -> int:
        return len(self.batch.rows) or 1

    def add(self, one: Submit) -> None:
        ids, settings = self.prompts.read(one)
        ticket = self.batch.add((one.id, one.part), ids or "", **settings)
        self.taken[one.id, one.part] = one, ticket.prompt_tokens

    def cancel(self, request: int) -> None:
        for key in [key for key in self.taken if key[0] == request]:
            self.batch.cancel(key)
            del self.taken[key]

    def step(self) -> list[WrittenText | Fault]:
        try:
            events = self.batch.step()
        except Exception as error:  # nobody knows what is left of it: all that was begun is lost, and it begins anew
            lost, self.taken, self.batch = self.taken, {}, self._new_batch()
            return [fault_of(one, error) for one, _ in lost.values()]
        messages = [self._message_of(event) for event in events if event.request_id in self.taken]
        alive = self.batch.requests
        self.taken = {key: value for key, value in self.taken.items() if key in alive}
        return messages

    def _message_of(self, event: GenerationEvent) -> WrittenText | Fault:
        one, prompt_tokens = self.taken[event.request_id]  # type: ignore[index] # the key that it was given
        if event.error is not None:
            return Fault(one.id, one.part, 500, event.error)
        finish = event.finish_reason if event.finish_reason in ("stop", "length") else None
        token = () if event.token_id is None else (self._token(event),)
        return WrittenText(one.id, one.part, event.index, event.text, token, prompt_tokens, finish, event.stop_string)

    def _token(self, event: GenerationEvent) -> WrittenToken:
        assert event.token_id is not None
        id_, score = event.token_id, event.score
        top = () if score is None else tuple((other, self.text_of(other), logprob) for other, logprob in score.top)
        logprob = None if score is None else score.logprob
        return WrittenToken(id_, self.text_of(id_), logprob, id_ in self.special, top)


@dataclass(eq=False)
class Stepping:
    """A request of a StepwiseWriter."""

    submit: Submit
    job: Job
    tokens: Iterator[Token]
    pieces: list[TextPieces]
    ids: list[list[int]] = field(default_factory=list)
    running: list[bool] = field(default_factory=list)


class StepwiseWriter:
    """For recurrent language models: each request by itself as gf.stream writes it, a token of every one in turn."""

    def __init__(self, inference: Inference) -> None:
        self.model = as_generative(as_module(inference.model))
        self.prompts, self.tokenizer = Prompts(inference), inference.tokenizer
        self.active: list[Stepping] = []

    @property
    def idle(self) -> bool:
        return not self.active

    @property
    def rows(self) -> int:
        return sum(map(len, (one.pieces for one in self.active)))

    def add(self, one: Submit) -> None:
        ids, settings = self.prompts.read(one)
        settings.pop("return_dict_in_generate", None)
        if settings.get("top_logprobs"):
            raise ValueError(NO_SCORES)
        asked = torch.tensor([ids]) if ids else [""]
        prompt, request = prompt_of(self.model, self.tokenizer, asked, None, request_of(self.model, settings))
        if request.strategy not in ("greedy", "sample"):
            raise ValueError(f"the strategy {request.strategy!r} does not write token by token")
        check_needs(self.model, prompt, request)
        rows = request.num_return_sequences
        job = Job.of(prompt.repeated(rows), request, self.prompts.decode)
        read = prompt.input_ids[0].tolist()
        pieces = [TextPieces(self.prompts.decode, context=read, stops=request.stops) for _ in range(rows)]
        with torch.inference_mode():
            found = tokens(prepared(self.model, rows), job)
        self.active.append(Stepping(one, job, found, pieces, [[] for _ in range(rows)], [True] * rows))

    def cancel(self, request: int) -> None:
        self.active = [one for one in self.active if one.submit.id != request]

    @torch.inference_mode()
    def step(self) -> list[WrittenText | Fault]:
        messages: list[WrittenText | Fault] = []
        for one in list(self.active):
            try:
                messages += self._advance(one)
            except Exception as error:
                messages.append(fault_of(one.submit, error))
                one.running = []
            if not any(one.running):
                self.active.remove(one)
        return messages

    def _advance(self, one: Stepping) -> Iterator[WrittenText]:
        ids, going = next(one.tokens)
        last = len(one.ids[0]) + 1 == one.job.max_new_tokens or one.job.stop.late
        prompt_tokens = one.job.prompt.input_ids.shape[1]
        for index, (token, goes_on) in enumerate(zip(ids.tolist(), going.tolist(), strict=True)):
            if not one.running[index]:
                continue
            one.ids[index].append(token)
            one.pieces[index].push(token)
            one.running[index] = goes_on and not last
            text, stop, finish = one.pieces[index].take(), None, None
            if not one.running[index]:
                rest, stop = one.pieces[index].finish(stopped=not goes_on)
                text, finish = text + rest, "length" if goes_on else "stop"
            written = WrittenToken(token, self.tokenizer.decode([token]), None, token in one.job.settings.ends)
            part = (one.submit.id, one.submit.part, index)
            yield WrittenText(*part, text, (written,), prompt_tokens, finish, stop)  # type: ignore[arg-type]
