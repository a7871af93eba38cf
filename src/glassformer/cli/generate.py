"""`glassformer generate`: go on from a prompt, or answer a source, streamed as it is written."""

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.generate.strategies import DEFAULT_NEW, STRATEGIES

from .chat import converse
from .choice import OptionalName, chosen_for_one
from .lines import lines_of
from .output import Device, Dtype, Json, Quant, echo, print_json, print_table
from .settings import generation_option

if TYPE_CHECKING:
    from torch import nn

    from glassformer.generate.result import Generated
    from glassformer.models.contract import Model
    from glassformer.text.tokenizer import Tokenizer


class Strategy(StrEnum):
    """How the next token is taken."""

    greedy = "greedy"
    sample = "sample"
    beam = "beam"
    diverse = "diverse"
    constrained = "constrained"
    contrastive = "contrastive"
    speculative = "speculative"


NEEDS = {  # which strategies an option is for
    "temperature": ("sample", "speculative"),
    "top_p": ("sample", "speculative"),
    "top_k": ("sample", "contrastive", "speculative"),
    "penalty_alpha": ("contrastive",),
    "num_beams": ("beam", "diverse", "constrained"),
    "length_penalty": ("beam", "diverse", "constrained"),
    "num_beam_groups": ("diverse",),
    "diversity_penalty": ("diverse",),
    "must": ("constrained",),
    "draft": ("speculative",),
    "prompt_lookup_num_tokens": ("speculative",),
}


def panel_of(name: str) -> str:
    """Where help shows an option: with the strategy that it is first of all for."""
    return f"With --strategy {NEEDS[name][0]}"


def strategy_option(name: str) -> Any:
    """The option of a setting of generation, with what the strategy takes where it is not given."""
    preset = STRATEGIES[NEEDS[name][0]].get(name)
    return generation_option(name, rich_help_panel=panel_of(name), show_default=preset is not None and str(preset))


def generate(
    name: OptionalName = None,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; without it, each line of --file or stdin.")] = None,
    strategy: Annotated[
        Strategy, typer.Option(metavar="NAME", help=f"How the next token is taken: {', '.join(Strategy)}.")
    ] = Strategy.greedy,
    n: Annotated[int, typer.Option("--n", help="How many texts for each prompt.")] = 1,
    max_new_tokens: Annotated[int | None, generation_option("max_new_tokens")] = None,
    max_time: Annotated[float | None, generation_option("max_time")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End a text at this string; may be given again.")] = None,
    temperature: Annotated[float | None, strategy_option("temperature")] = None,
    top_k: Annotated[int | None, strategy_option("top_k")] = None,
    top_p: Annotated[float | None, strategy_option("top_p")] = None,
    penalty_alpha: Annotated[float | None, strategy_option("penalty_alpha")] = None,
    num_beams: Annotated[int | None, strategy_option("num_beams")] = None,
    length_penalty: Annotated[float | None, strategy_option("length_penalty")] = None,
    num_beam_groups: Annotated[int | None, strategy_option("num_beam_groups")] = None,
    diversity_penalty: Annotated[float | None, strategy_option("diversity_penalty")] = None,
    must: Annotated[
        list[str] | None,
        typer.Option(help="A word that must be written; may be given again.", rich_help_panel=panel_of("must")),
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="A smaller model that guesses ahead.", rich_help_panel=panel_of("draft"))
    ] = None,
    prompt_lookup_num_tokens: Annotated[int | None, strategy_option("prompt_lookup_num_tokens")] = None,
    repetition_penalty: Annotated[float | None, generation_option("repetition_penalty")] = None,
    no_repeat_ngram_size: Annotated[int | None, generation_option("no_repeat_ngram_size")] = None,
    truncation: Annotated[bool, generation_option("truncation", "--truncation")] = False,
    logprobs: Annotated[int | None, typer.Option(help="Tell each token's log-probability and k alternatives.")] = None,
    seed: Annotated[int | None, generation_option("seed")] = None,
    condition: Annotated[str | None, typer.Option(help="A kind of text that the model was trained to tell.")] = None,
    chat: Annotated[bool, typer.Option("--chat", help="A conversation: a line a turn; /reset begins anew.")] = False,
    system: Annotated[str | None, typer.Option(help="Chat: what the system says first.")] = None,
    file: Annotated[str | None, typer.Option(help="A prompt on each line.")] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Prompts of a file at once; it does not change what is written.")
    ] = 32,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Json = False,
) -> None:
    """Generate text with a language model, or with an encoder-decoder from a source text.

    Example: glassformer generate ./my-gpt2 "Once upon a time" --strategy sample --top-p 0.95
    With the built-in model: glassformer generate "Once upon a time"
    With --chat, a conversation: glassformer generate ./my-llama --chat --system "Answer briefly."
    """
    import glassformer as gf
    from glassformer.models.contract import as_model

    special = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "penalty_alpha": penalty_alpha,
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "num_beam_groups": num_beam_groups,
        "diversity_penalty": diversity_penalty,
        "must": must,
        "draft": draft,
        "prompt_lookup_num_tokens": prompt_lookup_num_tokens,
    }
    request = _request(strategy, special, n) | {
        "max_new_tokens": max_new_tokens,
        "max_time": max_time,
        "stop_strings": stop,
        "truncation": truncation,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "seed": seed,
        "num_return_sequences": n,
    }
    if system is not None and not chat:
        raise ValueError("--system is for a conversation; add --chat")
    name, prompt = chosen_for_one(name, prompt, "text-generation")
    prompts = _prompts(prompt, file, typed=chat)
    model, tokenizer = gf.load(name, device=device, dtype=dtype, quant=quant), gf.load_tokenizer(name)
    if must:
        request["force_words_ids"] = [_spellings(tokenizer, word) for word in must]
    if draft is not None:
        request["assistant_model"] = gf.load(draft, device=device)
    if chat:
        converse(model, tokenizer, prompts, request, system=system, json=json)
        return
    before = "" if condition is None else _prefix(as_model(model), tokenizer, condition)
    if prompt is None and not sys.stdin.isatty():
        together = _batches(as_model(model), tokenizer, prompts, request, batch_size)
    else:
        together = ([text] for text in prompts)
    for texts in together:
        if json or logprobs is not None:
            explained = request | {"return_dict_in_generate": True, "top_logprobs": logprobs or 0}
            found = gf.generate(model, tokenizer, [before + text for text in texts], **explained)
            for place, text in enumerate(texts):
                _explain(text, found, range(place * n, place * n + n), tokenizer, logprobs is not None, json)
        elif len(texts) == 1:
            _write(model, tokenizer, before, texts[0], request)
        else:
            _write_batch(model, tokenizer, before, texts, request)


def _request(strategy: Strategy, given: dict[str, Any], n: int) -> dict[str, Any]:
    """What the strategy and its options mean, in generate's words."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if strategy not in NEEDS[name]:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for another strategy; add --strategy {NEEDS[name][0]}")
    preset = STRATEGIES["beam" if strategy is Strategy.constrained else strategy]
    request = {"num_beams": 1, **preset, **given}  # whatever a folder's own wish is
    must, draft = request.pop("must", None), request.pop("draft", None)
    if strategy is Strategy.constrained and not must:
        raise ValueError("the strategy constrained needs words that must be written; add --must WORD")
    if draft is not None and "prompt_lookup_num_tokens" not in given:
        request.pop("prompt_lookup_num_tokens")
    if request["num_beams"] > 1:
        request["num_beams"] = max(request["num_beams"], n)
    drawn = strategy is Strategy.speculative and any(name in given for name in ("temperature", "top_k", "top_p"))
    return request | {"do_sample": strategy is Strategy.sample or drawn}


def _prefix(model: "Model", tokenizer: "Tokenizer", condition: str) -> str:
    """What the text-generation task puts before a text of this kind."""
    from glassformer.tasks.text_generation import TextGeneration

    return TextGeneration.for_model(tokenizer, model).condition_prefix(condition)


def _spellings(tokenizer: "Tokenizer", word: str) -> list[list[int]]:
    """A word's ids at the beginning of a text and within it."""
    found = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (word, f" {word}")]
    return [found[0]] if found[0] == found[1] else found


def _explain(text: str, found: "Generated", rows: range, tokenizer: "Tokenizer", steps: bool, json: bool) -> None:
    """The texts of one prompt, in these rows, with their scores and, if asked for, their tokens one by one."""
    assert found.texts is not None
    texts = [found.texts[row] for row in rows]
    listed = [found.steps(row, tokenizer) for row in rows] if steps else []
    if json:
        scores = [round(float(found.sequences_scores[row]), 6) for row in rows]
        print_json({"prompt": text, "texts": texts, "scores": scores, **({"steps": listed} if steps else {})})
        return
    for whole, tokens in zip(texts, listed, strict=True):
        echo(whole)
        columns = [
            [repr(token["token"]), f"{token['logprob']:.3f}", _others(token["top"])] for token in tokens
        ]  # repr shows spaces
        print_table(["token", "logprob", "alternatives"], columns)


def _others(top: list[dict[str, Any]]) -> str:
    return "  ".join(f"{other['token']!r} {other['logprob']:.3f}" for other in top)


def _prompts(prompt: str | None, file: str | None, *, typed: bool) -> Iterable[str]:
    """All prompts; `typed`: each when it comes, since the next one waits for its answer."""
    if prompt is not None:
        if file is not None:
            raise ValueError("give a prompt or --file, not both")
        return [prompt]
    if typed and file is None:
        return (line.rstrip("\r\n") for line in sys.stdin)
    return [line for line in lines_of(file or "-") if line.strip()]


def _batches(
    model: "Model", tokenizer: "Tokenizer", prompts: Iterable[str], request: dict[str, Any], batch_size: int
) -> Iterator[list[str]]:
    """Prompts that are answered at once, in their order.

    Alone are those of which only a part of what is asked for fits behind them, since what fits would depend on the
    longest of a batch; and all, where time or the draws of a seed are each prompt's own.
    """
    if request["max_time"] is not None or (request["seed"] is not None and request["do_sample"]):
        batch_size = 1
    limit, new = model.config.max_positions, request["max_new_tokens"] or DEFAULT_NEW
    some: list[str] = []
    for prompt in prompts:
        alone = batch_size == 1 or (limit is not None and len(tokenizer(prompt)["input_ids"]) + new > limit)
        if some and (alone or len(some) == batch_size):
            yield some
            some = []
        if alone:
            yield [prompt]
        else:
            some.append(prompt)
    if some:
        yield some


def _write_batch(
    model: "nn.Module", tokenizer: "Tokenizer", before: str, texts: list[str], request: dict[str, Any]
) -> None:
    """What `_write` writes of each."""
    import glassformer as gf
    from glassformer.models.contract import as_model

    found = gf.generate(model, tokenizer, [before + text for text in texts], **request)
    for text, whole in zip(texts, found, strict=True):
        if request["num_return_sequences"] > 1:
            echo("\n---\n".join(whole))
        elif request["num_beams"] > 1 or as_model(model).config.is_encoder_decoder:
            echo(whole)
        else:  # the prompt as it was given, not as its tokens spell it
            read = tokenizer.decode(tokenizer(before + text)["input_ids"], skip_special_tokens=True)
            echo(text + whole[len(read) :])


def _write(model: "nn.Module", tokenizer: "Tokenizer", before: str, text: str, request: dict[str, Any]) -> None:
    """One text as it is written; several, or what beams have found, at the end."""
    import glassformer as gf
    from glassformer.models.contract import as_model

    n, prompt = request["num_return_sequences"], before + text
    if n > 1 or request["num_beams"] > 1:
        found = gf.generate(model, tokenizer, prompt, **request)
        echo(found if n == 1 else "\n---\n".join(found))
        return
    begun = "" if as_model(model).config.is_encoder_decoder else text
    pieces = gf.stream(model, tokenizer, prompt, **request)
    first = next(pieces, "")  # an error comes before anything is said
    for piece in chain([begun + first], pieces):
        echo(piece, nl=False)
        sys.stdout.flush()
    echo()
