"""Every architecture that can be loaded, by the model_type of its config.json."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from glassformer.models import (
    albert,
    bert,
    bow,
    cnn,
    deberta,
    decoder_only,
    distilbert,
    electra,
    gpt2,
    llama,
    modernbert,
    rnn,
    roberta,
    seq2seq,
    t5,
    transformer,
)
from glassformer.models.architecture import Architecture
from glassformer.models.contract import ModelConfig
from glassformer.models.pretrained import PreTrainedModel

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture
    for architecture in (
        bert.ARCHITECTURE,
        roberta.ARCHITECTURE,
        roberta.XLM_ROBERTA,
        distilbert.ARCHITECTURE,
        albert.ARCHITECTURE,
        electra.ARCHITECTURE,
        deberta.ARCHITECTURE,
        modernbert.ARCHITECTURE,
        gpt2.ARCHITECTURE,
        decoder_only.ARCHITECTURE,
        llama.LLAMA,
        llama.MISTRAL,
        llama.QWEN2,
        llama.QWEN3,
        transformer.MARIAN,
        transformer.BART_ARCHITECTURE,
        transformer.MBART,
        transformer.PEGASUS,
        transformer.M2M_100,
        transformer.OURS,
        t5.T5,
        t5.MT5,
        rnn.ARCHITECTURE,
        seq2seq.ARCHITECTURE,
        cnn.ARCHITECTURE,
        bow.ARCHITECTURE,
    )
}


def architecture_for(model_type: str | None) -> Architecture:
    """The architecture a config.json names."""
    if isinstance(model_type, str) and model_type in ARCHITECTURES:
        return ARCHITECTURES[model_type]
    known = ", ".join(ARCHITECTURES)
    if model_type is None:
        raise ValueError(f'config.json has no "model_type"; add one of: {known} (for a BERT: "model_type": "bert")')
    raise ValueError(f"model_type {model_type!r} is not supported; supported: {known}")


def head_for(architecture: Architecture, hf_classes: list[str] | None) -> str | None:
    """The head that config.json's "architectures" names; a folder that names none has no head."""
    if not hf_classes:
        return None
    for name, head in architecture.heads.items():
        if head.hf_class in hf_classes:
            return name
    known = ", ".join(head.hf_class for head in architecture.heads.values())
    heads = ", ".join(repr(name) for name in architecture.heads)
    raise ValueError(
        f"config.json asks for {', '.join(hf_classes)}, which is not supported; supported: {known}; "
        f"or load it with a head of your choice: gf.load(…, head=H), H one of {heads}"
    )


def reading_head(architecture: Architecture, head: str | None) -> str | None:
    """A task's head; where it asks for a bare model that reads, of an encoder-decoder its encoder, if it has one."""
    alone = "feature-extraction"
    return alone if head is None and alone in architecture.heads else head


def check_head(architecture: Architecture, head: str | None) -> None:
    if head not in architecture.heads:
        known = ", ".join(str(name) for name in architecture.heads)
        raise ValueError(f"{architecture.model_type} has no head {head!r}; it has: {known}")


def check_known(settings: Mapping[str, Any], architecture: Architecture) -> None:
    """Refuse settings that the architecture's config does not have."""
    known = [*architecture.config.__dataclass_fields__]
    known += [] if "model_type" in known else ["model_type"]
    known += ["num_labels"] if "id2label" in known else []
    if wrong := [name for name in settings if name not in known]:
        raise ValueError(f"{architecture.model_type} has no setting {wrong[0]!r}; it has: {', '.join(known)}")


class _WithoutValues(TorchFunctionMode):
    """Skip torch's random starts: for tensors without values they would only load half of the compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def skeleton(architecture: Architecture, config: ModelConfig, head: str | None) -> PreTrainedModel:
    """The model on the meta device: names and shapes, no values and no memory."""
    with torch.device("meta"), _WithoutValues():
        return architecture.build(config, head)


def build(model_type: str, head: str | None = None, **settings: Any) -> PreTrainedModel:
    """A new model with random weights, e.g. build("bert", "fill-mask", hidden_size=128)."""
    architecture = architecture_for(model_type)
    check_head(architecture, head)
    check_known(settings, architecture)
    return architecture.build(architecture.config.from_hf({"model_type": model_type, **settings}), head).eval()
