"""A Hugging Face folder: the names of its files, and its config.json."""

from pathlib import Path
from typing import Any

from glassformer.files import conform, read_json
from glassformer.files.schema import hints_of
from glassformer.models.architecture import Architecture
from glassformer.models.config import Common
from glassformer.models.contract import ModelConfig
from glassformer.text.folder import TokenizerConfig

CONFIG = "config.json"
GENERATION = "generation_config.json"
SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
INDEX = ".index.json"
WEIGHT_FILES = (SAFETENSORS, SAFETENSORS + INDEX, PICKLE, PICKLE + INDEX)  # in order of preference
TOKENIZER_KEYS = frozenset(hints_of(TokenizerConfig))
OWN_KEYS = {  # a file that this program or transformers wrote has one of these
    CONFIG: frozenset(["model_type"]),
    GENERATION: frozenset(["transformers_version"]),  # or a model beside it: any few settings may be written by hand
    "tokenizer.json": frozenset(["model"]),
    "tokenizer_config.json": TOKENIZER_KEYS,
    "special_tokens_map.json": TOKENIZER_KEYS,
}


def is_of_a_model(path: Path) -> bool:
    """Whether a file is what its name says in a model's folder; else it is some other program's."""
    if path.suffix != ".json":
        with path.open("rb") as file:
            start = file.read(9)
        return start[8:] == b"{" if path.suffix == ".safetensors" else start[:1] == b"\n"  # header; a message's field
    try:
        raw = read_json(path)
    except ValueError:
        return False
    if path.name == GENERATION and (path.parent / CONFIG).is_file():
        return is_of_a_model(path.parent / CONFIG)
    if path.name in OWN_KEYS:
        return bool(OWN_KEYS[path.name] & raw.keys()) or (path.name == "special_tokens_map.json" and not raw)
    return all(isinstance(number, int) for number in raw.values())  # a vocabulary


def settings_of(architecture: Architecture, raw: dict[str, Any], folder: Path) -> ModelConfig:
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
