"""Models as graphs are traced of them: padding stays, and nothing depends on a value or on a length.

Every forward here runs the model's own modules; what differs is the mask and the cache that they are given.

B batch, T new tokens, P tokens before them, S all tokens, or those of a source, G heads of keys and values, K head
width, D model width.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from glassformer.blocks.batch_masks import AttentionOptions, DenseMask
from glassformer.blocks.decoder import DecoderParts
from glassformer.blocks.masks import Window, combine, distances, positions, real_positions, within
from glassformer.blocks.transformer import Stack
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderAlone, EncoderSide, Transformer
from glassformer.tasks.pooling import PoolingOptions

V = TypeVar("V")
Pair = tuple[Tensor, Tensor]
Outputs = dict[str, Tensor]


class TracedMask(DenseMask):
    """A DenseMask that takes the same steps whatever the lengths are, so that one graph is right for all of them."""

    def memoize(self, key: Hashable, make: Callable[[], V]) -> V:
        """By the names of lengths, which have no value yet."""
        parts = key if isinstance(key, tuple) else (key,)
        return super().memoize(tuple(str(one) if isinstance(one, torch.SymInt) else one for one in parts), make)

    def order(self, targets: int, sources: int, device: torch.device, window: Window | None) -> Tensor | None:
        """A window is applied even where it spans all."""
        if window is None:
            return None
        return self.memoize(
            (window, targets, sources), lambda: within(self.distances(targets, sources, device), window)
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """As it lies in memory here it need not lie elsewhere: a copy, which any runtime can be told to view."""
        return super().attend(query, key, value, options).clone(memory_format=torch.contiguous_format)


def looking_back(targets: int, sources: int, keep: Tensor | None, places: Tensor) -> TracedMask:
    """A token sees itself and what is real before it.

    Padding sees itself too: a softmax over nothing has no number, and would spoil the tokens beside it.
    """
    apart = distances(targets, sources, places.device)
    dense = combine(keep, apart <= 0)
    assert dense is not None
    return TracedMask(dense | (apart == 0), positions=places)


class TracedEncoder(nn.Module):
    """An encoder over padded batches, with its head or, for a bare one, with the vector of each text if asked for."""

    def __init__(self, model: Encoder, pooling: PoolingOptions | None = None) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Outputs:
        model, keep = self.model, attention_mask.bool()
        places = model.default_positions(input_ids, keep)
        x = model.embeddings(input_ids, places, token_type_ids)
        hidden = run(model.layers, x, TracedMask(combine(keep, None), positions=places), keep, norm=model.final_norm)
        summary = model.summary(hidden, attention_mask)
        if model.head is not None:
            return model.head(hidden, summary)._asdict()  # type: ignore[no-any-return]
        outputs = {"last_hidden_state": hidden}
        if self.pooling is not None:
            return outputs | {"sentence_embedding": self.pooling(hidden, attention_mask)}
        return outputs if model.pooler is None else outputs | {"pooler_output": summary}


class TracedSource(nn.Module):
    """The encoder of an encoder-decoder, a part of it or alone, over padded batches."""

    def __init__(self, side: EncoderSide | EncoderAlone, pooling: PoolingOptions | None = None) -> None:
        super().__init__()
        self.side, self.pooling = side, pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Outputs:
        side, keep = self.side, attention_mask.bool()
        places = positions(keep, input_ids.shape[1], input_ids.device)
        x = side.embeddings(input_ids, places)
        hidden = run(side.layers, x, TracedMask(combine(keep, None), positions=places), keep, norm=side.final_norm)
        outputs = {"last_hidden_state": hidden}
        if self.pooling is None:
            return outputs
        return outputs | {"sentence_embedding": self.pooling(hidden, attention_mask)}


class TracedDecoder(nn.Module):
    """A causal decoder over whole padded texts, without a cache."""

    def __init__(self, model: CausalDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Outputs:
        model, keep, length = self.model, attention_mask.bool(), input_ids.shape[1]
        model.embeddings.check_length(length, model.config.max_positions)
        places = real_positions(keep, length, input_ids.device)
        mask = looking_back(length, length, keep, places)
        hidden = run(model.layers, model.embeddings(input_ids, places), mask, keep, norm=model.final_norm)
        if model.head is None:
            return {"last_hidden_state": hidden}
        if model.head_name == "text-generation":
            return {"logits": model.head(hidden)}
        return model.head(hidden, model.summary(hidden, attention_mask))._asdict()  # type: ignore[no-any-return]


class TracedSeq2Seq(nn.Module):
    """An encoder-decoder over a padded source and a target whose padding, if any, comes last."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model, self.source = model, TracedSource(model.encoder)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor | None = None) -> Outputs:
        model, keep = self.model, attention_mask.bool()
        memory = self.source(input_ids, attention_mask)["last_hidden_state"]
        target, target_mask = model.target(input_ids, attention_mask, decoder_input_ids, None)
        hidden = self.decoded(target, None if target_mask is None else target_mask.bool(), memory, keep)
        outputs = {"encoder_last_hidden_state": memory}
        if model.head is None:
            return {"last_hidden_state": hidden} | outputs
        if model.head_name == "text-classification":
            return model.head(hidden, model.summary(hidden, target_mask))._asdict() | outputs  # type: ignore[no-any-return]
        return {"logits": model.logits(hidden)} | outputs

    def decoded(self, target: Tensor, target_keep: Tensor | None, memory: Tensor, keep: Tensor) -> Tensor:
        """The decoder's last hidden states (B, T, D)."""
        side, length = self.model.decoder, target.shape[1]
        places = positions(target_keep, length, target.device)
        mask = looking_back(length, length, target_keep, places)
        across = {"source": memory, "source_mask": TracedMask(combine(keep, None))}
        x = side.layers(side.embeddings(target, places), mask, keep=target_keep, **across)
        return x if side.final_norm is None else side.final_norm(x)  # type: ignore[no-any-return]


def run(layers: Stack, x: Tensor, mask: TracedMask, keep: Tensor, *, norm: nn.Module | None) -> Tensor:
    """norm(layers(x)), (B, S, D), zero at padding."""
    x = layers(x, mask, keep=keep)
    return (x if norm is None else norm(x)).masked_fill(~keep[..., None], 0.0)


@dataclass
class TracedLayerKV:
    """One layer's keys and values before a step (B, G, P, K) and, once it has run, after it (B, G, P + T, K)."""

    past: Pair
    present: Pair | None = None

    def append(self, key: Tensor, value: Tensor) -> Pair:
        """As `LayerKV.append`: (B, T, G, K) -> (B, P + T, G, K)."""
        new = (key.transpose(1, 2), value.transpose(1, 2))
        keys, values = (torch.cat([before, now], 2) for before, now in zip(self.past, new, strict=True))
        self.present = keys, values
        return keys.transpose(1, 2), values.transpose(1, 2)


class TracedStep(nn.Module):
    """A step of a causal decoder with its cache: new tokens, and keys and values of those before them."""

    def __init__(self, model: CausalDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past_key_values: list[Pair]) -> Outputs:
        """Ids (B, T), a mask (B, P + T) -> logits (B, T, V), and the cache after them."""
        caches = [TracedLayerKV(pair) for pair in past_key_values]
        hidden = stepped(self.model.decoder_parts, input_ids, caches, keep=attention_mask.bool())
        return {"logits": self.model.logits(hidden)} | named_cache(caches, "present.{}")


class TracedFirstStep(nn.Module):
    """The first step of a decoder over a source: it gives its own cache, and the source's keys and values."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor) -> Outputs:
        heads, width = self.model.cache
        nothing = encoder_hidden_states.new_zeros(input_ids.shape[0], heads, 0, width)
        sources = self.model.decoder.layers.keys_and_values(encoder_hidden_states)
        caches = [TracedLayerKV((nothing, nothing)) for _ in sources]
        keep = encoder_attention_mask.bool()
        hidden = stepped(self.model.decoder_parts, input_ids, caches, sources=sources, source_keep=keep)
        found = {"logits": self.model.logits(hidden)} | named_cache(caches, "present.{}.decoder")
        for number, pair in enumerate(sources):
            key, value = (x.transpose(1, 2) for x in pair)
            found |= {f"present.{number}.encoder.key": key, f"present.{number}.encoder.value": value}
        return found


class TracedLaterStep(nn.Module):
    """A further step of a decoder over a source, whose keys and values come in with those of the tokens before."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past_key_values: list[tuple[Tensor, ...]]
    ) -> Outputs:
        """`past_key_values`: of each layer its own keys and values (B, G, P, K), and the source's (B, G, S, K)."""
        caches = [TracedLayerKV((key, value)) for key, value, _, _ in past_key_values]
        sources = [(key.transpose(1, 2), value.transpose(1, 2)) for _, _, key, value in past_key_values]
        keep = encoder_attention_mask.bool()
        hidden = stepped(self.model.decoder_parts, input_ids, caches, sources=sources, source_keep=keep)
        return {"logits": self.model.logits(hidden)} | named_cache(caches, "present.{}.decoder")


def stepped(
    parts: DecoderParts,
    ids: Tensor,
    caches: Sequence[TracedLayerKV],
    *,
    keep: Tensor | None = None,
    sources: Sequence[Pair] | None = None,
    source_keep: Tensor | None = None,
) -> Tensor:
    """The last hidden states (B, T, D) of new tokens; each layer's cache has them afterwards.

    `keep` (B, P + T) and `source_keep` (B, S): which tokens are real; None: all.
    """
    tokens, before = ids.shape[1], caches[0].past[0].shape[2]
    places = real_positions(keep, tokens, ids.device, start=before)
    mask = looking_back(tokens, before + tokens, keep, places)
    across = None if sources is None else TracedMask(combine(source_keep, None))
    x = parts.embeddings(ids, places)
    for number, (layer, cache) in enumerate(zip(parts.layers, caches, strict=True)):
        x = layer(x, mask, cache=cache, source=None if sources is None else sources[number], source_mask=across)
    return x if parts.final_norm is None else parts.final_norm(x)


def named_cache(caches: Sequence[TracedLayerKV], name: str) -> Outputs:
    """Each layer's keys and values after a step, under the names that Optimum gives them."""
    found: Outputs = {}
    for number, cache in enumerate(caches):
        assert cache.present is not None, "a layer has not run"
        found |= dict(zip((f"{name.format(number)}.key", f"{name.format(number)}.value"), cache.present, strict=True))
    return found
