"""Texts as they are written: token by token with what else could have stood there, or the beams of a search."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer.data.examples import Parallel
from glassformer.generate.choices import Chance, choices
from glassformer.generate.job import Job
from glassformer.generate.prompts import prompt_of, request_of
from glassformer.generate.tree import Tree, growing
from glassformer.jobs.predict import LANGUAGES, Pipeline
from glassformer.jobs.reading import checked_ids, token_text
from glassformer.models.contract import GenerativeModel, as_generative
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.translation import Translation
from glassformer.text.tokenizer import Tokenizer

from .limits import check_length, within

Line = dict[str, Any]
ALTERNATIVES = 8
STRATEGIES = {  # what is asked of generate, and which options go with it
    "greedy": ({"num_beams": 1, "do_sample": False}, ()),
    "sample": ({"num_beams": 1, "do_sample": True}, ("temperature", "top_k", "top_p", "seed")),
    "beam": ({"num_beams": 4, "do_sample": False}, ("num_beams",)),
}


def request(options: dict[str, Any]) -> dict[str, Any]:
    """What a strategy and its options mean, in generate's words; several beams give all that they found.

    Languages stay what they are.
    """
    settings = dict(options)
    strategy = settings.pop("strategy", "greedy")
    if strategy not in STRATEGIES:
        raise ValueError(f"there is no strategy {strategy!r} here; choose from {', '.join(STRATEGIES)}")
    preset, own = STRATEGIES[strategy]
    for name in settings:
        if name not in (*own, "max_new_tokens", *LANGUAGES):
            other = next(known for known, (_, names) in STRATEGIES.items() if name in names)
            raise ValueError(f"{name} is for another strategy; choose {other}, or leave {name} out")
    settings = preset | settings
    return settings if settings["num_beams"] == 1 else settings | {"num_return_sequences": settings["num_beams"]}


def written(pipe: Pipeline, text: str, options: dict[str, Any]) -> Iterator[Line]:
    """The lines of a task that writes: tokens or steps, and the texts at the end."""
    model, task, settings = as_generative(pipe.model), pipe.task, request(options)
    if isinstance(task, Translation):
        task = task.speaking(*(settings.pop(name, None) for name in LANGUAGES))
        ids, mask = source(task, text)
        job = job_of(model, None, ids, mask, task.request(model, int(mask.sum()), settings), options)
    else:
        job = job_of(model, task.tokenizer, [text], None, settings, options)
    return _lines(model, task.tokenizer, job, whole=isinstance(task, TextGeneration))


def written_ids(module: nn.Module, ids: list[int], options: dict[str, Any]) -> Iterator[Line]:
    """The same for a model without a tokenizer."""
    model = as_generative(module)
    given = checked_ids(module, ids, next(model.parameters()).device)
    return _lines(model, None, job_of(model, None, given, None, request(options), options), whole=False)


def job_of(
    model: GenerativeModel[Any],
    tokenizer: Tokenizer | None,
    prompts: list[str] | Tensor,
    mask: Tensor | None,
    settings: dict[str, Any],
    options: dict[str, Any],
) -> Job:
    """What is asked of generation, within the studio's limits; `options` are what the user himself said of it."""
    prompt, known = prompt_of(model, tokenizer, prompts, mask, request_of(model, settings))
    check_length(prompt.input_ids.shape[1])
    return Job.of(prompt, within(known, prompt.written.shape[1], explicit="max_new_tokens" in options))


def _lines(model: GenerativeModel[Any], tokenizer: Tokenizer | None, job: Job, *, whole: bool) -> Iterator[Line]:
    """With `whole`, new words are read together with the prompt that they lean on."""
    read: list[int] = job.prompt.written[0].tolist() if whole else []
    tell = _beams if job.settings.num_beams > 1 else _tokens
    return tell(model, tokenizer, job, read)


def source(task: Translation, text: str) -> tuple[Tensor, Tensor]:
    """(1, S) ids that a task reads before it writes, and their mask."""
    return task.prompts(task.batch(task.encode([Parallel(text)]), np.array([0])))


def _tokens(model: GenerativeModel[Any], tokenizer: Tokenizer | None, job: Job, read: list[int]) -> Iterator[Line]:
    new, sent = list[int](), ""
    for choice in choices(model, job, ALTERNATIVES):
        new.append(choice.taken.id)
        text = _text(tokenizer, read, new)
        whole = sent if text.endswith("\ufffd") else text  # else in the middle of a character
        top = [_chance(tokenizer, one) for one in choice.top]
        yield {"kind": "token", **_chance(tokenizer, choice.taken), "piece": whole[len(sent) :], "top": top}
        sent = whole
    yield {"kind": "texts", "texts": [{"text": _text(tokenizer, read, new)}]}


def _text(tokenizer: Tokenizer | None, read: list[int], new: list[int]) -> str:
    if tokenizer is None:
        return " ".join(map(str, new))
    before = len(tokenizer.decode(read, skip_special_tokens=True)) if read else 0
    return str(tokenizer.decode([*read, *new], skip_special_tokens=True))[before:]


def _chance(tokenizer: Tokenizer | None, one: Chance) -> Line:
    return {"token": token_text(tokenizer, one.id), "id": one.id, "logprob": one.logprob, "share": one.share}


def _beams(model: GenerativeModel[Any], tokenizer: Tokenizer | None, job: Job, read: list[int]) -> Iterator[Line]:
    """Every step of the search, then what it found, best first, and the way to the best."""
    tree, steps = Tree(), growing(model, job)
    while True:
        try:
            nodes = next(steps)
        except StopIteration as end:
            found = end.value
            break
        tree.steps.append(nodes)
        described = [vars(node) | {"id": node.token, "token": token_text(tokenizer, node.token)} for node in nodes]
        yield {"kind": "step", "nodes": described}
    tree.best = found.new(0)
    texts = [
        {"text": _text(tokenizer, read, found.new(row)), "score": score}
        for row, score in enumerate(found.scores.tolist())
    ]
    yield {"kind": "texts", "texts": texts, "path": tree.path()}
