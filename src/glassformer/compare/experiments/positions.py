"""Kinds of positions: a language model that is trained on one length, scored on the same text at longer ones.

B batch, T tokens of a window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.blocks import Windows
from glassformer.data.shards import Shards
from glassformer.files.schema import Depth, Size
from glassformer.hub.load import load, load_tokenizer
from glassformer.jobs.data import read_splits, tokenise
from glassformer.jobs.recipe import Recipe
from glassformer.models.config import check_heads
from glassformer.models.contract import Model, as_model, as_token_scorer
from glassformer.models.decoder_only import PositionKind
from glassformer.tasks.batch import device_of
from glassformer.tasks.text_generation import PackedStream, TextGeneration, language_batch
from glassformer.tasks.words import judged
from glassformer.text.tokenizer import Tokenizer
from glassformer.train.processes import Processes
from glassformer.view.plots import line_plot
from glassformer.view.report import Column, Entry, Figure, Section, Table, TableRow, Text

from ..cell import RUN, Cell
from ..curves import mean_line
from ..experiment import DataExperiment
from ..reporting import CONTESTANT, differences, score_figure, score_table, written
from ..results import Results

KINDS = (*get_args(PositionKind), "none")
VISIBLE = 0.005  # of a loss; less is not worth a word
BUCKETS = 16  # points of the curve for each trained length


@dataclass(frozen=True, kw_only=True)
class Positions(DataExperiment):
    """A small decoder with each kind of positions, trained on blocks of `length` tokens and scored on longer ones."""

    name: ClassVar[str] = "positions"
    question: ClassVar[Text] = Text(
        "Which kind of positions serves a language model best, and does it hold beyond the length it was trained on?",
        "哪种位置编码最适合语言模型？超出训练长度后还有效吗？",
    )

    task: str = "text-generation"
    budget: str | None = "400steps"
    length: Size = 64  # tokens that it is trained on
    times: Size = 4  # the longest windows that are scored: so many trained lengths
    width: Size = 128
    layers: Depth = 2
    heads: Size = 4
    tokens: Size = 65_536  # that are scored at each length, at most

    def cells(self) -> list[Cell]:
        if self.task != "text-generation":
            raise ValueError(f"positions trains language models, so its task is text-generation, not {self.task!r}")
        check_heads(self.width, self.heads)
        self.read()
        return [cell for kind in KINDS for cell in self._cells(kind)]

    def _cells(self, kind: str) -> list[Cell]:
        sizes = {"n_embd": self.width, "n_layer": self.layers, "n_head": self.heads}
        table = self.length * (1 if kind == "learned" else self.times)  # a row that is never trained would be noise
        config = {**sizes, "positions": kind, "n_positions": table}
        small: dict[str, Any] = {"vocab_size": 4000, "batch_tokens": 2048}  # for a laptop; `set` changes both
        cells = self.train_cells(kind, arch="decoder", config=config, block_size=self.length, **small)
        given = {"lengths": self.lengths, "tokens": self.tokens}
        return [replace(cell, measure="positions", arguments=given) for cell in cells]

    @property
    def lengths(self) -> list[int]:
        """The trained length, and its doubles."""
        doubles = [self.length * 2**power for power in range(self.times.bit_length())]
        return sorted({*(one for one in doubles if one <= self.length * self.times), self.length * self.times})

    def findings(self, results: Results) -> list[Text]:
        kinds = results.contestants
        pairs = [(one, other) for place, other in enumerate(kinds) for one in kinds[place + 1 :]]
        return [*differences(results, pairs), *(found for one in kinds if (found := beyond(results, one, self.length)))]

    def sections(self, results: Results) -> list[Section]:
        trained = Text(f"Trained and scored on {self.length} tokens", f"以 {self.length} 个词元训练并评分")
        farther = Text("Beyond the trained length", "超出训练长度")
        why = Text(
            "The same tokens of the text at every length, cut into windows of so many: where a model can use more "
            "context, its loss falls with the length. Learned positions end with their table.",
            "各长度都对同一段文本的相同词元评分，只是切成不同长度的窗口：能利用更长上下文的模型，损失随长度下降。"
            "可学习的位置到其表尾为止。",
        )
        return [
            Section(title=trained, tables=[score_table(results)], figures=[score_figure(results)]),
            Section(
                title=farther, paragraphs=[why], tables=[length_table(results, self.lengths)], figures=[curves(results)]
            ),
        ]


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """Losses of the trained model: at each length over the same tokens, and by position in the longest windows."""
    assert cell.recipe is not None
    recipe = Recipe.of({**cell.recipe, "out": str(folder / RUN)})
    model = as_model(load(folder / RUN, dtype=torch.float32, device=recipe.device))
    limit = model.config.max_positions
    lengths = [one for one in cell.arguments["lengths"] if limit is None or one <= limit]
    ids = scored_text(recipe, load_tokenizer(folder / RUN), cell.arguments["tokens"], max(cell.arguments["lengths"]))
    facts: dict[str, Any] = {}
    for length in lengths:
        losses = losses_by_position(model, ids, length)
        facts[f"loss at {length}"] = float(losses.mean())
    bucket = max(1, lengths[0] // BUCKETS)
    whole = losses[: len(losses) // bucket * bucket].reshape(-1, bucket)
    facts["positions"] = ((np.arange(len(whole)) + 0.5) * bucket).tolist()
    return {**facts, "losses": whole.mean(1).tolist(), "tokens": len(ids) - 1}


def scored_text(recipe: Recipe, tokenizer: Tokenizer, most: int, longest: int) -> NDArray[np.int64]:
    """The first tokens of test (or dev): a whole number of the longest windows, and one token to be told after them."""
    task = TextGeneration(tokenizer, block_size=longest)
    splits = read_splits(recipe, TextGeneration)
    tokenise(splits, task, Processes())
    name = "test" if splits.test else "dev"
    found: list[Any] | Shards = splits.by_name()[name]
    stream = task.encode(found)
    assert isinstance(stream, PackedStream)
    count = min(most, len(stream.windows.ids) - 1) // longest * longest
    if not count:
        there = len(stream.windows.ids) - 1
        raise ValueError(
            f"the {name} text has {there} tokens, and {longest} are read at once: give more text, or a smaller length"
        )
    return np.asarray(stream.windows.ids[: count + 1], np.int64)


@torch.inference_mode()
def losses_by_position(model: Model, ids: NDArray[np.int64], length: int) -> NDArray[np.float64]:
    """The mean loss (T,) at each position of windows of `length` tokens over all ids."""
    windows = Windows(ids, length)
    device = device_of(model)
    total = np.zeros(length)
    for indices in batches(len(windows), max(1, 8192 // length)):
        found, scored = windows.take(indices)
        batch = language_batch(found, scored, np.zeros(len(found))).to(device)
        losses, _ = judged(model.hidden(**batch.inputs), as_token_scorer(model).logits, batch.targets["labels"])
        total += losses.double().sum(0).cpu().numpy()
    return total / len(windows)


def batches(count: int, size: int) -> Iterator[NDArray[np.int64]]:
    return (np.arange(start, min(count, start + size)) for start in range(0, count, size))


def beyond(results: Results, kind: str, trained: int) -> Text | None:
    """How the loss changes from the trained length to the longest one; None where there is no longer one."""
    lengths = [int(name.split()[-1]) for name in results.of(kind)[0].facts if name.startswith("loss at ")]
    longest = max(lengths)
    if longest == trained:
        return Text(
            f"{kind}: its table ends at {trained} tokens, and so does what it can read.",
            f"{kind}：位置表只有 {trained} 个词元，无法读得更长。",
        )
    cells = results.of(kind)
    grown = [cell.facts[f"loss at {longest}"] - cell.facts[f"loss at {trained}"] for cell in cells]
    mean = float(np.mean(grown))
    if any(one * mean <= 0 for one in grown) or abs(mean) < VISIBLE:
        en, zh = "does not change clearly", "没有明确的变化"
    else:
        size = f"{abs(mean):.3f}"
        en, zh = (f"rises by {size}", f"上升 {size}") if mean > 0 else (f"falls by {size}", f"下降 {size}")
    return Text(
        f"{kind}: read at {longest} tokens instead of the {trained} it was trained on, the loss of the same text {en} "
        f"(seeds: {_signed(grown)}).",
        f"{kind}：窗口从训练时的 {trained} 个词元变为 {longest} 个，同一文本的损失{zh}（各种子 {_signed(grown)}）。",
    )


def _signed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:+.3f}" for value in values)


def length_table(results: Results, lengths: Sequence[int]) -> Table:
    """The loss at every length."""
    columns = [CONTESTANT, *(Column(title=Text(f"{one} tokens", f"{one} 词元")) for one in lengths)]
    rows = [
        TableRow(
            entries=[
                Entry(text=one),
                *(Entry(text=written("loss", results.fact(one, f"loss at {length}"))) for length in lengths),
            ]
        )
        for one in results.contestants
    ]
    return Table(columns=columns, rows=rows)


def curves(results: Results) -> Figure:
    """The loss by position, of all kinds."""
    lines = [
        mean_line(one, cells[0].facts["positions"], [cell.facts["losses"] for cell in cells])
        for one in results.contestants
        if (cells := results.of(one))
    ]
    svg = line_plot(lines, title="loss by position", x_axis="position in the window", y_axis="loss", log_x=True)
    caption = Text(
        "the loss of the next token by the position in the longest windows: mean, least and most of the seeds",
        "最长窗口中各位置的下一词元损失：各种子的均值、最小与最大",
    )
    return Figure(name="loss-by-position", svg=svg, caption=caption)
