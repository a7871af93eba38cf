"""The pictures of the page of the encoder-decoder."""

import torch
from docs.diagram import Diagram

from glassformer.blocks.alignment import AlignmentName
from glassformer.blocks.recurrent import Kind
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.view.plots import PlotLine, line_plot

SOURCE, TARGET = ("Emma", "is", "happy"), ("Emma", "ist", "froh")
LENGTH = 24


def seq2seq_two_sides() -> str:
    """One network reads, one vector crosses, another network writes."""
    picture = Diagram(
        "One network reads, another writes; a single vector crosses",
        "An encoder reads Emma is happy; its last state is the first state of a decoder, which writes Emma ist froh "
        "and reads each word that it has written.",
    )
    picture.frame(-50, 40, 305, 190, "encoder")
    picture.frame(385, 40, 875, 190, "decoder")
    before = None
    for number, word in enumerate(SOURCE):
        cell = picture.box(105.0 * number + 20, 95, "cell", kind="state", width=60)
        given = picture.box(105.0 * number + 20, 165, word, kind="data")
        picture.arrow(given.top, cell.bottom)
        if before is not None:
            picture.arrow(before.right, cell.left)
        before = cell
    crossing = picture.box(345, 95, "state", kind="gate", width=58)
    picture.arrow(before.right, crossing.left)
    before = crossing
    given = [picture.box(120.0 * n + 445, 165, word, kind="data") for n, word in enumerate(("start", *TARGET))]
    for number, (read, word) in enumerate(zip(given, (*TARGET, "end"), strict=True)):
        cell = picture.box(read.x, 95, "cell", kind="state", width=60)
        written = picture.box(read.x, 10, word, kind="data")
        picture.arrow(read.top, cell.bottom)
        picture.arrow(cell.top, written.bottom)
        picture.arrow(before.right, cell.left)
        if number < len(TARGET):
            turn = read.x + 58
            picture.arrow(written.right, (turn, 10), (turn, 165), given[number + 1].left, dashed=True)
        before = cell
    return picture.svg()


def seq2seq_bottleneck() -> str:
    """How much the first written word hears of each source word, before training."""
    models: dict[str, tuple[Kind, AlignmentName | None]] = {
        "GRU": ("gru", None),
        "LSTM": ("lstm", None),
        "GRU with attention": ("gru", "additive"),
    }
    lines = [PlotLine(name=name, x=range(1, LENGTH + 1), y=_heard(*each)) for name, each in models.items()]
    return line_plot(
        lines,
        title="What the first written word hears of each source word, before training",
        x_axis="place of the source word",
        y_axis="size of the gradient at its embedding",
        log_y=True,
    )


def _heard(kind: Kind, attention: AlignmentName | None) -> list[float]:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "embedding_size": 32, "hidden_size": 64, "initializer_range": 1.0}
    model = Seq2Seq(Seq2SeqConfig(kind=kind, attention=attention, **sizes)).double().eval()
    ids = torch.randint(0, 50, (8, LENGTH))
    seen: list[torch.Tensor] = []
    model.encoder.embeddings.register_forward_hook(lambda *found: seen.append(found[-1]))
    logits = model(ids, decoder_input_ids=torch.zeros(8, 1, dtype=torch.long)).logits
    (gradient,) = torch.autograd.grad((logits * torch.randn_like(logits)).sum(), seen)
    return [float(f"{value:.3g}") for value in gradient.norm(dim=-1).mean(0).tolist()]
