// Weights as lines between two lists of tokens, painted on one canvas that shows as much of the lists as fits.
import { cssColour } from "./canvas.js";
import { build, short } from "./dom.js";

const LINE = 18; // pixels that a token takes
const TALLEST = 620;

/* steps (Uint8Array of root steps), high, wide, down, across: tokens {text, number}; threshold: the least weight drawn;
   move(row, column): a token was pointed at; width: in pixels. Both lists reach their ends together; lines leave the picture where a token is out of sight. */
export function arcsOf({ steps, high, wide, down, across, threshold, width, label, signal, move }) {
  const canvas = build("canvas", "arcs", [], { "aria-hidden": "true" }), room = build("div", "arcs-room", canvas);
  const element = build("div", "arcs-scroll", room, { tabindex: "0", role: "region", "aria-label": label, id: "arcs" });
  const full = Math.max(high, wide) * LINE + 8, height = Math.min(full, Math.max(320, Math.min(TALLEST, innerHeight - 330)));
  let marked = [0, 0], colours = null, waiting = 0;
  room.style.height = `${full}px`;
  element.style.height = `${height}px`;

  function paint() {
    const scale = devicePixelRatio || 1;
    colours ??= { accent: cssColour("accent"), ink: cssColour("ink"), soft: cssColour("soft"), wash: cssColour("wash"), mono: cssColour("mono") };
    canvas.width = Math.ceil(width * scale);
    canvas.height = Math.ceil(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), side = Math.min(120, width * 0.36), tops = [high, wide].map(scrolled);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.strokeStyle = colours.accent;
    const [first, last] = seen(tops[0], high);
    for (let row = first; row <= last; row++) if (row !== marked[0]) lines(pen, row, tops, side, 0.35);
    lines(pen, marked[0], tops, side, 1);
    names(pen, down, marked[0], tops[0], "right", side - 6, [0, side]);
    names(pen, across, marked[1], tops[1], "left", width - side + 6, [width - side, side]);
  }

  const y = (n, top) => n * LINE + LINE / 2 + 4 - top;
  const seen = (top, count) => [Math.max(0, Math.floor((top - 4) / LINE)), Math.min(count - 1, Math.floor((top + height) / LINE))];

  // How far a list of so many tokens is scrolled: a short one less than a long one.
  function scrolled(count) {
    return (Math.max(0, count * LINE + 8 - height) * element.scrollTop) / Math.max(1, full - height);
  }

  function lines(pen, row, tops, side, strength) {
    const one = y(row, tops[0]);
    for (let column = 0; column < wide; column++) {
      const weight = (steps[row * wide + column] / 255) ** 2; // the steps are of the root
      if (weight < threshold) continue;
      pen.globalAlpha = strength * Math.max(0.15, weight);
      pen.lineWidth = strength === 1 ? 1 + 2 * weight : 1;
      pen.beginPath();
      pen.moveTo(side, one);
      pen.bezierCurveTo(width / 2, one, width / 2, y(column, tops[1]), width - side, y(column, tops[1]));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function names(pen, tokens, chosen, top, align, x, [left, across]) {
    const [first, last] = seen(top, tokens.length);
    pen.textBaseline = "middle";
    pen.textAlign = align;
    for (let n = first; n <= last; n++) {
      if (n === chosen) {
        pen.fillStyle = colours.wash;
        pen.fillRect(left, y(n, top) - LINE / 2, across, LINE);
      }
      pen.font = `${n === chosen ? "bold " : ""}12px ${colours.mono}`;
      pen.fillStyle = n === chosen ? colours.ink : colours.soft;
      pen.fillText(short(tokens[n].text, Math.max(4, Math.floor((across - 10) / 7.4))), x, y(n, top));
    }
  }

  function mark(row, column) {
    marked = [row, column];
    const at = y(row, scrolled(high));
    if (at < 0 || at > height) element.scrollTop = (full - height) * Math.min(1, Math.max(0, (row * LINE - height / 2) / Math.max(1, high * LINE + 8 - height)));
    soon();
  }

  function soon() { // at most once a frame, however often it is asked for
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(paint);
  }

  element.addEventListener("scroll", soon, { signal });
  addEventListener("resize", () => { width = element.clientWidth; soon(); }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), left = event.clientX - box.left < box.width / 2;
    const n = Math.floor((event.clientY - box.top + scrolled(left ? high : wide) - 4) / LINE);
    if (n < 0 || n >= (left ? high : wide)) return;
    const next = left ? [n, strongest(n)] : [marked[0], n];
    if (next[0] !== marked[0] || next[1] !== marked[1]) move(...next);
  }, { signal });

  function strongest(row) {
    let best = 0;
    for (let column = 1; column < wide; column++) if (steps[row * wide + column] > steps[row * wide + best]) best = column;
    return best;
  }

  element.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    move(marked[0] + by[0], marked[1] + by[1]);
  }, { signal });
  const setThreshold = (value) => { threshold = value; soon(); };
  return { element, canvas, paint, mark, setThreshold };
}
