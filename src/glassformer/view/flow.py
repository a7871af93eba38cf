"""A flow as a figure for papers: boxes, frames and wires with their shapes, in vectors and on white."""

from collections.abc import Iterator
from html import escape

from .colours import MONO, PAPER, SANS
from .flow_cells import cells, state_arrows
from .flow_layout import TITLE, FlowLayout, PlacedBox, Wire

INK, SOFT, LINE = (PAPER["light"][name] for name in ("ink", "soft", "line"))
TINTS = {  # of each kind of box: its line, and what it is filled with
    "text": ("#586467", "#f6f7f7"),
    "input": ("#586467", "#f6f7f7"),
    "embedding": ("#6a4fc4", "#f1eefb"),
    "attention": ("#b5610f", "#fdf3e7"),
    "weights": ("#b5610f", "#fdf3e7"),
    "feed_forward": ("#1f66b0", "#ebf3fc"),
    "linear": ("#1f66b0", "#ebf3fc"),
    "recurrent": ("#09736f", "#eaf4f4"),
    "gate": ("#09736f", "#eaf4f4"),
    "convolution": ("#4c7a1d", "#f0f6e9"),
    "norm": ("#6f7a35", "#f6f7e8"),
    "residual": ("#586467", "#ffffff"),
    "head": ("#ab2f66", "#fceef4"),
    "output": ("#ab2f66", "#fceef4"),
    "answer": ("#ab2f66", "#fceef4"),
}
PLAIN = ("#586467", "#ffffff")


def flow_drawing(layout: FlowLayout, title: str) -> str:
    """The layout as SVG; `title` names the model."""
    frames = {box.box.name for box in layout.boxes if box.is_frame}
    width, height, top = layout.width, layout.height + 30, 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" fill="{INK}" role="img" aria-label="{escape(title)}">',
            "<!-- made by glassformer -->",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="14" y="22" font-family="{SANS}" font-size="14" font-weight="600">{escape(title)}</text>',
            f'<g transform="translate(0 {top})" font-family="{SANS}">',
            *(part for box in layout.boxes if box.is_frame for part in _frame(box)),
            *(part for wire in layout.wires for part in _wire(wire, frames)),
            *(part for box in layout.boxes if not box.is_frame for part in _card(box, layout.rows)),
            "</g>",
            "</svg>",
        ]
    )


def _rectangle(box: PlacedBox, look: str) -> str:
    return f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="8" {look}/>'


def _frame(box: PlacedBox) -> Iterator[str]:
    line, fill = TINTS.get(box.box.kind, (LINE, "#f6f7f7"))
    yield _rectangle(box, f'fill="{fill}" fill-opacity="0.5" stroke="{line}"')
    yield (
        f'<text x="{box.x + 12:.1f}" y="{box.y + 17:.1f}" font-size="12" font-weight="600">{escape(box.box.title)}'
        f'<tspan font-size="10" font-weight="400" fill="{SOFT}" dx="6">{escape(box.box.caption)}</tspan></text>'
    )


def _card(box: PlacedBox, rows: float) -> Iterator[str]:
    line, fill = TINTS.get(box.box.kind, PLAIN)
    middle = box.x + box.width / 2
    yield _rectangle(box, f'fill="{fill}" stroke="{line}"')
    top = box.y + (17 if box.box.steps else (box.height - TITLE) / 2 + 10)
    yield (
        f'<text x="{middle:.1f}" y="{top:.1f}" font-size="12" font-weight="600" text-anchor="middle">'
        f"{escape(box.box.title)}</text>"
    )
    yield (
        f'<text x="{middle:.1f}" y="{top + 16:.1f}" font-size="10" text-anchor="middle" fill="{SOFT}">'
        f"{escape(box.box.caption)}</text>"
    )
    yield from _cells(box, rows)


def _cells(box: PlacedBox, rows: float) -> Iterator[str]:
    """The cells of a layer with the number of the token in each, and its states from cell to cell."""
    steps = box.box.steps
    if steps is None:
        return
    line, _ = TINTS[box.box.kind]
    top = box.middle - rows / 2
    for number, cell in enumerate(cells(steps, rows), start=1):
        yield (
            f'<rect x="{box.x + 8:.1f}" y="{top + cell.y:.1f}" width="{box.width - 16:.1f}" '
            f'height="{cell.height:.1f}" rx="5" fill="#ffffff" stroke="{line}"/>'
        )
        middle = top + cell.y + cell.height / 2 + 3.5
        yield f'<text x="{box.x + 16:.1f}" y="{middle:.1f}" font-size="10" fill="{SOFT}">{number}</text>'
    for arrow in state_arrows(steps, rows):
        x, start, end = box.x + arrow.x, top + arrow.start, top + arrow.end
        yield (
            f'<path d="M{x:.1f} {start:.1f}V{end:.1f}" fill="none" stroke="{line}" stroke-width="1.2" '
            'marker-end="url(#tip)"/>'
        )
        if arrow.text:
            yield (
                f'<text x="{x + 6:.1f}" y="{(start + end) / 2 + 3:.1f}" font-family="{MONO}" font-size="9" '
                f'fill="{SOFT}">{escape(arrow.text)}</text>'
            )


def _wire(wire: Wire, frames: set[str]) -> Iterator[str]:
    look = f'fill="none" stroke="{SOFT}" stroke-width="1.2"' + ' stroke-dasharray="4 3"' * (wire.kind == "recurrent")
    for end, path in wire.paths:
        tip = "" if end in frames else ' marker-end="url(#tip)"'  # it goes on inside
        yield f'<path d="{path}" {look}{tip}/>'
    if wire.text:
        anchor = "start" if wire.kind in ("track", "recurrent") else "middle"
        yield (
            f'<text x="{wire.x:.1f}" y="{wire.y:.1f}" font-family="{MONO}" font-size="9" text-anchor="{anchor}" '
            f'fill="{SOFT}">{escape(wire.text)}</text>'
        )
