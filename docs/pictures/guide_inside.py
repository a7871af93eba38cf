"""The pictures of the guides about texts, answers and looking inside."""

import json

import numpy as np
import torch
from docs.diagram import Diagram
from docs.pictures._chain import chain, columns

import glassformer as gf
from glassformer.view.heatmap import heatmap

SENTIMENT = "zoo:bert-mini-en-sentiment"
REVIEW = "A warm, funny and moving film."
CUT = "The unheard melodies were playing."
LOOKED = "The cat sat on the mat."


def guide_tokenizers() -> str:
    """One sentence in three vocabularies."""
    picture = Diagram(
        f"“{CUT}” in three vocabularies",
        "The same sentence in the tokens of three built-in models: the smaller the vocabulary, the more pieces; ## "
        "goes on with a word, and Ġ begins one.",
    )
    names = {"zoo:bert-mini-en": "WordPiece", "zoo:gpt-mini-en": "byte-level BPE", "zoo:bilstm-ner": "WordPiece"}
    for row, (name, kind) in enumerate(names.items()):
        tok, left = gf.load_tokenizer(name), 0.0
        picture.word(-14, 52.0 * row - 8, f"{kind}, {len(tok):,} tokens", anchor="end")
        picture.word(-14, 52.0 * row + 9, name, small=True, anchor="end")
        for token in tok.tokenize(CUT):
            width = max(30.0, 8.6 * len(token) + 16)
            picture.box(left + width / 2, 52.0 * row, token, kind="data", width=width)
            left += width + 6
    return picture.svg()


def guide_pipelines() -> str:
    """A text's way through a pipeline, with the numbers of a built-in model."""
    pipe = gf.pipeline("text-classification", SENTIMENT)
    model, tok = gf.load(SENTIMENT), gf.load_tokenizer(SENTIMENT)
    batch = tok([REVIEW], return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits[0].tolist()
    (best,) = pipe(REVIEW)
    picture = Diagram(
        "What one line does",
        f"The text {REVIEW} becomes {batch['input_ids'].shape[1]} ids, two scores, and the answer {best['label']}.",
    )
    text, ids, scores, _ = chain(
        picture,
        0,
        [
            ("a text", "data"),
            (f"{batch['input_ids'].shape[1]} ids", "plain"),
            ("scores\n" + ", ".join(f"{one:.1f}" for one in logits), "state"),
            (f"label: {best['label']}\nscore: {best['score']:.2f}", "data"),
        ],
    )
    picture.word(text.x, 36, REVIEW, small=True)
    for one, name in ((text, "tokenizer"), (ids, "model"), (scores, "task")):
        picture.word(one.right[0] + 23, -34, name, small=True)
    return picture.svg()


def guide_generating() -> str:
    """One step of writing, and the way back."""
    picture = Diagram(
        "Writing: one step, again and again",
        "The model gives scores for the next token; penalties and bans change them; where tokens are drawn, "
        "temperature and cuts do as well; one token is taken, appended, and the next step goes on from the state.",
    )
    boxes = chain(
        picture,
        0,
        [
            ("prompt", "data"),
            ("step(ids, state)", "state"),
            ("penalties,\nbans, lengths", "gate"),
            ("temperature,\ntop_k, top_p …", "gate"),
            ("take the likeliest,\nor draw one", "plain"),
            ("text", "data"),
        ],
    )
    step, warp, take = boxes[1], boxes[3], boxes[4]
    picture.arrow(take.bottom, (take.x, 62), (step.x, 62), step.bottom)
    picture.word((step.x + take.x) / 2, 74, "the token, and the state with it", small=True)
    picture.word(warp.x, -38, "only where tokens are drawn", small=True)
    return picture.svg()


def guide_figures() -> str:
    """A head of a built-in model, as `glassformer inspect` draws it."""
    model, tok = gf.load(SENTIMENT), gf.load_tokenizer(SENTIMENT)
    batch = tok([LOOKED], return_tensors="pt")
    with torch.no_grad(), gf.record(model, "layers.0.attention.pattern") as seen:
        model(**batch)
    tokens = tok.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    return heatmap(
        np.round(seen["layers.0.attention.pattern"][0, 0].numpy(), 2),
        rows=tokens,
        columns=tokens,
        title="Layer 0, head 0 of bert-mini-en-sentiment",
        axes=("this token", "looks at this one"),
        form=".2f",
    )


def guide_inspecting() -> str:
    """Where gf.record listens, and what it may change."""
    picture = Diagram(
        "Every value has a name: read it, or put another in its place",
        "Values on the way from embeddings to the head have names; gf.record keeps what passes a name, or gives it to "
        "a function whose result goes on; afterwards no hook is left.",
    )
    boxes = chain(
        picture,
        0,
        [
            ("embeddings", "plain"),
            ("layers.0.attention\n.scores → .pattern → .context", "gate"),
            ("layers.0.feed_forward\n.neurons", "plain"),
            ("layers.1 …", "plain"),
            ("head", "state"),
        ],
    )
    seen = picture.box(boxes[1].x, 100, "seen[name]\nthe value", kind="data", width=110)
    edit = picture.box(boxes[2].x, 100, "edit={name: function}\nanother value", kind="data", width=180)
    picture.arrow(boxes[1].bottom, seen.top, text="kept")
    picture.arrow((edit.x + 40, edit.top[1]), (edit.x + 40, boxes[2].bottom[1]), text="goes on")
    picture.arrow((edit.x - 40, boxes[2].bottom[1]), (edit.x - 40, edit.top[1]))
    return picture.svg()


def guide_studio() -> str:
    """The figure that Flow saves, of a small Transformer with both sides."""
    torch.manual_seed(0)
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = gf.build("glassformer-transformer", "text2text-generation", vocab_size=100, d_model=12, **layers, **heads)
    graph = gf.flow(model.eval(), None, [5, 6, 7, 8, 9], target=[5, 6, 7, 8])
    return gf.flow_svg(graph, expand=["encoder", "decoder"])


def guide_notebooks() -> str:
    """The ten notebooks, in their order."""
    from docs.generate import ROOT

    titles = []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        titles.append("".join(cells[0]["source"]).splitlines()[0].lstrip("# "))
    picture = Diagram("Ten notebooks, one idea each", "; ".join(titles))
    for place, title in enumerate(titles):
        row, column = place % 5, place // 5
        picture.box(370.0 * column, 44.0 * row, f"{place + 1}. {title}", kind="state", width=350)
    return picture.svg()


def guide_map() -> str:
    """The rooms in the order in which they may import each other."""
    from docs.generate import ORDER

    picture = Diagram("The rooms: each imports only from rooms before it", f"In this order: {', '.join(ORDER)}.")
    for place, room in enumerate(ORDER):
        row, column = divmod(place, 5)
        picture.box(130.0 * column, 52.0 * row, f"{room}/", kind="plain" if row < 2 else "state", width=104)
        if column < 4 and place + 1 < len(ORDER):
            picture.arrow((130.0 * column + 78, 52.0 * row), (130.0 * column + 52, 52.0 * row))
    return picture.svg()


def guide_jobs() -> str:
    """Which how-to page is for what."""
    picture = Diagram(
        "What do you have, and what do you want?",
        "Tables and tags, two texts, texts without labels, a model, a run: the how-to pages for each.",
    )
    columns(
        picture,
        {
            "texts with labels": ["csv", "imbalanced-classes", "ner", "long-texts"],
            "two texts": ["questions", "translation", "sentence-vectors"],
            "texts alone": ["language-model", "chinese"],
            "a model": ["hugging-face", "offline", "architecture"],
            "a run": ["resuming", "reports"],
        },
        ["data", "data", "data", "state", "gate"],
    )
    return picture.svg()
