"""The pictures of the how-to pages about tasks: what a built-in model makes of a text."""

import numpy as np
import torch
from docs.diagram import Diagram

import glassformer as gf
from glassformer.jobs.align import align
from glassformer.view.heatmap import heatmap

NAMES = "zoo:bert-mini-en-ner"
ANSWERS = "zoo:bert-mini-en-qa"
TAGGED = "Emma Stone met Paul at Luna Games in Berlin ."
QUESTION, CONTEXT = "Who sold a green cup?", "On Tuesday Leo Stone sold a green cup in Madrid."
SOURCE, TARGET = "I have lost my keys.", "J'ai perdu mes clés."
CHINESE = "早餐很好吃。"
SENTENCES = (
    "Where is the station?",
    "Can you tell me where the station is?",
    "I am very tired.",
    "I'm exhausted.",
    "He lost his keys.",
    "He can't find his keys.",
)


def howto_ner() -> str:
    """What a tagger thinks of each word: the share of every tag."""
    model, tok = gf.load(NAMES), gf.load_tokenizer(NAMES)
    batch = tok([TAGGED], return_tensors="pt")
    with torch.no_grad():
        shares = model(**batch).logits[0].softmax(-1).numpy()
    labels = [model.config.id2label[place] for place in range(shares.shape[1])]
    tokens = tok.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    words = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    return heatmap(
        np.round(shares[words], 2),
        rows=[tokens[place] for place in words],
        columns=labels,
        title="How likely is which tag?",
        axes=("token", "tag"),
        form=".2f",
    )


def howto_questions() -> str:
    """Where an answer begins and where it ends, by a trained model."""
    model, tok = gf.load(ANSWERS), gf.load_tokenizer(ANSWERS)
    batch = tok([QUESTION], [CONTEXT], return_tensors="pt")
    with torch.no_grad():
        out = model(**batch)
    inside = batch["token_type_ids"][0].bool()
    inside[-1] = False  # the [SEP] at the end
    shares = torch.stack([out.start_logits[0], out.end_logits[0]]).softmax(-1)[:, inside].numpy()
    tokens = tok.convert_ids_to_tokens(batch["input_ids"][0][inside].tolist())
    return heatmap(
        np.round(shares, 2),
        rows=("begins", "ends"),
        columns=tokens,
        title=QUESTION,
        axes=("the answer", "token of the text"),
        form=".2f",
    )


def howto_translation() -> str:
    """Where a trained translator looked while it wrote each word."""
    (found,) = align(gf.pipeline("translation", "zoo:en-fr"), [(SOURCE, TARGET)])
    return heatmap(
        np.round(found.weights, 2),
        rows=found.target,
        columns=found.source,
        title="Each French word, and the English words it was written from",
        axes=("written", "read"),
        form=".2f",
    )


def howto_language_model() -> str:
    """A text in blocks: each token is guessed from those before it in its block."""
    picture = Diagram(
        "block_size = 4: what is read, and what is to be guessed",
        "The text of eight tokens is cut into two blocks of four. In a block, every token is guessed from the ones "
        "before it; the last guess of a block is the first token of the next.",
    )
    tokens = ("This", "is", "the", "cat", "that", "killed", "the", "rat", "…")
    for block in range(2):
        left = 340.0 * block
        picture.frame(left - 40, -34, left + 262, 120, f"block {block + 1}")
        for place in range(4):
            read = picture.box(left + 74.0 * place, 10, tokens[4 * block + place], kind="data", width=64)
            guess = picture.box(left + 74.0 * place, 86, tokens[4 * block + place + 1], kind="gate", width=64)
            picture.arrow(read.bottom, guess.top)
    picture.word(-54, 10, "read", small=True, anchor="end")
    picture.word(-54, 86, "guessed", small=True, anchor="end")
    return picture.svg()


def howto_chinese() -> str:
    """One sentence in the tokens of a Chinese and of an English model."""
    picture = Diagram(
        f"{CHINESE} in two vocabularies",
        "The Chinese model's vocabulary has each character; the English one's has none of them and gives [UNK].",
    )
    for row, name in enumerate(("zoo:bert-mini-zh", "zoo:bert-mini-en")):
        picture.word(-60, 56.0 * row, name.removeprefix("zoo:"), small=True, anchor="end")
        across = 0.0
        for token in gf.load_tokenizer(name).tokenize(CHINESE):
            box = picture.box(across, 56.0 * row, token, kind="quiet" if token == "[UNK]" else "data", width=72)
            across = box.right[0] + 44
    return picture.svg()


def howto_sentence_vectors() -> str:
    """How near six sentences are, by a built-in model."""
    vectors = gf.embed(list(SENTENCES), "zoo:embed-mini-en")
    return heatmap(
        np.round(vectors @ vectors.T, 2) + 0.0,
        rows=SENTENCES,
        columns=[str(number + 1) for number in range(len(SENTENCES))],
        title="Cosines of sentences",
        axes=("sentence", "the same sentences, by number"),
        form=".2f",
    )
