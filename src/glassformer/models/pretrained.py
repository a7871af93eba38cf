"""The nn.Module that every model is: attributes as transformers has them, and answers where something is elsewhere."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from glassformer.files.arguments import unknown_argument

RECORDED = {"output_attentions": ("*attention.pattern", "attentions"), "output_hidden_states": ("*", "hidden_states")}


def how_to_record(name: str, model: str = "model", call: str = "model(**inputs)") -> str:
    """What to do instead of asking a model, or what runs one, for `output_attentions` or `output_hidden_states`."""
    pattern, seen = RECORDED[name]
    return f'with gf.record({model}, "{pattern}") as seen: {call} — then seen.{seen}'


ANSWERS = {  # arguments of transformers' models that stand elsewhere here
    **{name: how_to_record(name) for name in RECORDED},
    "labels": "a loss is a task's: torch.nn.functional.cross_entropy(model(**inputs).logits, labels), or gf.train(…)",
    "past_key_values": "a cache is a state that is passed: model.start(…) and model.step(ids, state), or gf.generate",
    "use_cache": "a cache is a state that is passed: model.start(…) and model.step(ids, state), or gf.generate",
    "return_dict": "outputs are named tuples: .logits or [0] of them",
}
GIVEN = {"return_dict": True}  # what is so in any case; of the others, False or None asks for nothing
METHODS = {  # of transformers' models
    "save_pretrained": "gf.save(model, folder, tokenizer=tok)",
    "from_pretrained": "gf.load(folder)",
    "push_to_hub": "gf.save(model, folder), then huggingface_hub.upload_folder",
    "generate": "gf.generate(model, tok, prompts, max_new_tokens=50)",
    "get_input_embeddings": 'model.get_submodule("embeddings.token"), or "encoder.embeddings.token"',
    "gradient_checkpointing_enable": "gf.train(…, checkpointing=True)",
    "resize_token_embeddings": "gf.train(task=…, model=folder, …), which fits a model to its tokenizer",
}


class PreTrainedModel(nn.Module):
    """A model of gf.load or gf.build, with the attributes of transformers' class of that name."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """forward; an argument that it does not have is refused with what to do instead."""
        if not torch.compiler.is_compiling():
            named = known_arguments(self, named)
        return super().__call__(*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            raise AttributeError(f"a model has no {name}; use {METHODS[name]}")
        return super().__getattr__(name)

    @property
    def device(self) -> torch.device:
        """Where the first of its tensors is."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of its first tensor of floats."""
        return next(tensor.dtype for tensor in self.parameters() if tensor.is_floating_point())

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """How many numbers it has, a tied tensor counted once; without those of tables of embeddings, if asked."""
        tables = {id(one.weight) for one in self.modules() if isinstance(one, nn.Embedding) and exclude_embeddings}
        counted = (one for one in self.parameters() if id(one) not in tables)
        return sum(one.numel() for one in counted if one.requires_grad or not only_trainable)


def known_arguments(model: nn.Module, named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a model's forward has; others are refused, unless they ask for nothing."""
    if named.keys() <= _usual_arguments(type(model).forward):
        return dict(named)
    known = inspect.signature(model.forward).parameters  # which may be the model's own, put over its class's
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return dict(named)
    for name, value in named.items():
        idle = value is GIVEN.get(name, False) or value is None
        if name not in known and not (name in ANSWERS and idle):
            if name in ANSWERS:
                raise ValueError(f"a model takes no {name}: {ANSWERS[name]}")
            raise TypeError(unknown_argument(type(model).__name__, name, known))
    return {name: value for name, value in named.items() if name in known}


@cache  # a signature takes twenty microseconds
def _usual_arguments(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(forward).parameters)
