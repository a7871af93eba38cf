"""gf.pipeline, eval and predict: a folder used for its task, with Hugging Face's names and result shapes."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from glassformer.data.batches import Budget
from glassformer.hub.fetch import config_folder
from glassformer.hub.load import load, load_tokenizer
from glassformer.tasks.task import Metrics, Task, evaluate

from .data import read_examples
from .recipe import task_options
from .tasks import TASKS, task_class

FEATURES = "feature-extraction"


class Pipeline:
    """A model and its task: call it with a text, or with a list of them."""

    def __init__(self, model: nn.Module, task: Task[Any, Any]) -> None:
        self.model, self.task = model, task

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """One result for one input, a list of results for a list of inputs; each as if it came alone."""
        many = isinstance(inputs, list)
        found = self.task.predict(self.model, inputs if many else [inputs], **options)
        return found if many else found[0]

    def score(
        self,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        batch_tokens: int = 8192,
        **reading: Any,
    ) -> Metrics:
        """The score sheet of some files, with what intervals need."""
        examples = read_examples(type(self.task), sources, split="test", columns=columns, options=reading)
        items = self.task.encode(examples)
        return evaluate(
            self.model, self.task, items, budget=Budget(tokens=batch_tokens), keep_examples=True, final=True
        )


def pipeline(task: str, model: str, *, device: str | None = None, **options: Any) -> Pipeline:
    """A pipeline for a task: pipeline("text-classification", "folder-or-hub-name")(["a text", "another"])."""
    cls = task_class(task)
    found = load(model, head=cls.head, device=device)
    report: Any = getattr(found, "load_report", None)
    if report is not None and report.new:
        raise ValueError(f"{model} was not trained for {task}: it has no {report.new[0]}; train it first")
    known = task_options(task)
    if wrong := [name for name in options if name not in known]:
        raise ValueError(f"{task} has no option {wrong[0]!r}; it has: {', '.join(sorted(known))}")
    kept = cls.read_extras(config_folder(model))
    return Pipeline(found, cls.for_model(load_tokenizer(model), found, **{**kept, **options}))


def task_of(model: str) -> str:
    """The task that a folder's model is trained for."""
    head = load(model).head_name
    for name in TASKS:
        if head is not None and task_class(name).head == head:
            return name
    raise ValueError(f"{model} has head {head!r}, which is for no task; name one: {', '.join(TASKS)}")
