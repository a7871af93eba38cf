"""The ladder: from a bag of words to a fine-tuned BERT on one's own data, and how many examples each needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.files.schema import Size
from glassformer.view.report import Figure, Section, Text

from ..cell import Cell
from ..experiment import DataExperiment
from ..learning_curves import curve_figure, sizes_up_to
from ..reporting import differences, score_figure, score_table
from ..results import Results

FRESH: dict[str, dict[str, Any]] = {
    "bag of words": {"arch": "bow", "lr": 2e-2},
    "rnn": {"arch": "rnn", "config": {"bidirectional": False}},
    "gru": {"arch": "gru", "config": {"bidirectional": False}},
    "lstm": {"arch": "lstm", "config": {"bidirectional": False}},
    "bilstm + attention": {"arch": "lstm", "config": {"bidirectional": True, "pooling": "attention"}},
    "cnn": {"arch": "cnn", "lr": 1e-3},
    "transformer": {"arch": "transformer"},
}
PRETRAINED: dict[str, dict[str, Any]] = {
    "frozen": {"freeze": "embeddings,layers", "lr": 1e-3},
    "fine-tuned": {},
    "lora": {"lora": 8, "lr": 5e-4},
}


@dataclass(frozen=True, kw_only=True)
class Ladder(DataExperiment):
    """Every kind of model on one classification job, with 100, 1000, 10000… of its training examples."""

    name: ClassVar[str] = "ladder"
    question: ClassVar[Text] = Text(
        "How far does each kind of model come on this data, and how many examples does it need?",
        "在这份数据上，每种模型能达到什么水平，又需要多少样本？",
    )

    budget: str | None = "1500steps"
    model: str | None = None  # a pretrained encoder: a folder or hub name
    sizes: Sequence[Size] = ()  # of the training data; by default powers of ten, and all of it
    contestants: Sequence[str] = ()  # some of them; by default all

    def cells(self) -> list[Cell]:
        known = {**FRESH, **PRETRAINED}
        if wrong := [one for one in self.contestants if one not in known]:
            raise ValueError(f"there is no contestant {wrong[0]!r}; there are: {', '.join(known)}")
        found = len(self.read().train)
        return [
            cell
            for size in self.sizes or sizes_up_to(found)
            for one in self.contestants or known
            for cell in self._cells(one, size, found)
        ]

    def _cells(self, contestant: str, size: int, found: int) -> list[Cell]:
        place = {"examples": min(size, found)}
        limit = {"limit": size} if size < found else {}
        if contestant in FRESH:
            return self.train_cells(contestant, place, **FRESH[contestant], **limit)
        if self.model is None:
            reason = "it starts from a pretrained model: give --model"
            return self.each_seed(Cell(contestant=contestant, place=place, reason=reason))
        return self.train_cells(contestant, place, model=self.model, **PRETRAINED[contestant], **limit)

    def findings(self, results: Results) -> list[Text]:
        full = results.at(examples=max(results.places("examples")))
        rungs, best = full.contestants, full.best()
        steps = list(zip(rungs[1:], rungs, strict=False))
        told = [{*pair} for pair in steps]
        others = [(best, one) for one in rungs if best is not None and one != best and {best, one} not in told]
        return differences(full, [*steps, *others])

    def sections(self, results: Results) -> list[Section]:
        most = max(results.places("examples"))
        figures: list[Figure] = [score_figure(results.at(examples=most))]
        if len(results.places("examples")) > 1:
            figures.append(curve_figure(results))
        return [
            Section(
                title=Text(f"{size} examples", f"{size} 个样本"),
                tables=[score_table(results.at(examples=size))],
                figures=figures if size == most else (),
            )
            for size in sorted(results.places("examples"), reverse=True)
        ]
