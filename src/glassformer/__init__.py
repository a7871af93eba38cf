"""Sequence models you can see through: read, trained, loaded, generated with, looked into, proved and shipped.

Everything here is loaded on first use, so that `import glassformer` costs nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .compare.experiment import compare
    from .export.api import export
    from .generate.api import generate, stream
    from .generate.fill import fill_mask
    from .generate.infill import infill
    from .generate.rerank import rerank
    from .hub.load import load, load_tokenizer, save
    from .hub.registry import build
    from .inspect.attribution import attribute
    from .inspect.explain import explain
    from .inspect.lens import decoder_lens, logit_lens
    from .inspect.record import record
    from .inspect.statistics import attention_statistics
    from .jobs.embed import embed
    from .jobs.flow import flow, flow_svg
    from .jobs.inspect import inspect
    from .jobs.predict import pipeline
    from .jobs.train import train
    from .zoo import zoo

AUTO = {  # classes of transformers
    "AutoModel": "AutoModel.from_pretrained(folder) is gf.load(folder), its head as config.json says or head=…; ",
    "AutoTokenizer": "AutoTokenizer.from_pretrained(folder) is gf.load_tokenizer(folder); ",
    "AutoConfig": "a config is gf.load(folder).config; ",
    "SentenceTransformer": "SentenceTransformer(folder).encode(texts) is gf.embed(texts, folder); ",
    "Trainer": "Trainer(…).train() is gf.train(task=…, model=…, data=…, out=…); ",
}
_HOME = {
    "load": "hub.load",
    "save": "hub.load",
    "load_tokenizer": "hub.load",
    "build": "hub.registry",
    "record": "inspect.record",
    "explain": "inspect.explain",
    "attention_statistics": "inspect.statistics",
    "attribute": "inspect.attribution",
    "logit_lens": "inspect.lens",
    "decoder_lens": "inspect.lens",
    "generate": "generate.api",
    "stream": "generate.api",
    "fill_mask": "generate.fill",
    "infill": "generate.infill",
    "rerank": "generate.rerank",
    "embed": "jobs.embed",
    "export": "export.api",
    "flow": "jobs.flow",
    "flow_svg": "jobs.flow",
    "inspect": "jobs.inspect",
    "train": "jobs.train",
    "compare": "compare.experiment",
    "pipeline": "jobs.predict",
    "zoo": "zoo",
}
__all__ = [
    "__version__",
    "attention_statistics",
    "attribute",
    "build",
    "compare",
    "decoder_lens",
    "embed",
    "explain",
    "export",
    "fill_mask",
    "flow",
    "flow_svg",
    "generate",
    "infill",
    "inspect",
    "load",
    "load_tokenizer",
    "logit_lens",
    "pipeline",
    "record",
    "rerank",
    "save",
    "stream",
    "train",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        instead = AUTO.get(name.removesuffix("Fast").partition("For")[0], "")
        raise AttributeError(f"glassformer has no {name!r}; {instead}it has: {', '.join(__all__)}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Face(ModuleType):
    """Keeps a room from hiding the function of the same name: gf.generate is always the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
