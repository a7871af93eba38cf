"""`glassformer show`: what a model is made of."""

from typing import TYPE_CHECKING

from .output import Json, Name, echo, print_json, print_table

if TYPE_CHECKING:
    from torch import nn


def show(name: Name, json: Json = False) -> None:
    """Show a model's architecture tree and its parameters by component; only config.json is read.

    Example: glassformer show bert-base-uncased
    """
    from glassformer.hub.describe import components, describe, totals

    model = describe(name)
    parts, total = components(model), totals(model)
    if json:
        shares = [{"name": p.name, "module": p.module, "parameters": p.parameters, "share": p.share} for p in parts]
        print_json({"model_type": model.config.model_type, "head": model.head_name, **total, "components": shares})
        return
    head = model.head_name or "no head"
    echo(f"{name}: {model.config.model_type}, {head}\n")
    for line in tree(model):
        echo(line)
    echo()
    print_table(
        ("component", "module", "parameters", "share"),
        [
            *((p.name, p.module, f"{p.parameters:,}", f"{p.share:.2%}") for p in parts),
            ("all", "", f"{total['parameters']:,}", "100.00%"),
        ],
    )
    echo(f"\ntrainable: {total['trainable']:,} ({total['trainable'] / max(total['parameters'], 1):.0%})")


def tree(model: "nn.Module", indent: int = 0) -> list[str]:
    """One line a module; layers that repeat are shown once, Points are left out."""
    from torch import nn

    from glassformer.blocks.point import Point

    lines, children = [], list(model.named_children())
    repeated = isinstance(model, nn.ModuleList) and len(children) > 1
    for name, child in children[:1] if repeated else children:
        if isinstance(child, (Point, nn.Dropout)):
            continue
        label = f"0-{len(children) - 1}" if repeated else name
        lines.append(f"{'  ' * indent}{label}: {_describe(child)}")
        lines += tree(child, indent + 1)
    return lines


def _describe(module: "nn.Module") -> str:
    kind = type(module).__name__
    weight = getattr(module, "weight", None)
    shape = " × ".join(str(size) for size in weight.shape) if weight is not None else ""
    heads = f"{module.heads} heads" if hasattr(module, "heads") else ""
    return " ".join(word for word in (kind, shape, heads) if word)
