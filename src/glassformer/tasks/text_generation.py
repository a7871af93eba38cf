"""Text generation: a language model learns to say the next token, of any text or of texts of a kind.

B batch, T length, D model width, V vocabulary.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Budget, Indices, contiguous
from glassformer.data.blocks import Reframed, Windows, drawn, joined, tokenised
from glassformer.data.corpus import Corpus, is_labelled, labels_of
from glassformer.data.examples import Document
from glassformer.data.ragged import Ragged
from glassformer.data.shards import DocumentFrame, Shards
from glassformer.files.schema import Size
from glassformer.generate.api import generate
from glassformer.models.contract import Model, as_module, as_recurrent, as_token_scorer, generation_config
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, Carried, OnProgress, predict_in_batches
from .conversation import Conversation
from .metrics import Likelihood, ScoreSheet
from .running_text import RunningTextTask, as_text
from .spec import Spec
from .windows import ragged
from .words import NO_TARGET, judged, summed_cross_entropy

BLOCK_SIZE = 256  # where neither the user nor the model says how many tokens it reads


@dataclass
class PackedStream:
    """All documents in one row, read through windows."""

    windows: Windows
    bytes_per_token: float  # UTF-8 bytes of the texts for each target
    num_truncated: int = 0  # nothing is

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.full(len(self.windows), self.windows.size)


@dataclass
class Texts:
    """One document a row, between two end tokens."""

    rows: Ragged
    text_bytes: NDArray[np.float64]  # (N,) of each text, or of what is left of it
    num_truncated: int  # tokens lost to truncation

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.rows.lengths - 1


class TextGeneration(RunningTextTask[PackedStream | Texts]):
    """The loss is the cross-entropy of each next token.

    `packing` joins all documents into one stream and cuts it into blocks, without padding; without it each document
    is a row of its own, cut to `block_size`. A document stands between two end tokens, so its first word and its end
    are learnt as well; a row has the first one every other time in training, since prompts will come without it. Where
    the tokenizer puts BOS before a text, as Llama's does, BOS stands before a document and a prompt instead. A
    document's label, its condition, is written before it, as a special token of its own; it is read, never guessed.
    """

    name = "text-generation"
    head = "text-generation"
    vocabulary = "bpe"
    longest = None
    length_option = "block_size"
    labels_of_all = True
    by_token = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        conditions: Sequence[str] = (),
        block_size: Size | None = None,
        packing: bool = True,
        stride: Size | None = None,
        random_windows: bool = False,
        carry_state: bool = False,
        chunk: Size | None = None,
    ) -> None:
        """With `carry_state` the stream is read at as many places at once as a batch has rows; a trained model is
        scored on one stream.

        Args:
            conditions: Kinds of text to learn, in this order; by default the labels of the data.
            block_size: Tokens of a block, what the model sees at once. By default what it reads, 256 without a limit.
            packing: Join all documents and cut them into full blocks; else each document is a row, cut to block_size.
            stride: Tokens a window moves on: each token has block_size - stride before it. By default block_size.
            random_windows: Take training blocks from anywhere in the text, in the place of the same cuts each epoch.
            carry_state: RNNs: go on from the state after the block before (truncated backpropagation through time).
            chunk: Places whose scores are made at a time, and twice: less memory with a large vocabulary.
        """
        self.tokenizer, self.conditions = tokenizer, tuple(conditions)
        self.max_length, self.packing, self.stride = block_size, packing, stride
        self.random_windows, self.carry_state, self.chunk = random_windows, carry_state, chunk
        if carry_state and (stride or random_windows or not packing):
            raise ValueError("carry_state reads a stream in order: leave packing on, and stride and random_windows out")
        self.summed = summed_cross_entropy
        self._controls = np.array([self._ids(control_token(label))[0] for label in conditions], np.int64)

    def compile(self) -> None:
        self.summed = torch.compile(summed_cross_entropy)

    @classmethod
    def corpus(cls, sources: Sequence[str], **options: Any) -> Corpus | None:
        """Of labelled texts the labels have to be known before the first is read: by the names of files, or as
        `conditions`."""
        found = super().corpus(sources, **options)
        if found is None or not is_labelled(sources, options.get("columns")):
            return found
        labels = options.get("conditions") or labels_of(sources)
        if labels:
            return replace(found, labels=tuple(labels))
        if options.get("shards"):
            raise ValueError(
                "texts with a column of labels go to shards when the labels are known before: set conditions to them"
            )
        return None

    @classmethod
    def labels_in(cls, example: Document) -> Collection[str]:
        return () if example.label is None else (example.label,)

    @classmethod
    def spec_of_data(cls, examples: Sequence[Document], *, conditions: Sequence[str] = (), **options: Any) -> Spec:
        """The labels of the documents become conditions, and their tokens part of the vocabulary."""
        labels = conditions or sorted({one.label for one in examples if one.label is not None})
        tokens = tuple(control_token(label) for label in labels)
        return cls.make_spec({**options, "conditions": labels}, special_tokens=tokens)

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        return super().spec_of_model(tokenizer, model, **{"conditions": conditions_of(tokenizer), **options})

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        if spec.options.get("carry_state"):
            as_recurrent(model)
        return super().fit_spec(spec, tokenizer, model)

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        """One token stands before a text and after it; a fresh model has a position for each token of a block."""
        end = end_of(tokenizer)
        ends = {"bos_token_id": (tokenizer.bos_ids or [end])[0], "eos_token_id": end}
        return ends if spec.max_length is None else {**ends, "n_positions": spec.max_length}

    @property
    def end(self) -> int:
        return end_of(self.tokenizer)

    @property
    def frame(self) -> DocumentFrame:
        return DocumentFrame(next(iter(self.tokenizer.bos_ids), None), self.end)

    @property
    def first(self) -> list[int]:
        """What stands before a document: BOS where the tokenizer puts one before a text, else the end of another."""
        return self.tokenizer.bos_ids or [self.end]

    def condition_prefix(self, label: str) -> str:
        """What stands before a text of this kind: BOS or the end of another, and the condition."""
        if label not in self.conditions:
            known = ", ".join(self.conditions) or "none: train it on labelled texts (--columns label=NAME)"
            raise ValueError(f"the model knows no condition {label!r}; it knows {known}")
        return self.tokenizer.convert_ids_to_tokens(self.first[0]) + control_token(label)  # type: ignore[no-any-return]

    def marked(self, example: Document) -> str:
        """The text as it is learnt: after its condition, if it has one."""
        if example.label is None or not self.conditions:
            return example.text
        self.condition_prefix(example.label)  # which must be known
        return control_token(example.label) + example.text

    def encode(self, examples: Sequence[Document] | Shards) -> PackedStream | Texts:
        """Tokenise documents, once; of shards, which are tokenised, the marked texts with their ends are expected."""
        size = self.max_length or BLOCK_SIZE
        if isinstance(examples, Shards):
            if not self.packing:
                raise ValueError("shards hold one stream of text: leave packing on, or give documents")
            if examples.weights and (self.random_windows or self.carry_state):
                raise ValueError("weights are kept by shuffling: leave random_windows and carry_state out")
            if self.random_windows and not examples.is_here:
                raise ValueError("these shards are not here: copy them, or leave random_windows out")
            ids = Reframed(examples, before=() if self.tokenizer.bos_ids else [self.end])
            return PackedStream(Windows(ids, size, stride=self.stride), examples.bytes / max(1, len(examples)))
        rows = tokenised(self.tokenizer, [self.marked(one) for one in examples])
        sizes = np.array([len(one.text.encode()) for one in examples], np.float64)
        if self.packing:
            bos = np.array(self.tokenizer.bos_ids, np.int64)
            stream = joined((np.concatenate([bos, row]) for row in rows), self.end)[len(bos) :]
            windows = Windows(stream, size, stride=self.stride)
            return PackedStream(windows, sizes.sum() / (len(windows.ids) - 1))
        whole = [np.concatenate([self.first, row, [self.end]]) for row in rows]
        kept = ragged([row[: size + 1] for row in whole])
        lengths = np.array([len(row) for row in whole])
        return Texts(
            kept, sizes * (kept.lengths - 1) / (lengths - 1), num_truncated=int((lengths - kept.lengths).sum())
        )

    def stream(self, items: PackedStream | Texts) -> Windows | None:
        return items.windows if isinstance(items, PackedStream) and not self.random_windows else None

    def batch(self, items: PackedStream | Texts, indices: Indices, seed: int | None = None) -> Batch:
        """Blocks of a stream or rows of texts; without a seed as they are scored, with one as they are learnt."""
        if isinstance(items, Texts):
            return self._padded(items, indices, seed)
        if self.carry_state:  # borders between blocks are elsewhere in every epoch
            shift = 0 if seed is None else int(drawn(items.windows.size, np.zeros(1, np.int64), seed)[0])
            ids, scored = items.windows.follow(indices, shift)
        elif self.random_windows and seed is not None:
            ids = items.windows.draw(indices, seed)
            scored = np.ones(ids[:, 1:].shape, bool)
        else:
            ids, scored = items.windows.take(indices)
        text_bytes = scored.sum(1) * items.bytes_per_token  # a condition is a token of the stream, if not a target
        return language_batch(ids, scored & self._guessed(ids[:, 1:]), text_bytes)

    def _guessed(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which tokens are targets: all but conditions, which are asked for."""
        return ~np.isin(ids, self._controls)

    def _padded(self, items: Texts, indices: Indices, seed: int | None) -> Batch:
        """What is padding is told by lengths, so that an end token learns even where it is the padding too."""
        first = np.zeros(len(indices), int)
        if seed is not None and not self.tokenizer.bos_ids:
            first = drawn(2, indices, seed) * (items.lengths[indices] > 1)
        table = items.rows.padded(indices, self.tokenizer.pad_token_id or 0).numpy()  # (B, T + 1)
        places = np.minimum(np.arange(table.shape[1]) + first[:, None], table.shape[1] - 1)
        ids = np.take_along_axis(table, places, 1)
        real = np.arange(table.shape[1] - 1) < (items.lengths[indices] - first)[:, None]
        batch = language_batch(ids, real & self._guessed(ids[:, 1:]), items.text_bytes[indices])
        if not real.all():
            batch.inputs["attention_mask"] = torch.from_numpy(real.astype(np.int64))
        return batch

    def loss(self, model: Model, batch: Batch) -> Tensor:
        hidden = model.hidden(**batch.inputs)
        return self.summed(hidden, as_token_scorer(model).logits, batch.targets["labels"], chunk=self.chunk)

    def carried_loss(self, model: Model, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
        if not self.carry_state:
            return super().carried_loss(model, batch, carried)
        hidden, carried = go_on(model, batch, carried)
        scorer = as_token_scorer(model)
        return self.summed(hidden, scorer.logits, batch.targets["labels"], chunk=self.chunk), carried

    def eval_batches(
        self, items: PackedStream | Texts, budget: Budget, *, share: tuple[int, int] = (0, 1), final: bool = False
    ) -> list[Indices]:
        """With `carry_state`, in the order of the stream: one row of it at last, and before that as many as fit; a
        process has rows of its own."""
        if not self.carry_state:
            return super().eval_batches(items, budget, share=share, final=final)
        rank, world_size = share
        rows = 1 if final else budget.rows_of(int(items.lengths.max()))
        batches = [batch[rank::world_size] for batch in contiguous(len(items.lengths), rows)]
        return [batch for batch in batches if len(batch)]

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """Loss, perplexity and accuracy a token, and bits a byte."""
        likelihood = Likelihood(keep_examples=keep_examples)
        carried: Carried = ()

        def update(model: Model, batch: Batch) -> None:
            nonlocal carried
            labels, size = batch.targets["labels"], batch.extra["text_bytes"]
            if self.carry_state:
                hidden, carried = go_on(model, batch, carried)
            else:
                hidden = model.hidden(**batch.inputs)
            losses, right = judged(hidden, as_token_scorer(model).logits, labels)
            counts = (labels != NO_TARGET).sum(1)
            likelihood.update(losses.sum(1), counts, correct=right.sum(1), text_bytes=size)

        return ScoreSheet(update, likelihood=likelihood)

    def call_inputs(self, inputs: object, more: Sequence[object], options: dict[str, Any]) -> Any:
        """A list of messages is one conversation, not many inputs."""
        return Conversation.of(inputs) or super().call_inputs(inputs, more, options)

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        condition: str | None = None,
        prefix: str = "",
        return_full_text: bool = True,
        batch_size: Size = 32,
        on_progress: OnProgress | None = None,
        **settings: Any,
    ) -> list[Any]:
        """`settings` are those of generate. Several texts of a prompt (num_return_sequences) are drawn, unless beams or
        other settings are asked for.

        Args:
            inputs: A prompt, or a conversation: a list of dicts of role and content.
            condition: The kind of text to write, of those that the model has learnt.
            prefix: What is read before each prompt and not given back.
            return_full_text: Give the prompt before what is written.
            batch_size: Prompts answered at once; the results are the same.

        Returns:
            A list of dicts of generated_text; of a conversation, its messages with the answer behind them.
        """
        prefix = prefix if condition is None else self.condition_prefix(condition) + prefix
        chats = [Conversation.of(one) for one in inputs]
        prompts = [
            as_text(one) if chat is None else chat.prompt(self.tokenizer)
            for one, chat in zip(inputs, chats, strict=True)
        ]
        if any(chat is not None for chat in chats):
            if not all(chat is not None for chat in chats) or prefix:
                raise ValueError("conversations are answered without prompts of another kind, a prefix or a condition")
            settings = {"add_special_tokens": False, **settings}  # the template has written what it wants
        if not settings.keys() & {"num_beams", "do_sample", "penalty_alpha"} and _several(settings, model):
            settings["do_sample"] = True
        if settings.get("seed") is not None or {"max_length", "min_length"} & settings.keys():
            batch_size = 1  # what is drawn, and how long the longest prompt is, depends on what else is in the batch

        def predict(indices: Indices) -> Iterator[Any]:
            some = [prefix + prompts[place] for place in indices.tolist()]
            written = generate(as_module(model), self.tokenizer, some, **settings)
            for place, prompt, texts in zip(indices.tolist(), some, written, strict=True):
                read = len(self.tokenizer.decode(self._ids(prompt), skip_special_tokens=True))
                new = [text[read:] for text in ([texts] if isinstance(texts, str) else texts)]
                yield [{"generated_text": whole(place, text) if return_full_text else text} for text in new]

        def whole(place: int, text: str) -> str | list[dict[str, Any]]:
            return prompts[place] + text if (chat := chats[place]) is None else chat.answered(text)

        characters = np.array([len(prompt) for prompt in prompts], np.int64)
        return predict_in_batches(characters, Budget(rows=batch_size), predict, on_progress)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)  # type: ignore[no-any-return]


def _several(settings: Mapping[str, object], model: Model) -> bool:
    """Whether more texts are asked for than the beams that the model's folder asks for."""
    wanted, beams = settings.get("num_return_sequences"), generation_config(model).get("num_beams") or 1
    return isinstance(wanted, int) and wanted > 1 and isinstance(beams, int) and beams < wanted


def go_on(model: Model, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
    """The last hidden states (B, T, D) of a batch that goes on from what was carried, and what is carried on.

    Rows that have come to their end are the last ones, and missing in the batch. No gradient goes back over its start.
    """
    recurrent, ids = as_recurrent(model), batch.inputs["input_ids"]
    state = recurrent.start(ids, length=ids.shape[1])
    if carried:
        state = state.filled(tuple(part[: len(ids)] for part in carried))
    hidden, state = recurrent.hidden_step(ids, state)
    return hidden, tuple(part.detach() for part in state.tensors)


def language_batch(ids: NDArray[np.int64], scored: NDArray[np.bool_], text_bytes: NDArray[np.float64]) -> Batch:
    """Ids (B, T + 1) as inputs and the tokens after them; those that are not scored are no targets."""
    labels = np.where(scored, ids[:, 1:], NO_TARGET)
    return Batch(
        {"input_ids": torch.from_numpy(ids[:, :-1].copy())},
        {"labels": torch.from_numpy(labels)},
        count=int(scored.sum()),
        extra={"text_bytes": text_bytes},
    )


def end_of(tokenizer: Tokenizer) -> int:
    """The id that stands between documents."""
    ids = (tokenizer.eos_token_id, tokenizer.sep_token_id)
    found = next((index for index in ids if index is not None), None)
    if found is None:
        raise ValueError("the tokenizer has no end token, so no text would end: tok.eos_token = '…' names one")
    return found


def control_token(label: str) -> str:
    return f"<|{label}|>"


def conditions_of(tokenizer: Tokenizer) -> list[str]:
    """The conditions whose tokens a tokenizer has; the end of a text looks like one and is none."""
    named = {token for token in tokenizer.settings.names.values() if token}
    marked = [token for token in tokenizer.settings.extra if token not in named]
    return [token[2:-2] for token in marked if token == control_token(token[2:-2])]
