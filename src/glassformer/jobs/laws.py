"""The laws that take more than a model: decoding by the engine, and a folder written and read again."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from glassformer.engine.prepare import prepared
from glassformer.hub.load import load, save
from glassformer.inspect import laws
from glassformer.inspect.laws import Law, Sequences, error, pad, run
from glassformer.models.contract import as_generative, as_model, can_generate


def prepared_equals_model(model: nn.Module, sequences: Sequences) -> float:
    """Decoding with prepared weights: single, batched, and after a change of one weight of each kind in turn."""
    batches = [pad([sequence], model) for sequence in sequences]
    batches.append(pad(sequences, model, side="left"))
    worst = max(_prepared_error(model, *batch) for batch in batches)
    few = pad([min(sequences, key=len)[:2]], model)
    for weight in _one_of_each_kind(model):
        with _changed(weight):
            worst = max(worst, _prepared_error(model, *few))
    return worst


def saving_loses_nothing(model: nn.Module, sequences: Sequences) -> float:
    """The outputs of the model and of what its folder holds."""
    with tempfile.TemporaryDirectory() as folder:
        again = load(save(model, folder))
        ids, mask = pad(sequences, model)
        before, after = run(model, ids, mask), run(again, ids, mask)
    return max(error(after[name], before[name]) for name in before)


LAWS = (
    *laws.LAWS,
    Law("prepared = model", lambda model: can_generate(as_model(model)), prepared_equals_model),
    Law("saved and loaded again", lambda _: True, saving_loses_nothing),
)


def _prepared_error(model: nn.Module, ids: Tensor, mask: Tensor) -> float:
    """The first tokens at once, the others one by one: the model's own logits, and those of the engine."""
    own = as_generative(model)
    target = laws.some_target(model, len(ids)) if own.config.is_encoder_decoder else ids
    sizes = [max(1, target.shape[1] - 3)] + [1] * min(3, target.shape[1] - 1)
    device = next(model.parameters()).device
    found = [
        laws.stepped(stepper, ids.to(device), mask.to(device), target.to(device).split(sizes, dim=1))
        for stepper in (own, prepared(own, len(ids)))
    ]
    real = slice(None) if own.config.is_encoder_decoder else mask.bool()
    return error(found[1][real], found[0][real])


def _one_of_each_kind(model: nn.Module) -> list[nn.Parameter]:
    """The last of the weights whose names differ by a number alone: one layer's, and what is beside the layers."""
    return list({re.sub(r"\d+", "*", name): weight for name, weight in model.named_parameters()}.values())


@contextmanager
def _changed(weight: nn.Parameter) -> Iterator[None]:
    """Within the block a weight is another, by a change that torch does not count; then what it was, to the bit."""
    before = weight.detach().clone()
    try:
        weight.data.mul_(1.1).add_(0.01)
        yield
    finally:
        weight.data.copy_(before)
