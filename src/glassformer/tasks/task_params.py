"""What a config.json says of single tasks (task_specific_params): T5's prefixes, the length of BART's summaries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.files import conform, read_json, write_json
from glassformer.generate.settings import GenerationSettings

CONFIG = "config.json"
PARAMS = "task_specific_params"
SETTINGS = GenerationSettings.__dataclass_fields__.keys()


def task_params(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a config.json says of each task, by name."""
    params = config.get(PARAMS) or {}
    conform(params, dict[str, dict[str, Any]], CONFIG, PARAMS)
    return params


def options_for(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """For the first of these tasks that a config.json speaks of, the prefix of sources and the settings of generation.

    One that speaks of none of them, but of one pair of languages (translation_en_to_de), means that one.
    """
    params = task_params(config)
    pairs = [name for name in params if name.startswith(f"{names[-1]}_")]
    known = [name for name in names if name in params] or (pairs if len(pairs) == 1 else [])
    found = params[known[0]] if known else {}
    prefix = found.get("prefix", config.get("prefix"))
    conform(prefix, str | None, CONFIG, "prefix")
    settings = {name: value for name, value in found.items() if name in SETTINGS}
    return ({"prefix": prefix} if prefix else {}) | ({"generate": settings} if settings else {})


def write_prefix(folder: Path, name: str, prefix: str) -> None:
    """Have config.json say what is put before every source, if anything is."""
    if prefix:
        config = dict(read_json(folder / CONFIG))
        params = task_params(config)
        write_json(folder / CONFIG, {**config, PARAMS: {**params, name: {**params.get(name, {}), "prefix": prefix}}})
