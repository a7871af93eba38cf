"""Sequence models you can see through: read, trained, loaded, generated with, looked into, proved and shipped.

Everything here is loaded on first use, so that `import glassformer` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .hub.load import load, load_tokenizer, save
    from .hub.registry import build
    from .inspect.record import record

_HOME = {
    "load": "hub.load",
    "save": "hub.load",
    "load_tokenizer": "hub.load",
    "build": "hub.registry",
    "record": "inspect.record",
}
__all__ = ["__version__", "build", "load", "load_tokenizer", "record", "save"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"glassformer has no {name!r}; it has: {', '.join(__all__)}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
