"""generate and stream: from prompts to texts, or from ids to ids."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.engine.prepare import prepared
from glassformer.models.contract import GenerativeModel, Stepper, as_generative
from glassformer.text.tokenizer import Tokenizer

from .beams import beams
from .contrastive import contrastive
from .job import Job, SearchResult
from .likelihood import likelihood
from .needs import check_needs
from .options import GenerationOptions
from .pieces import TextPieces
from .prompts import prompt_of, request_of
from .result import Generated
from .search import Token, collect, tokens
from .speculative import speculative


@torch.inference_mode()
def generate(
    model: nn.Module,
    tokenizer: Tokenizer | None,
    prompts: str | Sequence[str] | Tensor,
    *,
    attention_mask: Tensor | None = None,
    **settings: Unpack[GenerationOptions],
) -> Any:
    """Go on from prompts, or answer sources, with Hugging Face's parameter names.

    With a tokenizer: a text gives a text, texts (or ids) give texts (lists of them with num_return_sequences). Without:
    ids (B, P) give ids (B·R, P + N), laid out as transformers' generate does. Sampling is on if do_sample says so or
    if any sampling setting is given. With return_dict_in_generate both give a Generated, scores and all.
    """
    many = [prompts] if isinstance(prompts, str) else prompts
    writer = as_generative(model)
    job = _job(writer, tokenizer, many, attention_mask, {**settings})
    found = _search(writer, job)
    texts = None
    if tokenizer is not None:
        texts = [tokenizer.decode(row, skip_special_tokens=True) for row in found.sequences.tolist()]
    if job.settings.return_dict_in_generate:
        return _explained(writer, job, found, texts)
    if texts is None:
        return found.sequences
    share = job.settings.num_return_sequences
    grouped = [texts[start : start + share] for start in range(0, len(texts), share)] if share > 1 else texts
    return grouped[0] if isinstance(prompts, str) else grouped


def stream(model: nn.Module, tokenizer: Tokenizer, prompt: str, **settings: Unpack[GenerationOptions]) -> Iterator[str]:
    """The new text piece by piece, as it is written; characters of several tokens come whole."""
    writer = as_generative(model)
    job = _job(writer, tokenizer, [prompt], None, {**settings})
    if job.settings.num_beams > 1 or job.settings.num_return_sequences > 1:
        raise ValueError("a stream is one text: leave num_beams and num_return_sequences at 1, or use generate")
    steps = _steps(prepared(writer, 1), job)
    pieces, going = TextPieces(partial(tokenizer.decode, skip_special_tokens=True)), True
    while going:
        with torch.inference_mode():  # left at every piece, so that the caller's own work is not in it
            step = next(steps, None)
        if step is None:
            break
        pieces.push(int(step[0]))
        going = bool(step[1])
        if piece := pieces.take():
            yield piece
    if piece := pieces.finish(stopped=False)[0]:
        yield piece


def _job(
    model: GenerativeModel[Any],
    tokenizer: Tokenizer | None,
    prompts: Sequence[str] | Tensor,
    mask: Tensor | None,
    given: dict[str, Any],
) -> Job:
    prompt, request = prompt_of(model, tokenizer, prompts, mask, request_of(model, given))
    decode = None if tokenizer is None else partial(tokenizer.decode, skip_special_tokens=True)
    check_needs(model, prompt, request)  # before each text is there several times over
    if request.num_beams == 1 and request.num_return_sequences > 1:
        prompt = prompt.repeated(request.num_return_sequences)
    return Job.of(prompt, request, decode)


def _search(model: GenerativeModel[Any], job: Job) -> SearchResult:
    decoder = prepared(model, len(job.prompt.written) * job.settings.num_beams)
    if job.settings.num_beams > 1:
        return beams(decoder, job)
    if job.settings.strategy != "speculative":
        return collect(_steps(decoder, job), job.prompt.written)
    return _together(decoder, job)


def _steps(model: Stepper[Any], job: Job) -> Iterator[Token]:
    """The search of all strategies that follow one text."""
    match job.settings.strategy:
        case "contrastive":
            return contrastive(model, job)
        case "speculative":
            return speculative(model, job.alone(0))
        case _:
            return tokens(model, job)


def _together(model: Stepper[Any], job: Job) -> SearchResult:
    """Texts that are guessed at advance by different numbers of tokens, so they are written one after another."""
    written, new = job.prompt.written, []
    for row in range(len(written)):
        alone = job.alone(row)
        new.append(collect(speculative(model, alone), alone.prompt.written[:, :0]).sequences)
    width, fill = max(ids.shape[1] for ids in new), partial(pad, value=job.settings.padding)
    lengths = torch.tensor([ids.shape[1] for ids in new], device=written.device)
    behind = torch.cat([fill(ids, (0, width - ids.shape[1])) for ids in new])
    return SearchResult(torch.cat([written, behind], dim=1), lengths)


def _explained(model: GenerativeModel[Any], job: Job, found: SearchResult, texts: list[str] | None) -> Generated:
    """Everything about the texts found, by reading them once more."""
    prompt = job.prompt.repeated(len(found.sequences) // len(job.prompt.written))
    new = found.sequences[:, prompt.written.shape[1] :]
    known = likelihood(model, prompt, new, found.lengths, job.settings.top_logprobs)
    scores = known.logprobs.sum(1) if found.scores is None else found.scores
    return Generated(
        sequences=found.sequences,
        sequences_scores=scores,
        lengths=found.lengths,
        logprobs=known.logprobs,
        top_ids=known.top_ids,
        top_logprobs=known.top_logprobs,
        texts=texts,
    )
