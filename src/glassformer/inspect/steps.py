"""Steps: a forward pass as a list of named values, each with its formula and the names of what it is made from."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .formulas import Formula, as_float64
from .record import plain

Values = dict[str, Tensor]


@dataclass(frozen=True)
class RecomputeStep:
    """One value of the pass. Operands are earlier steps, weights, or what was given: symbol -> name."""

    name: str
    formula: Formula
    operands: Mapping[str, str]
    seen: Tensor | None  # what the model computed; None where it keeps no such value


def evaluate(
    steps: Sequence[RecomputeStep], given: Values, on_progress: Callable[[], None] | None = None
) -> tuple[Values, Values]:
    """Every step twice: from scratch, in float64 from the ids on; and alone, from what the model had before it.

    The first shows that the whole is right, the second where a fault is: it is not handed on. `on_progress` is called
    before every step.
    """
    given = _widened(steps, given)
    scratch, alone, seen = dict(given), {}, dict(given)
    for step in steps:
        if on_progress is not None:
            on_progress()
        scratch[step.name] = compute(step, scratch)
        alone[step.name] = compute(step, seen)
        seen[step.name] = alone[step.name] if step.seen is None else step.seen
    return scratch, alone


def _widened(steps: Sequence[RecomputeStep], given: Values) -> Values:
    """What is given, in float64 once where several steps ask for it, as all heads and all time steps do."""
    uses = Counter(name for step in steps for name in step.operands.values())
    return {name: as_float64(value) if uses[name] > 1 else value for name, value in given.items()}


def compute(step: RecomputeStep, values: Values) -> Tensor:
    return step.formula.compute(*(at(values, name) for name in step.operands.values()))


def at(values: Values, name: str) -> Tensor:
    """A value by name, in float64; `embeddings[3]` is what it is at position 3."""
    if name in values:
        return as_float64(values[name])
    whole, _, place = name.removesuffix("]").rpartition("[")
    return as_float64(values[whole][:, int(place)])


def unused(steps: Sequence[RecomputeStep], model: nn.Module) -> Iterator[str]:
    """Weights that no step was made from, so that nothing is passed over in silence."""
    used = {name for step in steps for name in step.operands.values()}
    tensors = {plain(name): tensor for name, tensor in model.named_parameters(remove_duplicate=False)}
    places = {tensors[name].data_ptr() for name in used if name in tensors}
    yield from (name for name, tensor in tensors.items() if tensor.data_ptr() not in places)
