"""Strategies of decoding side by side: the same prompts, and what each strategy makes of them.

B prompts, N new tokens, k alternatives.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.generate.api import generate
from glassformer.generate.likelihood import likelihood
from glassformer.generate.prompts import prompt_of, request_of
from glassformer.generate.strategies import STRATEGIES
from glassformer.generate.tree import Tree, beam_tree
from glassformer.models.contract import as_generative
from glassformer.text.tokenizer import Tokenizer

from .measures import distinct, repetition, self_bleu

BATCH = 16  # prompts at once
NEEDS_MORE = {"constrained": "it needs words that must be written: see glassformer generate --must"}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DecodedStep:
    """A token as it was written: its probability, and the likeliest tokens in its place with theirs."""

    token: str
    chance: float
    top: list[tuple[str, float]]


@dataclass(frozen=True)
class Result:
    """What one strategy wrote, and how that measures."""

    strategy: str
    settings: dict[str, Any]
    texts: list[str]  # what was written for each prompt
    scores: dict[str, float | None]
    steps: list[DecodedStep]  # of the prompt that is looked at


@dataclass(frozen=True)
class DecodingComparison:
    """All strategies on the same prompts; `shown` is the prompt that is looked at in full."""

    prompts: list[str]
    shown: int
    results: list[Result]
    left_out: dict[str, str]  # with the reason
    tree: Tree | None  # of the strategy beam, for the prompt shown


@dataclass(frozen=True)
class Written:
    """The new tokens of some prompts, read once more by the model."""

    ids: list[list[int]]
    logprobs: list[list[float]]
    top_ids: list[Tensor]  # (N, k) of each
    top_logprobs: list[Tensor]
    seconds: float


def compare(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    strategies: Sequence[str] = tuple(STRATEGIES),
    max_new_tokens: int | None = None,
    seed: int = 0,
    shown: int = 0,
    alternatives: int = 5,
    progress: Progress | None = None,
) -> DecodingComparison:
    """Run every strategy on all prompts; one that cannot be used with this model or these prompts is left out."""
    unknown = [name for name in strategies if name not in {**STRATEGIES, **NEEDS_MORE}]
    if unknown or not strategies:
        raise ValueError(f"there is no strategy {''.join(unknown[:1])!r}; choose from {', '.join(STRATEGIES)}")
    if not 0 <= shown < len(prompts):
        raise ValueError(f"there is no prompt {shown + 1} to be shown; there are {len(prompts)}")
    common: dict[str, Any] = {"max_new_tokens": max_new_tokens, "seed": seed}
    left_out = {name: NEEDS_MORE[name] for name in strategies if name in NEEDS_MORE}
    results: list[Result] = []
    writer = as_generative(model)
    prompt_of(writer, tokenizer, prompts, None, request_of(writer, common))  # what is wrong for all is said at once
    generate(model, tokenizer, prompts[shown], **common)  # what is done only the first time is not to count
    usable = [name for name in strategies if name in STRATEGIES]
    for number, name in enumerate(usable, 1):
        settings = {"num_beams": 1, "do_sample": False, **STRATEGIES[name]}  # whatever a folder's own wish is
        try:
            written = _written(model, tokenizer, prompts, {**settings, **common}, alternatives)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        results.append(_result(name, tokenizer, written, shown))
        if progress is not None:
            progress(number, len(usable))
    if not results:
        raise ValueError("no strategy could be used: " + "; ".join(f"{name}: {why}" for name, why in left_out.items()))
    drawn = any(result.strategy == "beam" for result in results)
    tree = beam_tree(model, tokenizer, prompts[shown], **STRATEGIES["beam"], **common) if drawn else None
    return DecodingComparison(list(prompts), shown, results, left_out, tree)


@torch.inference_mode()
def _written(
    model: nn.Module, tokenizer: Tokenizer, prompts: Sequence[str], settings: Mapping[str, Any], alternatives: int
) -> Written:
    """Only the search is timed; the texts are judged by the model itself, without filters and temperature."""
    parts, seconds = list[tuple[list[int], list[float], Tensor, Tensor]](), 0.0
    writer = as_generative(model)
    for start in range(0, len(prompts), BATCH):
        some = prompts[start : start + BATCH]
        prompt, request = prompt_of(writer, tokenizer, some, None, request_of(writer, dict(settings)))
        asked = {**settings, "max_new_tokens": request.max_new(prompt.written.shape[1])}
        begun = time.perf_counter()
        found = generate(model, None, prompt.input_ids, attention_mask=prompt.attention_mask, **asked)
        new = found[:, prompt.written.shape[1] :].cpu()
        seconds += time.perf_counter() - begun
        ends = torch.isin(new, torch.tensor(request.ends, dtype=torch.long))
        lengths = torch.where(ends.any(1), ends.int().argmax(1) + 1, new.shape[1])
        known = likelihood(writer, prompt, new.to(found.device), lengths.to(found.device), alternatives)
        parts += [
            (ids[:length].tolist(), logs[:length].tolist(), top_ids[:length].cpu(), top[:length].cpu())
            for ids, logs, top_ids, top, length in zip(
                new, known.logprobs, known.top_ids, known.top_logprobs, lengths.tolist(), strict=True
            )
        ]
    ids, logprobs, top_ids, top = (list(part) for part in zip(*parts, strict=True))
    return Written(ids, logprobs, top_ids, top, seconds)


def _result(name: str, tokenizer: Tokenizer, written: Written, shown: int) -> Result:
    special = set(tokenizer.all_special_ids)
    words = [[id_ for id_ in ids if id_ not in special] for ids in written.ids]
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in written.ids]
    tokens = sum(map(len, written.ids))
    total = sum(map(sum, written.logprobs))
    scores = {
        "likelihood": total / len(texts),
        "perplexity": float(torch.tensor(-total / tokens, dtype=torch.float64).exp()),
        "distinct_1": distinct(words, 1),
        "distinct_2": distinct(words, 2),
        "repetition": repetition(words),
        "self_bleu": self_bleu(texts),
        "length": tokens / len(texts),
        "tokens_per_second": tokens / written.seconds,
    }
    return Result(name, STRATEGIES[name], texts, scores, _steps(tokenizer, written, shown))


def _steps(tokenizer: Tokenizer, written: Written, shown: int) -> list[DecodedStep]:
    """Token by token: its chance, and the likeliest in its place."""
    steps = []
    for place, id_ in enumerate(written.ids[shown]):
        others, chances = written.top_ids[shown][place].tolist(), written.top_logprobs[shown][place].exp().tolist()
        top = [(tokenizer.decode([other]), chance) for other, chance in zip(others, chances, strict=True)]
        steps.append(DecodedStep(tokenizer.decode([id_]), math.exp(written.logprobs[shown][place]), top))
    return steps
