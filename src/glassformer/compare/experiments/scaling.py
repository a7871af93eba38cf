"""Time and memory by the length of a text, for one layer of each kind: the O(n) and O(n²) of textbooks, measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from filelock import FileLock
from torch import nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.files.schema import Size
from glassformer.hub.registry import build
from glassformer.models.contract import as_model
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Column, Entry, Figure, Section, Table, TableRow, Text

from ..budget import device_named
from ..cell import Cell
from ..experiment import Experiment, chosen
from ..profiling import Call, peak_bytes, seconds_in_turns
from ..reporting import CONTESTANT
from ..results import Results, summarised
from ..statistics import Exponent, fit_exponent

ALL = "in turns"  # what a cell is called: its contestants share a process
VOCABULARY = 1000
HEADS = 4
UNSURE = 0.2  # the standard error of an exponent that tells nothing


TEXTBOOK = {  # the power of the length that textbooks give a layer
    "lstm": {"time": 1, "memory": 1},
    "gru": {"time": 1, "memory": 1},
    "cnn": {"time": 1, "memory": 1},
    "transformer (textbook)": {"time": 2, "memory": 2},
    "transformer (fused)": {"time": 2, "memory": 1},
}
MEASURES = {
    "forward": Text("forward", "前向"),
    "both": Text("forward and backward", "前向与反向"),
}


@dataclass(frozen=True, kw_only=True)
class Scaling(Experiment):
    """One layer of each kind reads random texts of growing length, forward alone and with the backward pass."""

    name: ClassVar[str] = "scaling"
    question: ClassVar[Text] = Text(
        "How do time and memory of each kind of layer grow with the length of the text?",
        "各类网络层的时间与内存如何随文本长度增长？",
    )

    seeds: Size = 1  # whole measurements
    lengths: Sequence[Size] = (64, 128, 256, 512, 1024, 2048, 4096)
    width: Size = 128
    batch: Size = 1
    rounds: Size = 5  # the median of so many counts
    contestants: Sequence[str] = ()  # some of them; by default all

    def cells(self) -> list[Cell]:
        names = chosen(self.contestants, TEXTBOOK)
        if len({*self.lengths}) < 3:
            raise ValueError(f"lengths is {list(self.lengths)}: give three or more, so that growth can be told")
        if self.width % HEADS:
            raise ValueError(f"width is {self.width}, and attention has {HEADS} heads: give a multiple of {HEADS}")
        if self.budget is not None:
            raise ValueError(
                "scaling trains nothing, so it has no budget: leave it out; lengths and rounds set the time"
            )
        shared = {"width": self.width, "batch": self.batch, "rounds": self.rounds, "device": self.device}
        given = {**shared, "contestants": names}
        return [
            cell
            for length in sorted({*self.lengths})
            for cell in self.each_seed(
                Cell(contestant=ALL, place={"length": length}, measure="scaling", arguments=given)
            )
        ]

    def findings(self, results: Results) -> list[Text]:
        return [*speeds(results), *(text for one in measured(results) for text in growth(results, one, self.width))]

    def sections(self, results: Results) -> list[Section]:
        time_why = Text(
            "Seconds of a call: the median of rounds in which the contestants take turns in one process. The exponent "
            "is fitted to the longer half of the lengths.",
            "一次调用的秒数：各参赛者在同一进程内轮流运行，取各轮中位数。指数由较长的一半长度拟合。",
        )
        memory_why = Text(
            "The most bytes that a call has at once from torch's allocator, weights not counted: what it computes, "
            "and on the way back what it has kept for gradients, and the gradients.",
            "一次调用中 torch 分配器同时占用的最大字节数，不含权重：前向为计算所需，反向另含为梯度保留的值与梯度本身。",
        )
        return [
            section(results, "time", Text("Time", "时间"), time_why),
            section(results, "memory", Text("Memory", "内存"), memory_why),
        ]


def layer(contestant: str, width: int, length: int) -> nn.Module:
    """One layer of a kind, and embeddings below it, without dropout."""
    torch.manual_seed(0)
    if contestant in ("lstm", "gru"):
        sizes = {"kind": contestant, "embedding_size": width, "hidden_size": width}
        return build("glassformer-rnn", None, vocab_size=VOCABULARY, **sizes)
    if contestant == "cnn":
        filters = {"embedding_size": width, "num_filters": width, "filter_widths": [3], "dropout": 0.0}
        return build("glassformer-cnn", "text-classification", vocab_size=VOCABULARY, **filters)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": HEADS}
    sizes |= {"num_hidden_layers": 1, "max_position_embeddings": length}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = build("bert", None, vocab_size=VOCABULARY, **sizes)
    if contestant == "transformer (textbook)":
        read_by_textbook(model)
    return model


def read_by_textbook(model: nn.Module) -> None:
    """Let someone look at the weights of every attention, so that the textbook equation computes them."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.pattern.register_forward_hook(lambda *_: None)


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """Seconds and bytes of every contestant at one length; {"lost": why} of one that has not the memory.

    No two cells of an experiment measure at once, however many processes it has.
    """
    given, length = cell.arguments, int(cell.place["length"])
    device = device_named(given["device"])
    with FileLock(folder.parent / "measuring.lock"):
        models = {one: layer(one, given["width"], length) for one in given["contestants"]}
        ids = torch.randint(VOCABULARY, (given["batch"], length), generator=torch.Generator().manual_seed(cell.seed))
        facts: dict[str, Any] = {one: {} for one in models}
        for what, backward in (("forward", False), ("both", True)):
            calls: dict[str, Call] = {}
            for one, model in models.items():
                call = passes(model, ids, device, backward=backward)
                try:
                    call()  # kernels are chosen and libraries loaded before anything is measured
                    facts[one][f"memory {what}"] = peak_bytes(call, device)
                    calls[one] = call
                except RuntimeError as error:  # a GPU's OutOfMemoryError is one, and a CPU has no class of its own
                    if "memory" not in str(error):
                        raise
                    facts[one]["lost"] = f"no memory for {what}"
            for one, seconds in seconds_in_turns(calls, device, rounds=given["rounds"]).items():
                facts[one][f"time {what}"] = seconds
    return facts


def passes(model: nn.Module, ids: torch.Tensor, device: torch.device, *, backward: bool) -> Call:
    """A call that reads the ids, and goes back if asked, as a training step does: cuDNN refuses to go back through a
    recurrent layer that is not training. The layers have no dropout, which is none of their cost."""
    hidden, inputs = as_model(model.to(device).train(backward)).hidden, ids.to(device)

    def call() -> None:
        if not backward:
            with torch.inference_mode():
                hidden(inputs)
            return
        hidden(inputs).square().mean().backward()
        model.zero_grad(set_to_none=True)  # at the end: gradients of an earlier call would count as there before

    return call


def measured(results: Results) -> list[str]:
    """The contestants in the order that they were measured in."""
    return list(dict.fromkeys(one for cell in results.done for one in cell.facts))


def curve(results: Results, contestant: str, fact: str) -> tuple[list[int], list[float]]:
    """Lengths, and the mean over seeds at each."""
    lengths, means = [], []
    for length in sorted(results.places("length"), key=int):
        cells = results.at(length=length).done
        mean = summarised(cell.facts[contestant][fact] for cell in cells if fact in cell.facts.get(contestant, {}))
        if mean is not None:
            lengths.append(int(length))
            means.append(mean.mean)
    return lengths, means


def exponent(results: Results, contestant: str, fact: str) -> Exponent | None:
    """Fitted to the longer half of the lengths, three of them at least; None where there are not so many."""
    lengths, values = curve(results, contestant, fact)
    half = min(len(lengths) // 2, len(lengths) - 3)
    return fit_exponent(lengths[half:], values[half:]) if half >= 0 else None


def section(results: Results, quantity: str, title: Text, why: Text) -> Section:
    tables, figures = [exponents(results, quantity)], []
    for what, name in MEASURES.items():
        fact = f"{quantity} {what}"
        tables.append(numbers(results, fact, name))
        figures.append(figure(results, fact, title, name))
    return Section(title=title, paragraphs=[why], tables=tables, figures=figures)


def exponents(results: Results, quantity: str) -> Table:
    """What was fitted beside what textbooks say."""
    columns = [CONTESTANT, Column(title=Text("textbook", "教科书"))]
    columns += [Column(title=Text(f"{name.en}: exponent", f"{name.zh}：指数")) for name in MEASURES.values()]
    rows = []
    for one in measured(results):
        order = TEXTBOOK[one][quantity]
        fits = [exponent(results, one, f"{quantity} {what}") for what in MEASURES]
        entries = [Entry(text=one), Entry(text="O(n)" if order == 1 else "O(n²)")]
        rows.append(TableRow(entries=[*entries, *(Entry(text=shown_exponent(fit)) for fit in fits)]))
    return Table(columns=columns, rows=rows)


def shown_exponent(fit: Exponent | None) -> str:
    if fit is None:
        return "–"
    return f"n^{fit.value:.2f}" + ("" if fit.error is None else f" ± {fit.error:.2f}")


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def numbers(results: Results, fact: str, name: Text) -> Table:
    """Every number: milliseconds or megabytes."""
    unit, factor = ("ms", 1e3) if fact.startswith("time") else ("MB", 1e-6)
    lengths = sorted(results.places("length"), key=int)
    first = Column(title=Text(f"{name.en}, {unit}", f"{name.zh}（{unit}）"))
    rows = []
    for one in measured(results):
        known: Mapping[int, float] = dict(zip(*curve(results, one, fact), strict=True))
        values = [Entry(text=f"{short(known[int(n)] * factor)}" if int(n) in known else "–") for n in lengths]
        rows.append(TableRow(entries=[Entry(text=one), *values]))
    return Table(columns=[first, *(Column(title=Text(str(length))) for length in lengths)], rows=rows)


def figure(results: Results, fact: str, title: Text, name: Text) -> Figure:
    """One line for each contestant, on two logarithmic axes."""
    unit, factor = ("milliseconds", 1e3) if fact.startswith("time") else ("megabytes", 1e-6)
    lines = []
    for one in measured(results):
        lengths, values = curve(results, one, fact)
        if lengths:
            lines.append(PlotLine(name=one, x=lengths, y=[value * factor for value in values]))
    svg = line_plot(lines, title=f"{title.en}: {name.en}", x_axis="tokens", y_axis=unit, log_x=True, log_y=True)
    caption = Text(f"{title.en}, {name.en}, by the length of the text", f"{title.zh}（{name.zh}）随文本长度的变化")
    return Figure(name=fact.replace(" ", "-"), svg=svg, caption=caption)


def speeds(results: Results) -> list[Text]:
    """Who is quickest at the shortest and at the longest texts."""
    lengths = sorted(results.places("length"), key=int)
    texts = []
    for length in dict.fromkeys((lengths[0], lengths[-1])):
        taken = {
            one: dict(zip(*curve(results, one, "time both"), strict=True)).get(int(length)) for one in measured(results)
        }
        known = sorted((seconds, one) for one, seconds in taken.items() if seconds is not None)
        if len(known) > 1:
            listed = ", ".join(f"{one} {short(1e3 * seconds)} ms" for seconds, one in known)
            texts.append(
                Text(
                    f"At {length} tokens, from the quickest (forward and backward): {listed}.",
                    f"{length} 个词元时，由快到慢（前向与反向）：{listed}。",
                )
            )
    return texts


def growth(results: Results, contestant: str, width: int) -> list[Text]:
    """Where the measured growth differs from the textbook's by more than chance and a tenth, and why."""
    texts = []
    for quantity, zh in (("time", "时间"), ("memory", "内存")):
        order, fit = TEXTBOOK[contestant][quantity], exponent(results, contestant, f"{quantity} both")
        if fit is None:
            continue
        difference = fit.value - order
        if fit.error is None or fit.error > UNSURE:
            why = Text("too unsure to tell, as on a machine that is busy otherwise", "误差过大，无法判断，可能机器正忙")
        elif abs(difference) > max(0.1, 2 * fit.error):
            why = reason(contestant, quantity, fit.value, width)
        else:
            why = Text("as textbooks say", "与教科书一致")
        book = "O(n)" if order == 1 else "O(n²)"
        texts.append(
            Text(
                f"{contestant}: {quantity} grows like {shown_exponent(fit)}, {book} in textbooks; {why.en}.",
                f"{contestant}：{zh}按 {shown_exponent(fit)} 增长，教科书为 {book}；{why.zh}。",
            )
        )
    return texts


def reason(contestant: str, quantity: str, power: float, width: int) -> Text:
    """Why growth is not the textbook's, as far as the arithmetic of a layer says."""
    if power > TEXTBOOK[contestant][quantity]:
        return Text(
            "more: a likely reason is that what is computed on outgrows the caches of the processor",
            "更快：可能是数据超出了处理器缓存",
        )
    if power > 1:  # between the linear and the square
        if quantity == "memory":
            return Text(
                f"less, because the states, of n × {width}, weigh beside the {HEADS} tables of n × n",
                f"更慢，因为 n × {width} 的各层状态与 {HEADS} 张 n × n 的表相比仍有分量",
            )
        return Text(
            f"less, because projections and feed-forward (12·n·d² multiplications) are linear, and attention (2·n²·d) "
            f"outweighs them from n = 6·d = {6 * width} on only",
            f"更慢，因为投影与前馈（12·n·d² 次乘法）是线性的，注意力（2·n²·d）到 n = 6·d = {6 * width} 之后才占上风",
        )
    return Text(
        "less, because costs that every call has, whatever the length, are still a part of it",
        "更慢，因为每次调用都有的固定开销仍占一部分",
    )
