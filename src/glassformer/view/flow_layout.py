"""Where the boxes and wires of a flow go: boxes in the order of computation, open ones as frames around their parts.

The tokens of a text are rows that keep their height from box to box, so that a wire between neighbours is straight. A
value that passes over others runs on a track above them, as a residual does; what goes back in time, on one below. A
wire that enters or leaves a frame is cut at its border, and each piece belongs to the frame that it runs in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .flow_cells import WIDTH, Steps, rows_height
from .labels import EM, text_width

TITLE, CAPTION, HEADER, PAD = 36.0, 20.0, 26.0, 12.0  # above and below a box; above and around what a frame holds
TRACK, GAP, DROP, LANES = 16.0, 24.0, 7.0, 40.0  # between tracks, boxes, wires that turn in a gap, and lanes
NARROW, SMALL, LARGE = 76.0, 10.0, 12.0  # a box's least width; sizes of letters
BEFORE = -1  # the left border of a frame, among the numbers of what it holds


@dataclass(frozen=True)
class FlowBox:
    """A box to place; those that are the parent of others are frames."""

    name: str
    parent: str | None
    title: str
    caption: str  # what is written below the title
    kind: str
    lane: int = 0
    width: float = 0.0  # at least
    steps: Steps | None = None  # a layer that can be unrolled: it is while it is closed


@dataclass(frozen=True)
class FlowArrow:
    """From one box that is no frame to another: `value` is what flows, and `text` its shape."""

    start: str
    end: str
    value: str
    text: str
    recurrent: bool = False


@dataclass(frozen=True)
class PlacedBox:
    """x and y of the upper left corner; `middle` and `rows` say where the rows of tokens lie."""

    box: FlowBox
    x: float
    y: float
    width: float
    height: float
    middle: float
    is_frame: bool
    loops: bool  # whether something goes from each row to the next


@dataclass(frozen=True)
class Wire:
    """A drawn piece of one or more arrows: "ribbon" (row by row), "line", "track", "recurrent" or "cross"."""

    kind: str
    value: str
    paths: tuple[tuple[str, str], ...]  # of each piece: the box or frame that it leads to, and the path of SVG
    text: str  # the shape; empty where the piece before or behind a border has it
    x: float  # where the text is
    y: float
    span: tuple[float, float] = (0.0, 0.0)  # of a ribbon, from x to x


@dataclass(frozen=True)
class FlowLayout:
    """Everything in its place."""

    width: float
    height: float
    boxes: list[PlacedBox]
    wires: list[Wire]
    rows: float  # the height of the picture in a box


@dataclass
class _Bus:
    """One value in one frame, from a box (or the left border) to others (or the right border)."""

    frame: str | None
    source: int
    value: str
    text: str
    recurrent: bool
    targets: set[int] = field(default_factory=set)
    is_whole: bool = False  # whether it is more than the way to a border
    track: int = -1

    @property
    def far(self) -> list[int]:
        """Those that it does not reach straight."""
        if self.recurrent:
            return sorted(self.targets)
        return sorted(one for one in self.targets if one != self.source + 1)


@dataclass
class _Place:
    x: float = 0.0
    width: float = 0.0
    up: float = 0.0
    down: float = 0.0
    gaps: list[float] = field(default_factory=list)
    tracks: int = 0
    below: int = 0


def arranged(boxes: Sequence[FlowBox], arrows: Sequence[FlowArrow], *, rows: float = 120.0) -> FlowLayout:
    """A layout in which no two boxes overlap but frames and what they hold."""
    return _Arranging(boxes, arrows, rows).layout()


class _Arranging:
    def __init__(self, boxes: Sequence[FlowBox], arrows: Sequence[FlowArrow], rows: float) -> None:
        self.boxes = {box.name: box for box in boxes}
        self.inside: dict[str | None, list[str]] = {None: []}
        for box in boxes:
            self.inside.setdefault(box.parent, []).append(box.name)
        unrolled = [box.steps for box in boxes if box.steps and box.name not in self.inside]
        self.rows = max(rows, *(rows_height(steps.count) for steps in unrolled), 0.0)
        self.lanes = sorted({self.boxes[name].lane for name in self.inside[None]})
        self.number: dict[str, int] = {}
        for parent, names in self.inside.items():
            for lane in self.lanes if parent is None else [None]:
                row = [name for name in names if lane is None or self.boxes[name].lane == lane]
                self.number |= {name: place for place, name in enumerate(row)}
        self.loops = {arrow.start for arrow in arrows if arrow.start == arrow.end}
        self.buses: dict[tuple[object, ...], _Bus] = {}
        self.crossings: dict[tuple[str, str, str], str] = {}
        for arrow in arrows:
            if arrow.start != arrow.end:
                self._cut(arrow)
        self.places = {name: _Place() for name in self.boxes}
        self.middles: dict[str, float] = {}

    # --- pieces of arrows ---------------------------------------------------------------------------------------

    def _around(self, name: str) -> list[str | None]:
        """The frames around a box from the outermost, None, on, and the box itself."""
        found: list[str | None] = [name]
        while (parent := self.boxes[str(found[0])].parent) is not None:
            found.insert(0, parent)
        return [None, *found]

    def _cut(self, arrow: FlowArrow) -> None:
        start, end = self._around(arrow.start), self._around(arrow.end)
        depth = next(n for n, (one, other) in enumerate(zip(start, end, strict=False)) if one != other)
        for level in range(len(start) - 2, depth - 1, -1):  # out of the frames around its start
            inner = start[level + 1]
            self._piece(arrow, start[level], self.number[str(inner)], len(self.inside[start[level]]))
        one, other = str(start[depth]), str(end[depth])
        if depth == 1 and self.boxes[one].lane != self.boxes[other].lane:
            self.crossings[one, other, arrow.value] = arrow.text
        else:
            self._piece(arrow, start[depth - 1], self.number[one], self.number[other])
        for level in range(depth, len(end) - 1):  # and into those around its end
            self._piece(arrow, end[level], BEFORE, self.number[str(end[level + 1])])

    def _piece(self, arrow: FlowArrow, frame: str | None, source: int, target: int) -> None:
        lane = self.boxes[self._around(arrow.end)[1] or ""].lane if frame is None else 0
        back = arrow.recurrent and source >= target
        key = (frame, lane, source, arrow.value, back)
        bus = self.buses.setdefault(key, _Bus(frame, source, arrow.value, arrow.text, back))
        bus.targets.add(target)
        bus.is_whole |= source != BEFORE and target != len(self.inside[frame])

    def _of(self, frame: str | None, lane: int = 0) -> list[_Bus]:
        return [bus for key, bus in self.buses.items() if key[0] == frame and (frame is not None or key[1] == lane)]

    # --- sizes --------------------------------------------------------------------------------------------------

    def _measure(self, name: str) -> _Place:
        place, box = self.places[name], self.boxes[name]
        if name not in self.inside:
            written = max(text_width(box.title) * LARGE * 0.66 + 8, text_width(box.caption) * SMALL * 0.58) + 16
            place.width = max(NARROW, written, box.width, WIDTH if box.steps else 0.0)
            place.up, place.down = self.rows / 2 + TITLE, self.rows / 2 + CAPTION
            return place
        names = self.inside[name]
        buses = self._of(name)
        place.tracks, place.below = _tracks(buses, recurrent=False), _tracks(buses, recurrent=True)
        place.gaps = _gaps(buses, len(names))
        inner = [self._measure(child) for child in names]
        x = PAD
        for child, gap in zip(inner, place.gaps, strict=False):
            x += gap
            child.x = x
            x += child.width
        title = text_width(box.title) * LARGE * 0.66 + text_width(box.caption) * SMALL * 0.58 + 60
        place.width = max(x + place.gaps[-1] + PAD, title)
        place.up = max(child.up for child in inner) + HEADER + (place.tracks + 0.5) * TRACK
        place.down = max(child.down for child in inner) + PAD + place.below * TRACK
        return place

    def _lane(self, lane: int, top: float) -> tuple[float, float]:
        """Place the boxes of one lane below `top`; its right and its bottom."""
        names = [name for name in self.inside[None] if self.boxes[name].lane == lane]
        buses = self._of(None, lane)
        tracks, below, gaps = _tracks(buses, recurrent=False), _tracks(buses, recurrent=True), _gaps(buses, len(names))
        inner = [self._measure(name) for name in names]
        x = PAD + 14 * (lane > 0)
        for number, child in enumerate(inner):
            x += gaps[number] if number else 0
            child.x = x
            x += child.width
        middle = top + (tracks + 0.5) * TRACK + max(child.up for child in inner)
        for name in names:
            self._settle(name, 0.0, middle)
        return x + PAD, middle + max(child.down for child in inner) + below * TRACK + PAD

    def _settle(self, name: str, left: float, middle: float) -> None:
        self.places[name].x += left
        self.middles[name] = middle
        for child in self.inside.get(name, []):
            self._settle(child, self.places[name].x, middle)

    # --- the whole ----------------------------------------------------------------------------------------------

    def layout(self) -> FlowLayout:
        right, bottom = 0.0, PAD
        self.between: dict[int, float] = {}
        for lane in self.lanes:
            end, bottom = self._lane(lane, bottom)
            self.between[lane] = bottom + LANES / 2
            right, bottom = max(right, end), bottom + LANES
        wires = [wire for bus in self.buses.values() for wire in self._wires(bus)]
        wires += [self._crossing(n, *key, text) for n, (key, text) in enumerate(self.crossings.items())]
        return FlowLayout(
            right + PAD, bottom - LANES + PAD, [self._placed(name) for name in self.boxes], wires, self.rows
        )

    def _placed(self, name: str) -> PlacedBox:
        place, middle = self.places[name], self.middles[name]
        top, height = middle - place.up, place.up + place.down
        return PlacedBox(
            self.boxes[name], place.x, top, place.width, height, middle, name in self.inside, name in self.loops
        )

    # --- wires --------------------------------------------------------------------------------------------------

    def _level(self, bus: _Bus) -> float:
        """The height of a bus on its track."""
        if bus.frame is None:
            names = [name for name in self.inside[None] if self.boxes[name].lane == self._lane_of(bus)]
            middle, up = self.middles[names[0]], max(self.places[name].up for name in names)
            down = max(self.places[name].down for name in names)
        else:
            inner = [self.places[name] for name in self.inside[bus.frame]]
            middle, up = self.middles[bus.frame], max(one.up for one in inner)
            down = max(one.down for one in inner)
        return middle + down + (bus.track + 0.6) * TRACK if bus.recurrent else middle - up - (bus.track + 0.5) * TRACK

    def _lane_of(self, bus: _Bus) -> int:
        lane = next(key[1] for key, one in self.buses.items() if one is bus)
        assert isinstance(lane, int)
        return lane

    def _names(self, bus: _Bus) -> list[str]:
        names = self.inside[bus.frame]
        return names if bus.frame is not None else [one for one in names if self.boxes[one].lane == self._lane_of(bus)]

    def _port(self, name: str, value: str, *, entering: bool) -> float:
        """Where a value goes into a box, or comes out of it: at its middle, or on the track that it runs on inside."""
        names = self.inside.get(name, [])
        for bus in self._of(name) if names else []:
            if bus.value != value or bus.recurrent:
                continue
            straight = BEFORE + 1 if entering else len(names)
            here = bus.source == BEFORE if entering else len(names) in bus.targets
            if here and straight in bus.targets and bus.source == straight - 1:
                return self.middles[name]
            if here:
                return self._level(bus)
        return self.middles[name]

    def _wires(self, bus: _Bus) -> Iterator[Wire]:
        names = self._names(bus)
        frame = None if bus.frame is None else self.places[bus.frame]
        if bus.source == BEFORE:
            assert frame is not None
            left = frame.x
            out = self._port(str(bus.frame), bus.value, entering=True)
        else:
            source = self.places[names[bus.source]]
            left, out = source.x + source.width, self._port(names[bus.source], bus.value, entering=False)
        for target in sorted(bus.targets - set(bus.far)):
            if target == len(names):
                assert frame is not None
                right, into, end = frame.x + frame.width, out, str(bus.frame)
            else:
                right, end = self.places[names[target]].x, names[target]
                into = self._port(end, bus.value, entering=True)
            middle = self.middles[end]
            kind = "ribbon" if out == into == middle else "line"
            bend = (left + right) / 2
            path = f"M{left:.1f} {out:.1f}C{bend:.1f} {out:.1f} {bend:.1f} {into:.1f} {right:.1f} {into:.1f}"
            x, y = bend, (middle - self.rows / 2 if kind == "ribbon" else min(out, into)) - 5
            text = bus.text if bus.is_whole else ""
            yield Wire(kind, bus.value, ((end, path),), text, x, y, (left, right))
        if bus.far:
            yield self._track(bus, names, left, out)

    def _track(self, bus: _Bus, names: list[str], left: float, out: float) -> Wire:
        """Up to the track, along it, and down to every box that it reaches."""
        level, turn = self._level(bus), DROP * (bus.track % 3 + 1)
        paths: list[tuple[str, str]] = []
        if bus.recurrent:
            return self._back(bus, names, level)
        start = left + turn if bus.source != BEFORE or out != level else left
        for target in bus.far:
            if target == len(names):
                assert bus.frame is not None
                frame = self.places[bus.frame]
                points = [(left, out), (start, out), (start, level), (frame.x + frame.width, level)]
                paths.append((bus.frame, _corners(points)))
                continue
            into = self._port(names[target], bus.value, entering=True)
            x = self.places[names[target]].x
            down = x - turn
            points = [(left, out), (start, out), (start, level), (down, level), (down, into), (x, into)]
            paths.append((names[target], _corners(points)))
        return Wire("track", bus.value, tuple(paths), bus.text if bus.is_whole else "", start + 8, level - 4)

    def _back(self, bus: _Bus, names: list[str], level: float) -> Wire:
        """From below a box to below the ones before it, for the next step in time."""
        source = self.places[names[bus.source]]
        start, bottom = source.x + source.width - 10, self.middles[names[bus.source]] + source.down
        paths = []
        for target in bus.far:
            place = self.places[names[target]]
            x, under = place.x + 12, self.middles[names[target]] + place.down
            paths.append((names[target], _corners([(start, bottom), (start, level), (x, level), (x, under)])))
        return Wire("recurrent", bus.value, tuple(paths), bus.text, start + 4, level - 4)

    def _crossing(self, number: int, one: str, other: str, value: str, text: str) -> Wire:
        """From one lane down to the other."""
        source, target = self.places[one], self.places[other]
        out, into = self._port(one, value, entering=False), self._port(other, value, entering=True)
        right, left = source.x + source.width, target.x
        level = self.between[self.boxes[one].lane] + 6 * (number % 4) - 8
        away, before = right + 8 + 5 * (number % 3), left - 8 - 4 * (number % 3)
        path = _corners([(right, out), (away, out), (away, level), (before, level), (before, into), (left, into)])
        return Wire("cross", value, ((other, path),), text, (away + before) / 2, level - 5)


def _tracks(buses: Sequence[_Bus], *, recurrent: bool) -> int:
    """Give every bus that passes over a box a track on which it meets no other, short ones lowest; how many."""
    taken: list[list[tuple[int, int]]] = []
    mine = [bus for bus in buses if bus.far and bus.recurrent == recurrent]
    for bus in sorted(mine, key=lambda one: (max(one.far) - min(one.source, *one.far), one.source)):
        start, end = min(bus.source, *bus.far), max(bus.source, *bus.far)
        free = (n for n, spans in enumerate(taken) if all(end <= low or high <= start for low, high in spans))
        bus.track = next(free, len(taken))
        if bus.track == len(taken):
            taken.append([])
        taken[bus.track].append((start, end))
    return len(taken)


def _gaps(buses: Sequence[_Bus], count: int) -> list[float]:
    """The room before each box and after the last: for the wires that turn there, and for the shape that is written."""
    gaps = [GAP] * (count + 1)
    for place in range(count + 1):
        straight = [bus for bus in buses if bus.source == place - 1 and place in bus.targets and not bus.recurrent]
        written = max((text_width(bus.text) * SMALL * EM + 10 for bus in straight), default=0.0)
        turning = [bus for bus in buses if not bus.recurrent and bus.far]
        rising, dropping = (sum(place - 1 == bus.source for bus in turning), sum(place in bus.far for bus in turning))
        gaps[place] = max(GAP, written) + DROP * (min(3, rising) + min(3, dropping))
    return gaps


def _corners(points: Sequence[tuple[float, float]], radius: float = 6.0) -> str:
    """A path along these points with round corners."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, (x, y), after in zip(points, points[1:], points[2:], strict=False):
        near = _towards((x, y), before, radius)
        far = _towards((x, y), after, radius)
        parts.append(f"L{near[0]:.1f} {near[1]:.1f}Q{x:.1f} {y:.1f} {far[0]:.1f} {far[1]:.1f}")
    parts.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
    return "".join(parts)


def _towards(point: tuple[float, float], other: tuple[float, float], radius: float) -> tuple[float, float]:
    away = (other[0] - point[0], other[1] - point[1])
    length = max(abs(away[0]), abs(away[1]))
    share = 0.0 if length == 0 else min(radius, length / 2) / length
    return point[0] + away[0] * share, point[1] + away[1] * share
