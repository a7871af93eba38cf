"""The walks of heads: each yields the outputs that it gives by name, computed as they are asked for.

B batch, S length, D model width. A head is given the hidden states (B, S, D), and a way to come by the summary (B, D)
of each text, which adds its steps when it is first called.
"""

from collections.abc import Callable, Iterator

from glassformer.blocks.output import Bias, LMHead, ScaledHead
from glassformer.models.heads import (
    ClassifierHead,
    MaskedLMHead,
    NextSentenceHead,
    Pooler,
    PredictionTransform,
    PretrainingHead,
    ReplacedTokenHead,
    SpanHead,
    TokenClassifierHead,
)

from ..formulas import RESIDUAL, TANH, Formula, activation
from ..walk import Walk, walks

Summary = Callable[[], str]
Outputs = Iterator[tuple[str, str]]  # the name of an output, and of the value that it is


def walk_head(walk: Walk, name: str, hidden: str, summary: Summary) -> Outputs:
    """The outputs of any head; one that is a layer of its own reads the summary or the tokens, and gives logits."""
    if len(walk.calls[name][-1].args) > 1:
        yield from walk.walk_of(name)(walk, name, hidden, summary)
    else:
        yield "logits", walk.block(name, summary() if walk.fed(name).dim() == 2 else hidden)


@walks(TokenClassifierHead)
def walk_token_classifier(walk: Walk, name: str, hidden: str, _: Summary) -> Outputs:
    yield "logits", walk.block(f"{name}.output", walk.block(f"{name}.transform", hidden))


@walks(SpanHead)
def walk_span(walk: Walk, name: str, hidden: str, _: Summary) -> Outputs:
    both = walk.block(f"{name}.output", walk.block(f"{name}.transform", hidden))
    for column, end in enumerate(("start", "end")):
        yield f"{end}_logits", walk.add(f"{name}.{end}", column_of(column), {"x": both})


@walks(NextSentenceHead)
def walk_next_sentence(walk: Walk, name: str, _: str, summary: Summary) -> Outputs:
    yield "logits", walk.block(f"{name}.output", summary())


@walks(ClassifierHead)
def walk_classifier(walk: Walk, name: str, _: str, summary: Summary) -> Outputs:
    part, x = walk.part(name, ClassifierHead), walk.block(f"{name}.transform", summary())
    if part.activation is not None:
        operands = {"x": walk.block(f"{name}.dense", x)}
        x = walk.add(f"{name}.activated", activation(part.activation), operands, walk.fed(f"{name}.output"))
    yield "logits", walk.block(f"{name}.output", x)


@walks(PredictionTransform)
def walk_transform(walk: Walk, name: str, x: str) -> str:
    operands = {"x": walk.block(f"{name}.dense", x)}
    formula = activation(walk.part(name, PredictionTransform).activation)
    return walk.block(f"{name}.norm", walk.add(f"{name}.activated", formula, operands, walk.fed(f"{name}.norm")))


@walks(MaskedLMHead)
def walk_masked_lm(walk: Walk, name: str, hidden: str, _: Summary) -> Outputs:
    operands = {"x": walk.block(f"{name}.dense", hidden)}
    formula = activation(walk.part(name, MaskedLMHead).activation)
    x = walk.add(f"{name}.activated", formula, operands, walk.fed(f"{name}.norm"))
    yield "logits", walk.block(f"{name}.decoder", walk.block(f"{name}.norm", x))


@walks(PretrainingHead)
def walk_pretraining(walk: Walk, name: str, hidden: str, summary: Summary) -> Outputs:
    names = walk.part(name, PretrainingHead).outputs._fields
    for part, output in zip(("words", "sentences"), names, strict=True):
        inner = walk.walk_of(f"{name}.{part}")
        yield from ((output, logits) for _, logits in inner(walk, f"{name}.{part}", hidden, summary))


@walks(ReplacedTokenHead)
def walk_replaced_token(walk: Walk, name: str, hidden: str, _: Summary) -> Outputs:
    operands = {"x": walk.block(f"{name}.dense", hidden)}
    formula = activation(walk.part(name, ReplacedTokenHead).activation)
    x = walk.add(f"{name}.activated", formula, operands, walk.fed(f"{name}.output"))
    yield "logits", walk.add(f"{name}.score", column_of(0), {"x": walk.block(f"{name}.output", x)})


@walks(LMHead)
def walk_lm(walk: Walk, name: str, x: str) -> str:
    operands = {"x": walk.block(f"{name}.output", x), "y": f"{name}.bias"}
    return walk.add(f"{name}.biased", RESIDUAL, operands, walk.out(name))


@walks(ScaledHead)
def walk_scaled_head(walk: Walk, name: str, x: str) -> str:
    scale = walk.part(name, ScaledHead).scale
    formula = Formula(f"{scale:.4g} · x", rf"{scale:.4g} \, x", lambda x: x * scale)
    return walk.block(f"{name}.output", walk.add(f"{name}.scaled", formula, {"x": x}, walk.fed(f"{name}.output")))


@walks(Bias)
def walk_bias(walk: Walk, name: str, x: str) -> str:
    return walk.add(name, RESIDUAL, {"x": x, "y": f"{name}.bias"}, walk.out(name))


@walks(Pooler)
def walk_pooler(walk: Walk, name: str, first: str) -> str:
    return walk.add(name, TANH, {"x": walk.block(f"{name}.dense", first)}, walk.out(name))


def column_of(number: int) -> Formula:
    return Formula(f"x[…, {number}]", rf"x_{{:, {number}}}", lambda x: x[..., number])
