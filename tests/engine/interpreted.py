"""Kernels without a GPU: Triton's interpreter runs them on a CPU's tensors, one program after another."""

import os
from importlib.util import find_spec

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if find_spec("triton") is None:
    pytest.skip("kernels need Triton", allow_module_level=True)
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: it looks once

interpreter = pytest.importorskip("triton.runtime.interpreter")

plain_patch = interpreter._patch_lang_tensor


def patch_lang_tensor(tensor, scope):
    """Bounds of loops are arrays of one number, which newer versions of numpy do not take for a number."""
    plain_patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


interpreter._patch_lang_tensor = patch_lang_tensor
