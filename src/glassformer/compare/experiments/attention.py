"""Attention: an RNN that translates without it, with Bahdanau's and with Luong's, and a Transformer.

M target words, N source words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.blocks.recurrent import Kind
from glassformer.data.examples import Parallel
from glassformer.files.schema import Depth, Size
from glassformer.jobs.align import align
from glassformer.jobs.data import read_splits
from glassformer.jobs.predict import pipeline
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.run_folder import EXAMPLES
from glassformer.jobs.tasks import task_class
from glassformer.tasks.metrics import bleu_tokenizer
from glassformer.tasks.metrics.examples import read_examples
from glassformer.view.panels import HeatmapPanel, heatmap_panels
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Column, Entry, Figure, Section, Table, TableRow, Text

from ..alignment_error import WordLink, alignment_error, between_spaces, check_gold, links_of, read_gold
from ..cell import RUN, Cell, CellResult
from ..experiment import DataExperiment, chosen
from ..reporting import CONTESTANT, differences, score_figure, score_table, sentence
from ..results import Results, shown_score, summarised
from ..statistics import holm, paired

SCORE = "bleu"
PLAIN = "no attention"
ALIGNMENTS = {
    PLAIN: None,
    "bahdanau": "additive",
    "luong dot": "dot",
    "luong general": "general",
    "luong concat": "concat",
}
TRANSFORMER = "transformer"
FEWEST = 20  # examples of a bucket: BLEU of fewer says little
READABLE = range(5, 15)  # words of a source whose alignment is shown


class LengthBucket(NamedTuple):
    """Sources of so many words, by their numbers among the examples."""

    first: int
    last: int
    chosen: NDArray[np.int64]

    @property
    def title(self) -> str:
        return f"{self.first}–{self.last}"


@dataclass(frozen=True, kw_only=True)
class Attention(DataExperiment):
    """One RNN encoder-decoder without attention and with four kinds of it, and a Transformer of the same width."""

    name: ClassVar[str] = "attention"
    question: ClassVar[Text] = Text(
        "What does attention add to an RNN that translates, for short and for long sentences, and which kind of it?",
        "对于做翻译的 RNN，注意力在短句与长句上各带来什么？哪一种注意力更好？",
    )

    task: str = "translation"
    budget: str | None = "600steps"
    kind: Kind = "gru"
    width: Size = 128  # of embeddings and states
    layers: Depth = 1  # of the RNNs
    transformer_layers: Depth = 2
    heads: Size = 4  # of the Transformer
    bidirectional: bool = False  # the encoder; its states are then twice as wide, which Luong's dot cannot compare
    bucket: Size = 5  # words: sources are scored in steps of so many
    shown: Size = 3  # sentences whose alignments are drawn
    contestants: Sequence[str] = ()  # some of them; by default all
    gold: str | None = None  # a file of alignments of the test pairs, a line each: 0-0 1-2 2p3

    def cells(self) -> list[Cell]:
        if self.task != "translation":
            raise ValueError(f"attention compares ways to translate, not {self.task}: leave --task out")
        names = chosen(self.contestants, (*ALIGNMENTS, TRANSFORMER))
        pairs = scored_pairs(self.read().by_name())
        if self.gold is not None:
            check_gold(read_gold(Path(self.gold)), [(one.source, one.target or "") for one in pairs])
        return [cell for name in names for cell in self._cells(name)]

    def _cells(self, contestant: str) -> list[Cell]:
        if contestant == "luong dot" and self.bidirectional:
            reason = "dot compares states of one width, and those of a bidirectional encoder are twice as wide"
            return self.each_seed(Cell(contestant=contestant, reason=reason))
        rate = 5e-3 * min(1, 128 / self.width)  # of 5e-3 at a width of 256 one seed in three hardly learns
        own = {"arch": TRANSFORMER, "lr": rate} if contestant == TRANSFORMER else {"arch": self.kind, "lr": 4e-3}
        cells = self.train_cells(contestant, **own, config=self._sizes(contestant), batch_tokens=2048)
        asked = {"attends": contestant != PLAIN, "bucket": self.bucket, "shown": self.shown, "gold": self.gold}
        return [replace(cell, measure="attention", arguments=asked) for cell in cells]

    def _sizes(self, contestant: str) -> dict[str, Any]:
        """One table of embeddings for the source, the target and the output layer, in all of them."""
        if contestant == TRANSFORMER:
            sides = {"layers": self.transformer_layers, "attention_heads": self.heads, "ffn_dim": 2 * self.width}
            return {
                "d_model": self.width,
                "dropout": 0.2,
                **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sides.items()},
            }
        return {
            "attention": ALIGNMENTS[contestant],
            "hidden_size": self.width,
            "embedding_size": self.width,
            "num_layers": self.layers,
            "bidirectional": self.bidirectional,
            "dropout": 0.2,
            "initializer_range": 0.5,  # much smaller ones hardly move the cells, which then learn late
            "share_embeddings": True,
            "tie_word_embeddings": True,
        }

    def findings(self, results: Results) -> list[Text]:
        results = results.by(SCORE)
        names = results.contestants
        attentive = [one for one in names if one in ALIGNMENTS and one != PLAIN]
        best = results.best(attentive) if attentive else None
        pairs = [(one, PLAIN) for one in attentive if PLAIN in names]
        if best is not None:
            pairs += [(best, one) for one in attentive if one != best]
            pairs += [(TRANSFORMER, best)] if TRANSFORMER in names else []
        lengths = self._by_length(results, best) if best is not None and PLAIN in names else []
        return [*differences(results, pairs), *lengths, *_best_aligner(results)]

    def _by_length(self, results: Results, best: str) -> list[Text]:
        """How far the best attention is ahead on the shortest and on the longest sources."""
        found = buckets(scored_pairs(self.read().by_name()), self.bucket)
        ends = [found[0], found[-1]] if len(found) > 1 else []
        sides = [[results.examples(cell) for cell in results.of(one)] for one in (best, PLAIN)]
        known = [[one for one in side if one is not None] for side in sides]
        if not all(known):
            return []
        tested = []
        for one in ends:
            rows = [[scores.rows_of(SCORE)[one.chosen] for scores in side] for side in known]
            tested.append(paired(rows[0], rows[1], known[0][0].scorer(SCORE)))
        findings = []
        for one, difference, p in zip(ends, tested, holm([each.p for each in tested]), strict=True):
            text = sentence(best, PLAIN, difference._replace(p=p), SCORE, lower=False)
            findings.append(Text(f"Sources of {one.title} words: {text.en}", f"源句 {one.title} 词：{text.zh}"))
        return findings

    def sections(self, results: Results) -> list[Section]:
        results = results.by(SCORE)
        scores = Section(
            title=Text("Scores", "得分"),
            tables=[score_table(results, scores=[SCORE, "chrf", "perplexity"])],
            figures=[score_figure(results)],
        )
        return [scores, length_section(results), *alignment_section(results)]


def scored_pairs(splits: Mapping[str, Sequence[Parallel]]) -> Sequence[Parallel]:
    """The examples that count: the test's, else dev."""
    return splits["test"] or splits["dev"]


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """`by_length`: BLEU of sources by their words; `alignments` of some pairs; `aer` of all, where gold is given."""
    recipe = Recipe.of({**(cell.recipe or {}), "out": str(folder / RUN)})
    splits = read_splits(recipe, task_class(recipe.task)).by_name()
    pairs, asked = scored_pairs(splits), cell.arguments
    scores = read_examples(folder / RUN / EXAMPLES)["test" if splits["test"] else "dev"]
    words = np.array(num_words(pairs))
    lengths = [
        {
            "from": one.first,
            "to": one.last,
            "examples": len(one.chosen),
            "words": float(words[one.chosen].mean()),
            SCORE: scores.score(SCORE, one.chosen),
        }
        for one in buckets(pairs, asked["bucket"])
    ]
    facts: dict[str, Any] = {"by_length": lengths}
    return facts | (_aligned(cell, folder, pairs) if asked["attends"] else {})


def _aligned(cell: Cell, folder: Path, examples: Sequence[Parallel]) -> dict[str, Any]:
    """Where the model looks while it writes the translations that are given."""
    assert cell.recipe is not None
    asked, device = cell.arguments, cell.recipe["device"]
    pipe = pipeline("translation", folder / RUN, device=device)
    pairs = [(one.source, one.target or "") for one in examples]
    gold = None if asked["gold"] is None else read_gold(Path(asked["gold"]))
    shown = chosen_to_show(examples, asked["shown"])
    places = shown if gold is None else list(range(len(pairs)))
    found = dict(zip(places, align(pipe, [pairs[place] for place in places]), strict=True))
    if gold is not None:
        found = {place: between_spaces(one, *pairs[place]) for place, one in found.items()}
    alignments = [
        {
            "source": found[place].source,
            "target": found[place].target,
            "weights": found[place].weights.round(3).tolist(),
            "sure": [] if gold is None else sorted(gold[place].sure),
        }
        for place in shown
    ]
    error = {} if gold is None else {"aer": alignment_error(map(links_of, found.values()), gold)}
    return {"alignments": alignments, **error}


def num_words(pairs: Sequence[Parallel]) -> list[int]:
    """Words of each source; characters where it is written without spaces."""
    chinese = bleu_tokenizer(one.source for one in pairs[:1000]) == "zh"
    return [len(one.source) if chinese else len(one.source.split()) for one in pairs]


def chosen_to_show(pairs: Sequence[Parallel], count: int) -> list[int]:
    """The first sources that are neither short nor too long to be drawn; the first of all if there are none."""
    fitting = [place for place, words in enumerate(num_words(pairs)) if words in READABLE]
    return (fitting or list(range(len(pairs))))[:count]


def buckets(pairs: Sequence[Parallel], width: int) -> list[LengthBucket]:
    """Sources in steps of `width` words; a step with too few examples is taken together with the next, the last ones
    with the one before."""
    lengths = np.array(num_words(pairs))
    numbers = np.maximum(lengths - 1, 0) // width
    groups: list[list[int]] = [[]]
    for number in range(int(numbers.max()) + 1):
        if sum(int((numbers == one).sum()) for one in groups[-1]) >= FEWEST:
            groups.append([])
        groups[-1].append(number)
    if len(groups) > 1 and np.isin(numbers, groups[-1]).sum() < FEWEST:
        last = groups.pop()
        groups[-1] += last
    found = []
    for group in groups:
        chosen = np.flatnonzero(np.isin(numbers, group))
        found.append(LengthBucket(width * group[0] + 1, min(width * (group[-1] + 1), int(lengths.max())), chosen))
    return found


def length_section(results: Results) -> Section:
    """BLEU over the length of the source: a line for each contestant, and a table of the same."""
    lines, rows = [], []
    for one in results.contestants:
        curves = [cell.facts["by_length"] for cell in results.of(one)]
        steps = list(zip(*curves, strict=True))
        values = [[seed[SCORE] for seed in step] for step in steps]
        x, y = [step[0]["words"] for step in steps], [float(np.mean(each)) for each in values]
        lines.append(PlotLine(name=one, x=x, y=y, low=[*map(min, values)], high=[*map(max, values)]))
        rows.append(TableRow(entries=[Entry(text=one), *(Entry(text=shown_score(SCORE, mean)) for mean in y)]))
    first = results.of(results.contestants[0])[0].facts["by_length"]
    columns = [Column(title=Text(f"{one['from']}–{one['to']}", "")) for one in first]
    counts = TableRow(
        entries=[Entry(text=Text("examples", "样本数")), *(Entry(text=str(one["examples"])) for one in first)]
    )
    caption = Text(
        "BLEU by the words of the source: mean, least and most of the seeds",
        "按源句词数的 BLEU：各种子的均值、最小与最大",
    )
    svg = line_plot(lines, title="BLEU by source length", x_axis="words of the source", y_axis="BLEU")
    return Section(
        title=Text("By length of the source", "按源句长度"),
        paragraphs=[
            Text(
                "Without attention all of a source has to pass through one state of fixed size.",
                "没有注意力时，整个源句都要经过一个大小固定的状态向量。",
            )
        ],
        tables=[Table(columns=[CONTESTANT, *columns], rows=[*rows, counts])],
        figures=[Figure(name="by-length", svg=svg, caption=caption)],
    )


def alignment_section(results: Results) -> list[Section]:
    """Where each contestant looks, sentence by sentence, and its error where there is gold."""
    cells = {one: results.of(one)[0] for one in results.contestants if "alignments" in results.of(one)[0].facts}
    count = max((len(cell.facts["alignments"]) for cell in cells.values()), default=0)
    figures = [_panels(cells, number) for number in range(count)]
    errors = {one: results.fact(one, "aer") for one in cells}
    rows = [
        TableRow(entries=[Entry(text=one), Entry(text=_with_spread(each.values))])
        for one, each in errors.items()
        if each is not None
    ]
    if not figures:
        return []
    return [
        Section(
            title=Text("Alignments", "对齐"),
            paragraphs=[
                Text(
                    "How much each word of the given translation (rows) looks at each word of the source (columns), "
                    "of the first seed; a Transformer's is the mean over the heads of its last two layers.",
                    "第一个种子：给定译文的每个词（行）对源句每个词（列）的注意力；Transformer 取最后两层各头的均值。",
                )
            ],
            tables=[Table(columns=[CONTESTANT, AER], rows=rows)] if rows else [],
            figures=figures,
        )
    ]


AER = Column(
    title=Text("AER", "AER"),
    why=Text(
        "alignment error rate of each target word's strongest link, in percent: less is better",
        "每个目标词最强链接的对齐错误率（%），越低越好",
    ),
)


def _with_spread(values: Sequence[float]) -> str:
    found = summarised(100 * value for value in values)
    assert found is not None
    return f"{found.mean:.1f}" + ("" if found.deviation is None else f" ± {found.deviation:.1f}")


def _panels(cells: Mapping[str, CellResult], number: int) -> Figure:
    """One sentence, a panel for each contestant; frames are what people aligned."""
    found = {one: cell.facts["alignments"][number] for one, cell in cells.items()}
    first = next(iter(found.values()))
    words = first["target"], first["source"]
    panels = [
        HeatmapPanel(name=name, values=one["weights"])
        for name, one in found.items()
        if (one["target"], one["source"]) == words
    ]
    marks: set[WordLink] = {(target, source) for source, target in first["sure"]}
    title = " ".join(words[1])
    svg = heatmap_panels(panels, rows=words[0], columns=words[1], title=title, marks=marks)
    caption = f"{title} → {' '.join(words[0])}"
    return Figure(name=f"alignment-{number + 1}", svg=svg, caption=Text(caption))


def _best_aligner(results: Results) -> list[Text]:
    errors = {one: found.mean for one in results.contestants if (found := results.fact(one, "aer")) is not None}
    if not errors:
        return []
    best = min(errors, key=lambda one: errors[one])
    listed = ", ".join(f"{one} {100 * error:.1f}" for one, error in sorted(errors.items(), key=lambda each: each[1]))
    return [
        Text(
            f"{best} is nearest to the alignments that people made (AER, percent: {listed}); nothing is tested here.",
            f"{best} 最接近人工对齐（AER，%：{listed}）；此处未做检验。",
        )
    ]
