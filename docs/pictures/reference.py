"""The pictures of the reference, made from the code as its tables are."""

from textwrap import wrap

import numpy as np
from docs.diagram import Diagram
from docs.pictures._chain import columns

from glassformer.view.heatmap import heatmap

COMMANDS = {  # by what they are for; one that is not listed is drawn among the last
    "learn": ("data", "tokenizer", "train", "eval", "compare", "demo"),
    "use": ("predict", "generate", "translate"),
    "look": ("show", "inspect", "heads", "verify", "studio"),
    "give away": ("serve", "export", "pack", "unpack"),
    "ask": ("models", "doctor"),
}


def reference_pages() -> str:
    """Which page says what."""
    picture = Diagram(
        "Five pages, one for each kind of question",
        "A run has settings, its task has more; what it wrote is put to use by pipelines, which take settings of "
        "generation where they write; commands reach all of it.",
    )
    command = picture.box(0, 0, "Commands\nwhat can be typed?", kind="gate", width=156)
    settings = picture.box(230, -50, "Settings\nof every run", kind="state", width=130)
    tasks = picture.box(420, -50, "Tasks\nof one task", kind="state", width=130)
    pipelines = picture.box(230, 50, "Pipelines\ntakes, gives", kind="data", width=130)
    generation = picture.box(420, 50, "Generation\nhow it writes", kind="data", width=130)
    picture.arrow(command.right, settings.left)
    picture.arrow(command.right, pipelines.left)
    picture.word(108, -46, "train", small=True)
    picture.word(108, 48, "predict", small=True)
    picture.arrow(settings.right, tasks.left)
    picture.arrow(pipelines.right, generation.left)
    return picture.svg()


def reference_settings() -> str:
    """The groups of settings, and what is in them."""
    from docs.settings import GROUPS

    picture = Diagram(
        "The settings of a run, by what they are about",
        "; ".join(f"{group}: {names.replace(' ', ', ')}" for group, names in GROUPS.items()),
    )
    top = 0.0
    for group, names in GROUPS.items():
        lines = wrap(names.replace(" ", ", "), 62)
        height = 20.0 + 16 * len(lines)
        picture.word(-16, top + height / 2, group, anchor="end")
        picture.box(250, top + height / 2, "\n".join(lines), kind="state", width=500, height=height)
        top += height + 10
    return picture.svg()


def reference_tasks() -> str:
    """Which kind of fresh model can learn which task."""
    from glassformer.jobs.models import able
    from glassformer.jobs.tasks import TASKS, task_class

    found = {task: set(able(task_class(task))) for task in TASKS}
    kinds = list(dict.fromkeys(arch for task in TASKS for arch in able(task_class(task))))
    return heatmap(
        np.array([[float(kind in some) for kind in kinds] for some in found.values()]),
        rows=list(found),
        columns=kinds,
        title="Which --arch can learn which task (1: yes)",
        axes=("task", "--arch"),
        form=".0f",
    )


def reference_generation() -> str:
    """Which settings choose the way of searching."""
    picture = Diagram(
        "How the next token is chosen",
        "Without settings the likeliest token is taken; with do_sample or a sampling setting one is drawn; num_beams "
        "keeps several beginnings; penalty_alpha is contrastive search; an assistant may guess ahead.",
    )
    ways = (
        ("nothing given", "greedy: the likeliest"),
        ("do_sample, temperature,\ntop_k, top_p, min_p …", "sampling: drawn"),
        ("num_beams", "beam search: the best of several"),
        ("penalty_alpha, top_k", "contrastive: likely, and not said before"),
        ("assistant_model,\nprompt_lookup_num_tokens", "guessed ahead, then checked"),
    )
    for row, (given, way) in enumerate(ways):
        one = picture.box(0, 58.0 * row, given, kind="gate", width=210)
        other = picture.box(330, 58.0 * row, way, kind="state", width=300)
        picture.arrow(one.right, other.left)
    return picture.svg()


def reference_pipelines() -> str:
    """What kinds of pipelines take and give."""
    picture = Diagram(
        "Pipelines by what they take and give",
        "A text to a label, to entities, to a vector or to a text; a question and a context to an answer; a text "
        "with a mask to words.",
    )
    kinds = (
        ("a text", "text-classification", "label, score"),
        ("a text", "token-classification", "entities"),
        ("question, context", "question-answering", "answer, start, end"),
        ("a text with a mask", "fill-mask", "words, scores"),
        ("a text", "feature-extraction", "vectors"),
        ("a text", "translation, summarization", "a text"),
        ("a beginning", "text-generation", "its continuation"),
    )
    for row, (takes, name, gives) in enumerate(kinds):
        one = picture.box(0, 46.0 * row, takes, kind="data", width=140)
        task = picture.box(210, 46.0 * row, name, kind="state", width=200)
        other = picture.box(425, 46.0 * row, gives, kind="data", width=150)
        picture.arrow(one.right, task.left)
        picture.arrow(task.right, other.left)
    return picture.svg()


def reference_commands() -> str:
    """The commands, by what they are for."""
    from typer.main import get_command

    from glassformer.cli.main import app

    known = list(getattr(get_command(app), "commands"))  # noqa: B009 - of a group, as this is
    drawn = {what: [name for name in names if name in known] for what, names in COMMANDS.items()}
    drawn["ask"] += [name for name in known if not any(name in names for names in drawn.values())]
    picture = Diagram("glassformer …", "; ".join(f"{what}: {', '.join(names)}" for what, names in drawn.items()))
    columns(picture, drawn, ["state", "data", "gate", "data", "plain"])
    return picture.svg()
