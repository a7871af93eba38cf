"""What workers will take of memory, worked out from their configs alone, before the first of them is begun."""

from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import torch

from glassformer.blocks.memory import free_bytes
from glassformer.generate.continuous import PREFIX_BYTES, reserved_bytes
from glassformer.hub.fetch import config_folder
from glassformer.hub.folder import read_config, settings_of
from glassformer.hub.load import usable
from glassformer.hub.registry import architecture_for, head_for, skeleton
from glassformer.models.contract import as_generative, as_model, has_attention_decoder
from glassformer.tasks.text_generation import TextGeneration
from glassformer.zoo import is_built_in

from .messages import MemoryNeed, WorkerSpec
from .writing import longest_text


def measure(connection: Connection, specs: Sequence[WorkerSpec]) -> None:
    """The target of a process: sends what each worker needs. What cannot be told is left to the worker to refuse."""
    needs = []
    for spec in specs:
        with suppress(ValueError, OSError, LookupError, AttributeError):
            needs.append(need_of(spec))
    connection.send(needs)


def need_of(spec: WorkerSpec) -> MemoryNeed:
    """Weights, and what a language model reserves for the texts that it writes."""
    folder = config_folder(spec.source)
    raw = read_config(folder)
    architecture = architecture_for(raw.get("model_type"))
    head = head_for(architecture, raw.get("architectures"))
    model = skeleton(architecture, settings_of(architecture, raw, folder), head)
    stated = "float32" if is_built_in(spec.source) else raw.get("dtype", raw.get("torch_dtype"))
    dtype = getattr(torch, (spec.dtype or stated or "float32").removeprefix("torch."))
    model, device = model.to(dtype), usable(spec.device)
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
    known, caches = as_model(model), 0
    if head == TextGeneration.head and has_attention_decoder(known):
        longest = longest_text(known, spec)
        assert longest is not None
        caches = reserved_bytes(as_generative(model), rows=spec.rows, length=longest, prefix_bytes=PREFIX_BYTES)
    return MemoryNeed(spec.source, str(device), weights, caches, free_bytes(device))
