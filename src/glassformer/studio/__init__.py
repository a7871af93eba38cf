"""The browser page that looks inside models, and the routes that feed it."""

from pathlib import Path

from glassformer.zoo import PREFIX


def model_name(source: str) -> str:
    """What a model is called in the studio: its folder's name, or the last part of a name on the hub."""
    return Path(source.removeprefix(PREFIX)).absolute().name
