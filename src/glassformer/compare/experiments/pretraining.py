"""Pretraining: what each way to learn from plain text is worth to a labelled job, at equal data, size and budget."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

from glassformer.data.documents import Unit
from glassformer.files import read_json, write_json
from glassformer.files.schema import Depth, Positive, Size
from glassformer.hub.load import load
from glassformer.jobs.data import Splits, read_splits
from glassformer.jobs.generator import FOLDER as GENERATOR
from glassformer.jobs.progress import shown
from glassformer.jobs.recipe import Recipe, changed
from glassformer.jobs.run_folder import RESULT
from glassformer.jobs.tasks import task_class
from glassformer.jobs.vocabulary import tokenizer_for
from glassformer.models.config import check_heads
from glassformer.models.electra import share_embeddings, with_generator
from glassformer.models.encoder import Encoder
from glassformer.tasks.pretraining import BertPretraining
from glassformer.view.report import Column, Entry, Section, Table, TableRow, Text

from ..budget import TrainingBudget
from ..cell import LOG, RUN, Cell, file_name
from ..downstream import DOWNSTREAM, JOBS, Jobs, jobs_of, of_job
from ..experiment import Experiment, chosen, listed, unable
from ..grid import CELLS
from ..reporting import CONTESTANT, COSTS, counted, differences, score_figure, score_table, written
from ..results import Results, shown_score
from ..scoring import Scored
from ..statistics import holm
from ..worker import PLANNED, planned, speed, train_run

VOCABULARY = "vocabulary"  # in the folder of the experiment: the tokenizer that all contestants share
COPIES = 10  # masks of each text that BERT was trained with
UNITS: tuple[Unit, ...] = ("article", "block")
FEW = 16  # characters for each token of a batch: of so little text the words are counted


class PretrainingMethod(NamedTuple):
    """A way to pretrain: a task, a kind of model, and options of the task."""

    task: str
    arch: str
    options: Mapping[str, Any]
    what: Text


NONE = "none"
METHODS = {
    "MLM": PretrainingMethod(
        "fill-mask",
        "bert",
        {"static_masks": COPIES},
        Text(
            f"BERT's masked words alone: 15 % of the tokens are hidden, in {COPIES} ways that stay the same.",
            f"仅 BERT 的掩码语言模型：遮住 15% 的词元，每段文本有 {COPIES} 种固定的掩码。",
        ),
    ),
    "MLM + NSP": PretrainingMethod(
        "pretraining",
        "bert",
        {"static_masks": COPIES},
        Text(
            "BERT's masked words, and whether the second of two texts follows the first.",
            "BERT 的掩码语言模型，并判断第二段文本是否接在第一段之后。",
        ),
    ),
    "MLM + SOP": PretrainingMethod(
        "sentence-order-prediction",
        "bert",
        {},
        Text(
            "ALBERT's lesson on BERT's shape (layers that are shared would be fewer parameters): hidden n-grams, and "
            "whether two texts stand in their order.",
            "ALBERT 的任务，但用 BERT 的结构（共享各层会减少参数）：遮住 n 元词组，并判断两段文本的先后顺序。",
        ),
    ),
    "ELECTRA": PretrainingMethod(
        "replaced-token-detection",
        "electra",
        {},
        Text(
            "Which of all tokens a small generator has replaced. The generator is trained beside the model, over its "
            "embeddings, and left behind; its parameters are counted in below.",
            "判断每个词元是否被一个小生成器替换。生成器与模型共享嵌入、一同训练，之后弃用；下表参数量含生成器。",
        ),
    ),
    "RoBERTa": PretrainingMethod(
        "fill-mask",
        "roberta",
        {},
        Text(
            "Masked words, hidden anew in every epoch, in full blocks of text; no segments, no second task.",
            "掩码语言模型，每轮重新选择掩码，文本填满整块；不分段，没有第二项任务。",
        ),
    ),
    "ModernBERT": PretrainingMethod(
        "fill-mask",
        "modernbert",
        {},
        Text(
            "30 % of the tokens hidden anew in every epoch; rotary positions, local layers, gated feed-forwards (made "
            "narrower, for equal parameters).",
            "每轮重新遮住 30% 的词元；旋转位置、局部注意力层、门控前馈层（为使参数相等而收窄）。",
        ),
    ),
    "GPT": PretrainingMethod(
        "text-generation",
        "gpt2",
        {},
        Text(
            "The next word, from those before it alone; a text's class is read at its last token.",
            "仅凭上文预测下一个词；分类时读取最后一个词元。",
        ),
    ),
}
RANDOM = Text("BERT's shape with random weights, fine-tuned as all others are.", "BERT 的结构，随机权重，微调相同。")


@dataclass(frozen=True, kw_only=True)
class Pretraining(Experiment):
    """Models of one shape, each pretrained in its own way on the same text, then fine-tuned alike on labelled jobs."""

    name: ClassVar[str] = "pretraining"
    question: ClassVar[Text] = Text(
        "Which way to learn from plain text helps a labelled job most, at equal data, size and budget?",
        "在数据、规模与预算相同的条件下，哪种预训练方式对有标注任务帮助最大？",
    )

    budget: str | None = "500steps"  # of the pretraining
    data: str | Sequence[str]  # plain text
    downstream: str | Sequence[str]  # labelled examples: FILE or TASK=FILE
    dev: str | Sequence[str] | None = None  # labelled, in the order of `downstream`
    test: str | Sequence[str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # of labelled examples
    downstream_budget: str = "500steps"  # of fine-tuning, on each job
    downstream_lr: Positive = 3e-4
    contestants: Sequence[str] = ()  # some of them; by default all
    width: Size = 128
    layers: Depth = 2
    heads: Size = 2
    length: Size = 128  # tokens of an example, in pretraining and fine-tuning
    tokenizer: str | None = None  # a folder or name; by default WordPiece, learnt from the text
    vocab_size: Size = 4000
    lowercase: bool = False
    set: Mapping[str, Any] = field(default_factory=dict)  # settings of every pretraining

    def cells(self) -> list[Cell]:
        names = chosen(self.contestants, (NONE, *METHODS))
        for budget in map(TrainingBudget.of, (self.budget or "", self.downstream_budget)):
            if budget.unit == "steps":
                budget.steps({})  # refuses less than one
        if TrainingBudget.of(self.downstream_budget).unit == "seconds":  # which cells that run side by side would time
            raise ValueError(
                f"downstream_budget is {self.downstream_budget!r}; fine-tuning is the same for all only in steps, "
                "epochs or tokens: write 500steps, 3epochs, 2Mtokens"
            )
        check_heads(self.width, self.heads)
        unit, splits = self.text()
        self.check_size(splits)
        labelled = jobs_of(*map(listed, (self.downstream, self.dev, self.test)), out=self.out, columns=self.columns)
        jobs = {name: {**self.fine_tuning(job["task"]), **job} for name, job in labelled.items()}
        return [cell for name in names for cell in self._cells(name, unit, jobs)]

    def _cells(self, name: str, unit: Unit, jobs: Jobs) -> list[Cell]:
        method = METHODS.get(name, METHODS["MLM"])  # whose shape has random weights, too
        start = {"arch": method.arch, "config": self.shape(method.arch), "tokenizer": self.vocabulary}
        arguments = {"jobs": jobs, "budget": self.downstream_budget, "device": self.device}
        if reasons := [reason for job in jobs.values() if (reason := unable({**job, **start})) is not None]:
            return self.each_seed(Cell(contestant=name, reason=reasons[0]))
        if name == NONE:
            return self.each_seed(Cell(contestant=name, measure=self.name, arguments={**arguments, "start": start}))
        recipe = changed({**self.text_recipe(method.task, unit), **start, **method.options}, self.set)
        Recipe.of({**recipe, "out": self.out})
        return self.each_seed(
            Cell(contestant=name, recipe=recipe, budget=self.budget, measure=self.name, arguments=arguments)
        )

    def text_recipe(self, task: str, unit: Unit) -> dict[str, Any]:
        """The settings of a pretraining but what is trained. Its last weights count: its loss is not the goal."""
        loop = {"batch_tokens": 4096, "lr": 1e-3, "keep": "last"}
        length = {task_class(task).length_option: self.length}
        return {"task": task, "data": self.data, "unit": unit, "device": self.device, **loop, **length}

    def fine_tuning(self, task: str) -> dict[str, Any]:
        """What all fine-tuning on a job has in common."""
        loop = {"lr": self.downstream_lr, "batch_size": 32, "schedule": "linear", "warmup": 0.1, "weight_decay": 0.01}
        return {"device": self.device, **loop, task_class(task).length_option: self.length}

    def shape(self, arch: str) -> dict[str, Any]:
        """The sizes of a kind of model: as many parameters, nearly, in all."""
        if arch == "gpt2":
            return {"n_embd": self.width, "n_layer": self.layers, "n_head": self.heads, "n_positions": self.length}
        sizes = {"hidden_size": self.width, "num_hidden_layers": self.layers, "num_attention_heads": self.heads}
        # a gated feed-forward has three matrices for two
        sizes["intermediate_size"] = 8 * self.width // 3 if arch == "modernbert" else 4 * self.width
        sizes["max_position_embeddings"] = self.length + 2 * (arch == "roberta")  # its first two rows are padding's
        return {**sizes, "embedding_size": self.width} if arch == "electra" else sizes

    @property
    def vocabulary(self) -> str:
        return self.tokenizer or str(Path(self.out) / VOCABULARY)

    def text(self) -> tuple[Unit, Splits]:
        """What a document of the text is, and its splits: all contestants see the same."""
        for unit in UNITS:
            splits = read_splits(self.pairs_recipe(unit), BertPretraining)
            if len(splits.train) > 1:
                return unit, splits
        raise ValueError(
            f"{' '.join(listed(self.data))} is one text without a blank line: pairs of texts need two documents or "
            "more, as files, articles, rows of a table or with blank lines between them"
        )

    def pairs_recipe(self, unit: Unit) -> Recipe:
        """One of the recipes, whose reader tells documents apart."""
        settings = {**self.text_recipe(BertPretraining.name, unit), "arch": "bert", "out": self.out}
        return Recipe.of(changed(settings, self.set))

    def check_size(self, splits: Splits) -> None:
        """Refuse a text that does not fill one batch."""
        plan = self.pairs_recipe(UNITS[0]).plan
        needed = plan.get("batch_tokens") or plan["batch_size"] * self.length
        texts = [one.text for one in splits.train]
        if sum(map(len, texts)) > FEW * needed:
            return
        if (found := sum(len(text.split()) if " " in text else len(text) for text in texts)) < needed:
            raise ValueError(
                f"the text has {found:,} words to train on, and one batch takes {needed:,} tokens: give more text, or "
                f"smaller batches (--set batch_tokens={max(1, found // 4)})"
            )

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Learn the vocabulary, and turn the budget into steps: one contestant after another, while nothing else runs
        here, and the same for all seeds of one. Where that fails, the cell will say why."""
        self.learn_vocabulary()
        steps: dict[str, dict[str, Any]] = {}
        for cell in cells:
            if cell.recipe is None:
                continue
            home = Path(self.out) / CELLS / cell.name
            if cell.contestant in steps:
                home.mkdir(parents=True, exist_ok=True)
                write_json(home / PLANNED, steps[cell.contestant])
                continue
            with suppress(ValueError, RuntimeError), shown(f"timing {cell.contestant}"):
                steps[cell.contestant] = planned(cell.budget, home, {**cell.recipe, "out": str(home / RUN)})

    def learn_vocabulary(self) -> None:
        home = Path(self.vocabulary)
        if self.tokenizer is not None or home.is_dir():
            return
        splits = self.text()[1]
        learnt = tokenizer_for(
            BertPretraining.vocabulary,
            lambda: BertPretraining.texts(splits.train),
            vocab_size=self.vocab_size,
            lowercase=self.lowercase,
            folder=home,
            processes=None,
        )
        with TemporaryDirectory(dir=self.out) as folder:
            learnt.save(Path(folder) / VOCABULARY)
            os.replace(Path(folder) / VOCABULARY, home)  # there as a whole, or not at all

    def findings(self, results: Results) -> list[Text]:
        found = []
        for job in (jobs := jobs_in(results)):
            here = of_job(results, job)
            texts = [*differences(here, here.against_best()), *helped(here)]
            found += [Text(f"{job}: {one.en}", f"{job}：{one.zh}") if len(jobs) > 1 else one for one in texts]
        return found

    def sections(self, results: Results) -> list[Section]:
        what = [Text(f"{one}: {about.en}", f"{one}：{about.zh}") for one, about in described(results)]
        sections = [Section(title=Text("All jobs", "全部任务"), tables=[overview(results)])]
        for job in jobs_in(results):
            here = of_job(results, job)
            table = score_table(here, costs=("parameters", "train_seconds", "texts_per_second"))
            title = Text(f"Fine-tuned on {job}", f"在 {job} 上微调")
            figures = [score_figure(here, name=f"scores-{file_name(job)}")]
            sections.append(Section(title=title, tables=[table], figures=figures))
        return [
            *sections,
            Section(title=Text("What each has learnt from", "各自的预训练方式"), paragraphs=[*what, FAIR]),
        ]


FAIR = Text(
    "All share one vocabulary, text, width, depth, length and budget, and are fine-tuned with the same settings; no "
    "learning rate was tuned for any of them. A budget in seconds was turned into steps by timing one contestant after "
    "another; other work on the machine at that time makes it unfair. Losses on held-out text are those of different "
    "tasks and do not compare.",
    "全部共用同一词表、文本、宽度、深度、长度与预算，并以相同设置微调；未为任何一方单独调学习率。"
    "以秒计的预算是逐个试跑后换算成步数的，若当时机器另有负载则不公平。留出文本上的损失属于不同任务，不可相互比较。",
)
PRETRAINED = {
    "parameters": Column(
        title=Text("parameters", "参数量"),
        why=Text(
            "of what is pretrained, heads and ELECTRA's generator counted", "预训练时的参数，含输出层与 ELECTRA 生成器"
        ),
    ),
    "train_seconds": Column(title=Text("pretraining, s", "预训练（秒）"), why=COSTS["train_seconds"].why),
    "steps": Column(title=Text("steps", "步数")),
    "tokens": Column(title=Text("tokens read", "读过的词元")),
}
HELD_OUT = Column(title=Text("loss, held out", "留出损失"), why=Text("of its own task", "各自任务的损失"))


def jobs_in(results: Results) -> list[str]:
    return list(results.done[0].facts[JOBS])


def described(results: Results) -> list[tuple[str, Text]]:
    return [(one, METHODS[one].what if one in METHODS else RANDOM) for one in results.contestants]


def overview(results: Results) -> Table:
    """The score of every contestant on every job, and what its pretraining took."""
    jobs = {job: of_job(results, job) for job in jobs_in(results)}
    best = {job: here.best() for job, here in jobs.items()}
    rows = []
    for one in results.contestants:
        scores = [
            Entry(text=written(here.metric, here.summary(one)), mark="best" if best[job] == one else None)
            for job, here in jobs.items()
        ]
        costs = [Entry(text=counted(name, results.cost(one, name))) for name in PRETRAINED]
        loss = results.fact(one, "held_out_loss")
        shown_loss = "–" if loss is None else shown_score("loss", loss.mean)
        rows.append(TableRow(entries=[Entry(text=one), *scores, *costs, Entry(text=shown_loss)]))
    titles = [Column(title=Text(f"{job}: {here.metric} ({here.split})")) for job, here in jobs.items()]
    return Table(columns=[CONTESTANT, *titles, *PRETRAINED.values(), HELD_OUT], rows=rows)


def helped(results: Results) -> list[Text]:
    """Which contestants are shown to be ahead of random weights, and which are not."""
    others = [one for one in results.contestants if one != NONE]
    found = {one: results.difference(one, NONE) for one in others}
    known = {one: difference for one, difference in found.items() if difference is not None}
    corrected = holm([difference.p for difference in known.values()])
    sign = -1 if results.lower_is_better else 1
    ahead = [
        one
        for (one, difference), p in zip(known.items(), corrected, strict=True)
        if difference._replace(p=p).is_shown and sign * difference.ahead > 0
    ]
    if not known:
        return []
    behind = [one for one in known if one not in ahead]
    none = Text("nothing", "无")
    return [
        Text(
            f"Shown to be ahead of random weights: {', '.join(ahead) or none.en}; not shown to be: "
            f"{', '.join(behind) or none.en}.",
            f"确认优于随机权重：{'、'.join(ahead) or none.zh}；未能确认：{'、'.join(behind) or none.zh}。",
        )
    ]


def measure(cell: Cell, folder: Path) -> Scored:
    """Fine-tune what the cell has pretrained on every job; the first one's scores stand for the cell."""
    start = cell.arguments.get("start", {"model": str(folder / RUN)})
    jobs = {}
    with (folder / LOG).open("a", encoding="utf-8") as log:
        for name, job in cell.arguments["jobs"].items():
            recipe, found = train_run(
                {**job, **start, "seed": cell.seed},
                folder / DOWNSTREAM / file_name(name),
                budget=cell.arguments["budget"],
                log=lambda text: print(text, file=log, flush=True),
            )
            found["cost"] |= speed(recipe)
            jobs[name] = found
    first = next(iter(jobs.values()))
    facts: dict[str, Any] = {JOBS: jobs}
    cost: dict[str, float] = {}
    if cell.recipe is not None:
        facts["held_out_loss"] = read_json(folder / RUN / RESULT)["scores"]["dev"]["loss"]
        cost["parameters"] = parameters(folder / RUN)
    return Scored(metric=first["metric"], scores=first["scores"], cost=cost, facts=facts)


def parameters(run: Path) -> int:
    """Of a pretrained model, with those of the generator that was trained beside it and shares its embeddings."""
    model = load(run)
    if (run / GENERATOR).is_dir():
        generator = load(run / GENERATOR, head="fill-mask")
        assert isinstance(model, Encoder)
        assert isinstance(generator, Encoder)
        model = with_generator(model, share_embeddings(generator, model))
    return sum(tensor.numel() for tensor in model.parameters())
