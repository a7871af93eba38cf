"""Adam on shards: each process steps the numbers that it holds, as plain tensors.

What Adam does to a number depends on no other, so nothing is exchanged, and DTensors would only cost their calls: some
milliseconds a step. Moments are DTensors, as the parameters are, so that checkpoints fit any number of processes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


class ShardedAdam(torch.optim.Adam):
    """Adam whose parameters are DTensors."""

    def _init_group(self, group: dict[str, Any], *lists: list[Tensor]) -> bool:
        """Fills the lists that the step is taken over (parameters, gradients, moments …), in torch's order."""
        is_complex: bool = super()._init_group(group, *lists)  # type: ignore[no-untyped-call]
        for tensors in lists:
            tensors[:] = [one.to_local() if isinstance(one, DTensor) else one for one in tensors]
        return is_complex


class ShardedAdamW(ShardedAdam, torch.optim.AdamW):
    """AdamW whose parameters are DTensors."""
