"""One HTML file that shows boards: it needs no network, and its script and style are the only ones it lets run."""

import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from .board import AxisTokens, Board
from .colours import ramp, variables
from .compressed import WORST, Block, CompressedPages, compress
from .document import source_hash


def page(boards: Sequence[Board], *, title: str, caption: str, first: Sequence[Sequence[int]] | None = None) -> str:
    """The whole page; `first` names the matrices of each board that are kept whole where not all of them fit."""
    compressed = compress(boards, first)
    style, script = variables() + _asset("page.css"), _asset("values.js") + _asset("page.js")
    pairs = zip(boards, compressed.blocks, strict=True)
    data = {
        "boards": [_board(board, blocks) for board, blocks in pairs],
        "ramps": {
            paper: {kind: ramp(kind, paper).tobytes().hex() for kind in ("plain", "signed")}
            for paper in ("light", "dark")
        },
    }
    blocks = [
        f'<script type="application/octet-stream" id="block-{number}-{place}">{block.data}</script>'
        for number, listed in enumerate(compressed.blocks)
        for place, block in enumerate(listed)
    ]
    parts = {
        "title": escape(title),
        "caption": escape(caption),
        "precision": precision(compressed),
        "style": style,
        "style_hash": source_hash(style),
        "script": script,
        "script_hash": source_hash(script),
        "data": _embedded(data),
        "blocks": "\n".join(blocks),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def precision(compressed: CompressedPages) -> str:
    """How far a number on the page may be from the model's."""
    share, near_zero = compressed.error
    return (
        f"How exact: numbers are kept as 16-bit floats and differ from the model’s by at most {share:.2%} of "
        f"themselves, or by {near_zero:.0e} near zero; statistics were computed from the model’s own numbers."
    )


def left_out(board: Board, blocks: Sequence[Block]) -> str:
    """What a page does not hold of a board, in words; nothing where it holds all."""
    pooled, whole = blocks[0], [block.heads[0] for block in blocks[1:]]
    if (pooled.down, pooled.across) == (1, 1):
        return ""
    rows, columns, high, wide = board.values.shape
    named = [f"{board.rows[place // columns]}.{board.columns[place % columns]}" for place in sorted(whole)]
    kept = f"Kept whole, as {'.'.join(board.grid)}: {', '.join(named)}. " if named else ""
    return (
        f"Left out: {rows * columns} matrices of {high} × {wide} are {board.values.size:,} numbers, about "
        f"{board.values.size * WORST / 1e6:.0f} MB in a page. They are shown pooled, a cell being the largest of "
        f"{pooled.down} × {pooled.across} values. {kept}To choose others: --part, --layer, --head."
    )


def _board(board: Board, blocks: Sequence[Block]) -> dict[str, Any]:
    return {
        "name": board.name,
        "attends": board.attends,
        "rows": list(board.rows),
        "columns": list(board.columns),
        "grid": board.grid,
        "axes": board.axes,
        "down": _tokens(board.down),
        "across": None if board.across is None or board.across is board.down else _tokens(board.across),
        "same": board.across is board.down,
        "scales": [[scale.low, scale.high, scale.root] for scale in board.scales],
        "statistics": {name: values.ravel().tolist() for name, values in board.statistics.items()},
        "sources": [str(source) for source in board.sources],
        "leftOut": left_out(board, blocks),
        "blocks": [
            {"heads": block.heads, "down": block.down, "across": block.across, "shape": block.shape} for block in blocks
        ],
    }


def _tokens(tokens: AxisTokens) -> dict[str, Any]:
    return {"texts": list(tokens.texts), "ids": list(tokens.ids), "sides": list(tokens.sides)}


def _embedded(data: object) -> str:
    """JSON that cannot end the element it stands in: no angle bracket, nothing but ASCII."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
