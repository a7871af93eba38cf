// A table of coloured texts of any length on one canvas as large as its window: only what is seen is drawn.
import { build, cut, short } from "./dom.js";
import { cssColour, hex, inkOn, rampOf } from "./canvas.js";

const HIGH = 24, HEAD = 26; // pixels of a row, and of the names above
const LETTER = 7.3; // pixels
const NAME = 13; // letters of a row's name
const LEAST = 76, MOST = 200; // pixels of a column

/* options: rows, columns (names), text(row, column), step(row, column) -> 0…255 or null, kind: of ramp, strong(row): whether a
   row's name stands out, label, at, move(row, column), open(row, column), signal, room: pixels it may take. */
export function grid(options) {
  const { rows, columns, label, at: first, move = () => {}, open = () => {}, signal, room = 0 } = options;
  const canvas = build("canvas", "", [], { "aria-hidden": "true" }), space = build("div", "space", canvas);
  const element = build("div", "grid", space, { tabindex: "0", role: "application", "aria-roledescription": "table", "aria-label": label });
  const ruler = penOf(canvas, 1, 1), side = Math.ceil(Math.min(120, 10 + Math.max(...rows.map((name) => ruler.measureText(cut(name, NAME)).width))));
  const wide = Math.floor(Math.max(LEAST, Math.min(MOST, (room - side) / columns.length)));
  const full = { wide: side + columns.length * wide, high: HEAD + rows.length * HIGH };
  space.style.width = `${full.wide}px`;
  space.style.height = `${full.high}px`;
  Object.assign(canvas.dataset, { side, wide });
  let at = first ?? [0, 0], asked = 0;

  function draw() {
    asked = 0;
    const width = Math.min(element.clientWidth, full.wide), height = Math.min(element.clientHeight, full.high);
    const { scrollLeft: left, scrollTop: top } = element, pen = penOf(canvas, width, height);
    const seen = {
      side, wide, left, top, at,
      rows: between(Math.floor(top / HIGH), Math.min(rows.length, Math.ceil((top + height) / HIGH))),
      columns: between(Math.floor(left / wide), Math.min(columns.length, Math.ceil((left + width) / wide))),
    };
    paintCells(pen, options, seen);
    pen.fillStyle = cssColour("card");
    pen.fillRect(0, 0, side - 1, height);
    pen.fillRect(0, 0, width, HEAD - 1);
    paintNames(pen, options, seen);
  }

  const soon = () => { asked ||= requestAnimationFrame(draw); };

  function select(row, column, { follow = true, quiet = false } = {}) {
    at = [Math.max(0, Math.min(rows.length - 1, row)), Math.max(0, Math.min(columns.length - 1, column))];
    if (follow) {
      element.scrollTop = within(element.scrollTop, at[0] * HIGH, HIGH, element.clientHeight - HEAD);
      element.scrollLeft = within(element.scrollLeft, at[1] * wide, wide, element.clientWidth - side);
    }
    soon();
    if (!quiet) move(...at);
  }

  const place = (event) => {
    const box = element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (x < side || y < HEAD) return null;
    const found = [Math.floor((y - HEAD + element.scrollTop) / HIGH), Math.floor((x - side + element.scrollLeft) / wide)];
    return found[0] < rows.length && found[1] < columns.length ? found : null;
  };
  listen(element, { rows, columns, signal, open, select, place, at: () => at });
  element.addEventListener("scroll", soon, { signal, passive: true });
  const watcher = new ResizeObserver(soon);
  watcher.observe(element);
  signal.addEventListener("abort", () => watcher.disconnect());
  return { element, select, draw, at: () => at };
}

const between = (first, end) => Array.from({ length: Math.max(0, end - first) }, (_, n) => first + n);

// How far to scroll so that a part of this size is seen in a window of that one.
const within = (now, start, size, room) => (start < now ? start : start + size > now + room ? start + size - room : now);

function listen(element, { rows, columns, signal, open, select, place, at }) {
  element.addEventListener("pointermove", (event) => {
    const found = place(event);
    if (found && (found[0] !== at()[0] || found[1] !== at()[1])) select(...found, { follow: false });
  }, { signal });
  element.addEventListener("click", (event) => {
    const found = place(event);
    if (!found) return;
    select(...found, { follow: false });
    open(...found);
  }, { signal });
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor((element.clientHeight - HEAD) / HIGH) - 1);
    const moves = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-page, 0], PageDown: [page, 0],
      Home: [event.ctrlKey ? -rows.length : 0, -columns.length], End: [event.ctrlKey ? rows.length : 0, columns.length],
    };
    if (event.key in moves) {
      event.preventDefault();
      select(at()[0] + moves[event.key][0], at()[1] + moves[event.key][1]);
    } else if (event.key === "Enter") open(...at());
  }, { signal });
  element.addEventListener("focus", () => select(...at()), { signal });
}

function penOf(canvas, width, height) {
  const scale = devicePixelRatio || 1, pen = canvas.getContext("2d");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.textBaseline = "middle";
  pen.font = `12px ${cssColour("mono")}`;
  return pen;
}

const lettersIn = (wide) => Math.floor((wide - 12) / LETTER);

function paintCells(pen, { text, step, kind = "plain" }, { side, wide, left, top, at, rows, columns }) {
  const ramp = rampOf(kind);
  for (const row of rows) {
    for (const column of columns) {
      const x = side + column * wide - left, y = HEAD + row * HIGH - top, one = step(row, column);
      pen.fillStyle = one === null ? cssColour("card") : hex(ramp, one);
      pen.fillRect(x, y, wide - 1, HIGH - 1);
      pen.fillStyle = one === null ? cssColour("ink") : inkOn(ramp, one);
      pen.fillText(short(text(row, column), lettersIn(wide)), x + 6, y + HIGH / 2);
      if (row !== at[0] || column !== at[1]) continue;
      pen.strokeStyle = cssColour("ink");
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, wide - 3, HIGH - 3);
    }
  }
}

function paintNames(pen, { rows: names, columns: heads, strong = () => false }, { side, wide, left, top, at, rows, columns }) {
  for (const row of rows) {
    const y = HEAD + (row + 0.5) * HIGH - top;
    if (y < HEAD) continue;
    pen.fillStyle = cssColour(strong(row) ? "accent" : row === at[0] ? "ink" : "soft");
    pen.fillText(cut(names[row], NAME), 4, y);
  }
  for (const column of columns) {
    const x = side + column * wide - left;
    if (x < side - wide / 2) continue;
    pen.fillStyle = cssColour(column === at[1] ? "ink" : "soft");
    pen.fillText(cut(heads[column], lettersIn(wide)), x + 6, HEAD / 2);
  }
}
