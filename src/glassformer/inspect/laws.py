"""The laws, as checks on any model and a few token sequences; each gives its largest error.

They know no architecture: only forward's arguments, the model contract, and module names.
An error is the largest absolute difference, taken relative to the largest value where that exceeds one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.point import StepPoint
from glassformer.models.contract import Stepper, as_generative, as_model, can_generate

from .record import record

Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Law:
    """One law: what it says, which models it is for, and its check."""

    name: str
    applies: Callable[[nn.Module], bool]
    check: Callable[[nn.Module, Sequences], float]


def padding_is_invisible(model: nn.Module, sequences: Sequences) -> float:
    """Alone, padded right, padded left; packed while there is no hook, padded while there is one."""
    alone = [run(model, *pad([sequence], model)) for sequence in sequences]
    worst = 0.0
    for side in ("right", "left"):
        ids, mask = pad(sequences, model, side=side, extra=1)
        with record(model, "*"):
            recorded = run(model, ids, mask)
        for outputs in (run(model, ids, mask), recorded):
            for row, one in enumerate(alone):
                for name, value in one.items():
                    other = outputs[name][row]
                    if other.shape != value[0].shape:  # one value a token
                        other = other[mask[row].bool()]
                    worst = max(worst, error(other, value[0]))
    return worst


def later_changes_nothing_earlier(model: nn.Module, sequences: Sequences) -> float:
    """Change the last tokens: what was said before them stays."""
    worst = 0.0
    for sequence in sequences:
        source, target = _source_and_target(model, sequence)
        changed = target.clone()
        cut = target.shape[1] // 2
        changed[:, cut:] = (changed[:, cut:] + 1) % as_model(model).config.target_vocab_size
        before, after = (_decoded(model, source, ids)[:, :cut] for ids in (target, changed))
        worst = max(worst, error(after, before))
    return worst


def cache_equals_no_cache(model: nn.Module, sequences: Sequences) -> float:
    """Token by token, in chunks, and from left-padded prompts: the same scores as the whole at once."""
    device, stepper, worst = next(model.parameters()).device, as_generative(model), 0.0
    for sequence in sequences:
        source, target = _source_and_target(model, sequence)
        whole = _decoded(model, source, target)
        for chunk in (1, 3):
            worst = max(
                worst, error(stepped(stepper, source.to(device), None, target.to(device).split(chunk, 1)), whole)
            )
    if not as_model(model).config.is_encoder_decoder:
        ids, mask = pad(sequences, model, side="left")
        chunks = ids.to(device).split(ids.shape[1] - 1, 1)
        logits = stepped(stepper, ids.to(device), mask.to(device), chunks)
        for row, sequence in enumerate(sequences):
            whole = _decoded(model, *_source_and_target(model, sequence))
            worst = max(worst, error(logits[row, mask[row].bool()], whole[0]))
    return worst


def readable_equals_fused(model: nn.Module, sequences: Sequences) -> float:
    """A hook on every attention pattern makes the textbook equation run."""
    return _recording_error(model, sequences, "*attention.pattern")


def stepwise_equals_fused(model: nn.Module, sequences: Sequences) -> float:
    """A hook on the hidden state of every step makes the hand-written time loop run."""
    return _recording_error(
        model, sequences, [name for name, part in model.named_modules() if isinstance(part, StepPoint)]
    )


def looking_changes_nothing(model: nn.Module, sequences: Sequences) -> float:
    """Recording everything leaves outputs as they were, and no hook behind."""
    worst = _recording_error(model, sequences, "*")
    hooked = [name for name, part in model.named_modules() if part._forward_hooks or part._forward_pre_hooks]
    return float("inf") if hooked else worst


def _recording_error(model: nn.Module, sequences: Sequences, patterns: str | list[str]) -> float:
    ids, mask = pad(sequences, model)
    plain = run(model, ids, mask)
    with record(model, patterns):
        recorded = run(model, ids, mask)
    return max(error(recorded[name], plain[name]) for name in plain)


LAWS = (
    Law("padding is invisible", lambda _: True, padding_is_invisible),
    Law("causal", lambda model: can_generate(as_model(model)), later_changes_nothing_earlier),
    Law("cache = no cache", lambda model: can_generate(as_model(model)), cache_equals_no_cache),
    Law("fused = readable", lambda model: _has(model, "attention.pattern"), readable_equals_fused),
    Law("stepwise = fused", lambda model: _has(model, "hidden"), stepwise_equals_fused),
    Law("looking changes nothing", lambda _: True, looking_changes_nothing),
)


def run(model: nn.Module, ids: Tensor, mask: Tensor | None = None, target: Tensor | None = None) -> dict[str, Tensor]:
    """forward's outputs by name; an encoder-decoder gets the same target for every source."""
    device = next(model.parameters()).device
    inputs = {"input_ids": ids, "attention_mask": mask}
    if as_model(model).config.is_encoder_decoder:
        inputs["decoder_input_ids"] = some_target(model, len(ids)) if target is None else target
    with torch.inference_mode():
        outputs = model(**{name: value.to(device) for name, value in inputs.items() if value is not None})
    return {name: value.cpu() for name, value in outputs._asdict().items()}


def pad(sequences: Sequences, model: nn.Module, *, side: str = "right", extra: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, S) each."""
    width = max(map(len, sequences)) + extra
    ids = torch.full((len(sequences), width), as_model(model).config.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        part = slice(0, len(sequence)) if side == "right" else slice(width - len(sequence), width)
        ids[row, part] = torch.tensor(sequence)
        mask[row, part] = 1
    return ids, mask


def some_target(model: nn.Module, batch: int, length: int = 7) -> Tensor:
    """(B, T) target tokens, the same in every row."""
    start = as_model(model).config.to_hf().get("decoder_start_token_id")
    ids = [start or 0, *(5 * number + 3 for number in range(1, length))]
    return torch.tensor([[token % as_model(model).config.target_vocab_size for token in ids]]).repeat(batch, 1)


def error(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape or not other.numel():
        return float("inf") if one.shape != other.shape else 0.0
    difference = (one.double() - other.double()).abs().max()
    worst = float(difference / max(1.0, float(other.double().abs().max())))
    return worst if worst == worst else float("inf")  # NaN is a breach, not a pass


def _source_and_target(model: nn.Module, sequence: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What is read first, and what is decoded: the same thing in a decoder-only model."""
    ids = torch.tensor([list(sequence)])
    return ids, some_target(model, 1) if as_model(model).config.is_encoder_decoder else ids


def _decoded(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    outputs = run(model, source, target=target) if as_model(model).config.is_encoder_decoder else run(model, target)
    return outputs["logits"]


def stepped(stepper: Stepper[Any], source: Tensor, mask: Tensor | None, chunks: Sequence[Tensor]) -> Tensor:
    """The logits (B, T, V) of decoding chunk by chunk."""
    logits = []
    with torch.inference_mode():
        state = stepper.start(source, mask, length=sum(ids.shape[1] for ids in chunks))
        for ids in chunks:
            part, state = stepper.step(ids, state)
            logits.append(part.cpu())
    return torch.cat(logits, dim=1)


def _has(model: nn.Module, ending: str) -> bool:
    return any(name.endswith(ending) for name, _ in model.named_modules())
