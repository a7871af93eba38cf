"""The pictures of the page of GPT."""

from itertools import pairwise

import torch
from docs.diagram import Diagram

import glassformer as gf
from glassformer.view.plots import Dot, dot_plot

TEXT = "The city of London is the capital of England."
PROMPT = ("The", "city", "of", "London")


def gpt_cache() -> str:
    """The prompt at once, then token by token with the keys and values of all before."""
    picture = Diagram(
        "Prefill reads the prompt at once, a step reads one token",
        "Left: four tokens of a prompt go through the layers together, leave their keys and values in the cache, and "
        "the last gives the next word, is. Right: that word alone goes through the layers, looks at the four kept "
        "pairs and its own, and gives the.",
    )
    picture.frame(-44, -96, 276, 134, "prefill: all tokens of the prompt, one pass")
    picture.frame(316, -96, 446, 134, "step: one token")
    for place, token in enumerate(PROMPT):
        x = 78.0 * place
        given = picture.box(x, 104, token, kind="data", width=68)
        picture.arrow(given.top, (x, 55))
        picture.arrow((x, 22), (x, -14), text="k, v" if place == 0 else "")
    picture.box(117, 38, "layers", kind="state", width=302)
    picture.box(117, -34, "cache: keys, values of 4 tokens", kind="gate", width=302, height=40)
    step = picture.box(381, 104, "is", kind="data", width=68)
    picture.arrow((268, 44), (296, 44), (296, 104), step.left)
    layers = picture.box(381, 38, "layers", kind="state", width=86)
    cache = picture.box(381, -34, "5 tokens", kind="gate", width=86, height=40)
    picture.arrow(step.top, layers.bottom)
    picture.arrow((356, 21), (356, -14))
    picture.arrow((406, -14), (406, 21))
    picture.arrow((268, -34), cache.left)
    picture.arrow((424, 38), (478, 38))
    picture.word(498, 38, "the")
    return picture.svg()


def gpt_surprise() -> str:
    """How surprised zoo:gpt-mini-en is at each word of a sentence, in bits."""
    model, tok = gf.load("zoo:gpt-mini-en"), gf.load_tokenizer("zoo:gpt-mini-en")
    ids = tok(TEXT, return_tensors="pt")["input_ids"][0]
    with torch.no_grad():
        logs = model(ids[None]).logits[0].log_softmax(-1)
    bits = -logs[:-1].gather(1, ids[1:, None])[:, 0] / torch.log(torch.tensor(2.0))
    names = [f"{tok.decode([before]).strip()} → {tok.decode([word]).strip()}" for before, word in pairwise(ids)]
    dots = [Dot(name=name, value=round(float(value), 1)) for name, value in zip(names, bits, strict=True)]
    return dot_plot(dots, title="How surprising each next word is", axis="bits, −log₂ p(word | all words before)")
