"""The tree of a beam search: at every step what each beam could go on with, and what was kept, ended or dropped."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack

import torch
from torch import nn

from glassformer.models.contract import GenerativeModel, as_generative
from glassformer.text.tokenizer import Tokenizer

from .beams import NEVER, Group, beam_steps
from .job import Job, SearchResult
from .needs import check_needs
from .options import GenerationOptions
from .prompts import prompt_of, request_of

Fate = Literal["kept", "ended", "dropped"]


@dataclass(frozen=True)
class Node:
    """One way to go on."""

    token: int
    score: float  # the log-probability of the text so far, filters counted
    parent: int | None  # which node of the step before it follows; None after the prompt
    fate: Fate


@dataclass
class Tree:
    """All that one text's beams could choose from, step by step, and the text found in the end."""

    steps: list[list[Node]] = field(default_factory=list)  # best first
    best: list[int] = field(default_factory=list)  # ids of the text found

    def path(self) -> list[int]:
        """The node of each step on the way to the text found."""
        ways: dict[int | None, list[int]] = {None: []}  # by the number of a node of the step before
        for level, nodes in enumerate(self.steps[: len(self.best)]):
            ways = {
                place: [*ways[node.parent], place]
                for place, node in enumerate(nodes)
                if node.parent in ways and node.token == self.best[level]
            }
        return next(iter(ways.values()), [])


def beam_tree(model: nn.Module, tokenizer: Tokenizer, prompt: str, **settings: Unpack[GenerationOptions]) -> Tree:
    """Search with beams (num_beams, in one group) from one prompt, and tell of every step."""
    writer = as_generative(model)
    job = Job.of(*prompt_of(writer, tokenizer, [prompt], None, request_of(writer, {**settings})))
    tree, steps = Tree(), growing(writer, job)
    while True:
        try:
            tree.steps.append(next(steps))
        except StopIteration as end:
            tree.best = end.value.new(0)
            return tree


def growing(model: GenerativeModel[Any], job: Job) -> Generator[list[Node], None, SearchResult]:
    """The steps of a tree as they are taken, and the texts found as what the generator returns."""
    if job.settings.num_beams < 2 or job.settings.num_beam_groups > 1 or len(job.prompt.written) > 1:
        raise ValueError("a tree is of several beams in one group: give num_beams=4, or any number above 1")
    check_needs(model, job.prompt, job.settings)
    search, live = beam_steps(model, job, trace=True), list[int | None]()  # the nodes that the live beams are
    while True:
        try:
            with torch.inference_mode():  # left at every step, so that the caller's own work is not in it
                groups = next(search)
        except StopIteration as end:
            found: SearchResult = end.value
            return found
        nodes, live = _nodes(groups[0], live or [None] * job.settings.num_beams)
        yield nodes


def _nodes(group: Group, live: list[int | None]) -> tuple[list[Node], list[int | None]]:
    """The nodes of one step, and which of them the beams that go on are."""
    offers = group.offers
    assert offers is not None
    kept, finished = offers.kept[0].tolist(), offers.finished[0].tolist()
    scores, parents = offers.ways.scores[0].tolist(), offers.ways.parents[0].tolist()
    nodes, numbers = list[Node](), dict[int, int]()
    for place, token in enumerate(offers.ways.tokens[0].tolist()):
        if scores[place] <= NEVER / 2:  # the prompt's idle copies have nothing to say
            continue
        fate: Fate = "dropped"
        if finished[place]:
            fate = "ended" if place < group.width else "dropped"
        elif place in kept:
            fate = "kept"
        numbers[place] = len(nodes)
        nodes.append(Node(token, scores[place], live[parents[place]], fate))
    return nodes, [numbers.get(place) for place in kept]
