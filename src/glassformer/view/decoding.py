"""Strategies of decoding as a page: their scores, their texts, what each token was chosen from, and a beam tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from . import beam_tree
from .beam_tree import Branch
from .document import document, figure
from .labels import visible

PROMPTS = 100  # a page must open at once

STYLE = """
h3 { margin: 1.2rem 0 0; font-size: .92rem; } h3 + dl { margin-top: .3rem; }
details.card { padding: .7rem 1.3rem; }
tbody tr:last-child > * { border-bottom: 0; }
tbody th small { display: block; color: var(--soft); font-weight: 400; font-size: .78rem; white-space: normal; }
summary b { font-weight: 600; min-width: 0; overflow-wrap: anywhere; }
.texts { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .35rem 1.2rem;
  margin: .7rem 0 0 1.6rem; font-size: .95rem; }
.texts dt { color: var(--soft); } .texts dd { color: var(--ink); overflow-wrap: anywhere; max-width: none;
  min-width: 0; }
summary { cursor: pointer; display: flex; gap: 1rem; align-items: baseline; }
summary::before { content: "▸"; color: var(--soft); } details[open] > summary::before { content: "▾"; }
summary::-webkit-details-marker { display: none; }
summary .name { flex: 0 0 6.5rem; } summary span { min-width: 0; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; color: var(--soft); }
.steps { display: flex; gap: .45rem; margin: 1rem 0 0; padding: 0; list-style: none; width: max-content; }
.step { width: 8.2rem; font: 12px var(--mono); }
.step ol { margin: 0; padding: 0; list-style: none; }
.step > div, .step li { display: flex; justify-content: space-between; gap: .4rem; padding: .16rem .45rem;
  border-radius: 5px; }
.step span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: pre; }
.step span:last-child { color: var(--soft); font-variant-numeric: tabular-nums; }
.step > div { font-weight: 700; border: 1.5px solid var(--line); margin-bottom: .35rem; }
.step li { margin-bottom: 2px; background: linear-gradient(to right,
  color-mix(in srgb, var(--accent) 26%, transparent) var(--share), transparent var(--share)); }
.step li.taken { box-shadow: inset 0 0 0 1.5px var(--accent); }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.3rem; margin: 0 0 1rem; padding: 0; list-style: none;
  color: var(--soft); font-size: .85rem; }
.legend i { display: inline-block; width: 1.3rem; height: .8rem; margin-right: .4rem; border-radius: 4px;
  border: 1px solid var(--soft); vertical-align: -1px; }
.legend .best { background: var(--accent); border-color: var(--accent); } .legend .dropped { border-style: dashed; }
.legend .ended { border: 2px solid var(--ink); }
@media print { details:not([open]) > *:not(summary) { display: block; } }
"""

LEGEND = """<ul class="legend"><li><i class="best"></i>on the way to the text found</li><li><i></i>kept</li>
<li><i class="ended"></i>ended, and kept as a whole text</li><li><i class="dropped"></i>dropped</li></ul>"""


@dataclass(frozen=True, kw_only=True)
class TakenToken:
    """A token that was written: its probability, and the likeliest tokens in its place with theirs."""

    token: str
    chance: float
    top: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class StrategyRow:
    """A row of the table, and what was written for every prompt; `tokens` are those of the prompt shown."""

    name: str
    settings: str
    scores: Sequence[str]
    texts: Sequence[str]
    tokens: Sequence[TakenToken]


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the page tells; `measures` are names and explanations of the scores."""

    title: str
    caption: str
    prompts: Sequence[str]
    shown: int
    measures: Sequence[tuple[str, str]]
    strategies: Sequence[StrategyRow]
    left_out: Sequence[tuple[str, str]]
    tree: Sequence[Sequence[Branch]]
    figures: Sequence[tuple[str, str]] = ()  # SVG and caption


def page(data: Page) -> str:
    """The whole page: no script, nothing from elsewhere, and every text stays text."""
    header = f"<header><h1>{escape(data.title)}</h1><p>{escape(data.caption)}</p></header>"
    figures = [figure(svg, escape(caption)) for svg, caption in data.figures]
    body = "\n".join([header, _scores(data), *figures, _texts(data), _choices(data), _tree(data)])
    return document(escape(data.title), body, style=STYLE + beam_tree.STYLE, style_attributes=True)


def _scores(data: Page) -> str:
    heads = "".join(f'<th scope="col" title="{escape(why)}">{escape(name)}</th>' for name, why in data.measures)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(one.name)}<small>{escape(one.settings)}</small></th>'
        + "".join(f"<td>{escape(score)}</td>" for score in one.scores)
        + "</tr>"
        for one in data.strategies
    )
    meant = "".join(f"<dt>{escape(name)}</dt><dd>{escape(why)}</dd>" for name, why in data.measures)
    gone = "".join(f"<dt>{escape(name)}</dt><dd>{escape(why)}</dd>" for name, why in data.left_out)
    gone = gone and f"<h3>Left out</h3><dl>{gone}</dl>"
    return (
        f'<section><h2>Scores</h2><div class="card"><table><thead><tr><th scope="col">strategy</th>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table><dl>{meant}</dl>{gone}</div></section>"
    )


def _texts(data: Page) -> str:
    """What each strategy wrote, prompt by prompt; the one that is looked at stands open."""
    cards: list[str] = []
    for number, prompt in enumerate(data.prompts):
        if number != data.shown and len(cards) >= PROMPTS:
            continue
        texts = "\n".join(
            f"<dt>{escape(one.name)}</dt><dd>{escape(_one_line(one.texts[number]))}</dd>" for one in data.strategies
        )
        cards.append(
            f'<details class="card"{_open(number == data.shown)}><summary><b>{escape(_one_line(prompt))}</b></summary>'
            f'<dl class="texts">{texts}</dl></details>'
        )
    more = f"<p>{len(cards)} of {len(data.prompts)} prompts.</p>" if len(cards) < len(data.prompts) else ""
    return f"<section><h2>Texts</h2>{more}{''.join(cards)}</section>"


def _one_line(text: str) -> str:
    return text.replace("\n", "⏎") or "∅"


def _open(is_open: bool) -> str:
    return " open" if is_open else ""


def _choices(data: Page) -> str:
    """What each token of a text was chosen from."""
    cards = "\n".join(
        f'<details class="card"{_open(number == 0)}><summary><b class="name">{escape(one.name)}</b>'
        f"<span>{escape(_one_line(one.texts[data.shown]))}</span></summary>"
        f'<div class="scroll" tabindex="0"><ol class="steps">{"".join(map(_token, one.tokens))}</ol></div></details>'
        for number, one in enumerate(data.strategies)
    )
    return (
        f"<section><h2>Step by step</h2><p>“{escape(data.prompts[data.shown])}”: each token as it was written, its "
        f"probability under the model, and the likeliest tokens in its place.</p>{cards}</section>"
    )


def _token(one: TakenToken) -> str:
    rows = "".join(
        f'<li{" class=taken" if other == one.token else ""} style="--share:{100 * chance:.1f}%">'
        f"<span>{escape(visible(other))}</span><span>{_percent(chance)}</span></li>"
        for other, chance in one.top
    )
    chosen = f"<div><span>{escape(visible(one.token))}</span><span>{_percent(one.chance)}</span></div>"
    return f'<li class="step">{chosen}<ol>{rows}</ol></li>'


def _percent(chance: float) -> str:
    return f"{100 * chance:.0f}%" if chance >= 0.0995 else f"{100 * chance:.1f}%"


def _tree(data: Page) -> str:
    if not data.tree:
        return ""
    return (
        f"<section><h2>Beam search</h2><p>“{escape(data.prompts[data.shown])}”: every candidate of every step, best on "
        "top, with the log-probability of its text so far.</p>"
        f'<div class="card">{LEGEND}<div class="scroll" tabindex="0">{beam_tree.svg(data.tree)}</div></div></section>'
    )
