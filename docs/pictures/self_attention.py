"""The pictures of the page of self-attention."""

import numpy as np
import torch
from docs.diagram import Diagram

import glassformer as gf
from glassformer.view.heatmap import heatmap
from glassformer.view.plots import PlotLine, line_plot

MODEL, TEXT, LAYER, HEAD = "zoo:bert-mini-en", "Emma gave her brother a book and he read it.", 3, 0
WORDS = ("Emma", "gave", "he", "read")
WIDTHS, TOKENS, DRAWS = (1, 4, 16, 64, 256, 1024), 16, 500


def self_attention_one_word() -> str:
    """The query of one word over the keys and values of all."""
    picture = Diagram(
        "The word “he” asks, every word answers",
        "Each word gives a key and a value; the query of one word meets all keys, softmax turns the scores into "
        "weights, and the weighted sum of the values is the word's new vector.",
    )
    picture.frame(-80, 2, 530, 58)
    total = picture.operation(225, -72, "Σ")
    for number, word in enumerate(WORDS):
        across = 150.0 * number
        asks = word == "he"
        x = picture.box(across, 200, word, kind="data")
        key = picture.box(across - 34, 120, "key", width=56)
        value = picture.box(across + 34, 120, "value", kind="state", width=56)
        weight = picture.box(across, 30, "× a", kind="gate", width=64)
        picture.arrow((x.x - 8, x.top[1]), (across - 34, 137))
        picture.arrow((x.x + 8, x.top[1]), (across + 34, 137))
        picture.arrow(key.top, (across - 20, 47))
        picture.arrow(value.top, (across + 20, 47))
        picture.arrow(weight.top, (across, -20), (225 + (number - 1.5) * 12, -59 if number in (1, 2) else -62))
        if asks:
            query = picture.box(620, 120, "query", kind="gate", width=64)
            picture.arrow(x.bottom, (across, 240), (620, 240), query.bottom)
            picture.arrow(query.top, (620, 30), (530, 30))
            picture.word(612, 18, "· key / √d, softmax", small=True)
    picture.arrow(total.top, (225, -112))
    picture.word(225, -122, "new vector of “he”")
    return picture.svg()


def self_attention_verbs() -> str:
    """A head of a trained model that looks for verbs."""
    model, tok = gf.load(MODEL), gf.load_tokenizer(MODEL)
    batch = tok([TEXT], return_tensors="pt")
    name = f"layers.{LAYER}.attention.pattern"
    with torch.no_grad(), gf.record(model, name) as seen:
        model(**batch)
    tokens = tok.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    return heatmap(
        np.round(seen[name][0, HEAD].numpy(), 2),
        rows=tokens,
        columns=tokens,
        title="A head that looks for verbs: layer 3, head 0",
        axes=("looks", "is looked at"),
        form=".2f",
    )


def self_attention_root() -> str:
    """The largest of the weights by the width of a head, with the root and without it."""
    torch.manual_seed(0)
    plain, scaled = [], []
    for width in WIDTHS:
        query, keys = torch.randn(DRAWS, width, 1), torch.randn(DRAWS, TOKENS, width)
        scores = (keys @ query).squeeze(-1)
        for found, factor in ((plain, 1.0), (scaled, width**-0.5)):
            found.append(round((scores * factor).softmax(-1).amax(-1).mean().item(), 2))
    return line_plot(
        [PlotLine(name="q · k", x=WIDTHS, y=plain), PlotLine(name="q · k / √d", x=WIDTHS, y=scaled)],
        title="The largest of 16 weights, for random queries and keys",
        x_axis="width d of a head",
        y_axis="mean of the largest weight",
        log_x=True,
    )
