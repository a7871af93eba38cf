"""Beams that trade places in a cache on a GPU.

B batch, N layers, L capacity, H heads, K head width.
"""

from torch import Tensor

from .launch import power_of_two


def reorder_cache(keys: Tensor, values: Tensor, rows: Tensor, *, group_size: int, used: Tensor) -> None:
    """x[:, :, :used] = x[:, rows, :used] for both halves of a cache (N, B, L, H, K), whose rows trade in groups.

    One program for one token of a group in one layer, which reads all of them before it writes any.
    """
    from .device.reorder import reorder_kernel

    layers, batch, capacity = keys.shape[:3]
    lanes = power_of_two(size := keys[0, 0, 0].numel())
    shape = {"group_size": group_size, "seats": power_of_two(group_size), "size": size, "lanes": lanes}
    strides = keys.stride()[:3]
    for x in (keys, values):
        reorder_kernel[(capacity, batch // group_size, layers)](x, rows, used, *strides, **shape, num_warps=4)
