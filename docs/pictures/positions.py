"""The pictures of the page of positions."""

from collections.abc import Callable

import numpy as np
import torch
from docs.diagram import Diagram
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import glassformer as gf
from glassformer.blocks.embeddings import Sinusoidal
from glassformer.view.heatmap import heatmap
from glassformer.view.plots import PlotLine, line_plot

PAIRS = {
    "I lost my key in the garden.": "J'ai perdu ma clé dans le jardin.",
    "She gave the red book to her brother.": "Elle a donné le livre rouge à son frère.",
    "Where did you buy that old car?": "Où as-tu acheté cette vieille voiture ?",
    "He is too tired to work tonight.": "Il est trop fatigué pour travailler ce soir.",
    "We will see you tomorrow morning.": "Nous te verrons demain matin.",
    "The children are playing in the park.": "Les enfants jouent dans le parc.",
}
STORIES = (
    "The film was not as good as the book, but the music was better than the story.",
    "He was born in London and worked as a teacher in a small town for many years.",
    "She said that she would come back to the city in the next year.",
)
SHIFTS = (1, 2, 5, 10, 20, 50, 100, 160, 300, 500, 900)
TABLE = 192  # positions of the language model


def positions_where() -> str:
    """The three places where order can enter an attention."""
    picture = Diagram(
        "Three places where order can enter",
        "Sinusoidal and learned positions are added to the token vectors; rotary ones turn queries and keys; relative "
        "ones add a number to each score; then comes the softmax.",
    )
    steps = (
        ("token\nvectors", "+ p", "sinusoidal,\nlearned"),
        ("queries\nand keys", "turn", "rotary"),
        ("scores", "+ b", "relative"),
    )
    before = None
    for number, (name, how, kind) in enumerate(steps):
        across = 200.0 * number
        box = picture.box(across, 0, name, width=84, height=50)
        place = picture.box(across + 100, 0, how, kind="gate", width=56)
        told = picture.box(across + 100, 90, kind, kind="state", width=104)
        if before is not None:
            picture.arrow(before, box.left)
        picture.arrow(box.right, place.left)
        picture.arrow(told.top, place.bottom)
        before = place.right
    assert before is not None
    end = picture.box(600, 0, "softmax", width=84)
    picture.arrow(before, end.left)
    return picture.svg()


def positions_sinusoidal() -> str:
    """The first places of the table of the 2017 paper."""
    table = Sinusoidal(12, 12).table.numpy()
    return heatmap(
        np.round(table, 2) + 0.0,
        rows=[str(place) for place in range(12)],
        columns=[f"sin {n}" for n in range(6)] + [f"cos {n}" for n in range(6)],
        title="Sinusoidal positions, width 12: quick hands and slow hands",
        axes=("place", "unit"),
        form=".2f",
    )


def positions_shifted() -> str:
    """The loss of the same sentences, moved to the right."""
    translator, writer = _translator(), _writer(gf.load("zoo:gpt-mini-en"))
    torch.manual_seed(0)
    sizes = {"vocab_size": 4000, "n_embd": 32, "n_layer": 1, "n_head": 2}
    others = [
        _writer(gf.build("glassformer-decoder", "text-generation", positions=kind, **sizes).eval())
        for kind in ("rotary", "relative", None)
    ]
    learned = [shift for shift in SHIFTS if shift + 30 < TABLE]
    lines = {
        "sinusoidal (en-fr)": (SHIFTS, [translator(shift) - translator(0) for shift in SHIFTS]),
        "learned (gpt-mini-en)": (learned, [writer(shift) - writer(0) for shift in learned]),
        "rotary, relative, none": (SHIFTS, [max(abs(one(shift) - one(0)) for one in others) for shift in SHIFTS]),
    }
    return line_plot(
        [PlotLine(name=name, x=x, y=[round(value, 2) + 0.0 for value in y]) for name, (x, y) in lines.items()],
        title="The same sentences, further to the right",
        x_axis="places that they are moved by",
        y_axis="loss added",
        log_x=True,
    )


def _translator() -> Callable[[int], float]:
    model, tok = gf.load("zoo:en-fr"), gf.load_tokenizer("zoo:en-fr")
    batch = tok(list(PAIRS), padding=True, return_tensors="pt")
    wanted = tok(list(PAIRS.values()), padding=True, return_tensors="pt")
    target, real = wanted["input_ids"], wanted["attention_mask"].bool()
    start = torch.full((len(PAIRS), 1), model.config.decoder_start_token_id)
    given = {**batch, "decoder_input_ids": torch.cat([start, target[:, :-1]], 1)}
    table = model.encoder.embeddings.position.table

    def loss(shift: int) -> float:
        def moved(places: Tensor) -> Tensor:
            return table[shift : shift + places.shape[-2]].expand_as(places)

        edit = {f"{side}.embeddings.position": moved for side in ("encoder", "decoder")}
        with torch.no_grad(), gf.record(model, edit=edit):
            return cross_entropy(model(**given).logits[real], target[real]).item()

    return loss


def _writer(model: nn.Module) -> Callable[[int], float]:
    tok = gf.load_tokenizer("zoo:gpt-mini-en")
    texts = [tok([text], return_tensors="pt")["input_ids"] for text in STORIES]

    def loss(shift: int) -> float:
        with torch.no_grad():
            logits = [model(ids, position_ids=torch.arange(shift, shift + ids.shape[1])[None]).logits for ids in texts]
        asked, told = (torch.cat(parts) for parts in ([x[0, :-1] for x in logits], [ids[0, 1:] for ids in texts]))
        return cross_entropy(asked, told).item()

    return loss
