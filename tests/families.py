"""Random small models of every family in the registry, so that a new architecture is tested by existing."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from glassformer.blocks.activations import ACTIVATIONS
from glassformer.hub.registry import ARCHITECTURES, build
from glassformer.inspect.laws import pad, run

CASES = [(name, head) for name, architecture in ARCHITECTURES.items() for head in architecture.heads]
IN_TRANSFORMERS = [(name, head) for name, head in CASES if not name.startswith("glassformer")]
VOCABULARY, POSITIONS = 41, 40

SMALL_BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
    "max_position_embeddings": POSITIONS,
}
SMALL_ALBERT = SMALL_BERT | {"num_hidden_layers": 3, "embedding_size": 6}
SMALL_GPT = {"vocab_size": VOCABULARY, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": POSITIONS}

heads_and_width = st.sampled_from([(1, 6), (1, 16), (2, 8), (3, 12), (3, 15), (4, 32)])
layers = st.integers(1, 3)
inner = st.sampled_from([7, 16, 33])
acts = st.sampled_from(sorted(ACTIVATIONS))
positions = st.sampled_from(["learned", "sinusoidal"])
labels = st.integers(1, 5)


@st.composite
def bert_settings(draw: Any, model_type: str) -> dict[str, Any]:
    heads, width = draw(heads_and_width)
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": draw(layers),
        "intermediate_size": draw(inner),
        "hidden_act": draw(acts),
        "type_vocab_size": draw(st.integers(1, 3)),
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 1 if "roberta" in model_type else 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "num_labels": draw(labels),
    }


@st.composite
def albert_settings(draw: Any, model_type: str) -> dict[str, Any]:
    layers = draw(st.integers(1, 4))
    groups = {"num_hidden_layers": layers, "num_hidden_groups": draw(st.integers(1, layers))}
    groups |= {"inner_group_num": draw(st.integers(1, 2))}
    return draw(electra_settings(model_type)) | groups


@st.composite
def electra_settings(draw: Any, model_type: str) -> dict[str, Any]:
    settings = draw(bert_settings(model_type))
    return settings | {"embedding_size": draw(st.sampled_from([5, settings["hidden_size"], 8]))}


@st.composite
def distilbert_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    heads, width = draw(heads_and_width)
    return {
        "vocab_size": VOCABULARY,
        "dim": width,
        "n_heads": heads,
        "n_layers": draw(layers),
        "hidden_dim": draw(inner),
        "activation": draw(st.sampled_from(["gelu", "relu"])),
        "max_position_embeddings": POSITIONS,
        "sinusoidal_pos_embds": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
        "num_labels": draw(labels),
    }


@st.composite
def gpt2_settings(draw: Any, model_type: str) -> dict[str, Any]:
    heads, width = draw(heads_and_width)
    kinds = ["sinusoidal", "learned", "relative", None, *(["rotary"] if width // heads % 2 == 0 else [])]
    own = {} if model_type == "gpt2" else {"positions": draw(st.sampled_from(kinds))}
    return own | {
        "vocab_size": VOCABULARY,
        "n_embd": width,
        "n_head": heads,
        "n_layer": draw(layers),
        "n_inner": draw(st.none() | inner),
        "n_positions": POSITIONS,
        "activation_function": draw(acts),
        "scale_attn_weights": draw(st.booleans()),
        "scale_attn_by_inverse_layer_idx": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
        "num_labels": draw(labels),
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }


@st.composite
def deberta_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    heads, width = draw(heads_and_width)
    kinds = draw(st.sampled_from([["c2p", "p2c"], ["p2c", "c2p"], ["c2p"], ["p2c"], "c2p|p2c", "none", [], None]))
    conv = {"conv_kernel_size": draw(st.sampled_from([1, 3, 5]))}
    conv |= {"conv_act": draw(acts), "conv_groups": draw(st.sampled_from([1, width]))}
    legacy = draw(st.booleans())
    return draw(st.sampled_from([{}, conv])) | {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "embedding_size": draw(st.sampled_from([width, 5])) if legacy else width,
        "num_attention_heads": heads,
        "num_hidden_layers": draw(layers),
        "intermediate_size": draw(inner),
        "hidden_act": draw(acts),
        "type_vocab_size": draw(st.integers(0, 3)),
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": draw(st.sampled_from([1e-7, 1e-5])),
        "relative_attention": draw(st.sampled_from([True, True, True, False])),
        "max_relative_positions": draw(st.sampled_from([-1, 12])),
        "position_buckets": draw(st.sampled_from([-1, 2, 5, 8, 16])),
        "pos_att_type": kinds,
        "share_att_key": draw(st.booleans()),
        "norm_rel_ebd": draw(st.sampled_from(["none", "layer_norm"])),
        "position_biased_input": draw(st.booleans()),
        "pooler_hidden_act": draw(acts),
        "legacy": legacy,
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "num_labels": draw(labels),
    }


@st.composite
def modernbert_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    heads, width = draw(st.sampled_from([(1, 6), (2, 8), (3, 12), (4, 32)]))
    number = draw(st.integers(1, 4))
    kinds = st.lists(st.sampled_from(["full_attention", "sliding_attention"]), min_size=number, max_size=number)
    ropes = st.sampled_from([rope for rope in ROPES if "truncate" not in rope])  # which `transformers` overlooks here
    turned = st.fixed_dictionaries({"full_attention": ropes, "sliding_attention": ropes})
    older = st.fixed_dictionaries(
        {"global_rope_theta": st.sampled_from([500.0, 160000.0]), "local_rope_theta": st.just(100.0)}
        | {"global_attn_every_n_layers": st.integers(1, 3)}
    )
    newer = st.fixed_dictionaries({"layer_types": st.none() | kinds, "rope_parameters": turned})
    return draw(older | newer) | {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": number,
        "intermediate_size": draw(inner),
        "hidden_activation": draw(acts),
        "local_attention": draw(st.sampled_from([1, 2, 3, 6, 128])),
        "norm_eps": draw(st.sampled_from([1e-6, 1e-5])),
        "norm_bias": draw(st.booleans()),
        "attention_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()),
        "decoder_bias": draw(st.booleans()),
        "classifier_bias": draw(st.booleans()),
        "classifier_activation": draw(acts),
        "classifier_pooling": draw(st.sampled_from(["cls", "mean"])),
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "num_labels": draw(labels),
    }


ROPES = [
    {"rope_type": "default", "rope_theta": 10000.0},
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 10},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 12}
    | {"beta_fast": 4.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 1.3, "truncate": False},
]


@st.composite
def llama_settings(draw: Any, model_type: str) -> dict[str, Any]:
    heads, width = draw(st.sampled_from([(2, 8), (4, 16), (3, 12), (4, 24)]))
    groups = draw(st.sampled_from([number for number in (1, 2, 3, 4) if heads % number == 0]))
    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": draw(st.sampled_from([width // heads // 2 * 2, 6, 10])),
        "num_hidden_layers": draw(layers),
        "intermediate_size": draw(inner),
        "hidden_act": draw(st.sampled_from(["silu", "gelu_pytorch_tanh", "relu"])),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5])),
        "max_position_embeddings": POSITIONS,
        "rope_parameters": draw(st.sampled_from(ROPES)),
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "num_labels": draw(labels),
    }
    if model_type in ("llama", "qwen3"):
        settings["attention_bias"] = draw(st.booleans())
    if model_type == "llama":
        settings["mlp_bias"] = draw(st.booleans())
    if model_type != "llama":
        settings["sliding_window"] = draw(st.sampled_from([3, 5, 64]))
    if model_type.startswith("qwen"):
        settings |= {"use_sliding_window": draw(st.booleans()), "max_window_layers": draw(st.integers(0, 2))}
    if model_type == "qwen2":
        settings.pop("head_dim")  # it has none of its own there
    return settings


@st.composite
def transformer_settings(draw: Any, model_type: str) -> dict[str, Any]:
    encoder_heads, width = draw(heads_and_width)
    settings = {
        "vocab_size": VOCABULARY,
        "d_model": width,
        "encoder_attention_heads": encoder_heads,
        "decoder_attention_heads": draw(st.sampled_from([h for h in (1, 2, 3, 4) if width % h == 0])),
        "encoder_layers": draw(layers),
        "decoder_layers": draw(layers),
        "encoder_ffn_dim": draw(inner),
        "decoder_ffn_dim": draw(inner),
        "activation_function": draw(acts),
        "scale_embedding": draw(st.booleans()),
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": 3,
        "num_labels": draw(labels),
    }
    if model_type == "marian" and draw(st.booleans()):
        settings |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": VOCABULARY + 9}
        settings["tie_word_embeddings"] = True
    if model_type in ("mbart", "m2m_100"):  # whose target never begins with padding, which has no position
        settings |= {"pad_token_id": 1, "decoder_start_token_id": 2}
    if model_type == "glassformer-transformer":
        settings |= {"pre_norm": draw(st.booleans()), "norm_embedding": draw(st.booleans())}
        settings |= {"positions": "learned" if not settings["pre_norm"] else draw(positions)}
        settings |= {"share_encoder_decoder_embeddings": draw(st.booleans())}
    return settings


@st.composite
def t5_settings(draw: Any, model_type: str) -> dict[str, Any]:
    gated = draw(st.sampled_from(["relu", "gated-gelu", "gated-silu"]))
    settings = {
        "vocab_size": VOCABULARY,
        "d_model": draw(st.sampled_from([8, 12])),
        "d_kv": draw(st.sampled_from([4, 5, 7])),
        "d_ff": draw(inner),
        "num_layers": draw(layers),
        "num_decoder_layers": draw(layers),
        "num_heads": draw(st.integers(1, 3)),
        "relative_attention_num_buckets": draw(st.sampled_from([8, 16, 32])),
        "relative_attention_max_distance": draw(st.sampled_from([20, 128])),
        "feed_forward_proj": gated,
        "initializer_factor": 0.2,  # at 1 a random one is so sure of itself that many texts are equally likely
        "pad_token_id": 0,
        "eos_token_id": 3,
        "decoder_start_token_id": 0,
    }
    if model_type == "t5":
        settings["tie_word_embeddings"] = draw(st.booleans())
    return settings


@st.composite
def rnn_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    kind = draw(st.sampled_from(["gru", "rnn", "lstm"]))
    return {
        "kind": kind,
        "nonlinearity": draw(st.sampled_from(["tanh", "relu"])) if kind == "rnn" else "tanh",
        "vocab_size": VOCABULARY,
        "embedding_size": 12,
        "hidden_size": 12,
        "num_layers": draw(layers),
        "bidirectional": draw(st.booleans()),
        "pooling": draw(st.sampled_from(["last", "mean", "max", "attention"])),
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": 0,
    }


@st.composite
def seq2seq_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    attention = draw(st.sampled_from(["dot", "additive", "general", "concat", "scaled_dot", None]))
    return {
        "kind": draw(st.sampled_from(["rnn", "gru", "lstm"])),
        "attention": attention,
        "vocab_size": VOCABULARY,
        "embedding_size": 10,
        "hidden_size": 12,
        "num_layers": draw(st.integers(1, 2)),
        "bidirectional": "dot" not in str(attention) and draw(st.booleans()),
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
    }


@st.composite
def cnn_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "embedding_size": draw(st.sampled_from([1, 6, 12])),
        "filter_widths": draw(st.sampled_from([[3, 4, 5], [1], [2, 7]])),
        "num_filters": draw(st.integers(1, 5)),
        "num_labels": draw(labels),
    }


@st.composite
def bow_settings(draw: Any, _model_type: str) -> dict[str, Any]:
    return {"vocab_size": VOCABULARY, "num_labels": draw(labels)}


SETTINGS = {
    "bert": bert_settings,
    "roberta": bert_settings,
    "xlm-roberta": bert_settings,
    "distilbert": distilbert_settings,
    "albert": albert_settings,
    "electra": electra_settings,
    "deberta-v2": deberta_settings,
    "modernbert": modernbert_settings,
    "gpt2": gpt2_settings,
    "glassformer-decoder": gpt2_settings,
    "llama": llama_settings,
    "mistral": llama_settings,
    "qwen2": llama_settings,
    "qwen3": llama_settings,
    "marian": transformer_settings,
    "bart": transformer_settings,
    "mbart": transformer_settings,
    "pegasus": transformer_settings,
    "m2m_100": transformer_settings,
    "glassformer-transformer": transformer_settings,
    "t5": t5_settings,
    "mt5": t5_settings,
    "glassformer-rnn": rnn_settings,
    "glassformer-seq2seq": seq2seq_settings,
    "glassformer-cnn": cnn_settings,
    "glassformer-bow": bow_settings,
}


def settings_of(model_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Random legal settings of a family."""
    return SETTINGS[model_type](model_type)


def random_model(model_type: str, head: str | None, settings: dict[str, Any], seed: int = 0) -> nn.Module:
    """A model whose every tensor matters: no zero bias, no norm that changes nothing."""
    known = ARCHITECTURES[model_type].config.__dataclass_fields__
    given = {key: value for key, value in settings.items() if key in known}
    if model_type == "glassformer-rnn" and head == "text-generation":
        given["bidirectional"] = False  # it would read the future
    if "num_labels" in settings and "id2label" in known:
        given["id2label"] = {number: f"label {number}" for number in range(settings["num_labels"])}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build(model_type, head, **given)
    assert sum(one.numel() for one in model.parameters()) < 2_000_000, (
        f"{settings} leave the sizes of {model_type} large"
    )
    return shake(model, seed)


def shake(model: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter += 0.25 * torch.randn(parameter.shape, generator=generator)
    return model


def sequences(seed: int = 0, lengths: tuple[int, ...] = (5, 11, 2, 8)) -> list[list[int]]:
    """Token sequences of unequal length, free of the special ids."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def same_outputs(one: nn.Module, other: nn.Module) -> None:
    """Two models give the same numbers."""
    ids, mask = pad(sequences(), one)
    ours, theirs = run(one, ids, mask), run(other, ids, mask)
    for name in ours:
        assert_close(theirs[name], ours[name])
