"""The textbook: every formula of a forward pass as text, as LaTeX, and as plain algebra on float64 tensors.

B batch, T target length, S source length, D model width, H heads, K head width, W recurrent width.
Nothing here calls a module: a formula is given its operands, weights included, and returns a value.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.blocks.activations import ACTIVATIONS, Activation

from . import numbers
from .numbers import Number


@dataclass(frozen=True)
class Formula:
    """How a value follows from its operands, for people and for the machine."""

    text: str
    latex: str
    compute: Callable[..., Tensor]
    number: Number | None = None  # what one number of it is made from


LOOKUP = Formula("E[i]", r"E_{i}", lambda i, table: table[i])
LINEAR = Formula("x Wᵀ + b", r"x W^\top + b", lambda x, weight, *bias: sum(bias, x @ weight.mT), numbers.linear())
RESIDUAL = Formula("x + y", r"x + y", lambda x, y: x + y, numbers.alike("x", "y"))
MIX = Formula("pattern · v", r"A v", lambda pattern, value: pattern @ value)
CONCATENATION = Formula("[a; b; …]", r"[a; b; \dots]", lambda *parts: torch.cat(parts, dim=-1))
IDENTITY = Formula("x", "x", lambda x: x, numbers.alike("x"))
TANH = Formula("tanh(x)", r"\tanh(x)", lambda x: x.tanh(), numbers.alike("x"))
AT_PADDING = Formula("x, 0 at padding", r"x \odot m", lambda x, keep: x * keep[..., None])
BOTH = Formula("keep[j] and order[i, j]", r"m_j \wedge o_{ij}", lambda keep, order: keep[:, None] & order)
STACK = Formula("x₁, x₂, …", r"(x_1, \dots, x_T)", lambda *steps: torch.stack(steps, dim=1))
FIRST = Formula(
    "the first real token of x",
    r"x_{\min\{t \mid m_t = 1\}}",
    lambda x, keep: x[torch.arange(len(x)), keep.int().argmax(1)],
)
MEAN = Formula(
    "the mean of x over real tokens",
    r"\frac{\sum_t m_t x_t}{\sum_t m_t}",
    lambda x, keep: (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1),
)
MAXIMUM = Formula(
    "the largest of x over real tokens",
    r"\max_{t : m_t = 1} x_t",
    lambda x, keep: torch.where(keep[..., None], x, -torch.inf).amax(1),
)
CROSS_ENTROPY = Formula(
    "−mean log softmax(logits)[label]",
    r"-\frac{1}{N} \sum_n \log \mathrm{softmax}(z_n)_{y_n}",
    lambda logits, labels: _cross_entropy(logits, labels),
)
BINARY = Formula(
    "−mean [y log σ(z) + (1 − y) log(1 − σ(z))]",
    r"-\frac{1}{N} \sum_n y_n \log \sigma(z_n) + (1 - y_n) \log(1 - \sigma(z_n))",
    lambda logits, y: (logits.clamp(min=0) - logits * y + (-logits.abs()).exp().log1p()).mean(),
)
SQUARED = Formula(
    "mean (z − y)²", r"\frac{1}{N} \sum_n (z_n - y_n)^2", lambda logits, y: ((logits[..., 0] - y) ** 2).mean()
)


def total(kinds: Iterable[str], factor: float) -> Formula:
    """The vectors of a token, its segment and its position; a Transformer makes the token's larger first."""
    text = " + ".join(kinds)
    if factor == 1.0:
        return Formula(text, rf"\mathrm{{{text}}}", lambda x, *more: sum(more, x))
    return Formula(
        f"{factor:.4g} · {text}", rf"{factor:.4g} \cdot \mathrm{{{text}}}", lambda x, *more: sum(more, x * factor)
    )


def shifted(offset: int) -> Formula:
    """Positions whose first rows are never used."""
    return Formula(f"E[i + {offset}]", rf"E_{{i+{offset}}}", lambda i, table: table[i + offset])


def sinusoid(width: int) -> Formula:
    """Vaswani's positions: sines in the first half, cosines in the second."""

    def compute(places: Tensor) -> Tensor:
        rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = places[..., None] * rates
        return torch.cat([angles.sin(), angles[..., : width // 2].cos()], dim=-1)

    return Formula(
        "sin, cos(i / 10000^(2k/D))", rf"\sin, \cos\left(i / 10000^{{2k/{width}}}\right)", lambda i: compute(i)
    )


def norm(epsilon: float) -> Formula:
    """Layer normalisation."""

    def compute(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / (variance + epsilon).sqrt() * gain + shift

    return Formula(
        "(x − mean) / √(variance + ε) · γ + β",
        r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta",
        compute,
        numbers.norm,
    )


def one_head(number: int, width: int) -> Formula:
    """A projection, of which a head has its own rows."""
    part = slice(number * width, (number + 1) * width)
    return Formula(
        "x W_hᵀ + b_h",
        r"x W_h^\top + b_h",
        lambda x, weight, *bias: sum((b[part] for b in bias), x @ weight[part].mT),
        numbers.linear(part.start),
    )


def scores(scale: float, width: int) -> Formula:
    """Queries against keys, (B, T, K) and (B, S, K) -> (B, T, S)."""
    usual = abs(scale - width**-0.5) < 1e-12
    return Formula(
        f"q kᵀ / √{width}" if usual else f"q kᵀ · {scale:.4g}",
        rf"\frac{{q k^\top}}{{\sqrt{{{width}}}}}" if usual else rf"{scale:.4g} \, q k^\top",
        lambda query, key: query @ key.mT * scale,
    )


def masked_softmax(values: Tensor, mask: Tensor) -> Tensor:
    """exp(x) over its sum, over what may be looked at; zero where nothing may be."""
    kept = values.masked_fill(~mask, -torch.inf)
    highest = kept.amax(-1, keepdim=True)
    risen = (kept - highest.masked_fill(highest == -torch.inf, 0.0)).exp()
    total = risen.sum(-1, keepdim=True)
    return risen / total.masked_fill(total == 0, 1.0)


SOFTMAX = Formula("softmax(scores where mask, else −∞)", r"\mathrm{softmax}(s + \log m)", masked_softmax)


def activation(function: Activation) -> Formula:
    """One of the activations that configs name."""
    name = next((name for name, known in ACTIVATIONS.items() if known is function), "activation")
    return Formula(f"{name}(x)", rf"\mathrm{{{name.replace('_', '-')}}}(x)", function, numbers.alike("x"))


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over labels that are not −100, as Hugging Face counts it."""
    rows, wanted = logits.flatten(0, -2), labels.flatten()
    rows, wanted = rows[wanted >= 0], wanted[wanted >= 0]
    highest = rows.amax(-1, keepdim=True)
    total = (rows - highest).exp().sum(-1).log() + highest[:, 0]
    return (total - rows[torch.arange(len(rows)), wanted]).mean()


# Recurrent cells. x_t is the input, h the state before it; W, b belong to the input and U, c to the state.


def gate(symbol: str, row: int, width: int, squash: Callable[[Tensor], Tensor], called: str) -> Formula:
    """One gate: its rows of the weights, and what bounds it."""
    part = slice(row * width, (row + 1) * width)

    def compute(x: Tensor, h: Tensor, w: Tensor, b: Tensor, u: Tensor, c: Tensor) -> Tensor:
        return squash(x @ w[part].mT + b[part] + h @ u[part].mT + c[part])

    at = f"_{symbol}" if symbol else ""
    text = f"{called}(x W{at}ᵀ + b{at} + h U{at}ᵀ + c{at})"
    return Formula(text, _latex_gate(symbol, called), compute, numbers.gate(part.start))


def _latex_gate(symbol: str, called: str) -> str:
    at = rf"_{{{symbol}}}" if symbol else ""
    name = {"σ": r"\sigma"}.get(called, rf"\mathrm{{{called}}}")
    return rf"{name}\left(x W{at}^\top + b{at} + h U{at}^\top + c{at}\right)"


def gru_candidate(width: int) -> Formula:
    part = slice(2 * width, 3 * width)

    def compute(x: Tensor, h: Tensor, r: Tensor, *weights: Tensor) -> Tensor:
        w, b, u, c = (weight[part] for weight in weights)
        return (x @ w.mT + b + r * (h @ u.mT + c)).tanh()

    return Formula(
        "tanh(x W_nᵀ + b_n + r · (h U_nᵀ + c_n))",
        r"\tanh\left(x W_n^\top + b_n + r \odot (h U_n^\top + c_n)\right)",
        compute,
        numbers.gru_candidate(part.start),
    )


GRU_HIDDEN = Formula(
    "(1 − z) · n + z · h",
    r"(1 - z) \odot n + z \odot h",
    lambda z, n, h: (1 - z) * n + z * h,
    numbers.alike("z", "n", "h"),
)
LSTM_CELL = Formula(
    "f · c + i · g",
    r"f \odot c + i \odot g",
    lambda f, c, i, g: f * c + i * g,
    numbers.alike("f", "c", "i", "g"),
)
LSTM_HIDDEN = Formula("o · tanh(c)", r"o \odot \tanh(c)", lambda o, c: o * c.tanh(), numbers.lstm_hidden)


def kept(time: int) -> Formula:
    """At padding the state stays as it was."""
    return Formula(
        "new where real, else old",
        r"m_t h' + (1 - m_t) h",
        lambda new, old, keep: torch.where(keep[:, time, None], new, old),
    )


# The attentions of the RNN era: query (B, T, W) or one of them (B, W), keys (B, S, ·).


def dot(scale: float) -> Formula:
    text, latex = ("q mᵀ", r"q m^\top") if scale == 1.0 else (f"q mᵀ · {scale:.4g}", rf"{scale:.4g} \, q m^\top")
    return Formula(text, latex, lambda q, m: _beside(q, m, lambda a, b: (a * b).sum(-1) * scale), numbers.dot)


ADDED = Formula(
    "v · tanh(q Wᵀ + k)",
    r"v^\top \tanh(W q + k)",
    lambda q, k, w, v: _beside(q @ w.mT, k, lambda a, b: (a + b).tanh() @ v[0]),
    numbers.added(),
)


def concat_keys(query_width: int) -> Formula:
    return Formula("m W[:, q:]ᵀ", r"m W_m^\top", lambda m, w: m @ w[:, query_width:].mT)


def concat(query_width: int) -> Formula:
    """The two halves of W applied apart, as (q; m) Wᵀ is their sum."""
    return Formula(
        "v · tanh(W [q; m])",
        r"v^\top \tanh(W [q; m])",
        lambda q, k, w, v: _beside(q @ w[:, :query_width].mT, k, lambda a, b: (a + b).tanh() @ v[0]),
        numbers.added(query_width),
    )


def _beside(query: Tensor, keys: Tensor, meet: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Every query with every key: (B, T, S), or (B, S) where there is one query."""
    if query.dim() == 2:
        return meet(query[:, None], keys)
    return meet(query[:, :, None], keys[:, None])


ALIGN = Formula(
    "softmax(scores where real, else −∞)",
    r"\mathrm{softmax}(s + \log m)",
    lambda found, keep: masked_softmax(found, keep if found.dim() == 2 else keep[:, None]),
)
CONTEXT = Formula(
    "pattern · memory",
    r"\sum_s a_s m_s",
    lambda pattern, memory: (pattern[:, None] @ memory)[:, 0] if pattern.dim() == 2 else pattern @ memory,
)


def column(number: int) -> Formula:
    return Formula(f"x[…, {number}]", rf"x_{{:, {number}}}", lambda x: x[..., number])


def as_float64(value: Tensor) -> Tensor:
    """Floats widened; ids and masks as they are."""
    return value.double() if value.is_floating_point() else value
