"""How far back a model can look: gradients by distance, and lessons that ask for long memory.

B texts, T tokens, D embedding width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.data.batches import Budget
from glassformer.files.schema import Size
from glassformer.hub.load import load, load_tokenizer
from glassformer.hub.registry import architecture_for
from glassformer.inspect.attribution import Embedded
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.tasks import task_class
from glassformer.models.contract import as_model
from glassformer.tasks.task import evaluate
from glassformer.tasks.teaching import FEWEST, Lesson, examples
from glassformer.view.plots import line_plot
from glassformer.view.report import Column, Entry, Figure, Section, Table, TableRow, Text

from ..cell import RUN, Cell
from ..curves import mean_line
from ..experiment import Experiment
from ..reporting import CONTESTANT, differences, score_table, written
from ..results import Results, shown_score

CONTESTANTS: dict[str, dict[str, Any]] = {
    "rnn": {"arch": "rnn"},
    "gru": {"arch": "gru"},
    "lstm, forget bias 0": {"arch": "lstm", "config": {"forget_bias": 0.0}},
    "lstm, forget bias 1": {"arch": "lstm", "config": {"forget_bias": 1.0}},
    "lstm, forget bias 2": {"arch": "lstm", "config": {"forget_bias": 2.0}},
    "transformer": {"arch": "decoder"},
}
LESSONS: dict[str, Text] = {
    "parity": Text("parity: is the sum of the digits odd?", "奇偶：各位数字之和是奇数吗？"),
    "copy": Text("copy: write the digits again", "复制：把数字再写一遍"),
    "adding": Text("adding: the sum of two marked digits", "加法：两个被标记数字之和"),
}
TEXTS, TESTED = 32, 200  # that gradients are averaged over, and that are scored at each length
HEADS = 4
TEST = 2  # the seed of examples for tests


@dataclass(frozen=True, kw_only=True)
class Recurrence(Experiment):
    """Language models of one size that learn digits: what reaches them from afar, before training and after it."""

    name: ClassVar[str] = "recurrence"
    question: ClassVar[Text] = Text(
        "How far back does each kind of model see, and how long may a text be that it can still answer for?",
        "各类模型能看到多远之前的内容？文本多长时仍能答对？",
    )

    budget: str | None = "1500steps"
    lessons: Sequence[str] = tuple(LESSONS)
    length: Size = 10  # digits at most of a text that is learnt
    lengths: Sequence[Size] = (5, 10, 20, 40)  # digits of texts that are scored
    distance: Size = 100  # digits that gradients go back over
    width: Size = 64
    examples: Size = 20_000
    lr: float = 3e-3
    contestants: Sequence[str] = ()  # some of them; by default all

    def cells(self) -> list[Cell]:
        for given, known in ((self.contestants, CONTESTANTS), (self.lessons, LESSONS)):
            if wrong := [one for one in given if one not in known]:
                raise ValueError(f"there is no {wrong[0]!r} in this experiment; there are: {'; '.join(known)}")
        shortest = max(FEWEST[cast(Lesson, one)] for one in self.lessons) if self.lessons else 1
        if not self.lessons or not self.lengths or min(self.length, self.distance, *self.lengths) < shortest:
            raise ValueError(f"give a lesson or more, and lengths of {shortest} digits or more")
        if self.width % HEADS:
            raise ValueError(f"width is {self.width}, and attention has {HEADS} heads: give a multiple of {HEADS}")
        return [
            cell
            for lesson in self.lessons
            for one in self.contestants or CONTESTANTS
            for cell in self.each_seed(self._cell(lesson, one))
        ]

    def _cell(self, lesson: str, contestant: str) -> Cell:
        own = CONTESTANTS[contestant]
        sizes: dict[str, Any] = {"embedding_size": self.width, "hidden_size": self.width, "dropout": 0.0}
        if own["arch"] == "decoder":
            farthest = 3 * max(self.length, self.distance, *self.lengths) + 16  # digits, marks and an answer
            sizes = {"n_embd": self.width, "n_layer": 2, "n_head": HEADS, "n_positions": farthest}
            sizes |= {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
        recipe = {
            "task": lesson, "head": "text-generation", "data": "microworld", "test": "microworld",
            "arch": own["arch"], "config": {**sizes, **own.get("config", {})}, "device": self.device,
            "length": self.length, "limit": self.examples, "lr": self.lr, "batch_size": 64,
        }  # fmt: skip
        Recipe.of({**recipe, "out": self.out})
        given = {"lengths": sorted({*self.lengths}), "distance": self.distance}
        place = {"lesson": lesson}
        return Cell(
            contestant=contestant, place=place, recipe=recipe, budget=self.budget, measure="recurrence", arguments=given
        )

    def findings(self, results: Results) -> list[Text]:
        first = results.at(lesson=self.lessons[0])
        texts = [faded(first, one) for one in first.contestants]
        for lesson in results.places("lesson"):
            at = results.at(lesson=lesson)
            texts += [Text(f"{lesson}: {one.en}", f"{lesson}：{one.zh}") for one in differences(at, at.against_best())]
            texts.append(farthest(at, str(lesson), max(self.lengths)))
        return texts

    def sections(self, results: Results) -> list[Section]:
        return [gradient_section(results, self.lessons), *(self._lesson(results, str(one)) for one in self.lessons)]

    def _lesson(self, results: Results, lesson: str) -> Section:
        at = results.at(lesson=lesson)
        columns = [CONTESTANT, *(Column(title=Text(f"{one} digits", f"{one} 位")) for one in sorted({*self.lengths}))]
        rows, lines = [], []
        for one in at.contestants:
            shares = [at.fact(one, f"right at {length}") for length in sorted({*self.lengths})]
            rows.append(
                TableRow(entries=[Entry(text=one), *(Entry(text=written("accuracy", each)) for each in shares)])
            )
            curves = [[cell.facts[f"right at {each}"] for each in sorted({*self.lengths})] for cell in at.of(one)]
            lines.append(mean_line(one, sorted({*self.lengths}), curves))
        what = Text(
            f"Learnt on texts of up to {self.length} digits; an answer counts if it is right from end to end.",
            f"以不超过 {self.length} 位数字的文本训练；答案须从头到尾全对才算对。",
        )
        figures = []
        if lines:
            svg = line_plot(lines, title=f"{lesson} by length", x_axis="digits", y_axis="share right", log_x=True)
            caption = Text("share of right answers by length: mean, least and most of the seeds", "各长度的正确率")
            figures = [Figure(name=f"{lesson}-by-length", svg=svg, caption=caption)]
        tables = [Table(columns=columns, rows=rows), score_table(at)]
        return Section(title=LESSONS[lesson], paragraphs=[what], tables=tables, figures=figures)


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """Gradients by distance of the model before and after training, and its share of right answers at each length."""
    assert cell.recipe is not None
    lesson = cast(Lesson, cell.recipe["task"])
    module = load(folder / RUN, device=str(cell.recipe["device"]))
    model, tokenizer = as_model(module), load_tokenizer(folder / RUN)
    cls = task_class(lesson)
    task = cls.from_spec(tokenizer, cls.spec_of_model(tokenizer, model))
    facts: dict[str, Any] = {}
    for length in cell.arguments["lengths"]:
        items = task.encode(examples(lesson, TESTED, seed=TEST, length=length))
        facts[f"right at {length}"] = evaluate(model, task, items, budget=Budget(rows=TESTED)).compute()["exact_match"]
    texts = examples(lesson, TEXTS, seed=TEST, length=cell.arguments["distance"])
    ids = torch.tensor([tokenizer.encode(one.source, add_special_tokens=False) for one in texts])
    torch.manual_seed(cell.seed)
    fresh = architecture_for(model.config.model_type).build(model.config, model.head_name)
    for name, one in (("initial", fresh), ("trained", module)):
        norms = gradient_norms(one.cpu().double().eval(), ids, seed=cell.seed)
        facts[f"{name} gradient"] = (norms / norms[0]).tolist()
        facts[f"{name} factor"] = factor(norms.tolist())
    return facts


def gradient_norms(model: nn.Module, ids: Tensor, *, seed: int) -> Tensor:
    """‖∂ y / ∂ e_t‖ by the distance from the last token (T,), where y is a random mix of the last token's logits and
    e_t the vector of a token (B, T, D): the mean over texts."""

    def score(outputs: Any) -> Tensor:
        last: Tensor = outputs.logits[:, -1]  # (B, V)
        mix = torch.randn(last.shape[1], generator=torch.Generator().manual_seed(seed), dtype=last.dtype)
        return last.mv(mix / torch.linalg.vector_norm(mix))

    run = Embedded(model, {"input_ids": ids}, score)
    norms: Tensor = torch.linalg.vector_norm(run.gradient(run.vectors), dim=-1)  # (B, T)
    return norms.mean(0).flip(0)


def factor(norms: Sequence[float]) -> float:
    """What a gradient is multiplied by for each token further back: least squares on a logarithmic scale."""
    known = [(distance, norm) for distance, norm in enumerate(norms) if distance and norm > 0]
    if len(known) < 2:
        return float("nan")
    distances, values = zip(*known, strict=True)
    return float(np.exp(np.polyfit(distances, np.log(values), 1)[0]))


def faded(results: Results, contestant: str) -> Text:
    """How quickly the gradients of a new model fade."""
    mean = results.fact(contestant, "initial factor")
    assert mean is not None
    each = mean.mean
    half = f", half after {np.log(0.5) / np.log(each):.3g} tokens" if each < 0.999 else ""
    half_zh = f"，{np.log(0.5) / np.log(each):.3g} 个词元后减半" if each < 0.999 else ""
    return Text(
        f"{contestant}, before training: each token further back, a gradient is {each:.3g} times as large{half}.",
        f"{contestant}（训练前）：每往前一个词元，梯度乘以 {each:.3g}{half_zh}。",
    )


def farthest(results: Results, lesson: str, length: int) -> Text:
    """How often each is right at the longest texts, from the best."""
    shares = {one: results.fact(one, f"right at {length}") for one in results.contestants}
    known = sorted(((mean.mean, one) for one, mean in shares.items() if mean is not None), reverse=True)
    listed = "; ".join(f"{one} {shown_score('accuracy', share)} %" for share, one in known)
    return Text(
        f"{lesson}: right at {length} digits, from the best: {listed}.",
        f"{lesson}：{length} 位数字时的正确率，由高到低：{listed}。",
    )


def gradient_section(results: Results, lessons: Sequence[str]) -> Section:
    """Gradients by distance: of new models, which are the same for all lessons but for the digits, and of trained."""
    why = Text(
        "The norm of the derivative of a random readout of the last token's logits, with respect to the vector of the "
        "token so far before it, as a share of that of the last token itself. The factor is fitted over all distances: "
        "an LSTM's forget gates alone multiply by sigmoid(bias), 0.5, 0.73 and 0.88 for 0, 1 and 2; what its outputs "
        "pass back comes on top.",
        "对最后一个词元 logits 的随机读出，求其对往前若干位词元向量导数的范数，除以最后一个词元自身的范数。"
        "因子由全部距离拟合：LSTM 的遗忘门本身每步乘以 sigmoid(偏置)，偏置 0、1、2 时为 0.5、0.73、0.88，"
        "经输出传回的部分另计。",
    )
    columns = [CONTESTANT, Column(title=Text("before training", "训练前"))]
    columns += [Column(title=Text(f"after {one}", f"学会 {one} 后")) for one in lessons]
    rows = []
    for one in results.contestants:
        kinds = [("initial factor", lessons[0]), *(("trained factor", lesson) for lesson in lessons)]
        values = [results.at(lesson=lesson).fact(one, name) for name, lesson in kinds]
        rows.append(TableRow(entries=[Entry(text=one), *(Entry(text=written("factor", each)) for each in values)]))
    shown = [("initial", lessons[0], Text("before training", "训练前"))]
    shown += [("trained", one, Text(f"after learning {one}", f"学会 {one} 后")) for one in lessons]
    figures = [found for name, one, when in shown if (found := gradient_figure(results.at(lesson=one), name, when))]
    return Section(
        title=Text("Gradients by distance", "梯度随距离的变化"),
        paragraphs=[why],
        tables=[Table(columns=columns, rows=rows)],
        figures=figures,
    )


def gradient_figure(results: Results, name: str, when: Text) -> Figure | None:
    """The curves of all contestants on a logarithmic axis."""
    lines = []
    for one in results.contestants:
        curves = [cell.facts[f"{name} gradient"] for cell in results.of(one)]
        lines.append(mean_line(one, range(len(curves[0])), curves))
    if not lines:
        return None
    title = f"gradient norm {when.en}"
    svg = line_plot(lines, title=title, x_axis="tokens back", y_axis="share of the last token's", log_y=True)
    caption = Text(f"gradient norm by distance, {when.en}", f"梯度范数随距离的变化（{when.zh}）")
    return Figure(name=title.replace(" ", "-"), svg=svg, caption=caption)
