"""`glassformer generate`: go on from a prompt, or answer a source, streamed as it is written."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import Json, Name, print_json


class Strategy(StrEnum):
    """How the next token is taken."""

    greedy = "greedy"
    sample = "sample"
    beam = "beam"


def generate(
    name: Name,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; without it, each line of --file or stdin.")] = None,
    strategy: Annotated[Strategy, typer.Option(help="How the next token is taken.")] = Strategy.greedy,
    n: Annotated[int, typer.Option("--n", help="How many texts for each prompt.")] = 1,
    max_new_tokens: Annotated[int | None, typer.Option(help="At most so many new tokens; 50, or what fits.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Above 1: bolder; below 1: safer.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that make up this share.")] = None,
    num_beams: Annotated[int, typer.Option(help="Beams, for the strategy beam.")] = 4,
    length_penalty: Annotated[float, typer.Option(help="Beams: above 0 favours longer texts.")] = 1.0,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: less of what was said.")] = None,
    no_repeat_ngram_size: Annotated[int | None, typer.Option(help="Never the same n tokens twice.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same text.")] = None,
    file: Annotated[Path | None, typer.Option(help="A prompt on each line.")] = None,
    device: Annotated[str, typer.Option(help="Where to run: cpu, cuda, mps.")] = "cpu",
    json: Json = False,
) -> None:
    """Generate text with a language model, or with an encoder-decoder from a source text.

    Example: glassformer generate ./my-gpt2 "Once upon a time" --strategy sample --top-p 0.95
    """
    import glassformer as gf

    request: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "num_return_sequences": n,
        "do_sample": strategy is Strategy.sample,
        "seed": seed,
    }
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    if strategy is Strategy.sample:
        request |= sampling
    elif given := [name.replace("_", "-") for name, value in sampling.items() if value is not None]:
        raise ValueError(f"--{given[0]} is for sampling; add --strategy sample")
    if strategy is Strategy.beam:
        request |= {"num_beams": max(num_beams, n), "length_penalty": length_penalty}
    model, tokenizer = gf.load(name, device=device), gf.load_tokenizer(name)
    for text in _prompts(prompt, file):
        if json:
            found = gf.generate(model, tokenizer, text, **request)
            print_json({"prompt": text, "texts": [found] if n == 1 else found})
        elif n == 1 and strategy is not Strategy.beam:
            _stream(gf.stream(model, tokenizer, text, **request), "" if model.config.is_encoder_decoder else text)  # type: ignore[union-attr]
        else:
            found = gf.generate(model, tokenizer, text, **request)
            typer.echo(found if n == 1 else "\n---\n".join(found))


def _prompts(prompt: str | None, file: Path | None) -> list[str]:
    if prompt is not None:
        if file is not None:
            raise ValueError("give a prompt or --file, not both")
        return [prompt]
    lines = sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
    return [line for line in lines.splitlines() if line.strip()]


def _stream(pieces: Any, begun: str) -> None:
    typer.echo(begun, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
        sys.stdout.flush()
    typer.echo()
