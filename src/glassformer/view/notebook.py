"""A few facts in a line, or as a small table for notebooks: it brings no style sheet, and has the colours around it."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from .labels import escaped

LINE = "1px solid rgba(128, 128, 128, 0.35)"  # to be seen on light and on dark
BOX = f"display: inline-block; border: {LINE}; border-radius: 8px; padding: 0.6em 1em; max-width: 100%"
CELL = "text-align: left; vertical-align: top; background: none; border: 0; padding: 0.15em 1em 0.15em 0"
SHOWN = 12  # of many names


def facts_line(kind: str, facts: Mapping[str, str]) -> str:
    """Names and values in the repr of an object; what could recolour a terminal is spelt out."""
    return f"{kind}({'; '.join(escaped(f'{name}: {value}') for name, value in facts.items())})"


def facts_table(title: str, facts: Mapping[str, str], *, svg: str | None = None) -> str:
    """Names and values under a title; `svg` is a picture below them, which runs no scripts."""
    rows = "".join(
        f'<tr style="background: none"><th scope="row" style="{CELL}">{_text(name)}</th>'
        f'<td style="{CELL}; overflow-wrap: anywhere">{_text(value)}</td></tr>'
        for name, value in facts.items()
    )
    picture = ""
    if svg is not None:
        data = b64encode(svg.encode()).decode()
        picture = f'<img alt="curves" style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'
    table = f'<table style="border: 0; border-collapse: collapse; margin: 0.4em 0">{rows}</table>'
    return f'<div style="{BOX}"><strong>{_text(title)}</strong>{table}{picture}</div>'


def shortened(names: Sequence[str]) -> str:
    """Names in a row, some of many."""
    listed = ", ".join(names[:SHOWN])
    return f"{listed} and {len(names) - SHOWN} more" if len(names) > SHOWN else listed


def _text(text: str) -> str:
    return escape(escaped(text))
