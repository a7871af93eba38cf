"""LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors beside a config.json.

O outputs, I inputs of a linear layer, R rank of its correction.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NotRequired, Required, TypedDict

from torch import Tensor

from glassformer.files import read_json
from glassformer.files.schema import Positive, Size

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER = "adapter_model.safetensors"
PREFIX = "base_model.model."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"


class AdapterConfig(TypedDict):
    """What is read of adapter_config.json; ranks and scales that differ by layer are refused."""

    base_model_name_or_path: Required[str]
    peft_type: Required[Literal["LORA"]]
    r: Required[Size]
    lora_alpha: Required[Positive]
    use_rslora: NotRequired[bool]
    fan_in_fan_out: NotRequired[Literal[False]]
    use_dora: NotRequired[Literal[False]]
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


def split_names(names: Mapping[str, object], folder: Path) -> tuple[dict[str, str], list[str]]:
    """Of an adapter's tensors, layer -> the name of its lora_A, and those that stand for themselves."""
    downs = {name.removeprefix(PREFIX).removesuffix(DOWN): name for name in names if name.endswith(DOWN)}
    whole = [name for name in names if not name.endswith((DOWN, UP))]
    wrong = [name for name in names if not name.startswith(PREFIX) or (".lora_" in name and name in whole)]
    if wrong:
        raise ValueError(
            f"{folder / ADAPTER} holds {wrong[0]}, which is no tensor of a LoRA adapter over linear layers"
        )
    return downs, whole


def corrected(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """W (O, I) + scale · U (O, R) D (R, I), computed in float64 and given in float32."""
    return (weight.double() + scale * (up.double() @ down.double())).float()
