"""Tokenizers: how a text is cut into tokens, and what a small language model makes of it at equal compute."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glassformer.data.examples import Document
from glassformer.files.schema import Size
from glassformer.hub.load import load, load_tokenizer
from glassformer.jobs.data import read_splits
from glassformer.jobs.predict import Pipeline
from glassformer.jobs.recipe import RECIPE, Recipe
from glassformer.models.contract import as_model
from glassformer.tasks.metrics import Likelihood, ScoreSheet
from glassformer.tasks.text_generation import TextGeneration
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.wordpiece import is_ideograph
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Column, Entry, Figure, Section, Table, TableRow, Text

from ..cell import RUN, Cell
from ..experiment import DataExperiment, listed
from ..reporting import CONTESTANT, differences, score_figure, score_table
from ..results import Results
from ..scoring import Scored, keep_scores

KINDS = ("wordpiece", "bpe", "unigram")
CHARACTERS = "characters"
ALPHABET = 8000  # characters at most that are tokens
MODEL: dict[str, Any] = {"n_embd": 128, "n_layer": 2, "n_head": 4}
BLOCK = 256  # tokens that the model reads
PIECE = BLOCK // 4  # characters of a scored piece: in any tokenizer it fits, four bytes a character at most
SPELT = 8 * math.log(2)  # nats for each byte of what is unknown
RESTORED = 0.99  # pieces: of a tokenizer with fewer the findings say so
FACTS = {
    "vocabulary": Column(title=Text("vocabulary", "词表")),
    "tokens_per_word": Column(
        title=Text("tokens/word", "词元/词"),
        why=Text("words are what whitespace separates; each Chinese character is one", "以空白分词；每个汉字算一个词"),
    ),
    "bytes_per_token": Column(title=Text("bytes/token", "字节/词元")),
    "unknown_rate": Column(
        title=Text("unknown, %", "未知（%）"),
        why=Text("of the tokens; each of their bytes is charged 8 bits", "占词元的比例；其每个字节按 8 比特计"),
    ),
    "restored_rate": Column(
        title=Text("restored, %", "可还原（%）"),
        why=Text(
            "of the pieces that come back as they were; what a tokenizer drops, such as spaces, costs its model none",
            "解码后与原文相同的片段比例；分词器丢弃的内容（如空格）不计入模型的代价",
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Tokenizers(DataExperiment):
    """Every kind of vocabulary at several sizes under one small GPT, trained on as many tokens; a file a language."""

    name: ClassVar[str] = "tokenizers"
    question: ClassVar[Text] = Text(
        "Into what does each tokenizer cut this text, and how many bits a byte does a language model over it need?",
        "每种分词器如何切分这份文本？其上的语言模型每字节需要多少比特？",
    )

    task: str = "text-generation"
    budget: str | None = "1Mtokens"  # the same number of tokens is the same compute, but for the size of the output
    sizes: Sequence[Size] = (1000, 4000)
    kinds: Sequence[str] = (CHARACTERS, *KINDS)

    def cells(self) -> list[Cell]:
        known = (CHARACTERS, *KINDS)
        if wrong := [one for one in self.kinds if one not in known]:
            raise ValueError(f"there is no kind of tokenizer {wrong[0]!r}; there are: {', '.join(known)}")
        if not self.sizes or not self.kinds:
            raise ValueError("give at least one size and one kind of tokenizer")
        return [cell for language in self.languages() for cell in self._cells(language)]

    def languages(self) -> list[tuple[str, dict[str, Any]]]:
        """A name and the splits of each: files of data, dev and test in the same order."""
        splits = {name: listed(given) for name, given in (("data", self.data), ("dev", self.dev), ("test", self.test))}
        files = splits["data"]
        for name, given in splits.items():
            if given and len(given) != len(files):
                raise ValueError(
                    f"there are {len(given)} files of {name} and {len(files)} of data: give one a language"
                )
        names = [Path(file).name for file in files]
        if len(set(names)) < len(names):
            raise ValueError(f"two files of data have the same name, which is that of a language: {', '.join(names)}")
        return [
            (name, {split: given[place] for split, given in splits.items() if given})
            for place, name in enumerate(names)
        ]

    def _cells(self, language: tuple[str, dict[str, Any]]) -> Iterator[Cell]:
        name, files = language
        shared: dict[str, Any] = {"unit": "line", "block_size": BLOCK, "config": MODEL}
        recipe = Recipe.of({**self.recipe(arch="gpt2", **shared), **files, "out": self.out})
        if not pieces_of(recipe):
            raise ValueError(f"{files['data']} has no text to be scored on: give more of it, or --dev")
        for kind in self.kinds:
            for size in (ALPHABET,) if kind == CHARACTERS else self.sizes:
                contestant = kind if kind == CHARACTERS else f"{kind} {size}"
                settings = {"tokenizer": "character" if kind == CHARACTERS else kind, "vocab_size": size}
                yield from (
                    Cell(**{**vars(one), "recipe": {**(one.recipe or {}), **files}, "measure": "tokenizers"})
                    for one in self.train_cells(contestant, {"language": name}, arch="gpt2", **shared, **settings)
                )

    def findings(self, results: Results) -> list[Text]:
        found = []
        for language in results.places("language"):
            here = results.at(language=language)
            several = len(results.places("language")) > 1
            texts = [*differences(here, here.against_best()), *lossy(here)]
            found += [_of(language, text) if several else text for text in texts]
        return found

    def sections(self, results: Results) -> list[Section]:
        languages = results.places("language")
        sections = []
        for language in languages:
            here, name = results.at(language=language), str(language)
            figures = [score_figure(here, name=f"scores-{name}")]
            if (figure := size_figure(here, name)) is not None:
                figures.append(figure)
            score = score_table(here, costs=("parameters", "train_seconds", "peak_memory"))
            sections.append(
                Section(title=Text(name), paragraphs=[HOW], tables=[fact_table(here), score], figures=figures)
            )
        if len(languages) > 1:
            table = language_table(results)
            sections.insert(0, Section(title=Text("Tokens a word by language", "各语言的词元/词"), tables=[table]))
        return sections


HOW = Text(
    f"Scored on pieces of at most {PIECE} characters of held-out text, each by itself, so that all tokenizers are "
    "judged on the same examples; with more text before it every model would need fewer bits.",
    f"在留出文本中至多 {PIECE} 个字符的片段上逐个评分，使所有分词器面对相同的样本；"
    "若有更多上文，各模型所需比特都会更少。",
)


def _of(language: object, text: Text) -> Text:
    return Text(f"{language}: {text.en}", f"{language}：{text.zh}")


def lossy(results: Results) -> list[Text]:
    """Whose bits are too few, because not all of the text can be had back from its tokens."""
    shares = {one: results.fact(one, "restored_rate") for one in results.contestants}
    named = ", ".join(f"{one} ({share.mean:.0%})" for one, share in shares.items() if share and share.mean < RESTORED)
    if not named:
        return []
    return [
        Text(
            f"Not all pieces come back as they were, so these need fewer bits than the whole text would: {named}.",
            f"以下分词器不能还原全部片段，因此其比特数低于完整文本所需：{named}。",
        )
    ]


def fact_table(results: Results) -> Table:
    """What each tokenizer makes of the text."""
    rows = []
    for one in results.contestants:
        entries = [Entry(text=one)]
        for name in FACTS:
            fact = results.fact(one, name)
            scale = 100 if name.endswith("_rate") else 1
            entries.append(Entry(text="–" if fact is None else _shown(scale * fact.mean, whole=name == "vocabulary")))
        rows.append(TableRow(entries=entries))
    return Table(columns=[CONTESTANT, *FACTS.values()], rows=rows)


def _shown(value: float, *, whole: bool) -> str:
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def language_table(results: Results) -> Table:
    """Tokens a word of every tokenizer in every language."""
    languages = results.places("language")
    rows = []
    for one in results.contestants:
        facts = [results.at(language=language).fact(one, "tokens_per_word") for language in languages]
        texts = ["–" if fact is None else _shown(fact.mean, whole=False) for fact in facts]
        rows.append(TableRow(entries=[Entry(text=one), *(Entry(text=text) for text in texts)]))
    return Table(columns=[CONTESTANT, *(Column(title=Text(str(one))) for one in languages)], rows=rows)


def size_figure(results: Results, language: str) -> Figure | None:
    """Bits a byte over the size of the vocabulary, by kind; None where there is one size only."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in results.contestants:
        size, mean = results.fact(one, "vocabulary"), results.summary(one)
        if size is not None and mean is not None:
            lines.setdefault(one.split()[0], []).append((size.mean, mean.mean))
    if max(map(len, lines.values()), default=0) < 2:
        return None
    drawn = [PlotLine(name=kind, x=[x for x, _ in found], y=[y for _, y in found]) for kind, found in lines.items()]
    svg = line_plot(drawn, title="bits per byte", x_axis="vocabulary", y_axis="bits per byte", log_x=True)
    caption = Text("bits a byte over the size of the vocabulary", "每字节比特数随词表大小的变化")
    return Figure(name=f"sizes-{language}", svg=svg, caption=caption)


def measure(cell: Cell, folder: Path) -> Scored:
    """Bits a byte of held-out pieces, unknown bytes charged, and what the tokenizer makes of them."""
    del cell  # its run's folder holds all there is to know
    recipe = Recipe.from_toml(folder / RUN / RECIPE, {})
    pieces = pieces_of(recipe)
    model = load(folder / RUN, device=recipe.device)
    tokenizer = load_tokenizer(folder / RUN)
    task = TextGeneration.for_model(tokenizer, as_model(model), block_size=BLOCK, packing=False)
    sheet = Pipeline(model, task).score(pieces)
    lost = np.array([unknown_bytes(tokenizer, one.text) for one in pieces], np.float64)
    charged = charge(sheet, lost)
    facts = facts_of(tokenizer, [one.text for one in pieces])
    split = "test" if recipe.test else "dev"
    return keep_scores(folder, "-bits_per_byte", charged, pieces, split=split, facts=facts)


def charge(sheet: ScoreSheet, lost: NDArray[np.float64]) -> ScoreSheet:
    """The sheet with 8 bits added for each byte that a tokenizer knows nothing of, in the order of the examples."""
    old = sheet.meters["likelihood"].metric
    assert isinstance(old, Likelihood)
    assert old.rows is not None
    rows = np.concatenate(old.rows)[np.argsort(sheet.order, kind="stable")]
    likelihood = Likelihood(keep_examples=True)
    likelihood.update(rows[:, 0] + SPELT * lost, rows[:, 1], text_bytes=rows[:, 4])
    new = ScoreSheet(lambda _model, _batch: None, likelihood=likelihood)
    new.order = list(range(len(rows)))
    return new


def pieces_of(recipe: Recipe) -> list[Document]:
    """Held-out text, test before dev, in pieces that are cut at whitespace where they have some."""
    splits = read_splits(recipe, TextGeneration)
    documents: Sequence[Document] = splits.test or splits.dev
    return [Document(piece) for one in documents for line in one.text.splitlines() for piece in cut(line)]


def cut(line: str, longest: int = PIECE) -> Iterator[str]:
    """A line in pieces of at most so many characters, without the whitespace around them."""
    rest = line.strip()
    while len(rest) > longest:
        end = rest.rfind(" ", 1, longest + 1)
        end = longest if end < 0 else end
        yield rest[:end].strip()
        rest = rest[end:].strip()
    if rest:
        yield rest


def unknown_bytes(tokenizer: Tokenizer, text: str) -> int:
    """UTF-8 bytes of a text that no token but the unknown one stands for."""
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    unknown = tokenizer.unk_token_id
    spans = zip(found["input_ids"], found["offset_mapping"], strict=True)
    return sum(len(text[start:end].encode()) for id_, (start, end) in spans if id_ == unknown)


def facts_of(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, float]:
    """Tokens a word, bytes a token, the share of unknown tokens, and of texts that decode to what they were."""
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    tokens = sum(map(len, rows))
    unknown = sum(row.count(tokenizer.unk_token_id) for row in rows) if tokenizer.unk_token_id is not None else 0
    restored = sum(tokenizer.decode(row) == text for row, text in zip(rows, texts, strict=True))
    return {
        "vocabulary": len(tokenizer),
        "tokens_per_word": tokens / sum(map(words, texts)),
        "bytes_per_token": sum(len(text.encode()) for text in texts) / tokens,
        "unknown_rate": unknown / tokens,
        "restored_rate": restored / len(texts),
    }


def words(text: str) -> int:
    """How many words a text has: what whitespace separates, each ideograph by itself."""
    apart = re.sub(r".", lambda found: f" {found[0]} " if is_ideograph(found[0]) else found[0], text)
    return len(apart.split())
