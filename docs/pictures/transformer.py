"""The pictures of the page of the Transformer."""

import numpy as np
import torch
from docs.diagram import Box, Diagram

import glassformer as gf
from glassformer.view.heatmap import heatmap

SOURCE, TARGET = "The red house is near the river.", "La maison rouge est près de la rivière."
STEP, WIDTH = 58.0, 176.0  # pixels: from one part of a layer to the next; the width of a part


def transformer_sides() -> str:
    """Encoder and decoder, a layer of each."""
    picture = Diagram(
        "The Transformer: a side that reads, a side that writes",
        "Left the encoder: embeddings, then layers of self-attention and feed-forward, each added to what came in and "
        "normed. Right the decoder: the same with a causal mask, and between the two a cross-attention whose keys and "
        "values come from the encoder. On top of the decoder an output layer and a softmax give the next word.",
    )
    _, memory = _side(picture, 0.0, 0.0, ("self-attention", "feed-forward"), "the red house", "encoder layer, × N")
    parts = ("causal self-attention", "cross-attention", "feed-forward")
    (_, across, _), top = _side(picture, 330.0, 0.0, parts, "<start> la maison", "decoder layer, × N")
    turn = memory[1] - 48
    picture.arrow(memory, (0.0, turn), (154.0, turn), (154.0, across.y), across.left)
    picture.word(77, turn - 10, "keys and values", small=True)
    output = picture.box(330, top[1] - STEP - 20, "output layer, softmax", width=WIDTH)
    words = picture.box(330, output.y - STEP, "la maison rouge", kind="data", width=WIDTH)
    picture.arrow(top, output.bottom)
    picture.arrow(output.top, words.bottom)
    return picture.svg()


def _side(
    picture: Diagram, x: float, y: float, parts: tuple[str, ...], text: str, name: str
) -> tuple[list[Box], tuple[float, float]]:
    """One side from its tokens at the bottom up, and where it ends."""
    tokens = picture.box(x, y, text, kind="data", width=WIDTH)
    embedded = picture.box(x, y - STEP, "embeddings + positions", width=WIDTH)
    picture.arrow(tokens.top, embedded.bottom)
    half, high = WIDTH / 2, y - 1.75 * STEP
    picture.frame(x - half - 44, high - 2 * STEP * len(parts) - 18, x + half + 22, high + 4, name)
    boxes, below = [], embedded.top
    for number, part in enumerate(parts):
        middle = high - 2 * STEP * number - 0.62 * STEP
        box = picture.box(x, middle, part, kind="gate" if "cross" in part else "state", width=WIDTH)
        norm = picture.box(x, middle - 0.95 * STEP, "add, norm", width=WIDTH)
        picture.arrow(below, box.bottom)
        picture.arrow(box.top, norm.bottom)
        fork = box.bottom[1] + 10
        picture.arrow((x, fork), (x - half - 22, fork), (x - half - 22, norm.y), norm.left, dashed=True)
        boxes.append(box)
        below = norm.top
    return boxes, below


def transformer_cross() -> str:
    """Where zoo:en-fr looks in the source while it writes each word: the mean of the heads of its last two layers."""
    model, tok = gf.load("zoo:en-fr"), gf.load_tokenizer("zoo:en-fr")
    source, target = tok(SOURCE, return_tensors="pt"), tok(text_target=TARGET)["input_ids"]
    shifted = torch.tensor([[model.config.to_hf()["decoder_start_token_id"], *target[:-1]]])
    layers = ["decoder.layers.2.cross_attention.pattern", "decoder.layers.3.cross_attention.pattern"]
    with torch.no_grad(), gf.record(model, layers) as seen:
        model(**source, decoder_input_ids=shifted)
    pattern = torch.stack([seen[name] for name in layers]).mean((0, 1, 2))  # (T, S)
    return heatmap(
        np.round(pattern.numpy(), 2),
        rows=[tok.decode([one]).strip() for one in target],
        columns=[tok.decode([one]).strip() for one in source["input_ids"][0].tolist()],
        title="Cross-attention: where the decoder looks while it writes",
        axes=("the word that is written", "the source"),
        form=".2f",
    )
