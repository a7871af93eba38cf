"""How much of its first state a recurrent block still knows some steps later."""

import torch

from glassformer.blocks.recurrent import Kind, Recurrent, RecurrentState

WIDTH, LENGTHS = 32, range(1, 41)


def fresh(kind: Kind, scale: float | None = None, forget_bias: float = 1.0) -> Recurrent:
    """A block as it is before training; `scale`: its recurrent weights are a rotation times so much."""
    torch.manual_seed(0)
    block = Recurrent(kind, WIDTH, WIDTH, forget_bias=forget_bias).double()
    if scale is not None:
        with torch.no_grad():
            rotation, _ = torch.linalg.qr(block.kernel.weight_hh_l0)
            block.kernel.weight_hh_l0.copy_(scale * rotation)
    return block


def gradients(block: Recurrent) -> list[float]:
    """For each length the size of d(last state)/d(first state), 1 where the state is passed on as it is.

    All rows of a batch have one text and one state; row n looks at unit n, so that one backward pass gives the matrix.
    Of an LSTM the state is the cell.
    """
    torch.manual_seed(1)
    x = torch.randn(1, len(LENGTHS), WIDTH, dtype=torch.float64).expand(WIDTH, -1, -1)
    found = []
    for length in LENGTHS:
        parts = [part.clone().requires_grad_() for part in block.start(WIDTH).parts]
        _, state = block(x[:, :length], None, RecurrentState(*parts))
        (jacobian,) = torch.autograd.grad(state.parts[-1][0].trace(), parts[-1])
        found.append(float(f"{jacobian.norm().item() / WIDTH**0.5:.3g}"))
    return found
