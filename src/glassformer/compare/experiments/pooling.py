"""Pooling: which vector of a text says best how alike two texts are.

B batch, T length, D width.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.data.examples import Labelled
from glassformer.files.schema import Size
from glassformer.inspect.record import record
from glassformer.jobs.predict import Pipeline, pipeline
from glassformer.models.contract import Model, as_module
from glassformer.models.outputs import PooledHidden
from glassformer.tasks.batch import Batch
from glassformer.tasks.sentence_similarity import SentenceSimilarity
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Figure, Section, Text

from ..cell import Cell
from ..experiment import Experiment
from ..reporting import differences, score_figure, score_table
from ..results import Results, as_shown
from ..scoring import Scored, keep_scores

STACK = re.compile(r"(encoder\.)?(embeddings|layers(\.\d+)?|final_norm)")  # what hidden_states are made of
LAST_TWO = "mean of the last two layers"
POOLINGS: dict[str, dict[str, Any]] = {
    "cls": {"pooling": "cls"},
    "pooler": {"pooler": True},
    "mean": {"pooling": "mean"},
    "max": {"pooling": "max"},
}
SCORES = ("spearman", "pearson")


class PooledStates(SentenceSimilarity):
    """Sentence similarity by the vectors of other layers than the last (their mean, if several), or of the pooler."""

    def __init__(
        self, tokenizer: Tokenizer, *, layers: Sequence[int] = (), pooler: bool = False, **options: Any
    ) -> None:
        """`layers`: 0 is the embeddings, n the n-th layer; none stands for the last. `options` are the task's."""
        super().__init__(tokenizer, **options)
        self.layers, self.pooler = layers, pooler

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        if self.pooler:
            found = model(**batch.inputs)
            assert isinstance(found, PooledHidden)
            return found.pooler_output.float()  # (B, D)
        if not self.layers:
            return super().vectors(model, batch)
        with record(as_module(model), stack_of(as_module(model))) as seen:
            model(**batch.inputs)
        states = torch.stack([seen.hidden_states[layer] for layer in self.layers]).mean(0)  # (B, T, D)
        return self.pooling(states, batch.inputs["attention_mask"])


def stack_of(model: nn.Module) -> list[str]:
    """The modules whose outputs are the hidden states; empty where a model has no stack of layers."""
    names = [name for name, _ in model.named_modules() if STACK.fullmatch(name)]
    return names if any(name.endswith("layers") for name in names) else []


@dataclass(frozen=True, kw_only=True)
class Pooling(Experiment):
    """Every way to one vector a text, judged by the cosines of pairs: nothing is trained."""

    name: ClassVar[str] = "pooling"
    question: ClassVar[Text] = Text(
        "Which vector of a text says best how alike two texts are: of the first token, the pooler, the mean, the "
        "maximum, and of which layer?",
        "哪种句向量最能说明两段文本的相似程度：首词元、池化层、均值还是最大值，又取哪一层？",
    )

    seeds: Size = 1  # nothing in it is random
    model: str
    data: str | Sequence[str]  # pairs with scores, all of which are scored
    columns: Mapping[str, str] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        if self.seeds > 1 or self.budget is not None:
            raise ValueError("nothing is trained and nothing is random in pooling: leave seeds and budget out")
        pipe = _pipe(self.model, self.device)
        scored(pipe, self.arguments())
        names = stack_of(pipe.model)
        layers = sum(name.rpartition(".")[2].isdigit() for name in names)
        cells = [self._cell(name, options) for name, options in POOLINGS.items()]
        if dict(pipe.model.named_children()).get("pooler") is None:
            cells[1] = Cell(contestant="pooler", reason=f"{self.model} has no pooler")
        cells += [self._cell(layer_name(layer), {"layers": [layer]}, layer) for layer in range(layers + 1) if names]
        return [*cells, self._cell(LAST_TWO, {"layers": [layers - 1, layers]})] if layers > 1 else cells

    def arguments(self) -> dict[str, Any]:
        data = [self.data] if isinstance(self.data, str) else list(self.data)
        return {"model": self.model, "data": data, "columns": dict(self.columns), "device": self.device}

    def _cell(self, contestant: str, options: Mapping[str, object], layer: int | None = None) -> Cell:
        place = {} if layer is None else {"layer": layer}
        arguments = {**self.arguments(), "options": options}
        return Cell(contestant=contestant, place=place, measure="pooling", arguments=arguments)

    def findings(self, results: Results) -> list[Text]:
        """The best way against every other; of the layers below the last, the best one speaks for all."""
        below = [layer_name(int(place)) for place in sorted(results.places("layer"))][:-1]
        ways = [one for one in results.contestants if one in (*POOLINGS, LAST_TWO)]
        best, layer = results.best(ways), results.best(below)
        others = [one for one in (*ways, layer) if one not in (None, best)]
        return differences(results, [(best, one) for one in others if best is not None and one is not None])

    def sections(self, results: Results) -> list[Section]:
        figures = [score_figure(results)]
        if results.places("layer"):
            figures.append(layer_figure(results))
        table = score_table(results, scores=SCORES, costs=())
        title = Text("Cosines against the scores of people", "余弦与人工评分的相关")
        return [Section(title=title, tables=[table], figures=figures)]


def layer_name(layer: int) -> str:
    return f"mean of layer {layer}" if layer else "mean of the embeddings"


def layer_figure(results: Results) -> Figure:
    """The score of the mean of every layer."""
    layers = sorted(int(place) for place in results.places("layer"))
    name = results.metric
    known = [(results.summary(layer_name(layer)), results.interval(layer_name(layer))) for layer in layers]
    drawn = [
        (as_shown(name, mean.mean), *(as_shown(name, end) for end in ends)) for mean, ends in known if mean and ends
    ]
    y, low, high = ([*each] for each in zip(*drawn, strict=True))
    line = PlotLine(name="mean", x=layers, y=y, low=low, high=high)
    svg = line_plot([line], title=name, x_axis="layer (0: the embeddings)", y_axis=name)
    caption = Text("the mean of each layer's vectors, with its 95 % interval", "各层向量取均值，附 95% 区间")
    return Figure(name="layers", svg=svg, caption=caption)


def measure(cell: Cell, folder: Path) -> Scored:
    """The correlation of cosines with scores, over all pairs."""
    pipe = _pipe(cell.arguments["model"], cell.arguments["device"])
    examples = scored(pipe, cell.arguments)
    own = pipe.task
    task = PooledStates(own.tokenizer, max_length=own.max_length, **cell.arguments["options"])
    sheet = Pipeline(pipe.model, task).score(examples)
    return keep_scores(folder, task.metric, sheet, examples, facts={"pairs": len(examples)})


def scored(pipe: Pipeline, arguments: Mapping[str, Any]) -> list[Labelled]:
    """The pairs. Refused: those that no correlation can be had from."""
    examples: list[Labelled] = pipe.read(arguments["data"], columns=arguments["columns"] or None).examples
    SentenceSimilarity.spec_of_data(examples)
    return examples


def _pipe(model: str, device: str) -> Pipeline:
    return pipeline(SentenceSimilarity.name, model, device=device)
