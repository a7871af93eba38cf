"""The ladder: from a bag of words to a fine-tuned BERT on one's own data, and how many examples each needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.files.schema import Size
from glassformer.view.report import Section, Text

from ..cell import Cell, Place
from ..experiment import DataExperiment, chosen
from ..learning_curves import each_size, size_sections
from ..reporting import differences
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
        names = chosen(self.contestants, (*FRESH, *PRETRAINED))
        return [
            cell
            for place, limit in each_size(self.sizes, len(self.read().train))
            for one in names
            for cell in self._cells(one, place, limit)
        ]

    def _cells(self, contestant: str, place: Place, limit: Mapping[str, object]) -> list[Cell]:
        if contestant in FRESH:
            return self.train_cells(contestant, place, **FRESH[contestant], **limit)
        if self.model is None:
            reason = "it starts from a pretrained model: give --model"
            return self.each_seed(Cell(contestant=contestant, place=place, reason=reason))
        return self.train_cells(contestant, place, model=self.model, **PRETRAINED[contestant], **limit)

    def findings(self, results: Results) -> list[Text]:
        full = results.at(examples=max(results.places("examples")))
        rungs = full.contestants
        steps = list(zip(rungs[1:], rungs, strict=False))
        compared = [{*pair} for pair in steps]
        return differences(full, [*steps, *(pair for pair in full.against_best() if {*pair} not in compared)])

    def sections(self, results: Results) -> list[Section]:
        return size_sections(results)
