"""The pictures of the guides about data, runs and where models go."""

from docs.diagram import Diagram
from docs.pictures._chain import chain

import glassformer as gf


def guide_training() -> str:
    """From a file to a folder."""
    picture = Diagram(
        "One command: from a file to a folder",
        "A file is read into examples; a tokenizer and a model are loaded or made; batches of tokens go through loss, "
        "gradient and update; dev scores choose the best weights; the run folder loads here and in transformers.",
    )
    data, tok, task = chain(
        picture, 0, [("data", "data"), ("tokenizer\nits own, or learnt", "plain"), ("batches", "plain")]
    )
    loop = picture.box(task.x + 160, 0, "model → loss\n→ gradient\n→ update", kind="state", width=116)
    picture.arrow(task.right, loop.left)
    dev = picture.box(loop.x, 110, "score on dev", kind="gate", width=116)
    picture.arrow(loop.bottom, dev.top, text="every so often")
    folder = picture.box(
        loop.x + 225,
        55,
        "the run folder\nconfig.json\nmodel.safetensors\ntokenizer.json\nREADME.md, curves.svg",
        width=192,
    )
    picture.arrow((loop.right[0], 20), (folder.left[0], 40))
    picture.arrow(dev.right, (folder.left[0], 80))
    picture.word(dev.left[0] - 8, 110, "the best weights are kept", small=True, anchor="end")
    picture.arrow(loop.top, (loop.x, -56), (task.x, -56), task.top)
    picture.word((loop.x + task.x) / 2, -66, "step after step", small=True)
    picture.word(data.x, 30, "csv, jsonl, txt …", small=True)
    picture.word(tok.x, 42, "text → ids", small=True)
    return picture.svg()


def guide_clusters() -> str:
    """Many files through some workers."""
    picture = Diagram(
        "Every row has its place",
        "Files are read row by row in one place; their texts go to workers, each with the model loaded once; each file "
        "becomes one of the same name, each row one row of it.",
    )
    files = ("a.parquet", "b.parquet", "c.parquet")
    reader = picture.box(190, 52, "rows in\nbatches", width=92)
    writer = picture.box(470, 52, "rows in\ntheir place", kind="gate", width=104)
    for place, name in enumerate(files):
        read = picture.box(0, 52.0 * place, name, kind="data", width=104)
        wrote = picture.box(650, 52.0 * place, f"predicted/{name}", kind="data", width=164)
        picture.arrow(read.right, (reader.left[0], 52 + 10.0 * (place - 1)))
        picture.arrow((writer.right[0], 52 + 10.0 * (place - 1)), wrote.left)
    for place in range(2):
        worker = picture.box(328, 18.0 + 68 * place, f"worker {place + 1}\nits own model", kind="state", width=118)
        picture.arrow((reader.right[0], 46.0 + 12 * place), worker.left)
        picture.arrow(worker.right, (writer.left[0], 46.0 + 12 * place))
    picture.word(328, 136, "processes here (--jobs), or actors of a Ray cluster (--ray)", small=True)
    return picture.svg()


def guide_comparing() -> str:
    """An experiment as a grid of runs."""
    picture = Diagram(
        "An experiment is a grid of runs",
        "Contestants in rows, seeds in columns: every cell is a run with the same splits and the same budget. Means, "
        "intervals and tests over the same examples make the report.",
    )
    for row, name in enumerate(("bag of words", "LSTM", "fine-tuned")):
        picture.word(-16, 46.0 * row, name, anchor="end")
        for seed in range(3):
            picture.box(40 + 84.0 * seed, 46.0 * row, "run", kind="state", width=68)
        mean = picture.box(350, 46.0 * row, "mean ± interval", kind="gate", width=126)
        picture.arrow((242, 46.0 * row), mean.left)
        picture.arrow(mean.right, (478, 46 + 14.0 * (row - 1)))
    for seed in range(3):
        picture.word(40 + 84.0 * seed, -32, f"seed {seed}", small=True)
    picture.box(550, 46, "report.html\nresults.jsonl\nwho is ahead,\nor that nobody is", kind="data", width=144)
    return picture.svg()


def guide_exporting() -> str:
    """A folder of each format, compared before it is kept."""
    from glassformer.export.formats import FORMATS

    picture = Diagram(
        "Written, compared, and only then kept",
        f"A model is written as {', '.join(FORMATS)}; both run on 32 inputs; an export that differs is deleted.",
    )
    middle = 22.0 * (len(FORMATS) - 1)
    model = picture.box(0, middle, "model", kind="state", width=90)
    check = picture.box(390, middle, "32 inputs,\nalone and padded:\nthe same?", kind="gate", width=150)
    for place, name in enumerate(FORMATS):
        one = picture.box(180, 44.0 * place, name, width=130)
        picture.arrow(model.right, one.left)
        picture.arrow(one.right, (check.left[0], middle + 8.0 * (place - (len(FORMATS) - 1) / 2)))
    kept = picture.box(590, middle - 30, "folder and\nexport.json", kind="data", width=110)
    gone = picture.box(590, middle + 34, "deleted", kind="quiet", width=110)
    picture.arrow(check.right, kept.left)
    picture.arrow(check.right, gone.left)
    picture.word(496, middle - 28, "yes", small=True)
    picture.word(496, middle + 32, "no", small=True)
    return picture.svg()


def guide_serving() -> str:
    """From clients that exist to processes of models."""
    picture = Diagram(
        "One server, several faces, a process for each model",
        "Clients of OpenAI and Hugging Face, and curl, ask one HTTP server, which checks keys and limits and queues "
        "requests; those that wait are run together by the process of their model.",
    )
    faces = (("openai", "/v1"), ("huggingface_hub", "/models/{id}"), ("curl", "/embed, /predict …"))
    server = picture.box(330, 56, "HTTP server\nkeys, limits,\nqueues", kind="gate", width=120)
    for place, (client, route) in enumerate(faces):
        one = picture.box(0, 56.0 * place, client, kind="data", width=138)
        picture.arrow(one.right, (server.left[0], 56 + 14.0 * (place - 1)))
        picture.word(
            76, 56.0 * place + (-12 if place == 1 else 24 if place == 0 else 14), route, small=True, anchor="start"
        )
    for place, name in enumerate(("embed-mini-en", "bert-mini-en-ner", "gpt-mini-en")):
        worker = picture.box(580, 56.0 * place, name, kind="state", width=146)
        picture.arrow((server.right[0], 56 + 14.0 * (place - 1)), worker.left)
    picture.word(580, 148, "what waits is run together", small=True)
    return picture.svg()


def guide_results() -> str:
    """How a ratio is measured."""
    picture = Diagram(
        "Side by side: how a ratio is measured",
        "Two contestants take turns in one run on one machine; the median time of each counts.",
    )
    for turn in range(4):
        ours = picture.box(160.0 * turn, 0, "ours", kind="state", width=62)
        theirs = picture.box(160.0 * turn + 78, 0, "theirs", kind="data", width=62)
        picture.arrow(ours.right, theirs.left)
        if turn:
            picture.arrow((160.0 * turn - 51, 0), ours.left)
    ratio = picture.box(279, 84, "median of theirs ÷ median of ours", kind="gate", width=260)
    picture.arrow((279, 22), ratio.top)
    picture.word(-31, -32, "time →", small=True, anchor="start")
    return picture.svg()


def guide_loading() -> str:
    """A folder becomes a model, and a model a folder."""
    picture = Diagram(
        "gf.load and gf.save: one table, both ways",
        "zoo:NAME, a local folder or a name on the hub is a folder of config.json, model.safetensors and "
        "tokenizer.json; model_type picks the architecture, architectures the head, the weight table the tensors.",
    )
    for place, name in enumerate(("zoo:NAME", "./folder", "name on the hub")):
        one = picture.box(0, 52.0 * place, name, kind="data", width=134)
        picture.arrow(one.right, (135, 52 + 14.0 * (place - 1)))
    folder = picture.box(212, 52, "config.json\nmodel.safetensors\ntokenizer.json", width=154)
    table = picture.box(412, 52, "weight table\ntheirs ↔ ours", kind="gate", width=124)
    model = picture.box(590, 52, "nn.Module\nin eval mode", kind="state", width=112)
    picture.arrow((folder.right[0], 42), (table.left[0], 42))
    picture.arrow((table.right[0], 42), (model.left[0], 42))
    picture.arrow((table.left[0], 64), (folder.right[0], 64))
    picture.arrow((model.left[0], 64), (table.right[0], 64))
    picture.word(412, 12, "gf.load →", small=True)
    picture.word(412, 94, "← gf.save", small=True)
    picture.word(412, 116, "missing, unknown and mis-shaped tensors: one error", small=True)
    return picture.svg()


def guide_models() -> str:
    """Which built-in model is for which task."""
    picture = Diagram(
        "The built-in models, by task",
        "; ".join(f"{card['task']}: {card['name']}" for card in gf.zoo()),
    )
    tasks: dict[str, list[str]] = {}
    for card in gf.zoo():
        tasks.setdefault(card["task"], []).append(card["name"])
    for row, (task, names) in enumerate(tasks.items()):
        first = picture.box(0, 46.0 * row, task, width=176)
        left = first.right[0] + 40
        for place, name in enumerate(names):
            width = 9.0 * len(name) + 20
            box = picture.box(left + width / 2, 46.0 * row, name, kind="state", width=width)
            if not place:
                picture.arrow(first.right, box.left)
            left = box.right[0] + 12
    return picture.svg()
