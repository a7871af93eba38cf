"""Small models and inputs that the tests of looking inside share."""

from functools import cache
from typing import Any

import torch
from hypothesis import Phase, find, settings
from torch import nn

from families import random_model, sequences, settings_of
from glassformer.inspect.laws import pad, some_target

FIRST = settings(max_examples=1, phases=[Phase.generate], database=None)
WITHIN = 1e-5  # what a recomputed number may differ by


def small(model_type: str, head: str | None, **more: Any) -> nn.Module:
    """The plainest model of a family."""
    return random_model(model_type, head, plainest(model_type) | more)


@cache
def plainest(model_type: str) -> dict[str, Any]:
    """The first example of hypothesis is the plainest of all, and needs no shrinking."""
    return find(settings_of(model_type), lambda _: True, settings=FIRST)


def inputs_of(model: nn.Module, *, lengths: tuple[int, ...] = (5, 7, 2), side: str = "right", seed: int = 0) -> Any:
    """A padded batch, with a target where the model writes one, and segments where it has them."""
    ids, mask = pad(sequences(seed, lengths), model, side=side)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = some_target(model, len(ids), length=4)
    if getattr(getattr(model, "embeddings", None), "segment", None) is not None:
        kinds = model.embeddings.segment.num_embeddings
        inputs["token_type_ids"] = torch.arange(ids.shape[1]).expand_as(ids) % kinds
    return inputs


def hooked(model: nn.Module) -> list[str]:
    return [name for name, part in model.named_modules() if part._forward_hooks or part._forward_pre_hooks]
