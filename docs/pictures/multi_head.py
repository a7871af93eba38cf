"""The pictures of the page of several heads."""

from itertools import product

import numpy as np
import torch
from docs.diagram import Diagram
from torch.nn.functional import cross_entropy

import glassformer as gf
from glassformer.data.microworld import examples
from glassformer.inspect.ablation import ablate
from glassformer.view.heatmap import heatmap
from glassformer.view.panels import HeatmapPanel, heatmap_panels

MODEL, TEXT = "zoo:bert-mini-en", "Emma gave her brother a book and he read it."
HEADS = 4
SHOWN = ((1, 0, "back one"), (1, 2, "ahead one"), (2, 1, "further ahead"), (3, 0, "to the verbs"))
TRANSLATOR, PAIRS = "zoo:en-de", 24
PLACES = {
    f"{name} {layer}": f"{side}.layers.{layer}.{part}"
    for name, side, part in (
        ("encoder", "encoder", "attention"),
        ("decoder", "decoder", "attention"),
        ("cross", "decoder", "cross_attention"),
    )
    for layer in range(2)
}


def multi_head_split() -> str:
    """One vector in, four small attentions side by side, one vector out."""
    picture = Diagram(
        "Four heads of 48 units cost what one head of 192 costs",
        "A vector of 192 units is projected and split into four heads of 48; each head attends by itself; their "
        "results are set side by side and mixed by the output projection.",
    )
    x = picture.box(0, 0, "x\n192", kind="data", width=64)
    project = picture.box(120, 0, "W_Q  W_K  W_V", width=120)
    join = picture.box(460, 0, "side by\nside 192", width=84)
    output = picture.box(570, 0, "W_O", width=64)
    picture.arrow(x.right, project.left)
    for number in range(HEADS):
        down = -84.0 + 56 * number
        head = picture.box(310, down, f"head {number}: 48", kind="gate", width=130)
        picture.arrow(project.right, (206, 0), (220, down), head.left)
        picture.arrow(head.right, (392, down), (404, 0), join.left)
    picture.arrow(join.right, output.left)
    picture.arrow(output.right, (640, 0))
    picture.word(646, 0, "192", anchor="start")
    return picture.svg()


def multi_head_patterns() -> str:
    """What each head of a trained model looks at."""
    model, tok = gf.load(MODEL), gf.load_tokenizer(MODEL)
    batch = tok([TEXT], return_tensors="pt")
    with torch.no_grad(), gf.record(model, "*.attention.pattern") as seen:
        model(**batch)
    tokens = tok.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    panels = [
        HeatmapPanel(
            name=f"{layer}.{head} {what}",
            values=np.round(seen[f"layers.{layer}.attention.pattern"][0, head].numpy(), 2),
        )
        for layer, head, what in SHOWN
    ]
    return heatmap_panels(panels, rows=tokens, columns=tokens, title="Four of the sixteen heads, one sentence")


def multi_head_ablation() -> str:
    """How much worse a model translates without each of its heads."""
    model, tok = gf.load(TRANSLATOR), gf.load_tokenizer(TRANSLATOR)
    pairs = examples("parallel", PAIRS, seed=2, language="en-de")
    batch = tok([one.source for one in pairs], padding=True, return_tensors="pt")
    wanted = tok([one.target for one in pairs], padding=True, return_tensors="pt")
    target, real = wanted["input_ids"], wanted["attention_mask"].bool()
    start = torch.full((PAIRS, 1), model.config.decoder_start_token_id)
    given = {**batch, "decoder_input_ids": torch.cat([start, target[:, :-1]], 1)}

    def loss() -> float:
        with torch.no_grad():
            return cross_entropy(model(**given).logits[real], target[real]).item()

    whole, table = loss(), np.zeros((len(PLACES), HEADS))
    for (row, place), head in product(enumerate(PLACES.values()), range(HEADS)):
        with gf.record(model, edit=ablate(model, [f"{place}:{head}"])):
            table[row, head] = loss() - whole
    return heatmap(
        np.round(table, 2) + 0.0,  # no -0
        rows=list(PLACES),
        columns=[f"head {head}" for head in range(HEADS)],
        title=f"Loss added by switching one head off (of {whole:.2f})",
        axes=("attention", "head"),
        form="+.2f",
    )
