"""A folder of ONNX graphs as a model, run by onnxruntime: it is asked, scored and generated with as any other.

B batch, T new tokens, P tokens before them, S source length, V vocabulary.
"""

from collections import namedtuple
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model, generation_config
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder_decoder import Transformer

MODEL, ENCODER, DECODER = "model.onnx", "encoder_model.onnx", "decoder_model.onnx"
LATER = "decoder_with_past_model.onnx"
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class OnnxState:
    """What a decoder remembers: keys and values of tokens before by their names, and which tokens are real."""

    past: Tensors
    mask: Tensor  # (B, P + T) of the prompt, or (B, S) of the source
    hidden: Tensor | None = None  # (B, S, D), of a source that no step has read yet
    used: int = 0

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "OnnxState":
        del group_size
        hidden = None if self.hidden is None else self.hidden[rows]
        return replace(
            self, past={name: one[rows] for name, one in self.past.items()}, mask=self.mask[rows], hidden=hidden
        )

    def rewind(self, tokens: int) -> "OnnxState | None":
        return None if tokens else self


class OnnxModel(nn.Module):
    """Keeps the model contract. What it calls hidden states of a model that scores tokens are the scores themselves."""

    def __init__(self, model: nn.Module, folder: Path) -> None:
        """`model`: that the graphs were made of; only what it says of itself is used."""
        super().__init__()
        known = as_model(model)
        self.config, self.head_name, self.is_causal = known.config, known.head_name, known.is_causal
        self.anchor = nn.Parameter(torch.zeros(()))  # on the CPU, where the graphs run
        self.sessions = {path.name: _session(path) for path in sorted(folder.glob("*.onnx"))}
        self.cache, self.layers = (0, 0), 0
        if isinstance(model, CausalDecoder | Transformer):
            self.cache, self.layers = model.cache, len(model.decoder_parts.layers)
        self.generation_config = generation_config(known)
        self.eval()

    def outputs(self, inputs: Tensors) -> Tensors:
        """What the graphs say of whole texts, by the names of the model's own outputs."""
        if MODEL not in self.sessions:
            return self._both_sides(inputs)
        past = self._empty_past(len(inputs["input_ids"])) if self.head_name == "text-generation" else {}
        found = self.run(MODEL, {**inputs, **past})
        return {name: one for name, one in found.items() if not name.startswith("present.")}

    def _both_sides(self, inputs: Tensors) -> Tensors:
        """The decoder reads half of the target at its first step, and the rest at its second."""
        state = self.start(inputs["input_ids"], inputs["attention_mask"], length=0)
        target, hidden = inputs["decoder_input_ids"], state.hidden
        parts = []
        for ids in target.split(max(1, target.shape[1] // 2), 1):
            logits, state = self.step(ids, state)
            parts.append(logits)
        assert hidden is not None
        return {"logits": torch.cat(parts, 1), "encoder_last_hidden_state": hidden}

    def forward(self, **inputs: Any) -> Any:
        found = self.outputs({name: one for name, one in inputs.items() if one is not None})
        return namedtuple("OnnxOutputs", found)(**found)

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Tensor:
        found = self(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        return found[0]  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> OnnxState:
        del length
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        if not self.config.is_encoder_decoder:
            return OnnxState(self._empty_past(len(input_ids)), mask)
        hidden = self.run(ENCODER, {"input_ids": input_ids, "attention_mask": mask})["last_hidden_state"]
        return OnnxState({}, mask, hidden)

    def step(self, ids: Tensor, state: OnnxState) -> tuple[Tensor, OnnxState]:
        """Logits (B, T, V), and the state after them."""
        used = state.used + ids.shape[1]
        if not self.config.is_encoder_decoder:
            name, mask = MODEL, state.mask
            if (more := used - mask.shape[1]) > 0:
                mask = nn.functional.pad(mask, (0, more), value=1)
            state = replace(state, mask=mask)
            found = self.run(name, {"input_ids": ids, "attention_mask": mask[:, :used], **state.past})
        elif state.hidden is not None:
            source = {"encoder_hidden_states": state.hidden, "encoder_attention_mask": state.mask}
            found = self.run(DECODER, {"input_ids": ids, **source})
        else:
            found = self.run(LATER, {"input_ids": ids, "encoder_attention_mask": state.mask, **state.past})
        now = {name.replace("present", "past_key_values"): one for name, one in found.items() if name != "logits"}
        return found["logits"], replace(state, past={**state.past, **now}, hidden=None, used=used)

    hidden_step = step

    def state_bytes(self, rows: int, length: int, _source: tuple[int, int]) -> int:
        heads, width = self.cache
        return 2 * 4 * rows * length * heads * width * self.layers

    def run(self, name: str, inputs: Tensors) -> Tensors:
        """A graph's outputs; segments that are not given are all the first."""
        session = self.sessions[name]
        wanted = [one.name for one in session.get_inputs()]
        given = {"token_type_ids": torch.zeros_like(inputs["input_ids"]), **inputs}
        if "attention_mask" in wanted:
            given.setdefault("attention_mask", torch.ones_like(inputs["input_ids"]))
        found = session.run(None, {one: given[one].detach().numpy() for one in wanted})
        return {one.name: torch.from_numpy(x) for one, x in zip(session.get_outputs(), found, strict=True)}

    def _empty_past(self, rows: int) -> Tensors:
        heads, width = self.cache
        names = [one.name for one in self.sessions[MODEL].get_inputs()]
        return {name: torch.zeros(rows, heads, 0, width) for name in names if name.startswith("past_key_values.")}


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
