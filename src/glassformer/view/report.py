"""The report of an experiment, as a page in English and Chinese or as Markdown: the answer first, then the numbers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple
from urllib.parse import quote

from .document import document, figure
from .labels import escaped


class Text(NamedTuple):
    """A text in both languages; without `zh` it is the same in both, as names and numbers are."""

    en: str
    zh: str = ""


NOTHING = Text("")


@dataclass(frozen=True, kw_only=True)
class Column:
    """The title of a column; `why` explains it below the table."""

    title: Text
    why: Text = NOTHING


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cell. `link` is a path relative to the page's folder, not yet quoted."""

    text: str | Text
    link: str | None = None
    mark: Literal["best", "bad"] | None = None


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """An entry for each column; if they are fewer, the last one spans the rest. `details`: the rows of single seeds."""

    entries: Sequence[Entry]
    failed: bool = False
    details: Sequence[Sequence[Entry]] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """The first column names the rows."""

    columns: Sequence[Column]
    rows: Sequence[TableRow]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture. `svg` is markup and taken as it is; `name` is its file's, without the ending."""

    name: str
    svg: str
    caption: Text


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report."""

    title: Text
    paragraphs: Sequence[Text] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """`findings` answer the question in sentences; `command` does it all again."""

    title: Text
    question: Text
    facts: Sequence[tuple[Text, str]]
    findings: Sequence[Text]
    sections: Sequence[Section]
    command: str


FINDINGS = Text("Findings", "结论")
FACTS = Text("How it was done", "实验信息")
AGAIN = Text("Do it again", "复现命令")
FAILED = Text("failed", "失败")
SEEDS = Text("single seeds", "各个随机种子")

STYLE = """
:root:not(:lang(zh)) .zh, :root:lang(zh) .en { display: none; }
[hidden] { display: none; }
header { display: flow-root; }
#languages { float: right; display: flex; margin: 0 0 .6rem 1rem; border: 1px solid var(--line); border-radius: 9px;
  overflow: hidden; background: var(--card); }
#languages[hidden] { display: none; }
#languages button { font: inherit; font-size: .85rem; padding: .35rem .8rem; border: 0; background: none;
  color: var(--soft); cursor: pointer; }
#languages button[aria-pressed=true] { background: var(--accent); color: var(--on-accent); }
#languages button:focus-visible { outline-offset: -3px; }
#languages button[aria-pressed=true]:focus-visible { outline-color: var(--on-accent); }
header p { font-size: 1.05rem; }
.findings { margin-top: 1.4rem; border-left: 4px solid var(--accent); }
.findings h2 { margin: 0; } .findings ul { margin: .4rem 0 0; padding-left: 1.2rem; max-width: 60rem; }
.findings li { overflow-wrap: anywhere; margin: .25rem 0; }
.card { margin-top: 1rem; }
h2 + .card { margin-top: .6rem; }
a { color: var(--accent); text-underline-offset: 2px; }
tbody th a { color: inherit; }
td.words { white-space: normal; text-align: left; overflow-wrap: anywhere; min-width: 14rem; }
tbody:last-child tr:last-child > * { border-bottom: 0; }
tbody:not(:has(:checked)) + .seeds { display: none; }
.seeds th, .seeds td { color: var(--soft); font-size: .86em; }
.seeds th:first-child { font-weight: 400; padding-left: 1.5rem; }
th:first-child:has(.fold) { padding-left: 1.5rem; }
.fold { display: inline-block; width: 1.5rem; margin-left: -1.5rem; }
.fold input { appearance: none; margin: 0; width: 1.4rem; text-align: center; border-radius: 5px; cursor: pointer;
  color: var(--accent); font: inherit; }
.fold input::before { content: "▸"; } .fold input:checked::before { content: "▾"; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.best { font-weight: 700; color: var(--accent); }
.bad { color: var(--bad); text-decoration: underline dotted; text-underline-offset: 3px; }
.failed > * { background: color-mix(in srgb, var(--bad) 9%, var(--card)); color: var(--bad); }
.failed a { color: inherit; }
.badge { display: inline-block; margin-right: .5rem; padding: 0 .45rem; border: 1px solid var(--bad);
  border-radius: 6px; font-size: .78rem; font-weight: 600; }
pre { margin: 0; font: .88rem/1.5 var(--mono); user-select: all; }
.about dl { margin: 0; }
@media (max-width: 40rem) {
  .card { padding: .9rem .9rem; }
  thead th:first-child, tbody th { position: sticky; left: 0; z-index: 1; background: var(--card); white-space: normal;
    min-width: 8.5rem; max-width: 44vw; overflow-wrap: break-word; padding-right: .8rem;
    box-shadow: inset -1px 0 var(--line), 9px 0 7px -3px var(--card); }
}
@media print {
  body { background: none; font-size: 10pt; } #languages { display: none; } table { font-size: 8.5pt; }
  th, td { padding: .25rem .4rem; white-space: normal; }
  tr, .findings { break-inside: avoid; } h2 { break-after: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } figure svg { max-width: 100%; }
}
"""
SCRIPT = """
const buttons = document.querySelectorAll("#languages button");
function speak(language) {
  document.documentElement.lang = language;
  for (const button of buttons) button.setAttribute("aria-pressed", button.lang === language);
  document.title = document.querySelector(`h1 [lang=${language}]`)?.textContent ?? document.title;
}
for (const button of buttons) button.addEventListener("click", () => speak(button.lang));
document.querySelector("#languages").hidden = false;
speak(navigator.language?.startsWith("zh") ? "zh-Hans" : "en");
"""
LANGUAGES = (
    '<div id="languages" role="group" aria-label="language, 语言" hidden>'
    '<button type="button" lang="en">English</button><button type="button" lang="zh-Hans">中文</button></div>'
)


def page(report: Report) -> str:
    """One self-contained HTML file: all texts stay texts, all links lead to files beside the page."""
    findings = "".join(f"<li>{_both(text)}</li>" for text in report.findings)
    facts = "".join(f"<dt>{_both(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in report.facts)
    body = [
        f"<header>{LANGUAGES}<h1>{_both(report.title)}</h1><p>{_both(report.question)}</p></header>",
        f'<section class="findings card"><h2>{_both(FINDINGS)}</h2><ul>{findings}</ul></section>',
        *map(_section, report.sections),
        f'<section class="about"><h2>{_both(FACTS)}</h2><div class="card"><dl>{facts}</dl></div></section>',
        f'<section><h2>{_both(AGAIN)}</h2><pre class="card" tabindex="0">{_escaped(report.command)}</pre></section>',
    ]
    return document(_escaped(report.title.en), "\n".join(body), style=STYLE, script=SCRIPT)


def _section(section: Section) -> str:
    parts = [f"<p>{_both(text)}</p>" for text in section.paragraphs]
    parts += map(_table, section.tables)
    parts += [figure(one.svg, _both(one.caption)) for one in section.figures]
    return f"<section><h2>{_both(section.title)}</h2>{''.join(parts)}</section>"


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{_both(column.title)}</th>' for column in table.columns)
    has_folds = any(row.details for row in table.rows)
    bodies = "\n".join(body for row in table.rows for body in _row(row, len(table.columns), has_folds))
    meant = [column for column in table.columns if column.why.en]
    legend = "".join(f"<dt>{_both(column.title)}</dt><dd>{_both(column.why)}</dd>" for column in meant)
    return (
        f'<div class="card"><div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead>\n{bodies}\n'
        f"</table></div>{legend and f'<dl>{legend}</dl>'}</div>"
    )


def _row(row: TableRow, columns: int, has_folds: bool) -> Iterator[str]:
    """A body for the row, and one for its details, which shows while the box in the row is checked."""
    box = f'<input type="checkbox"><span class="unseen">{_both(SEEDS)}</span>' if row.details else ""
    first = f'<label class="fold">{box}</label>' if has_folds else ""
    first += f'<span class="badge">{_both(FAILED)}</span>' if row.failed else ""
    look = ' class="failed"' if row.failed else ""
    yield f"<tbody><tr{look}>{_cells(row.entries, columns, first)}</tr></tbody>"
    if row.details:
        rows = "\n".join(f"<tr>{_cells(entries, columns)}</tr>" for entries in row.details)
        yield f'<tbody class="seeds">{rows}</tbody>'


def _cells(entries: Sequence[Entry], columns: int, first: str = "") -> str:
    if not 0 < len(entries) <= columns:
        raise ValueError(f"a row of {len(entries)} entries in a table of {columns} columns; give one for each column")
    name, *cells = map(_entry, entries)
    rest = columns - len(cells)
    wide = f' colspan="{rest}"' if not cells and rest > 1 else ""
    written = [f'<th scope="row"{wide}>{first}{name}</th>', *(f"<td>{cell}</td>" for cell in cells)]
    if cells and rest > 1:
        written[-1] = f'<td class="words" colspan="{rest}">{cells[-1]}</td>'
    return "".join(written)


def _entry(entry: Entry) -> str:
    html = _both(entry.text)
    if entry.mark:
        html = f'<span class="{entry.mark}">{html}</span>'
    return html if entry.link is None else f'<a href="{_quoted(entry.link)}">{html}</a>'


def _quoted(path: str) -> str:
    """A relative path as a link: what would make it another kind of address is spelt out."""
    if path.startswith("/"):
        raise ValueError(f"the link {path!r} is not relative: give a path from the report's folder")
    return quote(path, errors="replace")


def _both(text: str | Text) -> str:
    en, zh = (text, "") if isinstance(text, str) else text
    if not zh:
        return _escaped(en)
    return f'<span class="en" lang="en">{_escaped(en)}</span><span class="zh" lang="zh-Hans">{_escaped(zh)}</span>'


def _escaped(text: str) -> str:
    return escape(escaped(text, keep="\n\t"))


def markdown(report: Report) -> str:
    """The report in English for a folder of docs, figures beside it; single seeds and links to runs are left out."""
    parts = [f"# {_line(report.title)}", f"*{_line(report.question)}*" if report.question.en else ""]
    parts.append("\n".join(f"- {_line(text)}" for text in report.findings))
    for section in report.sections:
        parts += [f"## {_line(section.title)}", *map(_line, section.paragraphs)]
        for table in section.tables:
            parts += [_markdown_table(table), *_markdown_legend(table)]
        parts += [f"![{_line(one.caption)}]({_quoted(one.name)}.svg)" for one in section.figures]
    parts += [f"## {FACTS.en}", "\n".join(f"- {_line(name)}: {_line(value)}" for name, value in report.facts)]
    command = escaped(report.command, keep="\n\t")
    fence = "`" * max([3, *(len(found) + 1 for found in re.findall("`+", command))])
    parts += [f"## {AGAIN.en}", f"{fence}sh\n{command}\n{fence}"]
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [[_line(column.title) for column in table.columns], ["---", *["---:"] * (len(table.columns) - 1)]]
    for row in table.rows:
        cells = [_markdown_entry(entry) for entry in row.entries]
        cells[0] = f"**{FAILED.en}** {cells[0]}" if row.failed else cells[0]
        rows.append(cells + [""] * (len(table.columns) - len(cells)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_legend(table: Table) -> list[str]:
    meant = [f"- **{_line(column.title)}**: {_line(column.why)}" for column in table.columns if column.why.en]
    return ["\n".join(meant)] if meant else []


def _markdown_entry(entry: Entry) -> str:
    text = _line(entry.text)
    return {"best": f"**{text}**", "bad": f"*{text}*", None: text}[entry.mark] if text else text


def _line(text: str | Text) -> str:
    """The English as one line in which nothing is markup."""
    en = text if isinstance(text, str) else text.en
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(escaped(en, keep="\n\t").split()))
