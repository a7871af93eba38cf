"""CTranslate2: encoders, decoders and encoder-decoders as its runtime reads them, from our modules alone.

Modules have the same names in every architecture here, so that one walk over them fills every kind of specification.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.blocks.activations import ACTIVATIONS as ALL_ACTIVATIONS
from glassformer.blocks.activations import Activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings, OffsetPositions, Sinusoidal
from glassformer.blocks.output import LMHead, ScaledHead
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import LinearScaling, Unscaled
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer, Stack
from glassformer.models.contract import as_model
from glassformer.models.decoder import CausalDecoder
from glassformer.models.encoder import Encoder
from glassformer.models.encoder_decoder import EncoderSide, Transformer
from glassformer.models.heads import Pooler
from glassformer.text.tokenizer import Tokenizer

from .check import ExportComparison, ExportSource
from .ctranslate2_model import compare_ctranslate2
from .samples import LONGEST

ACTIVATIONS = {"gelu": "GELU", "gelu_new": "GELUTanh", "quick_gelu": "GELUSigmoid", "relu": "RELU", "silu": "SWISH"}


def write(source: ExportSource, folder: Path) -> dict[str, Any]:
    """Fill the specification of a model, and write it."""
    spec = specification(source.model)
    config = as_model(source.model).config
    tokens = vocabulary(source.tokenizer, config.vocab_size)
    if isinstance(source.model, Transformer):
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.decoder_start_token = _token(tokens, config.to_hf().get("decoder_start_token_id"))
    else:
        spec.register_vocabulary(tokens)
    unknown = None if source.tokenizer is None else source.tokenizer.unk_token
    spec.config.unk_token = unknown or tokens[0]
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    if not isinstance(source.model, Encoder):
        spec.config.eos_token = _token(tokens, eos)
        bos = config.bos_token_id if config.bos_token_id is not None else eos
        spec.config.bos_token = _token(tokens, bos)
    spec.config.layer_norm_epsilon = _eps(source.model)
    spec.validate()
    spec.optimize(quantization=None if source.quant == "float32" else source.quant)
    spec.save(str(folder))
    return {}


def compare(source: ExportSource, folder: Path) -> ExportComparison:
    """What CTranslate2 says, and the model."""
    return compare_ctranslate2(source, folder, vocabulary(source.tokenizer, as_model(source.model).config.vocab_size))


def vocabulary(tokenizer: Tokenizer | None, size: int) -> list[str]:
    """A different name for every id: the tokenizer's, or one that says that there is none."""
    named = [None] * size if tokenizer is None else [tokenizer.backend.id_to_token(number) for number in range(size)]
    tokens = [f"<id_{number}>" if token is None else token for number, token in enumerate(named)]
    if len(set(tokens)) < size:
        raise ValueError("ctranslate2: the tokenizer has two ids for one token, and CTranslate2 finds ids by tokens")
    return tokens


def _token(tokens: list[str], number: int | None) -> str:
    if number is None or not 0 <= number < len(tokens):
        raise ValueError("ctranslate2: the model's config has no eos_token_id or decoder_start_token_id; set it")
    return tokens[number]


def _eps(model: nn.Module) -> float:
    """That of the norms, which must be one for all."""
    found = {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)}
    eps = found.pop() if len(found) == 1 else None
    if eps is None:
        raise ValueError(f"ctranslate2: a model has one eps for all of its norms, not {sorted(map(str, found))}")
    return eps


def specification(model: nn.Module) -> Any:
    """The model in the words of CTranslate2."""
    from ctranslate2.specs import transformer_spec

    match model:
        case Encoder():
            merge = _segments(model)
            encoder = transformer_spec.TransformerEncoderSpec(**_shape(model.layers, model.embeddings), **merge)
            _fill_side(encoder, model.embeddings, model.layers, None, padding_idx=model.padding_idx)
            spec = transformer_spec.TransformerEncoderModelSpec(encoder, pooling_layer=model.pooler is not None)
            if isinstance(model.pooler, Pooler):
                _linear(spec.pooler_dense, model.pooler.dense)
            return spec
        case CausalDecoder():
            shape = _shape(model.layers, model.embeddings) | _positions(model.layers)
            decoder = transformer_spec.TransformerDecoderSpec(**shape, with_encoder_attention=False)
            _fill_side(decoder, model.embeddings, model.layers, model.final_norm)
            _fill_head(decoder, model.head)
            return transformer_spec.TransformerDecoderModelSpec(decoder)
        case Transformer():
            if model.config.vocab_size != model.config.target_vocab_size:
                raise ValueError("ctranslate2: a model with two vocabularies is not exported; export it to onnx")
            sides = []
            for side, kind in ((model.encoder, "Encoder"), (model.decoder, "Decoder")):
                made = getattr(transformer_spec, f"Transformer{kind}Spec")(**_shape(side.layers, side.embeddings, side))
                _fill_side(made, side.embeddings, side.layers, side.final_norm)
                sides.append(made)
            _fill_head(sides[1], model.head)
            return transformer_spec.TransformerSpec(*sides)
    raise AssertionError(f"a {type(model).__name__} has no specification")


def _shape(layers: Stack, embeddings: Embeddings, side: EncoderSide | None = None) -> dict[str, Any]:
    """What is told of a stack by its first layer, which all others are like."""
    from ctranslate2.specs.common_spec import Activation as Kinds

    first = next(layer for layer in layers if isinstance(layer, Layer))
    attention, inner = first.attention, first.feed_forward
    assert isinstance(inner, FeedForward | GatedFeedForward)
    return {
        "num_layers": len(layers),
        "num_heads": attention.heads,
        "head_dim": attention.head_width,
        "pre_norm": first.pre_norm,
        "no_final_norm": side is not None and side.final_norm is None,
        "activation": Kinds[_activation(inner.activation)],
        "layernorm_embedding": embeddings.norm is not None,
        "relative_attention_bias": attention.position_scores is not None,
        "ffn_glu": isinstance(inner, GatedFeedForward),
        "rms_norm": isinstance(first.attention_norm, nn.RMSNorm),
    }


def _activation(function: Activation) -> str:
    for name, theirs in ACTIVATIONS.items():
        if ALL_ACTIVATIONS[name] is function:
            return theirs
    name = next(name for name, one in ALL_ACTIVATIONS.items() if one is function)
    raise ValueError(f"ctranslate2 has no activation {name!r}; it has: {', '.join(ACTIVATIONS)}")


def _segments(model: Encoder) -> dict[str, Any]:
    from ctranslate2.specs.common_spec import EmbeddingsMerge

    if model.embeddings.segment is None:
        return {}
    return {"num_source_embeddings": 2, "embeddings_merge": EmbeddingsMerge.ADD}


def _positions(layers: Stack) -> dict[str, Any]:
    """Rotary positions, groups of queries and a window, of the decoders that have them."""
    from ctranslate2.specs.attention_spec import RotaryScalingType

    attentions = [layer.attention for layer in layers if isinstance(layer, Layer)]
    first = attentions[0]
    found: dict[str, Any] = {"qk_norm": first.query_norm is not None}
    if first.key_heads != first.heads:
        found["num_heads_kv"] = first.key_heads
    windows = {one.window for one in attentions}
    if len(windows) > 1:
        raise ValueError("ctranslate2: all layers have one window or none; export the model to onnx")
    if (window := windows.pop()) is not None:
        if window.before < 2 * LONGEST:
            raise ValueError(
                f"ctranslate2: windows of {window.before + 1} tokens are too short; export the model to onnx"
            )
        found["sliding_window"] = window.before + 1
    if first.rotary is None:
        return found
    found |= {"rotary_dim": first.head_width, "rotary_interleave": False, "rotary_base": first.rotary.theta}
    scaling = first.rotary.scaling
    if isinstance(scaling, LinearScaling):
        found |= {"rotary_scaling_type": RotaryScalingType.Linear, "rotary_scaling_factor": scaling.factor}
    elif type(scaling) is not Unscaled:
        raise ValueError(f"ctranslate2 has no rotary positions by {type(scaling).__name__}: export the model to onnx")
    return found


def _fill_side(
    spec: Any, embeddings: Embeddings, layers: Stack, norm: nn.Module | None, *, padding_idx: int | None = None
) -> None:
    """Embeddings, layers and the last norm; `padding_idx`: positions count from behind it."""
    spec.scale_embeddings = embeddings.scale if embeddings.scale != 1.0 else False
    tables = spec.embeddings if isinstance(spec.embeddings, list) else [spec.embeddings]
    tables[0].weight = _copy(embeddings.token.weight)
    if embeddings.segment is not None:
        tables[1].weight = _copy(embeddings.segment.weight)
    if embeddings.position is not None:
        spec.position_encodings.encodings = _copy(_table(embeddings.position, padding_idx))
    if embeddings.norm is not None:
        _norm(spec.layernorm_embedding, embeddings.norm)
    if norm is not None:
        _norm(spec.layer_norm, norm)
    for target, layer in zip(spec.layer, layers, strict=True):
        assert isinstance(layer, Layer)
        _fill_layer(target, layer)


def _fill_layer(spec: Any, layer: Layer) -> None:
    _fill_attention(spec.self_attention, layer.attention)
    _norm(spec.self_attention.layer_norm, layer.attention_norm)
    if layer.cross_attention is not None and layer.cross_attention_norm is not None:
        _fill_attention(spec.attention, layer.cross_attention, across=True)
        _norm(spec.attention.layer_norm, layer.cross_attention_norm)
    inner = layer.feed_forward
    if isinstance(inner, GatedFeedForward):
        _linear(spec.ffn.linear_0, inner.gate)
        _linear(spec.ffn.linear_0_noact, inner.up)
    else:
        assert isinstance(inner, FeedForward)
        _linear(spec.ffn.linear_0, inner.up)
    _linear(spec.ffn.linear_1, inner.down)
    _norm(spec.ffn.layer_norm, layer.feed_forward_norm)


def _fill_attention(spec: Any, attention: MultiHeadAttention, *, across: bool = False) -> None:
    query, key, value = attention.query, attention.key, attention.value
    if across:
        _linear(spec.linear[0], query)
        _linear(spec.linear[1], key, value)
    else:
        _linear(spec.linear[0], query, key, value)
    _linear(spec.linear[-1], attention.output)
    if attention.scale != attention.head_width**-0.5:
        spec.queries_scale = np.float32(attention.scale)
    if attention.query_norm is not None and attention.key_norm is not None:
        _norm(spec.q_norm, attention.query_norm)
        _norm(spec.k_norm, attention.key_norm)
    if isinstance(bias := attention.position_scores, RelativeBias):
        spec.relative_attention_bias = _copy(bias.table.weight)
        spec.relative_attention_max_distance = np.int32(bias.max_distance)


def _fill_head(spec: Any, head: nn.Module | None) -> None:
    """The output layer, with what is added to its scores or scales what it reads."""
    match head:
        case LMHead():
            _linear(spec.projection, head.output)
            spec.projection.bias = _copy(head.bias[0])
        case ScaledHead():
            _linear(spec.projection, head.output)
            if head.scale != 1.0:
                spec.scale_outputs = np.float32(head.scale)
        case nn.Linear():
            _linear(spec.projection, head)
        case _:
            raise AssertionError(f"a {type(head).__name__} is no output layer")


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """One layer, or several one under the other."""
    spec.weight = _copy(*(one.weight for one in layers))
    if any(one.bias is not None for one in layers):
        spec.bias = _copy(*(one.weight.new_zeros(len(one.weight)) if one.bias is None else one.bias for one in layers))


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _copy(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = torch.zeros_like(spec.gamma) if norm.bias is None else _copy(norm.bias)


def _copy(*tensors: Tensor) -> Tensor:
    """Tensors one under the other in memory of their own: the quantiser scales them where they lie."""
    return torch.cat([one.detach() for one in tensors])


def _table(position: nn.Module, padding_idx: int | None) -> Tensor:
    """(S, D): the vector of each place, from the first on."""
    if isinstance(position, Sinusoidal):
        return position.table
    assert isinstance(position, nn.Embedding)
    if isinstance(position, OffsetPositions):
        return position.weight[position.offset :]
    return position.weight if padding_idx is None else position.weight[padding_idx + 1 :]
