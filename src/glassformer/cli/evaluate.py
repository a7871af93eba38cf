"""`glassformer eval`: the scores of a model on a file, with intervals."""

from typing import Any

from .output import (
    Columns,
    Data,
    Device,
    Dtype,
    Json,
    Name,
    Quant,
    Settings,
    TaskName,
    echo,
    echo_line,
    print_json,
    print_table,
)


def evaluate(
    name: Name,
    data: Data,
    task: TaskName = None,
    columns: Columns = None,
    settings: Settings = None,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Json = False,
) -> None:
    """Score a model on labelled data.

    Example: glassformer eval runs/reviews --data test.csv
    """
    from glassformer.jobs.predict import pipeline, task_of
    from glassformer.jobs.recipe import parsed, parsed_columns
    from glassformer.tasks.task import remark

    options: dict[str, Any] = dict(parsed(one) for one in settings or [])
    pipe = pipeline(task or task_of(name), name, device=device, dtype=dtype, quant=quant, **options)
    read = pipe.read(data, columns=parsed_columns(columns), **options)
    for line in read.report.lines():
        echo_line(line, err=True)
    sheet = pipe.score(read.examples)
    scores, intervals, report = sheet.compute(), sheet.intervals(), sheet.report()
    if (mind := remark(report)) is not None:
        echo_line(f"mind: {mind}", err=True)
    if json:
        print_json(scores)
        return
    spans = {metric: f"{one.low:.4f} – {one.high:.4f}" for metric, one in intervals.items()}
    rows = [(metric, f"{value:.4f}", spans.get(metric, "")) for metric, value in scores.items()]
    print_table(("metric", "score", "95 % interval"), rows)
    for metric, signature in sheet.signatures().items():
        echo_line(f"{metric}: {signature}")
    if report:
        names = list(next(iter(report.values())))
        echo()
        print_table(
            ("class", *names), [(label, *(f"{row[one]:.4g}" for one in names)) for label, row in report.items()]
        )
