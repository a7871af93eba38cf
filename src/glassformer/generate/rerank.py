"""Re-ranking: several texts are written, a judge scores them, and the best comes first."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Unpack

from torch import nn

from glassformer.text.tokenizer import Tokenizer

from .api import generate
from .options import GenerationOptions
from .result import Generated

Judge = Callable[[list[str]], Sequence[float]]
"""A number for each text, the higher the better: the probability of a label, say."""


class Ranked(NamedTuple):
    """One text and why it stands where it stands."""

    text: str
    score: float  # the judge's, and `fluency` times the log-probability of a token
    judged: float
    logprob: float  # a token's, on average


def rerank(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    judge: Judge,
    *,
    n: int = 8,
    fluency: float = 0.0,
    **settings: Unpack[GenerationOptions],
) -> list[Ranked] | list[list[Ranked]]:
    """Write n texts for each prompt, best first by the judge: a list of Ranked, or one for each prompt.

    Texts are drawn, unless num_beams asks for beams. `fluency` above 0 lets the model's own likelihood count too.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    many = [prompts] if isinstance(prompts, str) else list(prompts)
    if settings.get("num_beams", 1) == 1:
        settings = {"do_sample": True, "num_beams": 1, **settings}
    request: GenerationOptions = {**settings, "num_return_sequences": n, "return_dict_in_generate": True}
    found: Generated = generate(model, tokenizer, many, **request)
    texts = found.texts or []
    judged = [float(score) for score in judge(texts)]
    if len(judged) != len(texts):
        raise ValueError(f"the judge gave {len(judged)} scores for {len(texts)} texts; it must give one for each")
    logprobs = (found.logprobs.sum(1) / found.lengths).tolist()
    rows = [
        Ranked(text, score + fluency * logprob, score, logprob)
        for text, score, logprob in zip(texts, judged, logprobs, strict=True)
    ]
    groups = [sorted(rows[at : at + n], key=lambda row: -row.score) for at in range(0, len(rows), n)]
    return groups[0] if isinstance(prompts, str) else groups
