"""`glassformer compare decoding`: strategies of generation side by side."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .experiments import ExperimentGroup, add_experiments, print_report
from .lines import lines_of
from .output import Device, Dtype, Json, Name, Quant, echo, echo_line, made_ready, print_json, print_table

if TYPE_CHECKING:
    from glassformer.compare.decoding import DecodingComparison
    from glassformer.generate.tree import Tree
    from glassformer.text.tokenizer import Tokenizer
    from glassformer.view.beam_tree import Branch

app = typer.Typer(no_args_is_help=True, cls=ExperimentGroup)
MEASURES = {  # what each score is, and how it is written
    "likelihood": ("mean log-probability of a whole text under the model itself, before filters", ".1f"),
    "perplexity": ("of the new tokens under the model itself: what it would have said anyway has a low one", ".2f"),
    "distinct_1": ("different tokens for each token written, over all texts: 1 where none comes twice", ".3f"),
    "distinct_2": ("the same of pairs of tokens", ".3f"),
    "repetition": ("share of runs of 4 tokens that stood in the same text before, mean over texts", ".1%"),
    "self_bleu": ("BLEU of each text against those for the other prompts: 100 where all say the same", ".1f"),
    "length": ("mean number of new tokens, the end counted", ".1f"),
    "tokens_per_second": ("new tokens written in a second, 16 prompts at a time", ",.0f"),
}
SHOWN = 100  # characters of an example in the terminal


@app.callback()
def options() -> None:
    """Several ways to do one job, side by side."""


add_experiments(app)


@app.command()
def runs(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Folders of finished runs.")],
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Also write a page, with curves.")] = None,
    json: Json = False,
) -> None:
    """Compare finished runs: scores with intervals and whether they differ, settings that differ, cost.

    Runs whose recipes differ by the seed alone are one contestant.

    Example: glassformer compare runs runs/lstm runs/bert --out runs.html
    """
    from glassformer.compare.runs import read_runs, runs_report
    from glassformer.view.report import page

    path = None if out is None else made_ready(out)
    results = read_runs(folders, beside=None if path is None else path.parent)
    report = runs_report(results)
    if path is not None:
        path.write_text(page(report), encoding="utf-8")
    if json:
        found = [vars(one) for one in results.cells]
        print_json({"findings": [one.en for one in report.findings], "results": found})
        return
    print_report(report)
    if out is not None:
        echo(f"the page is in {out}")


@app.command()
def decoding(
    name: Name,
    prompts: Annotated[str, typer.Option(metavar="FILE", help="A prompt, or a source, on each line; - for stdin.")],
    strategies: Annotated[str | None, typer.Option(help="Names with commas between; by default all.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="At most so many; 50, or what fits.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same texts.")] = 0,
    shown: Annotated[int, typer.Option(min=1, help="The number of the prompt that is looked at step by step.")] = 1,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write a page: scores, texts, choices, a beam tree.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Json = False,
) -> None:
    """Run strategies of generation on the same prompts: likelihood, variety, repetition, length and speed of each.

    Example: glassformer compare decoding ./my-gpt2 --prompts prompts.txt --strategies greedy,beam,top-p --out page.html
    """
    import glassformer as gf
    from glassformer.compare.decoding import compare
    from glassformer.generate.strategies import STRATEGIES
    from glassformer.jobs.progress import shown as progress

    texts = [line for line in lines_of(prompts) if line.strip()]
    if not texts:
        raise ValueError(f"{prompts} holds no prompt: write one on each line")
    page = None if out is None else made_ready(out)
    named = list(STRATEGIES) if strategies is None else [one.strip() for one in strategies.split(",") if one.strip()]
    model, tokenizer = gf.load(name, device=device, dtype=dtype, quant=quant), gf.load_tokenizer(name)
    asked: dict[str, Any] = {"strategies": named, "max_new_tokens": max_new_tokens, "seed": seed, "shown": shown - 1}
    with progress("comparing") as on_progress:
        found = compare(model, tokenizer, texts, **asked, progress=on_progress)
    if page is not None:
        page.write_text(_page(found, tokenizer, name, seed), encoding="utf-8")
    if json:
        print_json(_as_dict(found))
    else:
        _print(found)
        if out is not None:
            echo(f"\nthe page is in {out}")


def _written(name: str, value: float | None) -> str:
    return "-" if value is None else format(value, MEASURES[name][1])


def _title(measure: str) -> str:
    return measure.replace("_per_second", "/s").replace("_", " ").replace("bleu", "BLEU")


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _print(found: "DecodingComparison") -> None:
    """The table, an example of each strategy, and what was left out."""
    rows = [(one.strategy, *(_written(name, value) for name, value in one.scores.items())) for one in found.results]
    print_table(("strategy", *map(_title, MEASURES)), rows)
    echo()
    echo_line(found.prompts[found.shown])
    examples = [" ".join(one.texts[found.shown].split()) for one in found.results]
    short = [text if len(text) <= SHOWN else text[: SHOWN - 1] + "…" for text in examples]
    print_table(("", ""), [(f"  {one.strategy}", text) for one, text in zip(found.results, short, strict=True)])
    for name, why in found.left_out.items():
        echo_line(f"left out: {name}: {why}")


def _as_dict(found: "DecodingComparison") -> dict[str, Any]:
    return {
        "prompts": found.prompts,
        "strategies": [
            {"strategy": one.strategy, "settings": one.settings, "scores": one.scores, "texts": one.texts}
            for one in found.results
        ],
        "left_out": found.left_out,
    }


def _page(found: "DecodingComparison", tokenizer: "Tokenizer", name: str, seed: int) -> str:
    from glassformer.view.decoding import Page, StrategyRow, TakenToken, page

    strategies = [
        StrategyRow(
            name=one.strategy,
            settings=_settings(one.settings),
            scores=[_written(measure, value) for measure, value in one.scores.items()],
            texts=one.texts,
            tokens=[TakenToken(token=step.token, chance=step.chance, top=step.top) for step in one.steps],
        )
        for one in found.results
    ]
    return page(
        Page(
            title="Decoding strategies, side by side",
            caption=f"{name}, {len(found.prompts)} prompts, seed {seed}",
            prompts=found.prompts,
            shown=found.shown,
            measures=[(_title(measure), why) for measure, (why, _) in MEASURES.items()],
            strategies=strategies,
            left_out=list(found.left_out.items()),
            tree=[] if found.tree is None else _branches(found.tree, tokenizer),
            figures=_trade_off(found),
        )
    )


def _trade_off(found: "DecodingComparison") -> list[tuple[str, str]]:
    """Variety against likelihood, a point for each strategy whose texts are long enough to have pairs of tokens."""
    from glassformer.view.plots import ScatterPoint, scatter_plot

    chosen = ((one.strategy, one.scores["perplexity"], one.scores["distinct_2"]) for one in found.results)
    points = [ScatterPoint(name=name, x=x, y=y) for name, x, y in chosen if x is not None and y is not None]
    if not points:
        return []
    svg = scatter_plot(
        points,
        title="Variety against likelihood",
        x_axis="perplexity under the model itself (likely texts on the left)",
        y_axis="distinct 2 (varied texts on top)",
        log_x=True,
    )
    return [(svg, "What is likely and what is varied pull against each other: the top left corner would have both.")]


def _branches(tree: "Tree", tokenizer: "Tokenizer") -> "list[list[Branch]]":
    """Every candidate of every step, those on the way to the text found marked."""
    from glassformer.view.beam_tree import Branch

    best = set(enumerate(tree.path()))
    return [
        [
            Branch(tokenizer.decode([node.token]), node.score, node.parent, node.fate, best=(number, place) in best)
            for place, node in enumerate(nodes)
        ]
        for number, nodes in enumerate(tree.steps)
    ]
