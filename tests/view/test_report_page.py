"""The report of an experiment: what was told is on the page in both languages, and nothing comes from outside."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import context, unknown_styles
from glassformer.view.colours import PAPER
from glassformer.view.plots import Dot, PlotLine, ScatterPoint, dot_plot, heatmap, line_plot, scatter_plot
from glassformer.view.report import Column, Entry, Figure, Report, Section, Table, TableRow, Text, markdown, page

ATTACK = '<img src=x onerror="window.hacked=1">&\'</style></title></svg><script>window.hacked=1</script>'
CONTESTANTS = {
    "bag of words": (0.802, 0.1),
    "RNN": (0.784, 0.9),
    "GRU": (0.829, 1.1),
    "LSTM": (0.833, 1.2),
    "BiLSTM + attention": (0.846, 1.6),
    "CNN (Kim 2014)": (0.838, 0.7),
    "Transformer from scratch": (0.811, 3.1),
    "frozen MiniLM + head": (0.874, 22.7),
    "fine-tuned MiniLM": (0.915, 22.7),
    "LoRA": (0.912, 22.9),
}
SIZES = [100, 1_000, 10_000, 67_349]

texts = st.text(max_size=40) | st.just(ATTACK)


def ladder():
    """A report as `compare` writes it: ten contestants, three seeds, one of them failed."""
    chance = np.random.default_rng(0)
    rows, lines, dots = [], [], []
    for name, (score, size) in CONTESTANTS.items():
        folder = f"cells/{name}"
        seeds = score + 0.004 * chance.standard_normal(3)
        details = [
            [
                Entry(text=f"seed {seed}", link=f"{folder}/{seed}"),
                Entry(text=f"{value:.3f}"),
                Entry(text=f"{size:.1f} M"),
            ]
            + [Entry(text=f"{40 * size + seed:.0f} s"), Entry(text="1.1 GB"), Entry(text="812"), Entry(text="0.3")]
            for seed, value in enumerate(seeds)
        ]
        entries = [
            Entry(text=name, link=folder),
            Entry(text=f"{seeds.mean():.3f} ± {seeds.std(ddof=1):.3f}", mark="best" if score > 0.91 else None),
            Entry(text=f"{size:.1f} M"), Entry(text=f"{40 * size:.0f} s"),
            Entry(text="1.1 GB"), Entry(text="812", mark="bad" if size > 3 else None), Entry(text="0.001"),
        ]  # fmt: skip
        rows.append(TableRow(entries=entries, details=details))
        curve = score - 0.3 * np.exp(-np.arange(4) * (0.5 if size < 10 else 1.3))
        lines.append(PlotLine(name=name, x=SIZES, y=curve, low=curve - 0.01, high=curve + 0.01))
        dots.append(Dot(name=name, value=seeds.mean(), low=seeds.min(), high=seeds.max(), points=seeds))
    reason = Text(
        "out of memory at step 20: 12.1 GB wanted, 8.0 GB there", "第 20 步内存不足：需要 12.1 GB，只有 8.0 GB"
    )
    failed = TableRow(entries=[Entry(text="BERT large", link="cells/BERT large"), Entry(text=reason)], failed=True)
    columns = [
        Column(title=Text("model", "模型")),
        Column(title=Text("accuracy", "准确率"), why=Text("mean and deviation of three seeds", "三个种子的均值与标准差")),
        Column(title=Text("parameters", "参数量")), Column(title=Text("training", "训练时间")),
        Column(title=Text("peak memory", "内存峰值")),
        Column(title=Text("texts/s", "条/秒"), why=Text("inference, in batches of 32", "推理速度，每批 32 条")),
        Column(title=Text("p"), why=Text("paired bootstrap against the first row", "与第一行的配对自助检验")),
    ]  # fmt: skip
    grid = 20 + 5 * chance.standard_normal((3, 4))
    grid[1, 3] = np.nan
    pictures = [
        Figure(name="curves", caption=Text("Accuracy by the number of examples", "准确率随样本数的变化"), svg=line_plot(
            lines, title="Learning curves", x_axis="training examples", y_axis="accuracy", log_x=True)),
        Figure(name="scores", caption=Text("Three seeds each", "每个模型三个种子"), svg=dot_plot(
            dots, title="Accuracy on the test set", axis="accuracy")),
        Figure(name="grid", caption=Text("Layers and heads", "层数与头数"), svg=heatmap(
            grid, rows=["1 layer", "2 layers", "4 layers"], columns=["1", "2", "4", "8"], title="BLEU by layers and heads",
            axes=("layers", "heads"))),
        Figure(name="cost", caption=Text("What a point of accuracy costs", "准确率的代价"), svg=scatter_plot(
            [ScatterPoint(name=name, x=size, y=score) for name, (score, size) in CONTESTANTS.items()],
            title="Accuracy and size", x_axis="million parameters", y_axis="accuracy", log_x=True)),
    ]  # fmt: skip
    return Report(
        title=Text("A ladder of text classifiers on SST-2", "SST-2 上的文本分类模型阶梯"),
        question=Text(
            "How much does each step from a bag of words to a fine-tuned Transformer buy?",
            "从词袋模型到微调的 Transformer，每一步带来多少提升？",
        ),
        facts=[(Text("data", "数据"), "sst2/train.tsv, 67,349 examples"), (Text("seeds", "随机种子"), "0, 1, 2")]
        + [(Text("machine", "机器"), "2 cores, torch 2.13.0"), (Text("time", "用时"), "3 h 12 min")],
        findings=[
            Text(
                "Fine-tuned MiniLM is ahead of the best model from scratch by 6.9 ± 0.8 points (p = 0.001).",
                "微调的 MiniLM 比最好的从零训练的模型高 6.9 ± 0.8 个百分点（p = 0.001）。",
            ),
            Text("Between LoRA and full fine-tuning no difference is shown (p = 0.41).", "LoRA 与全量微调之间没有显著差异（p = 0.41）。"),
        ],
        sections=[
            Section(title=Text("Scores", "成绩"), tables=[Table(columns=columns, rows=[*rows, failed])]),
            Section(title=Text("Pictures", "图"), figures=pictures),
        ],
        command="glassformer compare ladder --data sst2/train.tsv --dev sst2/dev.tsv --model ./minilm --seeds 3 --out ladder",
    )  # fmt: skip
