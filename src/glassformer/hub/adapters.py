"""LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors beside a config.json.

O outputs, I inputs of a linear layer, R rank of its correction; V vocabulary, D model width, N tokens with new rows.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, Required, TypedDict

import torch
from torch import Tensor

from glassformer.files import read_json
from glassformer.files.schema import Count, Positive, Size

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER = "adapter_model.safetensors"
PREFIX = "base_model.model."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
ROWS = ".token_adapter.trainable_tokens_delta"  # of a table; PEFT calls a delta what are the rows themselves
TABLE = ".token_adapter.base_layer.weight"  # the table they belong to, which PEFT adds where it has grown


class AdapterConfig(TypedDict):
    """What is read of adapter_config.json; ranks and scales that differ by layer are refused."""

    base_model_name_or_path: Required[str]
    peft_type: Required[Literal["LORA"]]
    r: Required[Size]
    lora_alpha: Required[Positive]
    use_rslora: NotRequired[bool]
    fan_in_fan_out: NotRequired[bool]  # weights are (I, O), as those of GPT-2's Conv1D
    use_dora: NotRequired[Literal[False]]
    trainable_token_indices: NotRequired[dict[str, list[Count]] | list[Count] | None]  # by the name of their table
    rank_pattern: NotRequired[dict[str, int]]
    alpha_pattern: NotRequired[dict[str, float]]


def read_adapter_config(folder: Path) -> AdapterConfig:
    config = read_json(folder / ADAPTER_CONFIG, AdapterConfig)
    for name in ("rank_pattern", "alpha_pattern"):
        if config.get(name):
            raise ValueError(
                f"{folder / ADAPTER_CONFIG}: {name} differs by layer, which is not read: merge it with peft"
            )
    return config


def scale_of(config: AdapterConfig) -> float:
    """What a correction is multiplied by."""
    return config["lora_alpha"] / (math.sqrt(config["r"]) if config.get("use_rslora") else config["r"])


class AdapterTensors(NamedTuple):
    """The names of an adapter's tensors, by what they are."""

    downs: dict[str, str]  # of a layer, the name of its lora_A
    rows: dict[str, str]  # of a table of tokens, the name of its rows
    whole: list[str]  # what stands for itself


def split_names(names: Mapping[str, object], folder: Path) -> AdapterTensors:
    downs, rows = (
        {name.removeprefix(PREFIX).removesuffix(ending): name for name in names if name.endswith(ending)}
        for ending in (DOWN, ROWS)
    )
    whole = [name for name in names if not name.endswith((DOWN, UP, ROWS, TABLE))]
    wrong = [name for name in names if not name.startswith(PREFIX) or (".lora_" in name and name in whole)]
    if wrong:
        raise ValueError(
            f"{folder / ADAPTER} holds {wrong[0]}, which is no tensor of a LoRA adapter over linear layers"
        )
    return AdapterTensors(downs, rows, whole)


def corrected(weight: Tensor, down: Tensor, up: Tensor, config: AdapterConfig) -> Tensor:
    """W (O, I), or (I, O), + scale · U (O, R) D (R, I), computed in float64 and given in float32."""
    change = scale_of(config) * (up.double() @ down.double())
    return (weight.double() + (change.T if config.get("fan_in_fan_out") else change)).float()


def with_rows(table: Tensor, rows: Tensor, name: str, config: AdapterConfig) -> Tensor:
    """A table (V, D) with the rows (N, D) of some tokens in it, which may lie behind its end."""
    stated = config.get("trainable_token_indices") or []
    tokens = stated if isinstance(stated, list) else stated.get(name.rpartition(".")[2], stated.get(name, []))
    size = max([len(table), *(token + 1 for token in tokens)])
    if len(tokens) != len(rows) or size > len(table) + len(rows) or set(range(len(table), size)) - set(tokens):
        raise ValueError(f"the adapter's trainable_token_indices do not say of which tokens its {len(rows)} rows are")
    grown = torch.cat([table.float(), table.new_zeros(size - len(table), table.shape[1], dtype=torch.float32)])
    return grown.index_copy(0, torch.tensor(tokens), rows.float())
