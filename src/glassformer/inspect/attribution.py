"""Attribution: how much each token of a text has to do with a score.

B batch, T tokens, D embedding width. Tokens are changed at their vectors, before positions are added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model

from .record import modules_of, record

Method = Literal["gradient_x_input", "integrated_gradients", "occlusion"]
Score = Callable[[Any], Tensor]  # of a model's outputs, whose fields are its own


@dataclass(frozen=True)
class Attribution:
    """What each token adds to the score, (B, T), and the score itself."""

    tokens: Tensor  # (B, T)
    vectors: Tensor | None  # (B, T, D): the same before it is summed over the vector; None for occlusion
    score: Tensor  # (B,): of the text as it is
    baseline: Tensor  # (B,): of the text that it is compared with
    gap: Tensor | None  # (B,): |sum − (score − baseline)|; integrated gradients alone promise that it is 0


def attribute(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    score: Score | None = None,
    *,
    method: Method = "integrated_gradients",
    baseline: int | None = None,
    steps: int = 50,
) -> Attribution:
    """Credit for a score among the tokens of the text that is read (of an encoder-decoder, the source).

    `score` makes one number a text (B,) of the model's outputs; without it, it is the highest logit there is, at the
    last token where there is one a token. `baseline` is the id that a token is compared with; without it, a vector
    of zeros. `steps`: the places on the way from the baseline at which gradients are taken (Gauss-Legendre).
    """
    if method not in get_args(Method):
        raise ValueError(f"there is no attribution {method!r}; choose one of {', '.join(get_args(Method))}")
    judge = _likeliest(model, inputs) if score is None else score
    run = Embedded(model, inputs, judge)
    start = run.like(baseline)
    with torch.no_grad():
        before = run(start)
    if method == "occlusion":
        return _occluded(run, start, before)
    if method == "gradient_x_input":
        vectors = run.vectors * run.gradient(run.vectors)
        gap = None
    else:
        vectors = (run.vectors - start) * _mean_gradient(run, start, steps)
        gap = (vectors.sum((1, 2)) - (run.score - before)).abs()
    return Attribution(vectors.sum(-1), vectors, run.score, before, gap)


class Embedded:
    """A model as a function of its token vectors (B, T, D)."""

    def __init__(self, model: nn.Module, inputs: Mapping[str, Tensor], score: Score) -> None:
        self.model, self.inputs, self.judge = model, inputs, score
        self.name = "encoder.embeddings.token" if as_model(model).config.is_encoder_decoder else "embeddings.token"
        with torch.no_grad(), record(model, self.name) as seen:
            self.score = self._judged(model(**inputs))
        self.vectors = seen[self.name].detach()

    def __call__(self, vectors: Tensor) -> Tensor:
        """The score (B,) with these vectors in the tokens' place."""
        with record(self.model, edit={self.name: lambda _: vectors}):
            return self._judged(self.model(**self.inputs))

    @torch.enable_grad()
    def gradient(self, vectors: Tensor) -> Tensor:
        """Of each text's own score."""
        at = vectors.detach().requires_grad_()
        return torch.autograd.grad(self(at).sum(), at)[0]

    def like(self, token: int | None) -> Tensor:
        """Every vector that of one token, or zero."""
        if token is None:
            return torch.zeros_like(self.vectors)
        table = modules_of(self.model)[self.name]
        assert isinstance(table, nn.Embedding)
        return table.weight[token].detach().expand_as(self.vectors)

    def _judged(self, outputs: object) -> Tensor:
        found = self.judge(outputs)
        texts = len(self.inputs["input_ids"])
        if found.shape != (texts,):
            raise ValueError(f"a score must be one number for each of {texts} texts, not of shape {tuple(found.shape)}")
        return found


def _mean_gradient(run: Embedded, start: Tensor, steps: int) -> Tensor:
    """The gradient averaged over the straight way from the baseline to the text."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(start)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        total += float(weight) * run.gradient(start + float(place) * (run.vectors - start))
    return total


@torch.no_grad()
def _occluded(run: Embedded, start: Tensor, before: Tensor) -> Attribution:
    """What is lost when one token after another is occluded."""
    lost = []
    for place in range(run.vectors.shape[1]):
        without = run.vectors.clone()
        without[:, place] = start[:, place]
        lost.append(run.score - run(without))
    return Attribution(torch.stack(lost, dim=1), None, run.score, before, None)


@torch.no_grad()
def _likeliest(model: nn.Module, inputs: Mapping[str, Tensor]) -> Score:
    """The logit of what the model says, which stays the same logit when tokens change."""
    writes = as_model(model).config.is_encoder_decoder

    def last(outputs: Sequence[Tensor]) -> Tensor:
        found = outputs[0]
        if found.dim() < 3:
            return found
        keep = inputs.get("decoder_attention_mask" if writes else "attention_mask")
        ends = torch.full((len(found),), found.shape[1] - 1, device=found.device)
        if keep is not None:
            ends = (keep.to(found.device) * torch.arange(1, found.shape[1] + 1, device=found.device)).argmax(1)
        return found[torch.arange(len(found)), ends]

    chosen = last(model(**inputs)).argmax(-1)
    return lambda outputs: last(outputs).gather(1, chosen[:, None])[:, 0]
