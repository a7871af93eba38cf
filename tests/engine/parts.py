"""Parts that tests of the engine put into models."""

from torch import nn


class Adapted(nn.Module):
    """An output layer with something of its own, as an adapter has."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return self.linear(x) + x.sum(-1, keepdim=True)
