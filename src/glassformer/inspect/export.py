"""Named tensors in one file that other programs read: numpy's .npz, or .safetensors."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor


def save_tensors(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Written by the ending of the file's name; numpy has no bfloat16, so there it becomes float32."""
    where = Path(path)
    ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    if where.suffix == ".safetensors":
        save_file({name: value.clone() for name, value in ready.items()}, where)
    elif where.suffix == ".npz":
        wide = {name: value.float() if value.dtype == torch.bfloat16 else value for name, value in ready.items()}
        np.savez_compressed(where, **{name: value.numpy() for name, value in wide.items()})  # type: ignore[arg-type]
    else:
        raise ValueError(f"{where} must end in .npz or .safetensors")
