"""The steps of a whole model, put together by the names that all architectures share.

Nothing here knows an architecture; a model whose parts fit together otherwise is found out, because its outputs,
computed while nobody listens, are steps as well.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.transformer import Stack

from . import formulas
from .laws import is_encoder_decoder
from .steps import Calls, Walk
from .walk_loss import loss
from .walk_recurrent import Past, align, keys, recurrent, start, together
from .walk_transformer import attention_alone, embeddings, layers, order

POOLED = {"mean": formulas.MEAN, "max": formulas.MAXIMUM}


def walk_model(model: nn.Module, inputs: Mapping[str, Any], calls: Calls, outputs: Mapping[str, Tensor]) -> Walk:
    """Every step from the ids to the outputs, and to the loss where labels are given."""
    walk = Walk(model, calls)
    keep = _keep(walk, inputs, "attention_mask", "input_ids")
    sources: dict[str, Callable[[], str]]
    if is_encoder_decoder(model):
        memory, state = _read(walk, "encoder.", keep, causal=False)
        hidden = _write(walk, memory, state, keep, _keep(walk, inputs, "decoder_attention_mask", "decoder_input_ids"))
        sources = {"encoder_last_hidden_state": lambda: memory}
    else:
        hidden, state = _read(walk, "", keep, causal=_looks_back(model))
        sources = {}
    pooling = getattr(model.config, "pooling", "first")
    summary = cache(lambda: _summary(walk, hidden, state, keep, pooling))
    sources |= {"last_hidden_state": lambda: hidden, "pooler_output": summary, **_scores(walk, hidden, summary)}
    for name, value in outputs.items():
        walk.add(name, formulas.IDENTITY, {"x": sources[name]()}, value)
    loss(walk, model, inputs, outputs)
    return walk


def walk_attention(model: nn.Module, inputs: Mapping[str, Any], calls: Calls, name: str) -> Walk:
    """The steps of one attention alone, from what entered it."""
    walk = Walk(model, calls)
    walk.given = {weight: value for weight, value in walk.given.items() if weight.startswith(f"{name}.")}
    writes, crosses = name.startswith("decoder."), name.endswith(".cross_attention")
    side = "decoder_" if writes and not crosses else ""
    keep = _keep(walk, inputs, f"{side}attention_mask", f"{side}input_ids")
    attention_alone(walk, name, keep, crosses=crosses, causal=bool(side) or _looks_back(model))
    return walk


def _looks_back(model: nn.Module) -> bool:
    """Whether it has no encoder and writes: what steps, never looks ahead."""
    return hasattr(model, "step") and not is_encoder_decoder(model)


def _keep(walk: Walk, inputs: Mapping[str, Any], mask: str, ids: str) -> str:
    """(B, T): which tokens are real."""
    given = inputs.get(mask)
    return walk.give(mask, torch.ones_like(inputs[ids], dtype=torch.bool) if given is None else given.bool())


def _read(walk: Walk, side: str, keep: str, *, causal: bool) -> tuple[str, list[Past]]:
    """Embeddings and a body: the hidden states, and what a recurrent body remembers at the end."""
    x, mask = embeddings(walk, f"{side}embeddings"), walk.given[keep]
    if f"{side}recurrent" in walk.parts:
        name, texts = f"{side}recurrent", [f"{x}[{time}]" for time in range(mask.shape[1])]
        outputs, state = recurrent(walk, name, texts, keep, start(walk, name, len(mask)))
        return together(walk, name, outputs, keep), state
    stack, length = f"{side}layers", mask.shape[1]
    x = layers(walk, stack, x, order(walk, f"{side}order", length, length, causal=causal), keep)
    hides = isinstance(walk.parts[stack], Stack) and not bool(mask.all())
    if hides:
        x = walk.add(stack, formulas.AT_PADDING, {"x": x, "keep": keep}, walk.out(stack))
    if f"{side}final_norm" in walk.parts:
        x = walk.norm(f"{side}final_norm", x)
        x = walk.add(f"{side}hidden", formulas.AT_PADDING, {"x": x, "keep": keep}) if hides else x
    return x, []


def _write(walk: Walk, memory: str, state: list[Past], source: str, target: str) -> str:
    """The decoder: what its output layer reads."""
    x = embeddings(walk, "decoder.embeddings")
    if "decoder.recurrent" in walk.parts:
        return _write_by_steps(walk, x, memory, _bridge(walk, state), source, target)
    length, sources = walk.given[target].shape[1], walk.given[source].shape[1]
    own = order(walk, "decoder.order", length, length, causal=True)
    across = (order(walk, "decoder.across", length, sources, causal=False), source)
    x = layers(walk, "decoder.layers", x, own, target, memory=memory, across=across)
    return walk.norm("decoder.final_norm", x) if "decoder.final_norm" in walk.parts else x


def _bridge(walk: Walk, state: list[Past]) -> list[Past]:
    """The encoder's last state as the decoder's first: as it is, or both directions joined."""
    if "bridge.hidden.0" not in walk.parts:
        return state
    found: list[Past] = []
    for number, (right, left) in enumerate(zip(state[0::2], state[1::2], strict=True)):
        past = {}
        for kind in right:
            name = f"bridge.{kind}.{number}"
            both = {"left to right": right[kind], "right to left": left[kind]}
            joined = walk.add(f"{name}.joined", formulas.CONCATENATION, both, walk.fed(name))
            past[kind] = walk.linear(name, joined)
            if kind == "hidden":
                past[kind] = walk.add(f"{name}.tanh", formulas.TANH, {"x": past[kind]})
        found.append(past)
    return found


def _write_by_steps(walk: Walk, x: str, memory: str, state: list[Past], source: str, target: str) -> str:
    """An RNN decoder: attending before each token (Bahdanau), after all of them (Luong), or not at all."""
    name, attention = "decoder.recurrent", "decoder.attention"
    texts = [f"{x}[{time}]" for time in range(walk.given[target].shape[1])]
    if attention not in walk.parts:
        return together(walk, name, recurrent(walk, name, texts, target, state)[0], target)
    compared, part = keys(walk, attention, memory), walk.parts[attention]
    if part.stepwise:
        contexts, outputs = [], []
        for time, token in enumerate(texts):
            query = state[-1]["hidden"]
            context = align(walk, attention, query, memory, source, compared, time=time)
            given = {"embedding": token, "context": context}
            fed = walk.fed(name, time)[:, 0]
            both = walk.add(f"{name}.given.step.{time}", formulas.CONCATENATION, given, fed)
            found, state = recurrent(walk, name, [both], target, state, first=time)
            contexts.append(context)
            outputs += found
        hidden, context = (
            walk.add(f"decoder.{called}", formulas.STACK, {f"x{place}": one for place, one in enumerate(steps)})
            for called, steps in (("hidden", outputs), ("context", contexts))
        )
    else:
        hidden = together(walk, name, recurrent(walk, name, texts, target, state)[0], target)
        context = align(walk, attention, hidden, memory, source, compared)
    read = {"context": context, "hidden": hidden}
    joined = walk.add("decoder.combine.given", formulas.CONCATENATION, read, walk.fed("decoder.combine"))
    combined = walk.linear("decoder.combine", joined)
    return walk.add("decoder.combined", formulas.TANH, {"x": combined}, walk.fed("head"))


def _summary(walk: Walk, hidden: str, state: list[Past], keep: str, pooling: str) -> str:
    """One vector a text."""
    if pooling == "last":
        part: Any = walk.parts["recurrent"]
        top = {f"h{way}": past["hidden"] for way, past in enumerate(state[-part.directions :])}
        return walk.add("summary", formulas.CONCATENATION, top, walk.fed("head"))
    if pooling in POOLED:
        return walk.add("summary", POOLED[pooling], {"x": hidden, "keep": keep}, walk.fed("head"))
    reader = next(name for name in ("pooler", "head.dense", "head.output") if name in walk.parts)
    first = walk.add("summary", formulas.FIRST, {"x": hidden, "keep": keep}, walk.fed(reader))
    if reader != "pooler":
        return first
    return walk.add("pooler", formulas.TANH, {"x": walk.linear("pooler.dense", first)}, walk.out("pooler"))


def _scores(walk: Walk, hidden: str, summary: Callable[[], str]) -> dict[str, Callable[[], str]]:
    """How each output that a head may have is come by."""

    def of(name: str) -> str:
        return _head(walk, name, hidden, summary)

    whole = cache(lambda: of("head"))
    return {
        "logits": whole,
        "start_logits": lambda: walk.add("head.start", formulas.column(0), {"x": whole()}),
        "end_logits": lambda: walk.add("head.end", formulas.column(1), {"x": whole()}),
        "prediction_logits": lambda: of("head.words"),
        "seq_relationship_logits": lambda: of("head.sentences"),
    }


def _head(walk: Walk, name: str, hidden: str, summary: Callable[[], str]) -> str:
    """[dense, activation,] [norm,] output; over the summary, or over every token."""
    part: Any = walk.parts[name]
    last = next((f"{name}.{end}" for end in ("decoder", "output") if f"{name}.{end}" in walk.parts), name)
    dense = f"{name}.dense"
    reader = dense if dense in walk.parts else last
    x = summary() if walk.fed(reader).dim() == 2 else hidden
    if dense in walk.parts:
        after = f"{name}.norm" if f"{name}.norm" in walk.parts else last
        how = formulas.activation(part.activation)
        x = walk.add(f"{name}.activated", how, {"x": walk.linear(dense, x)}, walk.fed(after))
    if f"{name}.norm" in walk.parts:
        x = walk.norm(f"{name}.norm", x)
    x = walk.linear(last, x)
    if last != name and "bias" in dict(part.named_buffers(recurse=False)):
        x = walk.add(f"{name}.biased", formulas.RESIDUAL, {"x": x, "y": f"{name}.bias"}, walk.out(name))
    return x
