"""The formats that a model is exported to: what each needs, in which numbers it can be written, and of which models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

from torch import nn

from glassformer.hub.registry import architecture_for, skeleton
from glassformer.models.contract import as_model
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderAlone, Transformer

BARE, NONE = "no head", "none of them"
EXACT = 1e-4  # of sums in another order: what is within is the same model, down to the tokens that it writes
CTRANSLATE2 = {  # model_type -> the head that its runtime has a use for
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert")),
    **dict.fromkeys(("gpt2", "llama", "mistral", "qwen2", "qwen3"), "text-generation"),
    **dict.fromkeys(("marian", "bart", "mbart", "pegasus", "m2m_100", "t5", "mt5"), "text2text-generation"),
    "glassformer-transformer": "text2text-generation",
}
GGUF = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}  # llama.cpp's names


@dataclass(frozen=True)
class Format:
    """One format, which `module` of this room writes.

    `quants`: how weights can be kept, the first if nothing is said, and how far outputs may be off then.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    extra: str | None
    quants: Mapping[str, float]
    takes: Callable[[nn.Module], bool]
    beside: tuple[str, ...] = ("config", "tokenizer")  # files of a model's folder that are written too

    def check_installed(self) -> None:
        """Refuse where a package is missing, with the extra that brings it."""
        if missing := [name for name in self.packages if find_spec(name) is None]:
            raise ValueError(
                f"an export to {self.name} needs {', '.join(missing)}: pip install 'glassformer[{self.extra}]'"
            )

    def check_quant(self, quant: str | None) -> str:
        """The numbers that weights are written in: those asked for, or the format's usual ones."""
        if quant is None:
            return next(iter(self.quants))
        if quant not in self.quants:
            raise ValueError(f"{self.name} has no quant {quant!r}; it has: {', '.join(self.quants)}")
        return quant

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that the format cannot hold, and say which formats can."""
        if self.takes(model):
            return
        others = ", ".join(one.name for one in FORMATS.values() if one.takes(model)) or "none of the formats"
        known = as_model(model)
        kind, head = known.config.model_type, known.head_name or BARE
        raise ValueError(f"a {kind} with {head} cannot be exported to {self.name}; what can hold it: {others}")

    def versions(self) -> Mapping[str, str]:
        return {name: version(name) for name in self.packages}

    def load(self) -> ModuleType:
        """The module that writes and compares."""
        return import_module(f"{__package__}.{self.module}")


def can_be_traced(model: nn.Module) -> bool:
    """Whether a model is of embeddings, attention layers and a head; recurrent ones loop as long as a text is."""
    return isinstance(model, Encoder | EncoderAlone | CausalDecoder | Transformer)


def _is_for_ctranslate2(model: nn.Module) -> bool:
    known = as_model(model)
    return CTRANSLATE2.get(known.config.model_type, NONE) == known.head_name


def _is_for_gguf(model: nn.Module) -> bool:
    known = as_model(model)
    return known.config.model_type in GGUF and known.head_name == "text-generation"


FORMATS = {
    one.name: one
    for one in (
        Format(
            "onnx",
            "to_onnx",
            packages=("onnx", "onnxscript", "onnxruntime"),
            extra="export",
            quants={"float32": EXACT, "int8": 0.5},
            takes=can_be_traced,
        ),
        Format(
            "ctranslate2",
            "to_ctranslate2",
            packages=("ctranslate2",),
            extra="ctranslate2",
            quants={"float32": EXACT, "float16": 0.02, "bfloat16": 0.2, "int8": 0.5},
            takes=_is_for_ctranslate2,
            beside=("tokenizer",),
        ),
        Format(
            "gguf",
            "to_gguf",
            packages=("gguf",),
            extra="gguf",
            quants={"f16": 0.02, "q8_0": 0.5, "f32": 1e-3},  # llama.cpp looks GELU up in a table of 16 bits
            takes=_is_for_gguf,
            beside=(),
        ),
        Format(
            "torch-export", "to_torch_export", packages=(), extra=None, quants={"float32": EXACT}, takes=can_be_traced
        ),
    )
}


def format_of(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"there is no format {name!r}; there are: {', '.join(FORMATS)}")
    return FORMATS[name]


def supported(model_type: str) -> dict[str, list[str | None]]:
    """For every format, the heads with which a kind of model can be exported to it."""
    architecture = architecture_for(model_type)
    config = architecture.config.from_hf({"model_type": model_type, "vocab_size": 8})
    models = {head: skeleton(architecture, config, head) for head in architecture.heads}
    return {name: [head for head, model in models.items() if one.takes(model)] for name, one in FORMATS.items()}
