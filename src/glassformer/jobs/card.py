"""What a run leaves for its readers: a model card with data, scores and recipe, and a plot of its curves."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from torch import nn

from glassformer.tasks.metrics import Interval, ScoreSheet
from glassformer.tasks.task import AnyTask, remark
from glassformer.train.loop import Outcome, Progress
from glassformer.train.plan import Plan
from glassformer.view.curves import panels_of, svg
from glassformer.view.labels import escaped

from .data import Splits
from .recipe import Recipe
from .run_folder import CARD_HEADER, read_metrics


def curves(folder: Path) -> str:
    """The loss and the dev scores of a run over its steps, as SVG."""
    rows = [{name: value for name, value in line.items() if value is not None} for line in read_metrics(folder)]
    scores = dict.fromkeys(name for row in rows for name in row if name.startswith("dev_"))
    shown = [name for name in scores if name not in ("dev_loss", "dev_perplexity")]
    groups = {
        "loss": ["loss", "dev_loss"],
        "dev scores": shown,
        "learning rate": ["lr"],
        "gradient norm": ["grad_norm"],
    }
    return svg(panels_of(rows, groups), title="training")


def card(
    recipe: Recipe,
    plan: Plan,
    task: AnyTask,
    model: nn.Module,
    sheets: Mapping[str, ScoreSheet],
    outcome: Outcome,
    splits: Splits,
) -> str:
    """README.md of a model folder, with the header that the hub reads."""
    size = sum(tensor.numel() for tensor in model.parameters())
    origin = recipe.model or f"a fresh {recipe.arch}"
    at = outcome.progress
    parts = [
        _header(recipe, task),
        f"# {_text(Path(recipe.out).name)}\n\n"
        f"A model for **{task.name}** with {size:,} parameters, from {_text(origin)}.\n",
        "## Scores\n\n" + "\n\n".join(_scores(name, sheet) for name, sheet in sheets.items()) + "\n",
        "## Data\n\n"
        + "\n".join(f"- {_text(line)}" for line in splits.messages or ["made up by the built-in micro-world"])
        + "\n",
        f"## Training\n\n{at.step:,} steps, {at.examples:,} examples, {at.tokens:,} tokens, {at.padding:,} of padding; "
        f"{at.seconds / 60:.1f} minutes, {100 * at.waited / max(1e-9, at.seconds):.0f} % of them waiting for data. "
        f"{_kept(at, plan)}\n\n{_settings(plan)}\n\n![curves](curves.svg)\n",
        f"## Recipe\n\n{_fenced(recipe.toml(), 'toml')}\n",
    ]
    return "\n".join(parts)


def _text(data: str) -> str:
    """What comes from data, as text of Markdown: on one line, and no markup, HTML or end of a table's cell."""
    return re.sub(r"([\\`*<>|&\[\]])", r"\\\1", escaped(data))


def _fenced(code: str, language: str) -> str:
    """A block of code, between more backticks than it holds itself."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}{fence}"


def _kept(at: Progress, plan: Plan) -> str:
    """Which weights the folder holds."""
    if at.averaged:
        return f"Kept: the mean of the last {at.averaged} checkpoints."
    last = plan.keep == "last" or at.best is None
    return "Kept: the last weights." if last else f"Kept: the weights of step {at.best_step:,}, the best."


def _settings(plan: Plan) -> str:
    """The whole plan, defaults included, so that the run can be done again by any version."""
    shown = ", ".join(f"{name} {value}" for name, value in asdict(plan).items() if value not in (None, False))
    return f"Settings: {shown}."


def _header(recipe: Recipe, task: AnyTask) -> str:
    base = f"base_model: {json.dumps(recipe.model)}\n" if recipe.model else ""
    return f"{CARD_HEADER}pipeline_tag: {task.name}\n{base}---\n"


def _scores(split: str, sheet: ScoreSheet) -> str:
    values, intervals = sheet.compute(), sheet.intervals()
    lines = [f"**{split}**", "", "| metric | score | 95 % interval |", "|---|---:|---|"]
    lines += [f"| {name} | {value:.4f} | {_span(intervals.get(name))} |" for name, value in values.items()]
    if signatures := sheet.signatures():
        lines += ["", *(f"`{name}: {text}`  " for name, text in signatures.items())]
    if report := sheet.report():
        if (mind := remark(report)) is not None:
            lines += ["", f"Mind: {_text(mind)}."]
        names = list(next(iter(report.values())))
        lines += ["", f"| class | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
        lines += [
            f"| {_text(label)} | {' | '.join(f'{row[name]:.4g}' for name in names)} |" for label, row in report.items()
        ]
    return "\n".join(lines)


def _span(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4f} – {interval.high:.4f}"
