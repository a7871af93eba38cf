"""The pictures of the page of BERT."""

import numpy as np
import torch
from docs.diagram import Diagram

import glassformer as gf
from glassformer.view.heatmap import heatmap

TOKENS = ("[CLS]", "the", "cat", "sat", "[SEP]", "it", "was", "tired", "[SEP]")
RIGHT = (".", "barked at the mailman .", "was published in 1990 .", "flows into the sea .", "arrived at the station .")
RIGHT += ("is funny and moving .",)
WORDS = ("dog", "book", "river", "train", "film")


def bert_embeddings() -> str:
    """The three vectors of every token of a pair of texts."""
    picture = Diagram(
        "What BERT reads: three vectors a token, added up",
        "Nine tokens of a pair of texts. Each has the vector of its word, the vector of its segment (0 for the first "
        "text, 1 for the second) and the vector of its position (0 to 8); the sum is normed and goes into layer 1.",
    )
    for name, y in (("word", 0), ("segment", 54), ("position", 108)):
        picture.word(-52, y, name, small=True, anchor="end")
    second = TOKENS.index("[SEP]") + 1
    for place, token in enumerate(TOKENS):
        x = 66.0 * place
        picture.box(x, 0, token, kind="data", width=60)
        picture.box(x, 54, str(int(place >= second)), kind="gate" if place >= second else "state", width=60)
        last = picture.box(x, 108, str(place), width=60)
        picture.arrow(last.bottom, (x, 160))
        picture.word(x, 27, "+")
        picture.word(x, 81, "+")
    picture.box(66 * (len(TOKENS) - 1) / 2, 178, "norm, dropout, layer 1", width=66 * len(TOKENS) - 6)
    return picture.svg()


def bert_both_sides() -> str:
    """Chances of some words at a mask, by what stands to the right of it."""
    model, tok = gf.load("zoo:bert-mini-en"), gf.load_tokenizer("zoo:bert-mini-en")
    batch = tok([f"the [MASK] {right}" for right in RIGHT], padding=True, return_tensors="pt")
    with torch.no_grad():
        chances = model(**batch).logits[batch["input_ids"] == tok.mask_token_id].softmax(-1)
    return heatmap(
        np.round(chances[:, tok.convert_tokens_to_ids(list(WORDS))].numpy(), 2),
        rows=["(nothing)", *(f"… {right[:-2]}" for right in RIGHT[1:])],
        columns=WORDS,
        title="“the [MASK] …”: what stands on the right decides",
        axes=("what follows", "probability of a word at the mask"),
        form=".2f",
    )
