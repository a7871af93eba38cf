"""The pictures of the how-to pages about data, runs and folders."""

from itertools import pairwise

import numpy as np
from docs.diagram import Diagram

from glassformer.tasks.metrics import Classification
from glassformer.view.plots import Dot, PlotLine, dot_plot, line_plot

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
LADDER = {  # docs/results/ladder-sst2/report.md: accuracy on SST-2 dev, all examples, with the 95 % interval
    "gru": (84.3, 81.9, 86.8),
    "bilstm + attention": (84.0, 81.6, 86.4),
    "lstm": (83.6, 81.4, 86.0),
    "cnn": (82.6, 80.2, 85.0),
    "bag of words": (82.0, 79.2, 84.8),
    "transformer": (81.1, 78.6, 83.5),
    "rnn": (79.8, 77.1, 82.6),
}


def howto_csv() -> str:
    """From a table to a run folder."""
    picture = Diagram(
        "A row's way into a model",
        "Rows of messages.csv: columns are found by name or by --columns, a hash of the text puts each row into train "
        "or dev, training makes the run folder with model, tokenizer, card, curves and recipe.",
    )
    file = picture.box(0, 0, "messages.csv", kind="data")
    columns = picture.box(150, 0, "columns\ntext, label", width=100)
    split = picture.box(290, 0, "hash of\nthe text", kind="gate", width=90)
    train = picture.box(430, -40, "train", kind="data", width=80)
    dev = picture.box(430, 40, "dev", kind="data", width=80)
    loop = picture.box(560, -40, "training", kind="state", width=90)
    folder = picture.box(
        740, 0, "runs/team\nmodel, tokenizer\nREADME.md, curves.svg\nmetrics.jsonl\nrecipe.toml", width=180
    )
    for one, other in pairwise((file, columns, split)):
        picture.arrow(one.right, other.left)
    picture.arrow(split.right, train.left)
    picture.arrow(split.right, dev.left)
    picture.arrow(train.right, loop.left)
    picture.arrow(dev.right, (560, 40), loop.bottom)
    picture.word(520, 54, "chooses the best weights", small=True)
    picture.arrow(loop.right, (folder.left[0], -40))
    return picture.svg()


def howto_long_texts() -> str:
    """A text that is cut, and one that is read in windows."""
    picture = Diagram(
        "600 tokens, a model that reads 256",
        "Cut: the first 256 tokens are read, the rest is not. Windows: three windows of 256 tokens, each sharing 84 "
        "with the one before, cover all 600.",
    )
    picture.word(-12, 0, "cut", anchor="end")
    picture.box(128, 0, "0 – 256, read", kind="state", width=256)
    picture.box(428, 0, "344 tokens, not read", kind="quiet", width=344)
    picture.word(-12, 84, "windows", anchor="end")
    for number, start in enumerate((0, 172, 344)):
        picture.box(start + 128.0, 64.0 + 42 * number, f"{start} – {start + 256}", kind="state", width=256)
    for start in (172, 344):
        picture.arrow((start, 190), (start + 84, 190))
        picture.word(start + 42, 204, "shared", small=True)
    return picture.svg()


def howto_imbalanced_classes() -> str:
    """Three scores of the classifier that always says the larger class."""
    found: dict[str, list[float]] = {"accuracy": [], "f1": [], "mcc": []}
    for share in SHARES:
        scores = Classification(["fine", "fraud"])
        labels = np.arange(1000) >= round(1000 * share)
        scores.update(np.zeros(1000, dtype=np.int64), labels.astype(np.int64))
        for name, values in found.items():
            values.append(round(scores.compute()[name], 3))
    names = {"accuracy": "accuracy", "f1": "F1, mean over classes", "mcc": "MCC"}
    return line_plot(
        [PlotLine(name=names[name], x=[100 * share for share in SHARES], y=values) for name, values in found.items()],
        title="A model that always says the larger class",
        x_axis="share of the larger class, %",
        y_axis="score",
    )


def howto_hugging_face() -> str:
    """One folder between two libraries."""
    picture = Diagram(
        "One folder, two libraries",
        "transformers writes with save_pretrained and reads with from_pretrained; glassformer writes with gf.save and "
        "reads with gf.load: the same config.json, model.safetensors and tokenizer.json.",
    )
    theirs = picture.box(0, 0, "transformers", kind="data", width=130)
    folder = picture.box(260, 0, "config.json\nmodel.safetensors\ntokenizer.json", width=150)
    ours = picture.box(520, 0, "glassformer", kind="state", width=130)
    picture.arrow((theirs.right[0], -12), (folder.left[0], -12), text="save_pretrained")
    picture.arrow((folder.left[0], 14), (theirs.right[0], 14))
    picture.word(125, 28, "from_pretrained", small=True)
    picture.arrow((folder.right[0], -12), (ours.left[0], -12), text="gf.load")
    picture.arrow((ours.left[0], 14), (folder.right[0], 14))
    picture.word(395, 28, "gf.save", small=True)
    return picture.svg()


def howto_offline() -> str:
    """How a name becomes a model, and where a socket is opened."""
    picture = Diagram(
        "Where is this model?",
        "A name is looked for as zoo:NAME, as a folder, in the cache, and, unless HF_HUB_OFFLINE is set, at the mirror "
        "of HF_ENDPOINT or the hub.",
    )
    steps = (("zoo:NAME", "plain"), ("a folder here", "plain"), ("in the cache", "plain"), ("mirror or hub", "gate"))
    boxes = [picture.box(165.0 * n, 0, text, kind=kind, width=120) for n, (text, kind) in enumerate(steps)]
    for number, (one, other) in enumerate(pairwise(boxes)):
        picture.arrow(one.right, other.left, text="no", dashed=number == 2)
    for box in boxes:
        picture.arrow(box.bottom, (box.x, 70))
        picture.word(box.x, 82, "model", small=True)
    picture.word(412, -34, "not with HF_HUB_OFFLINE=1", small=True)
    picture.word(495, 100, "opens a socket", small=True)
    return picture.svg()


def howto_resuming() -> str:
    """Two runs over the same steps: one whole, one killed and resumed."""
    picture = Diagram(
        "Killed after step 7, resumed from step 6: the end is the same",
        "The whole run goes from step 0 to 12. The other one writes checkpoints at 2, 4 and 6, is killed at 7, goes on "
        "from 6, and ends at 12 with the same weights.",
    )
    step = 46.0
    ends = []
    for row, name in ((0.0, "whole"), (110.0, "killed")):
        picture.word(-16, row, name, anchor="end")
        ends.append(picture.box(12 * step + 60, row, "weights", kind="state", width=84))
    picture.arrow((0, 0), ends[0].left)
    picture.arrow((0, 110), (7 * step, 110))
    picture.word(7 * step + 14, 110, "✕ kill -9", anchor="start")
    for place in (2, 4, 6):
        picture.box(place * step, 110, str(place), kind="gate", width=30, height=26)
    picture.arrow((6 * step, 124), (6 * step, 165), (12 * step + 60, 165), ends[1].bottom, text="--resume")
    picture.arrow(ends[0].bottom, ends[1].top, text="equal, to the bit")
    return picture.svg()


def howto_reports() -> str:
    """Scores of seven models with their intervals, from a report."""
    dots = [Dot(name=name, value=mean, low=low, high=high) for name, (mean, low, high) in LADDER.items()]
    return dot_plot(dots, title="SST-2: mean of three seeds, 95 % interval", axis="accuracy on dev, %")


def howto_architecture() -> str:
    """What finds an architecture because it is in the registry."""
    picture = Diagram(
        "One file, one line",
        "models/toy_gpt.py is named in the registry; train, generate, record, recompute, studio, laws and the tables "
        "of the docs find it there.",
    )
    file = picture.box(0, 0, "models/toy_gpt.py\nconfig, build, small", kind="state", width=170)
    line = picture.box(220, 0, "registry\none line", kind="gate", width=100)
    walk = picture.box(0, 92, "inspect/walks/toy_gpt.py\nonly for a new block", kind="state", width=190)
    picture.arrow(file.right, line.left)
    names = ("load, save", "train --arch", "generate", "record, edit", "the laws, in tests", "tables of the docs")
    for number, name in enumerate(names):
        box = picture.box(430, 44.0 * number - 110, name, kind="data", width=160)
        picture.arrow(line.right, (310, 0), (310, box.y), box.left)
    last = picture.box(430, 44.0 * len(names) - 110, "recompute, flow", kind="data", width=160)
    picture.arrow(walk.right, (250, 92), (250, last.y), last.left)
    return picture.svg()
