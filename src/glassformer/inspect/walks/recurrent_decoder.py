"""The walk of an RNN decoder that attends before each token (Bahdanau), after all of them (Luong), or not at all."""

from glassformer.blocks.alignment import Alignment

from ..formulas import AT_PADDING, CONCATENATION, STACK, TANH
from ..walk import Walk
from .alignment import walk_scorer
from .gates import PastOperands
from .recurrent import walk_recurrent, walk_together

NAME, ATTENTION = "decoder.recurrent", "decoder.attention"


def walk_bridge(walk: Walk, state: list[PastOperands]) -> list[PastOperands]:
    """The encoder's last state as the decoder's first: as it is, or both directions joined."""
    if "bridge.hidden.0" not in walk.parts:
        return state
    found: list[PastOperands] = []
    for number, (right, left) in enumerate(zip(state[0::2], state[1::2], strict=True)):
        past = {}
        for kind in right:
            name = f"bridge.{kind}.{number}"
            both = {"left to right": right[kind], "right to left": left[kind]}
            past[kind] = walk.block(name, walk.add(f"{name}.joined", CONCATENATION, both, walk.fed(name)))
            if kind == "hidden":
                past[kind] = walk.add(f"{name}.tanh", TANH, {"x": past[kind]})
        found.append(past)
    return found


def walk_recurrent_decoder(walk: Walk, x: str, memory: str, state: list[PastOperands], source: str, target: str) -> str:
    """What the output layer reads, from embeddings `x`; `source` and `target`: which tokens are real."""
    tokens = [f"{x}[{time}]" for time in range(walk.given[target].shape[1])]
    if ATTENTION not in walk.parts:
        return walk_together(walk, NAME, walk_recurrent(walk, NAME, tokens, target, state)[0], target)
    compared = walk_scorer(walk, ATTENTION, memory)
    if walk.part(ATTENTION, Alignment).stepwise:
        contexts, outputs = [], []
        for time, token in enumerate(tokens):
            context = walk.block(ATTENTION, state[-1]["hidden"], memory, source, compared, time=time)
            operands = {"embedding": token, "context": context}
            both = walk.add(f"{NAME}.given.step.{time}", CONCATENATION, operands, walk.fed(NAME, time)[:, 0])
            found, state = walk_recurrent(walk, NAME, [both], target, state, first=time)
            contexts.append(context)
            outputs += found
        hidden, context = (
            walk.add(f"decoder.{called}", STACK, {f"x{place}": one for place, one in enumerate(steps)})
            for called, steps in (("hidden", outputs), ("context", contexts))
        )
    else:
        hidden = walk_together(walk, NAME, walk_recurrent(walk, NAME, tokens, target, state)[0], target)
        context = walk.block(ATTENTION, hidden, memory, source, compared)
    operands = {"context": context, "hidden": hidden}
    joined = walk.add("decoder.combine.given", CONCATENATION, operands, walk.fed("decoder.combine"))
    operands = {"x": walk.block("decoder.combine", joined)}
    if bool(walk.given[target].all()):
        return walk.add("decoder.combined", TANH, operands, walk.fed("head"))
    combined = walk.add("decoder.combined", TANH, operands)
    return walk.add("decoder.real", AT_PADDING, {"x": combined, "keep": target}, walk.fed("head"))
