"""What Points cost while nobody listens: the same model with every Point taken out."""

import torch
from torch import nn

import glassformer as gf
from glassformer.blocks.point import Point

from .encoder import SHAPES, batches, lengths, over
from .measure import Row, interleaved, row


class Nothing(nn.Module):
    """An identity that cannot be listened to."""

    has_hooks = False

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value


def run() -> list[Row]:
    with_points = gf.build("bert", **SHAPES["MiniLM"])
    without = gf.build("bert", **SHAPES["MiniLM"])
    for module in without.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, Point):
                setattr(module, name, Nothing())
    work = batches(lengths(64), 32, "cpu")
    seconds = interleaved({"with": over(with_points, work), "without": over(without, work)}, rounds=15)
    return [row("recording off: MiniLM with Points", seconds["with"], seconds["without"], "without Points")]


if __name__ == "__main__":
    for line in run():
        print(line)
