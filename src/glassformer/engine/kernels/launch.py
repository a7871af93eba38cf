"""Whether kernels of our own can run here, and how they are launched."""

import logging
from functools import cache

import torch
from torch import Tensor

LOG = logging.getLogger("glassformer")
MULTIPROCESSORS = 132  # of an H100 or H200: for sizes where there is no GPU to ask


@cache
def available() -> bool:
    """Whether the kernels can run here: Triton comes with torch for NVIDIA GPUs, but not the compiler that it needs."""
    from .linear import linear

    try:
        one = torch.ones(1, 16, device="cuda")
        linear(one, one, None)
    except Exception as error:  # Triton, the compiler and the driver each have their own
        LOG.info("decoding without kernels of our own: %s", error)
        return False
    return True


@cache
def early() -> dict[str, bool]:
    """Since Hopper a kernel may start before the last one has ended, and wait for it where it must.

    Every kernel that is launched so waits before it writes: what it writes over may still be read.
    """
    hopper = torch.cuda.is_available() and not torch.version.hip and torch.cuda.get_device_capability() >= (9, 0)
    return {"early": True, "launch_pdl": True} if hopper else {"early": False}


@cache
def multiprocessors() -> int:
    """How many programs of a GPU run side by side, each with as many threads as it likes."""
    if not torch.cuda.is_available():
        return MULTIPROCESSORS
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def on_current_gpu(x: Tensor) -> bool:
    """Kernels of our own and graphs, unlike torch's operations, run where torch stands, not where a tensor lies."""
    return x.is_cuda and x.get_device() == torch.cuda.current_device()


def power_of_two(number: int) -> int:
    """The next one that is not smaller."""
    return 1 << (number - 1).bit_length()
