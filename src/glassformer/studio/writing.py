"""Texts as they are written: token by token with what else could have stood there, or the beams of a search."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.data.examples import Parallel
from glassformer.generate.choices import Chance, choices
from glassformer.generate.job import Job
from glassformer.generate.prompts import prompt_of, request_of
from glassformer.generate.tree import Tree, growing
from glassformer.jobs.predict import Pipeline
from glassformer.jobs.reading import token_text
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.translation import Translation

Line = dict[str, Any]
ALTERNATIVES = 8
STRATEGIES = {  # what is asked of generate, and which options go with it
    "greedy": ({"num_beams": 1, "do_sample": False}, ()),
    "sample": ({"num_beams": 1, "do_sample": True}, ("temperature", "top_k", "top_p", "seed")),
    "beam": ({"num_beams": 4, "do_sample": False}, ("num_beams",)),
}


def request(options: dict[str, Any]) -> dict[str, Any]:
    """What a strategy and its options mean, in generate's words; several beams give all that they found."""
    asked = dict(options)
    strategy = asked.pop("strategy", "greedy")
    if strategy not in STRATEGIES:
        raise ValueError(f"there is no strategy {strategy!r} here; choose from {', '.join(STRATEGIES)}")
    preset, own = STRATEGIES[strategy]
    for name in asked:
        if name not in (*own, "max_new_tokens"):
            other = next(known for known, (_, names) in STRATEGIES.items() if name in names)
            raise ValueError(f"{name} is for another strategy; choose {other}, or leave {name} out")
    asked = preset | asked
    return asked if asked["num_beams"] == 1 else asked | {"num_return_sequences": asked["num_beams"]}


def written(pipe: Pipeline, text: str, options: dict[str, Any]) -> Iterator[Line]:
    """The lines of a task that writes: tokens or steps, and the texts at the end."""
    job = _job(pipe, text, request(options))
    read: list[int] = job.prompt.written[0].tolist() if isinstance(pipe.task, TextGeneration) else []
    return _beams(pipe, job, read) if job.settings.num_beams > 1 else _tokens(pipe, job, read)


def _job(pipe: Pipeline, text: str, asked: dict[str, Any]) -> Job:
    """What the task itself would ask of generate."""
    model, task, ids, mask = pipe.model, pipe.task, None, None
    if isinstance(task, Translation):
        ids, mask = source(task, text)
        asked = task.request(model, int(mask.sum()), asked)
    tokenizer, prompts = (task.tokenizer, [text]) if ids is None else (None, ids)
    return Job.of(*prompt_of(model, tokenizer, prompts, mask, request_of(model, asked)))


def source(task: Translation, text: str) -> tuple[Tensor, Tensor]:
    """(1, S) ids that a task reads before it writes, and their mask."""
    return task.prompts(task.batch(task.encode([Parallel(text)]), np.array([0])))


def _tokens(pipe: Pipeline, job: Job, read: list[int]) -> Iterator[Line]:
    tokenizer, new, sent = pipe.task.tokenizer, list[int](), ""
    for choice in choices(pipe.model, job, ALTERNATIVES):
        new.append(choice.taken.id)
        text = _text(tokenizer, read, new)
        whole = sent if text.endswith("\ufffd") else text  # else in the middle of a character
        top = [_chance(tokenizer, one) for one in choice.top]
        yield {"kind": "token", **_chance(tokenizer, choice.taken), "piece": whole[len(sent) :], "top": top}
        sent = whole
    yield {"kind": "texts", "texts": [{"text": _text(tokenizer, read, new)}]}


def _text(tokenizer: Any, read: list[int], new: list[int]) -> str:
    """What was written behind the prompt, which words may lean on."""
    before = len(tokenizer.decode(read, skip_special_tokens=True)) if read else 0
    return str(tokenizer.decode([*read, *new], skip_special_tokens=True))[before:]


def _chance(tokenizer: Any, one: Chance) -> Line:
    return {"token": token_text(tokenizer, one.id), "id": one.id, "logprob": one.logprob, "share": one.share}


def _beams(pipe: Pipeline, job: Job, read: list[int]) -> Iterator[Line]:
    """Every step of the search, then what it found, best first, and the way to the best."""
    tokenizer, tree, steps = pipe.task.tokenizer, Tree(), growing(pipe.model, job)
    while True:
        try:
            nodes = next(steps)
        except StopIteration as end:
            found = end.value
            break
        tree.steps.append(nodes)
        told = [vars(node) | {"id": node.token, "token": token_text(tokenizer, node.token)} for node in nodes]
        yield {"kind": "step", "nodes": told}
    tree.best = found.new(0)
    texts = [
        {"text": _text(tokenizer, read, found.new(row)), "score": score}
        for row, score in enumerate(found.scores.tolist())
    ]
    yield {"kind": "texts", "texts": texts, "path": tree.path()}
