"""The tables of the reference: every setting, pipeline and command, each from its own source."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from docs.generate import table
from docs.settings import (
    about,
    call_settings,
    common,
    generates,
    kind,
    own,
    plan_defaults,
    settings_of,
    shown,
    task_settings,
    told,
)
from typer import Typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from glassformer.cli.main import app
from glassformer.cli.settings import TITLES, Setting
from glassformer.compare import EXPERIMENTS
from glassformer.generate.settings import GenerationSettings
from glassformer.jobs.mesh import MEMORY, NETWORKS, mesh_report
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.tasks import ALIASES, TASKS, task_class
from glassformer.jobs.vocabulary import SIZES
from glassformer.train.mesh import Mesh

EXAMPLE = re.compile(r"^Example: (.*)$", re.MULTILINE)
COLUMNS = ("setting", "type", "default", "meaning")


def cell(text: str) -> str:
    """A text that may stand in a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def rows(settings: Mapping[str, Setting]) -> dict[str, tuple[str, ...]]:
    return {
        code(name): (cell(one["type"]), code(one["default"]), cell(one["meaning"])) for name, one in settings.items()
    }


def settings() -> str:
    """What a run of any task can be told; what a plain run takes is told for each task by itself."""
    parts, by_task = [], {name for task in TASKS for name in task_settings(task)["defaults"]}
    for group, title in TITLES.items():
        some = {name: one for name, one in common().items() if one["group"] == group}
        for name in by_task & some.keys():
            meaning = f"{some[name]['meaning']} By task: see below."
            some[name] = {**some[name], "default": "", "meaning": meaning}
        if some:
            parts.append(f"## {title}\n\n{table(COLUMNS, rows(some))}")
    return "\n\n".join(parts)


def standard() -> str:
    """What a plain run takes, by task."""
    found: dict[str, list[str]] = {}
    for task in TASKS:
        listed = ", ".join(f"`{name}` {value}" for name, value in plan_defaults(task).items()).replace(", `", "; `")
        found.setdefault(listed, []).append(code(task))
    return table(("tasks", "what is taken"), {", ".join(tasks): listed for listed, tasks in found.items()})


def vocabularies() -> str:
    """What a fresh model of each task learns its tokens as."""
    found: dict[str, list[str]] = {kind: [] for kind in SIZES}
    for task in TASKS:
        found[task_class(task).vocabulary].append(code(task))
    return table(
        ("vocabulary", "tokens at most", "chosen for"),
        {code(kind): (str(SIZES[kind]), ", ".join(some) or "none, if not asked for") for kind, some in found.items()},
    )


def tasks() -> str:
    parts = []
    for task in TASKS:
        of = task_settings(task)
        names = ", ".join(code(alias) for alias, name in ALIASES.items() if name == task)
        lines = [about(task) + (f" Also called {names}." if names else "")]
        lines += [f"- `arch`: {of['meanings']['arch']}", f"- `columns`: {of['meanings']['columns']}"]
        lines[0] += "\n"
        parts.append(f"## {task}\n\n" + "\n".join(lines) + "\n\n" + table(COLUMNS, rows(own(task))))
    return "\n\n".join(parts)


def generation() -> str:
    return table(COLUMNS, rows(settings_of(GenerationSettings)))


def pipelines() -> str:
    """What each takes and gives, and what a call can be told."""
    parts = []
    for task in TASKS:
        cls = task_class(task)
        said, options = told(cls, "predict"), call_settings(cls)
        lines = [f"- takes: {said['inputs']}", f"- gives: {said['Returns']}"]
        if generates(cls):
            lines.append("- also takes the [settings of generation](generation.md)")
        text = f"## {task}\n\n" + "\n".join(line.replace("<", "&lt;") for line in lines)
        parts.append(text + (f"\n\n{table(COLUMNS, rows(options))}" if options else ""))
    return "\n\n".join(parts)


def commands() -> str:
    """Every command and its options; the experiments of compare share theirs."""
    parts = []
    for name, command in found_commands(app, "glassformer"):
        assert command.callback is not None
        first, *rest = (command.help or inspect.getdoc(command.callback) or "").split("\n\n")
        example = EXAMPLE.search("\n".join(rest))
        lines = [f"## {name}", cell(first), *([f"```text\n{example[1]}\n```"] if example else [])]
        parts.append("\n\n".join([*lines, table(("option", *COLUMNS[1:]), option_rows(command.callback))]))
    return "\n\n".join(parts)


def found_commands(app: Typer, before: str) -> Iterator[tuple[str, CommandInfo]]:
    """Commands by their full names; experiments, which share their options, are one."""
    shared = " \\| ".join(EXPERIMENTS)
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        if not command.hidden and name not in list(EXPERIMENTS)[1:]:
            yield f"{before} {shared if name in EXPERIMENTS else name}", command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from found_commands(group.typer_instance, f"{before} {group.name}")


def option_rows(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    found = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint, info = get_args(hints[name])
        preset = info.show_default if isinstance(info.show_default, str) else parameter.default
        required = parameter.default is inspect.Parameter.empty
        default = "" if required or preset is False else shown(preset)
        told = cell(info.help or "") + (" Required." if required else "")
        is_option = isinstance(info, OptionInfo)
        written = info.metavar if is_option and info.metavar else "flag" if hint is bool else kind(hint)
        found[spelt(name, hint, info)] = (cell(written), code(default), told)
    return found


def spelt(name: str, hint: Any, info: ArgumentInfo | OptionInfo) -> str:
    """An option as it is typed; an argument by its name in help."""
    if isinstance(info, ArgumentInfo):
        return code((info.metavar or name).strip("[]"))
    if declared := [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]:
        return ", ".join(map(code, declared))  # typer takes the first for a default, until it sees an Annotated
    option = name.replace("_", "-")
    return f"`--{option}`, `--no-{option}`" if hint is bool else f"`--{option}`"


SHAPES = (  # as Llama 3 has them, the embeddings not tied
    {"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "num_attention_heads": 32},
    {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336, "num_attention_heads": 32},
    {"hidden_size": 8192, "num_hidden_layers": 80, "intermediate_size": 28672, "num_attention_heads": 64},
)
MESHES = (("1x8", "fsdp", 1), ("8x8", "fsdp", 1), ("128x8", "fsdp", 1), ("128x8", "hsdp", 1), ("128x8", "fsdp", 8))


def scale() -> str:
    """What steps of three shapes exchange and hold on three meshes."""
    columns = (
        "shape",
        "machines × GPUs",
        "`parallel`",
        "receives",
        "holds",
        "computing",
        "InfiniBand",
        "leaves of the peak",
    )
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for sizes in SHAPES:
        config = {**sizes, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192}
        for mesh, parallel, tensor_parallel in MESHES:
            recipe = _pretraining(config, parallel=parallel, tensor_parallel=tensor_parallel)
            report = mesh_report(recipe, Mesh.parse(mesh))
            network = next(iter(NETWORKS))
            fits = "" if report.held.total <= MEMORY else ": does not fit"
            cells = (
                f"{report.parameters / 1e9:.1f}B" if mesh == "1x8" else "",
                mesh.replace("x", " × "),
                parallel if tensor_parallel == 1 else f"{parallel}, rows of {tensor_parallel}",
                f"{sum(one.bytes for one in report.exchanges) / 1e9:,.0f} GB",
                f"{report.held.total / 1e9:,.0f} GB{fits}",
                f"{report.compute_seconds:.3g} s",
                f"{report.exchange_seconds(network):.2g} s",
                "{:.0%} to {:.0%}".format(*report.shares(network)),
            )
            lines.append(f"| {' | '.join(cells)} |")
    note = "A step of 4,194,304 tokens in texts of 4,096, bf16, with checkpointing and scores in chunks of 2,048."
    return f"{note}\n\n" + "\n".join(lines)


def _pretraining(config: Mapping[str, Any], **layout: Any) -> Recipe:
    settings = {"task": "text-generation", "arch": "llama", "data": "corpus.txt", "out": "runs/it", "steps": 1}
    settings |= {
        "batch_tokens": 4_194_304,
        "block_size": 4096,
        "precision": "bf16",
        "checkpointing": True,
        "chunk": 2048,
    }
    return Recipe.of({**settings, "config": dict(config), **layout})
