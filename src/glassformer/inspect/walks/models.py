"""The walk of a whole model, put together by the names that all architectures share; each block has its own walk.

Nothing here knows an architecture; a model whose parts fit together otherwise is found out, because its outputs,
computed while it has no hooks, are steps as well. Such a model's class can have a walk of its own.
"""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model

from ..calls import Calls
from ..formulas import AT_PADDING, IDENTITY, Formula
from ..walk import Walk, registered
from .attention import MaskOperands, order, walk_attention_alone
from .gates import PastOperands
from .heads import Outputs, Summary, walk_head
from .loss import walk_loss
from .recurrent import walk_recurrent, walk_together
from .recurrent_decoder import walk_bridge, walk_recurrent_decoder

FIRST = Formula(
    "the first real token of x",
    r"x_{\min\{t \mid m_t = 1\}}",
    lambda x, keep: x[torch.arange(len(x)), keep.int().argmax(1)],
)


LAST = Formula(
    "the last real token of x",
    r"x_{\max\{t \mid m_t = 1\}}",
    lambda x, keep: x[torch.arange(len(x)), keep.shape[1] - 1 - keep.flip(1).int().argmax(1)],
)


def walk_model(model: nn.Module, inputs: Mapping[str, Tensor], calls: Calls, outputs: Mapping[str, Tensor]) -> Walk:
    """Every step from the ids to the outputs, and to the loss where labels are given."""
    walk = Walk(model, calls)
    own = registered(type(model)) or walk_by_names
    for name, value in own(walk, inputs):
        walk.add(name, IDENTITY, {"x": value}, outputs[name])
    walk_loss(walk, inputs, outputs)
    return walk


def walk_one_attention(model: nn.Module, inputs: Mapping[str, Tensor], calls: Calls, name: str) -> Walk:
    """The steps of one attention alone, from what entered it."""
    walk = Walk(model, calls)
    walk.given = {weight: value for weight, value in walk.given.items() if weight.startswith(f"{name}.")}
    writes, crosses = name.startswith("decoder."), name.endswith(".cross_attention")
    side = "decoder_" if writes and not crosses else ""
    keep = _keep(walk, inputs, f"{side}attention_mask", f"{side}input_ids")
    causal = as_model(model).is_causal and not crosses and not name.startswith("encoder.")
    walk_attention_alone(walk, name, keep, crosses=crosses, causal=causal)
    return walk


def walk_by_names(walk: Walk, inputs: Mapping[str, Tensor]) -> Outputs:
    """[encoder.]embeddings, layers or a recurrent network, [decoder.…,] and a head."""
    keep = _keep(walk, inputs, "attention_mask", "input_ids")
    model = as_model(walk.model)
    if not model.config.is_encoder_decoder:
        hidden, state = _read(walk, "", keep, causal=model.is_causal)
        yield from _outputs(walk, hidden, cache(lambda: _summary(walk, hidden, state, keep)))
        return
    memory, state = _read(walk, "encoder.", keep, causal=False)
    target = _keep(walk, inputs, "decoder_attention_mask", "decoder_input_ids")
    hidden = _write(walk, memory, state, keep, target)
    yield from _outputs(walk, hidden, cache(lambda: _summary(walk, hidden, [], target)))
    yield "encoder_last_hidden_state", memory


def _keep(walk: Walk, inputs: Mapping[str, Tensor], mask: str, ids: str) -> str:
    """(B, T): which tokens are real."""
    given = inputs.get(mask)
    return walk.give(mask, torch.ones_like(inputs[ids], dtype=torch.bool) if given is None else given.bool())


def _read(walk: Walk, side: str, keep: str, *, causal: bool) -> tuple[str, list[PastOperands]]:
    """Embeddings and a body: the hidden states, and what a recurrent body remembers at the end."""
    x, length = walk.block(f"{side}embeddings"), walk.given[keep].shape[1]
    if f"{side}recurrent" in walk.parts:
        name = f"{side}recurrent"
        outputs, state = walk_recurrent(walk, name, [f"{x}[{time}]" for time in range(length)], keep)
        return walk_together(walk, name, outputs, keep), state
    if f"{side}convolution" in walk.parts:
        x = walk.block(f"{side}convolution", x, keep)
    if f"{side}features" in walk.parts:  # which are pooled
        return walk.add(f"{side}features", AT_PADDING, {"x": x, "keep": keep}, walk.out(f"{side}features")), []
    who = order(walk, f"{side}order", length, length, causal=causal)
    return _layers(walk, side, x, MaskOperands(who, keep)), []


def _write(walk: Walk, memory: str, state: list[PastOperands], source: str, target: str) -> str:
    """The decoder: what its output layer reads."""
    x = walk.block("decoder.embeddings")
    if "decoder.recurrent" in walk.parts:
        return walk_recurrent_decoder(walk, x, memory, walk_bridge(walk, state), source, target)
    length, sources = walk.given[target].shape[1], walk.given[source].shape[1]
    own = MaskOperands(order(walk, "decoder.order", length, length, causal=True), target)
    across = MaskOperands(order(walk, "decoder.across", length, sources, causal=False), source)
    return _layers(walk, "decoder.", x, own, memory, across)


def _layers(walk: Walk, side: str, x: str, mask: MaskOperands, *source: object) -> str:
    """A stack and, where there is one, the norm after it, which leaves padding at zero too."""
    x = walk.block(f"{side}layers", x, mask, *source)
    if f"{side}final_norm" not in walk.parts:
        return x
    x = walk.block(f"{side}final_norm", x)
    if bool(walk.given[mask.keep].all()):
        return x
    return walk.add(f"{side}hidden", AT_PADDING, {"x": x, "keep": mask.keep})


def _outputs(walk: Walk, hidden: str, summary: Summary) -> Outputs:
    """What a head gives; without one the hidden states, and their summary where there is a pooler."""
    if "head" in walk.parts:
        yield from walk_head(walk, "head", hidden, summary)
        return
    yield "last_hidden_state", hidden
    if "pooler" in walk.parts:
        yield "pooler_output", summary()


def _summary(walk: Walk, hidden: str, state: list[PastOperands], keep: str) -> str:
    """One vector a text."""
    if "pooling" in walk.parts:
        return walk.block("pooling", hidden, state, keep)
    operands = {"x": hidden, "keep": keep}
    if "pooler" not in walk.parts:
        formula = LAST if as_model(walk.model).is_causal else FIRST
        return walk.add("summary", formula, operands, walk.fed("head", argument=1))
    return walk.block("pooler", walk.add("summary", FIRST, operands, walk.fed("pooler")))
