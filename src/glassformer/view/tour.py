"""What the demo showed, as a page: models with what they were asked and answered, pictures, and what to type next."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .document import document, figure
from .labels import escaped

STYLE = """
h2 + .card { margin-top: .6rem; }
h3 { margin: 0; font: 600 .95rem var(--mono); overflow-wrap: anywhere; }
h3 small { margin-left: .6rem; font: 400 .85rem var(--sans); color: var(--soft); font-variant-numeric: tabular-nums; }
.card p { margin: .15rem 0 0; font-size: .88rem; }
.asked { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 1.4rem; font-size: .95rem; margin-top: .6rem; }
.asked > * { padding: .35rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.asked dt { color: var(--soft); white-space: pre-line; } .asked dd { color: var(--ink); }
pre { margin: 0; font: .88rem/1.7 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  .card { padding: .9rem; } .asked { grid-template-columns: 1fr; } .asked dt { padding-bottom: 0; }
  .asked dd { border-top: 0; padding-top: 0; margin: 0; font-weight: 600; }
  h3 small { display: block; margin: 0; }
}
"""


@dataclass(frozen=True, kw_only=True)
class ModelAnswers:
    """A model, what it is worth, and what it was asked and answered."""

    name: str
    task: str
    about: str
    score: str
    answers: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture with a heading; `svg` is markup and taken as it is."""

    title: str
    text: str
    svg: str
    caption: str


def page(models: Sequence[ModelAnswers], pictures: Sequence[Picture], commands: Sequence[str], *, title: str) -> str:
    """One self-contained HTML file; models of one task stand together."""
    body = [f"<header><h1>{_text(title)}</h1></header>"]
    for task in dict.fromkeys(one.task for one in models):
        cards = "".join(_card(one) for one in models if one.task == task)
        body.append(f"<section><h2>{_text(task)}</h2>{cards}</section>")
    for one in pictures:
        drawn = figure(one.svg, _text(one.caption))
        body.append(f"<section><h2>{_text(one.title)}</h2><p>{_text(one.text)}</p>{drawn}</section>")
    listed = "\n".join(map(_text, commands))
    body.append(f'<section><h2>What to type next</h2><pre class="card">{listed}</pre></section>')
    return document(_text(title), "\n".join(body), style=STYLE)


def _card(one: ModelAnswers) -> str:
    rows = "".join(f"<dt>{_text(asked)}</dt><dd>{_text(answered)}</dd>" for asked, answered in one.answers)
    head = f"<h3>{_text(one.name)}<small>{_text(one.score)}</small></h3><p>{_text(one.about)}</p>"
    return f'<div class="card">{head}<dl class="asked">{rows}</dl></div>'


def _text(text: str) -> str:
    return escape(escaped(text, keep="\n"))
