"""What a model did with one text, as boards: shown in a notebook, saved as a page, an SVG or a PNG, or as lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .board import Board
from .page import page
from .png import png
from .svg import svg
from .terminal import Line, lines


@dataclass(frozen=True, kw_only=True, repr=False)
class Inspection:
    """Boards under a title; `part` names one of them, `layer` and `head` (or a gate's name) a place on it."""

    title: str
    caption: str
    boards: Sequence[Board]

    def __post_init__(self) -> None:
        for board in self.boards:
            board.check()

    def save(
        self, path: str | Path, *, part: str | None = None, layer: int | None = None, head: int | str | None = None
    ) -> Path:
        """Write .html, .svg or .png, and give the path.

        A picture shows what is chosen. A page shows all; if that is too much, what is chosen is kept whole first.
        """
        path = Path(path)
        made: str | bytes
        match path.suffix:
            case ".html":
                made = self.html(part=part, layer=layer, head=head)
            case ".svg":
                made = svg(self.chosen(part, layer, head))
            case ".png":
                made = png(self.chosen(part, layer, head))
            case _:
                raise ValueError(f"{str(path)!r} is not a .html, .svg or .png file; choose one of these endings")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.encode() if isinstance(made, str) else made)
        return path

    def html(self, *, part: str | None = None, layer: int | None = None, head: int | str | None = None) -> str:
        """The whole page."""
        wanted = None if layer is None and head is None else self._board(part)
        first: list[list[int]] = []
        for board in self.boards:
            rows = board.picked(board.rows, layer, board.grid[0]) if board is wanted else []
            columns = board.picked(board.columns, head, board.grid[1]) if board is wanted else []
            first.append([row * len(board.columns) + column for row in rows for column in columns])
        return page(self.boards, title=self.title, caption=self.caption, first=first)

    def lines(
        self,
        *,
        part: str | None = None,
        layer: int | None = None,
        head: int | str | None = None,
        width: int = 80,
        colour: bool = True,
    ) -> Iterator[Line]:
        """What a terminal shows."""
        return lines(self.chosen(part, layer, head), width=width, colour=colour)

    def chosen(self, part: str | None, layer: int | None, head: int | str | None) -> Board:
        return self._board(part).cut(layer, head)

    def _board(self, part: str | None) -> Board:
        """The board of this name; the first one if none is named."""
        known = {board.name: board for board in self.boards}
        if part is not None and part not in known:
            raise ValueError(f"there is no part {part!r}; this model has {', '.join(map(repr, known))}")
        return self.boards[0] if part is None else known[part]

    def __repr__(self) -> str:
        shapes = [f"{board.name} {' × '.join(map(str, board.values.shape))}" for board in self.boards]
        return f"Inspection({self.title!r}: {', '.join(shapes)})"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        style = "width: 100%; height: 760px; border: 0; border-radius: 12px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.html())}"></iframe>'
