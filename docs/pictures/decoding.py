"""The pictures of the page of decoding."""

import numpy as np
import torch
from docs.diagram import Box, Diagram

import glassformer as gf
from glassformer.generate.tree import beam_tree
from glassformer.generate.warpers import Temperature, TopK, TopP
from glassformer.view.heatmap import heatmap
from glassformer.view.scatter import ScatterPoint, scatter_plot

PROMPT, WORDS = "She drank a cup of", ("coffee", "tea", "milk", "beer", "water", "wine")
FILTERS = {
    "as it is": None,
    "temperature 0.5": Temperature(0.5),
    "temperature 2": Temperature(2.0),
    "top-k 2": TopK(2),
    "top-p 0.9": TopP(0.9),
}
MEASURED = {  # docs/results/decoding: perplexity of the texts, and how many of their groups of four words came before
    "greedy": (3.65, 31.7),
    "beam 4": (2.31, 56.5),
    "sampling": (33.87, 0.1),
    "top-k 50": (15.09, 0.2),
    "top-p 0.95": (24.73, 0.0),
    "contrastive": (5.37, 0.1),
}


def decoding_filters() -> str:
    """The chances of six words, as the model has them and as each filter leaves them."""
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    ids = tok(PROMPT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits[:, -1]
    places = [tok(f" {word}")["input_ids"][0] for word in WORDS]
    rows = [(logits if one is None else one(ids, logits)).softmax(-1)[0, places] for one in FILTERS.values()]
    return heatmap(
        np.round(torch.stack(rows).numpy(), 2),
        rows=list(FILTERS),
        columns=WORDS,
        title=f"“{PROMPT} …”: the same scores, five ways to draw",
        axes=("filter", "probability of the next word"),
        form=".2f",
    )


def decoding_beams() -> str:
    """Three steps of a search with two beams, with all that was offered."""
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    tree = beam_tree(model, tok, "I do not know", num_beams=2, max_new_tokens=3)
    picture = Diagram(
        "Two beams: the best start is not the start of the best",
        "From I do not know, four offers a step of which two are kept. First what, minus 1.62, and how, minus 1.71. "
        "Then how to, minus 2.31, overtakes what you, minus 3.12; the search ends with how to do.",
    )
    before: list[Box] = [picture.box(0, 111, "I do not know", kind="data")]
    for number, nodes in enumerate(tree.steps, 1):
        boxes = []
        for place, node in enumerate(nodes):
            text = f"{tok.decode([node.token]).strip()}\n{node.score:.2f}".replace("-", "−")
            kind = "quiet" if node.fate == "dropped" else "state"
            box = picture.box(150.0 * number + 30, 74.0 * place, text, kind=kind, width=84)
            parent = before[node.parent or 0]
            picture.arrow(parent.right, box.left, dashed=node.fate == "dropped")
            boxes.append(box)
        before = boxes
    return picture.svg()


def decoding_measured() -> str:
    """Likelihood against repetition, of docs/results/decoding."""
    points = [ScatterPoint(name=name, x=x, y=y) for name, (x, y) in MEASURED.items()]
    return scatter_plot(
        points,
        title="What is likeliest repeats itself",
        x_axis="perplexity of the text under the model",
        y_axis="groups of four words that came before, %",
        log_x=True,
    )
