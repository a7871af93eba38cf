"""The pictures of the page of masks."""

import numpy as np
import torch
from docs.diagram import Diagram

import glassformer as gf
from glassformer.blocks.masks import Window, causal, combine, distances, within
from glassformer.view.heatmap import heatmap
from glassformer.view.panels import HeatmapPanel, heatmap_panels

MODEL, TEXT = "zoo:gpt-mini-en", "The film was not as good as the book"
WORDS = ("the", "film", "was", "good", "[PAD]", "[PAD]")
HEAD = 3
BATCH = (("the", "film", "was", "good"), ("no",), ("I", "like", "it"))


def masks_four() -> str:
    """Who may look at whom: four masks of one text."""
    size = len(WORDS)
    keep = torch.tensor([[word != "[PAD]" for word in WORDS]])
    order = causal(size, size)
    near = within(distances(size, size, torch.device("cpu")), Window(1, 1))
    masks = {
        "padding": combine(keep, torch.ones_like(order)),
        "causal": combine(None, order),
        "both": combine(keep, order),
        "window of one": combine(keep, near),
    }
    panels = [
        HeatmapPanel(name=name, values=mask[0, 0].float().numpy()) for name, mask in masks.items() if mask is not None
    ]
    return heatmap_panels(panels, rows=WORDS, columns=WORDS, title="Who (row) may look at whom (column)")


def masks_packing() -> str:
    """A padded batch, and the same batch packed."""
    picture = Diagram(
        "Padded: 12 places. Packed: 8.",
        "Three texts of four, one and three words: padded to three rows of four, and packed into one row of eight with "
        "boundaries at 0, 4, 7 and 8.",
    )
    longest = max(map(len, BATCH))
    for row, words in enumerate(BATCH):
        for column in range(longest):
            real = column < len(words)
            picture.box(
                72.0 * column, 46.0 * row, words[column] if real else "–", kind="data" if real else "quiet", width=62
            )
    packed = [word for words in sorted(BATCH, key=len, reverse=True) for word in words]
    for place, word in enumerate(packed):
        picture.box(72.0 * place, 190, word, kind="data", width=62)
    for boundary in (0, 4, 7, 8):
        across = 72.0 * boundary - 36
        picture.arrow((across, 246), (across, 216))
        picture.word(across, 256, str(boundary), small=True)
    return picture.svg()


def masks_causal() -> str:
    """The weights of a head of a trained language model; what it may not see is empty."""
    model, tok = gf.load(MODEL), gf.load_tokenizer(MODEL)
    batch = tok([TEXT], return_tensors="pt")
    with torch.no_grad(), gf.record(model, "layers.2.attention.pattern") as seen:
        model(**batch)
    tokens = [token.replace("Ġ", "") for token in tok.convert_ids_to_tokens(batch["input_ids"][0].tolist())]
    weights = np.round(seen["layers.2.attention.pattern"][0].numpy(), 2)
    weights[:, ~np.tri(len(tokens), dtype=bool)] = np.nan
    return heatmap(
        weights[HEAD],
        rows=tokens,
        columns=tokens,
        title="A language model looks back only: layer 2, head 3",
        axes=("looks", "is looked at"),
        form=".2f",
    )
