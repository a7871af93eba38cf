"""A Hugging Face folder: the names of its files, and its config.json."""

from pathlib import Path
from typing import Any

from glassformer.files import conform, read_json
from glassformer.models.architecture import Architecture
from glassformer.models.config import Common

CONFIG = "config.json"
GENERATION = "generation_config.json"
SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
INDEX = ".index.json"
WEIGHT_FILES = (SAFETENSORS, SAFETENSORS + INDEX, PICKLE, PICKLE + INDEX)  # in order of preference


def settings_of(architecture: Architecture, raw: dict[str, Any], folder: Path) -> Any:
    """The config of an architecture from a config.json; what is wrong names the folder."""
    try:
        return architecture.config.from_hf(raw)
    except ValueError as error:
        raise ValueError(f"{folder}/{error}" if str(error).startswith(CONFIG) else f"{folder}: {error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, in which the keys that all architectures share are of the right kind."""
    raw = read_json(folder / CONFIG)
    conform(raw, Common, str(folder / CONFIG))
    return raw
