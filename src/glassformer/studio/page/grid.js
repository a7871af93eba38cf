// A table of coloured texts of any length on one canvas as large as its window: only what is seen is drawn.
import { build, cut, short } from "./dom.js";
import { cssColour, hex, inkOn, rampOf } from "./canvas.js";

const HIGH = 24, HEAD = 26; // pixels of a row, and of the names above

/* options: rows, columns (names), text(row, column), step(row, column) -> 0…255 or null, kind: of ramp, strong(row): whether a
   row's name stands out, label, at, move(row, column), open(row, column), signal, room: pixels it may take. */
export function grid({ rows, columns, text, step, kind = "plain", strong = () => false, label, at: first, move = () => {}, open = () => {}, signal, room = 0 }) {
  const canvas = build("canvas", "", [], { "aria-hidden": "true" }), space = build("div", "space", canvas);
  const element = build("div", "grid", space, { tabindex: "0", role: "application", "aria-roledescription": "table", "aria-label": label });
  const side = Math.min(120, 24 + 8 * Math.max(...rows.map((name) => Math.min(13, name.length))));
  const wide = Math.floor(Math.max(80, Math.min(200, (room - side) / columns.length)));
  const full = { wide: side + columns.length * wide, high: HEAD + rows.length * HIGH };
  space.style.width = `${full.wide}px`;
  space.style.height = `${full.high}px`;
  Object.assign(canvas.dataset, { side, wide });
  let at = first ?? [0, 0], asked = 0;

  function draw() {
    asked = 0;
    const scale = devicePixelRatio || 1, width = Math.min(element.clientWidth, full.wide), height = Math.min(element.clientHeight, full.high);
    const { scrollLeft: left, scrollTop: top } = element, pen = canvas.getContext("2d"), ramp = rampOf(kind);
    canvas.width = Math.ceil(width * scale);
    canvas.height = Math.ceil(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.textBaseline = "middle";
    pen.font = `12px ${cssColour("mono")}`;
    const columnsSeen = [Math.floor(left / wide), Math.min(columns.length, Math.ceil((left + width) / wide))];
    const rowsSeen = [Math.floor(top / HIGH), Math.min(rows.length, Math.ceil((top + height) / HIGH))];
    const letters = Math.floor((wide - 12) / 7.3);
    for (let row = rowsSeen[0]; row < rowsSeen[1]; row++) {
      for (let column = columnsSeen[0]; column < columnsSeen[1]; column++) {
        const x = side + column * wide - left, y = HEAD + row * HIGH - top, one = step(row, column);
        pen.fillStyle = one === null ? cssColour("card") : hex(ramp, one);
        pen.fillRect(x, y, wide - 1, HIGH - 1);
        pen.fillStyle = one === null ? cssColour("ink") : inkOn(ramp, one);
        pen.fillText(short(text(row, column), letters), x + 6, y + HIGH / 2);
        if (row === at[0] && column === at[1]) {
          pen.strokeStyle = cssColour("ink");
          pen.lineWidth = 2;
          pen.strokeRect(x + 1, y + 1, wide - 3, HIGH - 3);
        }
      }
    }
    pen.fillStyle = cssColour("card");
    pen.fillRect(0, 0, side - 1, height);
    pen.fillRect(0, 0, width, HEAD - 1);
    for (let row = rowsSeen[0]; row < rowsSeen[1]; row++) {
      const y = HEAD + (row + 0.5) * HIGH - top;
      if (y < HEAD) continue;
      pen.fillStyle = cssColour(strong(row) ? "accent" : row === at[0] ? "ink" : "soft");
      pen.fillText(cut(rows[row], 13), 4, y);
    }
    for (let column = columnsSeen[0]; column < columnsSeen[1]; column++) {
      const x = side + column * wide - left;
      if (x < side - wide / 2) continue;
      pen.fillStyle = cssColour(column === at[1] ? "ink" : "soft");
      pen.fillText(cut(columns[column], letters), x + 6, HEAD / 2);
    }
  }

  const soon = () => { asked ||= requestAnimationFrame(draw); };

  function select(row, column, { follow = true, quiet = false } = {}) {
    at = [Math.max(0, Math.min(rows.length - 1, row)), Math.max(0, Math.min(columns.length - 1, column))];
    if (follow) {
      const [y, x] = [at[0] * HIGH, at[1] * wide], [high, across] = [element.clientHeight - HEAD, element.clientWidth - side];
      if (y < element.scrollTop) element.scrollTop = y;
      else if (y + HIGH > element.scrollTop + high) element.scrollTop = y + HIGH - high;
      if (x < element.scrollLeft) element.scrollLeft = x;
      else if (x + wide > element.scrollLeft + across) element.scrollLeft = x + wide - across;
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
  element.addEventListener("pointermove", (event) => {
    const found = place(event);
    if (found && (found[0] !== at[0] || found[1] !== at[1])) select(...found, { follow: false });
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
      select(at[0] + moves[event.key][0], at[1] + moves[event.key][1]);
    } else if (event.key === "Enter") open(...at);
  }, { signal });
  element.addEventListener("focus", () => select(...at), { signal });
  element.addEventListener("scroll", soon, { signal, passive: true });
  const watcher = new ResizeObserver(soon);
  watcher.observe(element);
  signal.addEventListener("abort", () => watcher.disconnect());
  return { element, canvas, select, draw, at: () => at };
}
