"""What the tests of pictures share: a small model of every family, and boards of made-up numbers."""

import numpy as np
import torch

import glassformer as gf
from families import VOCABULARY, random_model
from glassformer.jobs.inspect import attention_statistics
from glassformer.view.board import AxisTokens, Board
from glassformer.view.colours import SHARE

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
    "dim": 12,
    "n_heads": 3,
    "n_layers": 2,
    "hidden_dim": 20,
    "n_embd": 12,
    "n_head": 3,
    "n_layer": 2,
    "d_model": 12,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "embedding_size": 12,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "d_kv": 5,
    "d_ff": 20,
    "num_heads": 3,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 2,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True}
LSTM = {"kind": "lstm", "bidirectional": True, "num_layers": 2}
MODELS = {  # family and head, what is special, and the parts that are shown
    "bert": ("bert", "fill-mask", {}, ["attention"]),
    "roberta": ("roberta", "fill-mask", {}, ["attention"]),
    "distilbert": ("distilbert", "fill-mask", {}, ["attention"]),
    "deberta": ("deberta-v2", "fill-mask", DEBERTA, ["attention"]),
    "modernbert": ("modernbert", "fill-mask", {"local_attention": 4}, ["attention"]),
    "gpt2": ("gpt2", "text-generation", {}, ["attention"]),
    "llama": ("llama", "text-generation", {}, ["attention"]),
    "mistral": ("mistral", "text-generation", {"sliding_window": 3}, ["attention"]),
    "qwen3": ("qwen3", "text-generation", {}, ["attention"]),
    "t5": ("t5", "text2text-generation", {}, ["encoder", "decoder", "cross"]),
    "marian": ("marian", "text2text-generation", {}, ["encoder", "decoder", "cross"]),
    "bart": ("bart", "text2text-generation", {}, ["encoder", "decoder", "cross"]),
    "transformer": ("glassformer-transformer", "text2text-generation", {}, ["encoder", "decoder", "cross"]),
    "rnn": ("glassformer-rnn", "text-generation", {"kind": "rnn", "nonlinearity": "relu"}, ["states"]),
    "gru": ("glassformer-rnn", "text-generation", {"kind": "gru"}, ["states"]),
    "lstm": ("glassformer-rnn", "text-classification", LSTM, ["states"]),
    "cnn": ("glassformer-cnn", "text-classification", {}, ["features"]),
    "bow": ("glassformer-bow", "text-classification", {}, ["features"]),
    "bahdanau": ("glassformer-seq2seq", "text2text-generation", {}, ["alignment", "encoder states", "decoder states"]),
    "luong": (
        "glassformer-seq2seq",
        "text2text-generation",
        {"attention": "general", "kind": "lstm", "bidirectional": True},
        ["alignment", "encoder states", "decoder states"],
    ),
    "without attention": (
        "glassformer-seq2seq",
        "text2text-generation",
        {"attention": None},
        ["encoder states", "decoder states"],
    ),
}
IDS, TARGET = [4, 17, 9, 30, 8, 11, 5], [21, 6, 33, 3]


def model_of(name):
    family, head, special, _ = MODELS[name]
    return random_model(family, head, SIZES | special)


def inspected(name):
    """A small model of a family, looked at."""
    model = model_of(name)
    return gf.inspect(model, None, IDS, target=TARGET if model.config.is_encoder_decoder else None)


def made_up(layers=2, heads=3, rows=5, columns=None, texts=None, seed=0, sides=()):
    """A board of random shares; it attends to itself unless there is a number of columns."""
    scores = np.random.default_rng(seed).standard_normal((layers, heads, rows, columns or rows), dtype=np.float32)
    np.exp(3 * scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    patterns = torch.from_numpy(scores)
    down = AxisTokens(texts=texts or [f"t{n}" for n in range(rows)], ids=range(rows), sides=sides)
    across = AxisTokens(texts=[f"s{n}" for n in range(columns)], ids=range(columns)) if columns else down
    return Board(
        name="attention",
        values=scores,
        scales=[SHARE] * heads,
        down=down,
        across=across,
        axes=("from", "to"),
        rows=[str(layer) for layer in range(layers)],
        columns=[str(head) for head in range(heads)],
        statistics=attention_statistics(patterns, across=down is not across),
    )
