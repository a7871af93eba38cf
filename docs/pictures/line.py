"""The picture of the whole course."""

from itertools import pairwise

from docs.diagram import Diagram

ROWS = (
    (
        ("1990\nRNN", "a memory"),
        ("1997\nLSTM", "that lasts"),
        ("2014\nGRU", "with fewer gates"),
        ("2014\nseq2seq", "reads, then writes"),
    ),
    (
        ("2014\nBahdanau", "looks back"),
        ("2015\nLuong", "in one product"),
        ("2017\nTransformer", "only looks"),
        ("2018\nGPT", "only writes"),
    ),
)


def line_of_models() -> str:
    """Which model came when, and what it added."""
    picture = Diagram(
        "The line of models, and what each of them added",
        "RNN 1990, LSTM 1997, GRU 2014, seq2seq 2014, Bahdanau 2014, Luong 2015, Transformer 2017, GPT and BERT 2018.",
    )
    first, second = (
        [
            picture.box(150.0 * n, 130.0 * row, name, kind="state" if row == 0 else "gate", width=112)
            for n, (name, _) in enumerate(some)
        ]
        for row, some in enumerate(ROWS)
    )
    for row, boxes in enumerate((first, second)):
        for box, (_, added) in zip(boxes, ROWS[row], strict=True):
            picture.word(box.x, box.bottom[1] + 14, added, small=True)
        for one, other in pairwise(boxes):
            picture.arrow(one.right, other.left)
    bert = picture.box(450, 220, "2018\nBERT", kind="gate", width=112)
    picture.word(450, bert.bottom[1] + 14, "only reads", small=True)
    picture.arrow(second[2].right, (378, 130), (378, 220), bert.left)
    picture.arrow(first[3].right, (535, 0), (535, 65), (-85, 65), (-85, 130), second[0].left)
    return picture.svg()
