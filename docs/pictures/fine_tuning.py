"""The pictures of the page of fine-tuning."""

import numpy as np
from docs.diagram import Diagram

import glassformer as gf
from glassformer.view.heatmap import heatmap
from glassformer.view.plots import Dot, dot_plot

PARTS = ("attention.query", "attention.key", "attention.value", "attention.output", "feed_forward.up")
PARTS += ("feed_forward.down",)
SCORES = {  # docs/results.md: accuracy on SST-2 dev, one number a seed
    "small BERT from scratch": (82.1, 82.2, 80.3),
    "the same, pretrained": (85.0, 84.3),
    "MiniLM, fine-tuned": (91.4, 90.1, 90.3),
}


def lora_layer() -> str:
    """A frozen layer and its correction."""
    picture = Diagram(
        "LoRA: the layer stays, a narrow correction learns beside it",
        "The input goes through the frozen matrix W, d by d, and beside it through D, r by d, then U, d by r, times "
        "alpha over r; both are added.",
    )
    x = picture.box(0, 0, "x", kind="data")
    weight = picture.box(225, -62, "W x + b\nd × d, frozen", width=150, height=56)
    down = picture.box(150, 52, "D\nr × d, learns", kind="state", width=112)
    up = picture.box(305, 52, "U\nd × r, learns", kind="state", width=112)
    scale = picture.operation(415, 52, "×")
    total = picture.operation(415, -62, "+")
    picture.arrow(x.top, (0, -62), weight.left)
    picture.arrow(x.bottom, (0, 52), down.left)
    picture.arrow(down.right, up.left, text="r")
    picture.arrow(up.right, scale.left)
    picture.arrow(scale.top, total.bottom)
    picture.word(426, 18, "α / r", small=True, anchor="start")
    picture.arrow(weight.right, total.left)
    picture.arrow(total.right, (490, -62))
    picture.word(506, -62, "y")
    return picture.svg()


def fine_tuning_scores() -> str:
    """The seeds of three ways to a classifier of SST-2."""
    dots = [Dot(name=name, value=round(sum(scores) / len(scores), 1), points=scores) for name, scores in SCORES.items()]
    return dot_plot(dots, title="What a body that has read brings along", axis="accuracy on SST-2 dev, a point a seed")


def lora_sizes() -> str:
    """How large the correction of each matrix of zoo:bert-mini-en-sentiment is beside the matrix itself."""
    before, after = (gf.load(f"zoo:bert-mini-en{end}").state_dict() for end in ("", "-sentiment"))
    names = [[f"layers.{layer}.{part}.weight" for part in PARTS] for layer in range(4)]
    sizes = [[float((after[one] - before[one]).norm() / before[one].norm()) for one in row] for row in names]
    return heatmap(
        np.round(sizes, 2),
        rows=[f"layer {layer}" for layer in range(4)],
        columns=[part.removeprefix("attention.").replace("feed_forward", "ff") for part in PARTS],
        title="How far LoRA moved each matrix of zoo:bert-mini-en-sentiment",
        axes=("layer", "size of the correction, as a share of the matrix"),
        form=".2f",
    )
