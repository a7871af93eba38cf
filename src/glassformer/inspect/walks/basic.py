"""The walks of torch's own modules: linear layers, layer norms, look-ups, and lists of modules."""

import torch
from torch import Tensor, nn

from ..formulas import Formula
from ..numbers import Place, linear, row_of
from ..walk import Walk, walks

LINEAR = Formula("x Wᵀ + b", r"x W^\top + b", lambda x, weight, *bias: sum(bias, x @ weight.mT), linear())
LOOKUP = Formula("E[i]", r"E_{i}", lambda i, table: table[i])


@walks(nn.Linear)
def walk_linear(walk: Walk, name: str, x: str) -> str:
    return walk.add(name, LINEAR, {"x": x, **walk.weights(name, W="weight", b="bias")}, walk.out(name))


@walks(nn.Embedding)
def walk_lookup(walk: Walk, name: str, ids: str, formula: Formula = LOOKUP) -> str:
    seen = walk.out(name) if name in walk.calls else None  # of a segment that is nobody's, the table alone is read
    return walk.add(name, formula, {"i": ids, "E": f"{name}.weight"}, seen)


@walks(nn.LayerNorm, nn.RMSNorm)
def walk_norm(walk: Walk, name: str, x: str) -> str:
    operands = {"x": x, **walk.weights(name, γ="weight", β="bias")}
    return walk.add(name, norm_formula(walk.parts[name]), operands, walk.out(name))


@walks(nn.Identity, nn.Dropout)
def walk_identity(_walk: Walk, _name: str, x: str) -> str:
    """Dropout is one in eval mode, and a model in training is refused."""
    return x


@walks(nn.ModuleList)
def walk_list(walk: Walk, name: str, x: str, *operands: object, **more: object) -> str:
    """One module after another, each given what the list was given."""
    for number in range(len(walk.part(name, nn.ModuleList))):
        x = walk.block(f"{name}.{number}", x, *operands, **more)
    return x


def norm_formula(part: nn.Module) -> Formula:
    """Of a LayerNorm or an RMSNorm."""
    if isinstance(part, nn.RMSNorm):
        return rms_norm(torch.finfo(torch.float32).eps if part.eps is None else part.eps)
    assert isinstance(part, nn.LayerNorm), f"{type(part).__name__} is no norm that is known"
    return layer_norm(part.eps, shifted=part.bias is not None)


def rms_norm(epsilon: float) -> Formula:
    return Formula(
        "x / √(mean(x²) + ε) · γ",
        r"\frac{x}{\sqrt{\overline{x^2} + \epsilon}} \odot \gamma",
        lambda x, gain: x / ((x * x).mean(-1, keepdim=True) + epsilon).sqrt() * gain,
        lambda place, x, gain: {
            "x": row_of(x, place[0]),
            f"x[{place[1]}]": row_of(x, place[0])[place[1]],
            "mean of squares": (row_of(x, place[0]) ** 2).mean(),
            f"γ[{place[1]}]": gain[place[1]],
        },
    )


def layer_norm(epsilon: float, *, shifted: bool) -> Formula:
    def compute(x: Tensor, gain: Tensor, *shift: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return sum(shift, start=centred / (variance + epsilon).sqrt() * gain)

    return Formula(
        "(x − mean) / √(variance + ε) · γ" + (" + β" if shifted else ""),
        r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma" + (r" + \beta" if shifted else ""),
        compute,
        _number_of_norm,
    )


def _number_of_norm(place: Place, x: Tensor, gain: Tensor, *shift: Tensor) -> dict[str, Tensor]:
    given, unit = row_of(x, place[0]), place[1]
    mean = given.mean()
    return {
        "x": given,
        f"x[{unit}]": given[unit],
        "mean": mean,
        "variance": ((given - mean) ** 2).mean(),
        f"γ[{unit}]": gain[unit],
        **{f"β[{unit}]": one[unit] for one in shift},
    }
