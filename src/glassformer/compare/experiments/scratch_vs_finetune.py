"""Pretrained or not: one shape of model from random weights, fine-tuned, and with its body frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.files.schema import Size
from glassformer.hub.fetch import config_folder
from glassformer.hub.folder import read_config
from glassformer.hub.registry import architecture_for
from glassformer.view.report import Column, Entry, Section, Table, TableRow, Text

from ..cell import Cell
from ..experiment import DataExperiment
from ..learning_curves import curve, each_size, examples_needed, size_sections
from ..reporting import CONTESTANT, differences
from ..results import Results, shown_score, summarised

NOT_SIZES = ("model_type", "vocab_size", "id2label", "problem_type", "pad_token_id", "bos_token_id", "eos_token_id")


@dataclass(frozen=True, kw_only=True)
class ScratchVsFinetune(DataExperiment):
    """The same shape and vocabulary three times: from random weights, from pretrained ones, and with those frozen."""

    name: ClassVar[str] = "scratch-vs-finetune"
    question: ClassVar[Text] = Text(
        "What are the pretrained weights worth on this data, and how many labels do they save?",
        "预训练权重在这份数据上价值几何，能省下多少标注？",
    )

    model: str
    budget: str | None = "1500steps"
    sizes: Sequence[Size] = ()  # of the training data; by default powers of ten, and all of it

    def cells(self) -> list[Cell]:
        ways = {
            "from scratch": {**same_shape(self.model), "lr": 5e-4},
            "frozen": {"model": self.model, "freeze": "embeddings,layers", "lr": 1e-3},
            "fine-tuned": {"model": self.model},
        }
        return [
            cell
            for place, limit in each_size(self.sizes, len(self.read().train))
            for name, settings in ways.items()
            for cell in self.train_cells(name, place, **settings, **limit)
        ]

    def findings(self, results: Results) -> list[Text]:
        most = max(results.places("examples"))
        ways = results.contestants
        pairs = [(one, other) for place, other in enumerate(ways) for one in ways[place + 1 :]]
        return [*differences(results.at(examples=most), pairs), *saved(results)]

    def sections(self, results: Results) -> list[Section]:
        sections = size_sections(results)
        if table := by_class(results.at(examples=max(results.places("examples")))):
            sections.insert(1, Section(title=Text("F1 of each class", "各类别 F1"), tables=[table]))
        return sections


def same_shape(name: str) -> dict[str, Any]:
    """The settings of a fresh model with the sizes and the vocabulary of a pretrained one."""
    raw = read_config(config_folder(name))
    architecture = architecture_for(raw.get("model_type"))
    config = architecture.config.from_hf(raw).to_hf()
    known = architecture.config.__dataclass_fields__
    sizes = {key: value for key, value in config.items() if key in known and key not in NOT_SIZES and value is not None}
    return {"arch": raw["model_type"], "config": sizes, "tokenizer": name}


def saved(results: Results) -> list[Text]:
    """With how many examples each of the other ways comes as far as the model from scratch does with all."""
    sizes, scores = curve(results, "from scratch")
    if len(sizes) < 2 or results.lower_is_better:
        return []
    found = []
    for way in results.contestants:
        needed = None if way == "from scratch" else examples_needed(*curve(results, way), scores[-1])
        if needed is not None:
            reached = shown_score(results.metric, scores[-1])
            found.append(
                Text(
                    f"{way} reaches the {reached} that the model from scratch has with {sizes[-1]:,.0f} examples with "
                    f"about {needed:,.0f}: it saves {1 - needed / sizes[-1]:.0%} of the labels.",
                    f"从头训练用 {sizes[-1]:,.0f} 个样本达到 {reached}；{way} 约用 {needed:,.0f} 个即可，"
                    f"节省 {1 - needed / sizes[-1]:.0%} 的标注。",
                )
            )
    return found


def by_class(results: Results) -> Table | None:
    """F1 of every class for every contestant, as a mean over seeds; None where the task has no classes."""
    reports = {one: [cell.reports.get(cell.split, {}) for cell in results.of(one)] for one in results.contestants}
    labels = list(dict.fromkeys(label for cells in reports.values() for report in cells for label in report))
    if not labels:
        return None
    rows = []
    for one, cells in reports.items():
        entries = [Entry(text=one)]
        for label in labels:
            mean = summarised(report[label]["f1"] for report in cells if label in report)
            entries.append(Entry(text="–" if mean is None else shown_score("f1", mean.mean)))
        rows.append(TableRow(entries=entries))
    return Table(columns=[CONTESTANT, *(Column(title=Text(label)) for label in labels)], rows=rows)
