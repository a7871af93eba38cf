"""GGUF: GPT-2 and the Llama family in one file with their tokenizer, as llama.cpp reads them.

H heads, K head width, D model width.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.blocks.rotary import Rotary
from glassformer.models.contract import as_generative
from glassformer.models.decoder import CausalDecoder
from glassformer.models.gpt2 import Gpt2Config
from glassformer.models.llama import LlamaConfig
from glassformer.tasks.encoded import quiet
from glassformer.text.tokenizer import Tokenizer

from .check import ExportComparison, ExportSource, Mismatch, compare_outputs, greedy_steps
from .formats import GGUF
from .gguf_vocab import GgufVocabulary, vocabulary_of
from .llama_cpp import CONTEXT, LlamaCppModel
from .samples import built_in_texts

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter

FILE = "model.gguf"
WHOLE = {"embeddings.token": "token_embd", "embeddings.position": "position_embd", "final_norm": "output_norm"}
WHOLE |= {"head": "output"}
LAYER = {
    "attention_norm": "attn_norm",
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "attention.query_norm": "attn_q_norm",
    "attention.key_norm": "attn_k_norm",
    "feed_forward_norm": "ffn_norm",
    "feed_forward.gate": "ffn_gate",
    "feed_forward.up": "ffn_up",
    "feed_forward.down": "ffn_down",
}
QUERY_KEY_VALUE = ("attention.query", "attention.key", "attention.value")  # which GPT-2 has as one
TURNED = ("attention.query", "attention.key")
NOT_ASKED = (
    "llama.cpp is not installed here, and was not asked for logits, texts or tokens: "
    "pip install 'glassformer[bench-llama]', and export again"
)
Array = NDArray[Any]


def write(source: ExportSource, folder: Path) -> dict[str, Any]:
    """Write the file; a model that llama.cpp would run otherwise is refused before."""
    import gguf

    model = source.model
    assert isinstance(model, CausalDecoder)
    check_settings(model)
    vocabulary = None if source.tokenizer is None else vocabulary_of(source.tokenizer, model.config.vocab_size)
    writer = gguf.GGUFWriter(folder / FILE, GGUF[model.config.model_type])
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if source.quant == "f32" else f"MOSTLY_{source.quant.upper()}"])
    writer.add_vocab_size(model.config.vocab_size)
    if isinstance(model.config, LlamaConfig):
        _add_llama(writer, model.config)
    else:
        assert isinstance(model.config, Gpt2Config)
        _add_gpt2(writer, model.config)
    _add_vocabulary(writer, vocabulary)
    for name, tensor in tensors_of(model):
        kind = _kind(source.quant, tensor)
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {"tokenizer": None if vocabulary is None else vocabulary.model}


def check_settings(model: CausalDecoder) -> None:
    """Refuse what llama.cpp fixes for an architecture, or leaves out."""
    config, wrong = model.config, ""
    if isinstance(config, LlamaConfig):
        rope = config.rope_parameters["rope_type"]
        if config.hidden_act not in ("silu", "swish"):
            wrong = f"hidden_act {config.hidden_act!r} (it has silu)"
        elif context_length(config) < min(CONTEXT, config.max_position_embeddings):
            wrong = f"windows of {config.sliding_window} tokens"
        elif rope not in ("default", "linear", *(("llama3",) if _is_interleaved(config) else ())):
            wrong = f"rotary positions of type {rope}"
        elif config.model_type == "qwen3" and config.attention_bias:
            wrong = "biases in the attention"
    elif isinstance(config, Gpt2Config):
        if config.activation_function not in ("gelu_new", "gelu_pytorch_tanh"):
            wrong = f"activation_function {config.activation_function!r} (it has gelu_new)"
        elif not config.scale_attn_weights or config.scale_attn_by_inverse_layer_idx:
            wrong = "another scale of its scores (scale_attn_weights, scale_attn_by_inverse_layer_idx)"
    if wrong:
        raise ValueError(f"the model has {wrong}, and a {config.model_type} in llama.cpp has not: export it to onnx")


def context_length(config: LlamaConfig) -> int:
    """Tokens for which llama.cpp, which knows no windows here, says the same: up to the smallest window."""
    windows = [one.before + 1 for number in range(config.num_hidden_layers) if (one := config.window(number))]
    return min([config.max_position_embeddings, *windows])


def _add_gpt2(writer: "GGUFWriter", config: Gpt2Config) -> None:
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)


def _add_llama(writer: "GGUFWriter", config: LlamaConfig) -> None:
    import gguf

    rope = config.rope_parameters
    writer.add_context_length(context_length(config))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.key_heads)
    writer.add_key_length(config.head_width)
    writer.add_value_length(config.head_width)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])


def _add_vocabulary(writer: "GGUFWriter", found: GgufVocabulary | None) -> None:
    if found is None:
        writer.add_tokenizer_model("no_vocab")
        return
    writer.add_tokenizer_model(found.model)
    writer.add_tokenizer_pre(found.pre)
    writer.add_token_list(found.tokens)
    writer.add_token_types(found.types)
    if found.scores is not None:
        writer.add_token_scores(found.scores)
    if found.merges is not None:
        writer.add_token_merges(found.merges)
    for role, number in found.special.items():
        getattr(writer, f"add_{role}_token_id")(number)
    writer.add_add_bos_token(found.add_bos)
    writer.add_add_eos_token(found.add_eos)
    writer.add_add_space_prefix(found.add_space_prefix)
    if found.chat_template is not None:
        writer.add_chat_template(found.chat_template)


def _kind(quant: str, tensor: Array) -> "GGMLQuantizationType":
    """How a tensor is kept: vectors in 32 bits, and rows that blocks of 32 do not fill in 16."""
    import gguf

    if tensor.ndim == 1 or quant == "f32":
        return gguf.GGMLQuantizationType.F32
    blocked = quant == "q8_0" and tensor.shape[1] % 32 == 0
    return gguf.GGMLQuantizationType.Q8_0 if blocked else gguf.GGMLQuantizationType.F16


def tensors_of(model: CausalDecoder) -> Iterator[tuple[str, Array]]:
    """A model's tensors under llama.cpp's names, in float32; an output layer that is the embeddings is left out."""
    config = model.config
    width = config.head_width if isinstance(config, LlamaConfig) and _is_interleaved(config) else None
    for ours, theirs in WHOLE.items():
        module = dict(model.named_modules()).get(ours)
        if module is not None and not (ours == "head" and module.weight is model.embeddings.token.weight):
            yield from _named(theirs, module)
    for number, layer in enumerate(model.layers):
        parts = dict(layer.named_modules())
        if isinstance(config, Gpt2Config):
            fused = [parts[name] for name in QUERY_KEY_VALUE]
            for kind in ("weight", "bias"):
                yield f"blk.{number}.attn_qkv.{kind}", _array(torch.cat([getattr(one, kind) for one in fused]))
        for ours, theirs in LAYER.items():
            if ours not in parts or (isinstance(config, Gpt2Config) and ours in QUERY_KEY_VALUE):
                continue
            for name, array in _named(f"blk.{number}.{theirs}", parts[ours]):
                yield name, array if width is None or ours not in TURNED else _interleaved(array, width)
    if isinstance(config, LlamaConfig) and config.rope_parameters["rope_type"] == "llama3":
        yield "rope_freqs.weight", _rope_factors(model, config)


def _is_interleaved(config: LlamaConfig) -> bool:
    """Whether llama.cpp turns neighbours of a head together, where we turn its halves."""
    return GGUF[config.model_type] == "llama"


def _interleaved(array: Array, width: int) -> Array:
    """Rows (H·K, …) of queries or keys, those of each pair (i, i + K/2) side by side."""
    heads = array.reshape(-1, 2, width // 2, *array.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2).reshape(array.shape))


def _rope_factors(model: CausalDecoder, config: LlamaConfig) -> Array:
    """(K/2,): what llama.cpp divides each plain frequency by."""
    rotary = next(module for module in model.modules() if isinstance(module, Rotary))
    width = config.head_width
    plain = 1.0 / (config.rope_parameters["rope_theta"] ** (torch.arange(0, width, 2, dtype=torch.float32) / width))
    return _array(plain / rotary.frequencies)


def _named(name: str, module: nn.Module) -> Iterator[tuple[str, Array]]:
    for kind in ("weight", "bias"):
        tensor = getattr(module, kind, None)
        if isinstance(tensor, Tensor):
            yield f"{name}.{kind}", _array(tensor)


def _array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().float().numpy())


def compare(source: ExportSource, folder: Path) -> ExportComparison:
    """The file's tensors and the model's; and what llama.cpp says, where llama-cpp-python is installed."""
    assert isinstance(source.model, CausalDecoder)
    found = ExportComparison(errors={"tensors": _tensor_error(source.model, folder / FILE)})
    if find_spec("llama_cpp") is None:
        found.not_compared = NOT_ASKED
        return found
    limit = min(CONTEXT, source.model.config.max_positions or CONTEXT)
    theirs = LlamaCppModel(folder / FILE, source.model.config.vocab_size, context=limit)
    if source.tokenizer is not None:
        _check_tokens(source.tokenizer, theirs)
    run = compare_outputs(source, theirs.outputs)
    run.errors |= found.errors
    run.add_texts(
        greedy_steps(as_generative(source.model), source.prompts),
        theirs.greedy(source.prompts, source.model.config.eos_token_id),
    )
    return run


def _check_tokens(tokenizer: Tokenizer, theirs: LlamaCppModel) -> None:
    """Refuse a vocabulary that llama.cpp cuts texts by otherwise."""
    texts = built_in_texts()
    with quiet():
        expected = tokenizer.encode_prompts(texts)
    for text, ours in zip(texts, expected, strict=True):
        if (found := theirs.tokenize(text)) != ours:
            place = next(n for n, pair in enumerate(zip_longest(found, ours)) if pair[0] != pair[1])
            raise Mismatch(f"llama.cpp cuts {text[:40]!r} into other tokens, from token {place} on; nothing was kept")


def _tensor_error(model: CausalDecoder, file: Path) -> float:
    """The largest difference of a number in the file from the model's, relative to the largest of its tensor."""
    import gguf

    kept = {one.name: one for one in gguf.GGUFReader(file).tensors}
    worst = 0.0
    for name, expected in tensors_of(model):
        found = gguf.quants.dequantize(kept[name].data, kept[name].tensor_type).reshape(expected.shape)
        worst = max(worst, float(np.abs(found - expected).max() / max(1e-12, float(np.abs(expected).max()))))
    return worst
