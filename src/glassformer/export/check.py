"""Whether an export says what its model says: outputs on the same inputs, and tokens that are written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.generate.api import generate
from glassformer.inspect.laws import error
from glassformer.models.contract import GenerativeModel, as_model
from glassformer.models.pretrained import PreTrainedModel
from glassformer.tasks.pooling import PoolingOptions
from glassformer.text.tokenizer import Tokenizer

from .samples import NEW_TOKENS, Batch, Samples

Outputs = Mapping[str, Tensor]


class Mismatch(ValueError):
    """An export that does not say what its model says."""


@dataclass(frozen=True)
class ExportSource:
    """What is exported: a model in float32 on the CPU, and what stands beside it."""

    model: PreTrainedModel
    tokenizer: Tokenizer | None
    samples: Samples
    quant: str
    pooling: PoolingOptions | None = None

    @property
    def prompts(self) -> Batch:
        """What a model that writes goes on from, or answers."""
        return {name: self.samples.left_padded[name] for name in ("input_ids", "attention_mask")}


@dataclass
class ExportComparison:
    """How far an export is from its model: the largest error of each output, and how many texts it writes alike."""

    errors: dict[str, float] = field(default_factory=dict)
    inputs: int = 0
    padded: int = 0
    prompts: int = 0  # texts that both went on from
    same_texts: int = 0  # of which so many alike, to the last token
    not_compared: str | None = None  # why nothing was run, where only the numbers in the file were compared

    def add(self, expected: Outputs, found: Outputs, attention_mask: Tensor) -> None:
        """Take in a batch; of outputs with a value a token, only those at real tokens count."""
        self.inputs += len(attention_mask)
        self.padded += int((~attention_mask.bool()).any(1).sum())
        for name, value in expected.items():
            here = found[name]
            if value.shape[:2] == attention_mask.shape and here.shape == value.shape:
                value, here = value[attention_mask.bool()], here[attention_mask.bool()]
            self.errors[name] = max(self.errors.get(name, 0.0), error(here, value))

    def add_texts(self, expected: Tensor, found: Tensor) -> None:
        """Take in what both wrote, (B, T) each."""
        width = max(expected.shape[1], found.shape[1])
        expected, found = (nn.functional.pad(ids, (0, width - ids.shape[1]), value=-1) for ids in (expected, found))
        self.prompts += len(expected)
        self.same_texts += int((expected == found).all(1).sum())

    @property
    def largest(self) -> float:
        return max(self.errors.values(), default=0.0)

    def require(self, tolerance: float, *, exact: bool) -> None:
        """Raise where an error is too large or, if it is to be the same model (`exact`), a text differs."""
        name = max(self.errors, key=lambda one: self.errors[one], default="")
        if not self.largest <= tolerance:
            raise Mismatch(
                f"the export differs from the model: {name} by {self.largest:.1e}, more than {tolerance:.0e}; "
                "nothing was kept"
            )
        if exact and self.same_texts < self.prompts:
            wrong = self.prompts - self.same_texts
            raise Mismatch(f"the export writes other tokens after {wrong} of {self.prompts} prompts; nothing was kept")

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"errors": dict(self.errors)}
        if self.not_compared is not None:
            return {**found, "not_compared": self.not_compared}
        found |= {"inputs": self.inputs, "padded": self.padded}
        if self.prompts:
            found |= {"prompts": self.prompts, "same_texts": self.same_texts, "new_tokens": NEW_TOKENS}
        return found


@torch.inference_mode()
def compare_outputs(source: ExportSource, run: Callable[[Batch], Outputs]) -> ExportComparison:
    """The model and an export, which `run` runs, on every batch."""
    comparison = ExportComparison()
    for batch in source.samples.batches:
        comparison.add(expected_outputs(source, batch), run(batch), batch["attention_mask"])
    return comparison


def expected_outputs(source: ExportSource, batch: Batch) -> dict[str, Tensor]:
    """What the model says of a batch; with pooling, the vector of each text in place of a pooler's."""
    outputs: dict[str, Tensor] = source.model(**batch)._asdict()
    if source.pooling is None:
        return outputs
    hidden = outputs["last_hidden_state"]
    return {"last_hidden_state": hidden, "sentence_embedding": source.pooling(hidden, batch["attention_mask"])}


def greedy(model: nn.Module, prompts: Batch) -> Tensor:
    """What a model writes after prompts, or of sources, (B, T): the likeliest token each time; -1 after an end."""
    config = as_model(model).config
    settings: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "num_beams": 1, "do_sample": False}
    ids = generate(model, None, prompts["input_ids"], attention_mask=prompts["attention_mask"], **settings)
    written: Tensor = ids if config.is_encoder_decoder else ids[:, prompts["input_ids"].shape[1] :]
    return cut_at_end(written, config.eos_token_id)


def cut_at_end(ids: Tensor, eos: int | list[int] | None) -> Tensor:
    """(B, T) with -1 after each row's first end, whatever a runtime fills rows up with."""
    ends = torch.isin(ids, torch.tensor([eos] if isinstance(eos, int) else eos or [], dtype=ids.dtype))
    ended = ends.cumsum(1) - ends.long() > 0
    return ids.masked_fill(ended, -1)


@torch.inference_mode()
def greedy_steps(model: GenerativeModel[Any], prompts: Batch) -> Tensor:
    """As `greedy`, whatever the model's folder says of how it is to write: what a runtime does that is told nothing."""
    ids, mask, config = prompts["input_ids"], prompts["attention_mask"], model.config
    fed = ids
    if config.is_encoder_decoder:
        fed = torch.full((len(ids), 1), config.to_hf()["decoder_start_token_id"])
    state = model.start(ids, mask, length=fed.shape[1] + NEW_TOKENS)
    written: list[Tensor] = []
    for _ in range(NEW_TOKENS):
        logits, state = model.step(fed, state)
        fed = logits[:, -1:].argmax(-1)
        written.append(fed)
    return cut_at_end(torch.cat(written, 1), config.eos_token_id)
