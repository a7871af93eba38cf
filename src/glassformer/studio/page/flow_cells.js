// A recurrent layer unrolled, inside its box of Flow: one cell at every token's row, and its states from cell to cell.
import { paintSteps, rampOf } from "./canvas.js";
import { shape } from "./curves.js";
import { build, make, short, visible } from "./dom.js";

const EDGE = 2, GAP = 2; // pixels: within a cell's border, and between two states

/* layer: {cells, arrows, values, backward} as the server laid them out in `height` pixels. picture(name): of a value
   {rows, columns, scale, steps (Uint8Array)}. tokens: the texts. */
export function cellsOf(layer, { width, height, tokens, picture }) {
  const cells = layer.cells.map((cell, row) => {
    const one = build("span", "cell", make("i", "", short(visible(tokens[row]), 8)));
    one.style.top = `${cell.y}px`;
    one.style.height = `${cell.height}px`;
    return one;
  });
  return build("span", "unrolled", [...cells, ...layer.values.map((name, number) => stripsOf(layer, number, picture(name), height)), arrowsOf(layer.arrows, width, height)]);
}

// A state after every token, a colour for each number: on one canvas, as hundreds of them would be slow to move.
function stripsOf({ cells, values }, number, { columns, scale, steps }, height) {
  const high = Math.round(height), rows = new Uint8Array(columns * high), blank = new Set(Array(high).keys());
  for (const [row, cell] of cells.entries()) {
    const each = (cell.height - 2 * EDGE + GAP) / values.length, from = cell.y + EDGE + number * each;
    for (let y = Math.round(from); y < Math.round(from + each - GAP); y++) {
      rows.set(steps.subarray(row * columns, (row + 1) * columns), y * columns);
      blank.delete(y);
    }
  }
  const canvas = build("canvas", "strips pixels", [], { "aria-hidden": "true" });
  paintSteps(canvas, rows, high, columns, rampOf(scale[0] < 0 ? "signed" : "plain"));
  for (const y of blank) canvas.getContext("2d").clearRect(0, y, columns, 1);
  return canvas;
}

function arrowsOf(arrows, width, height) {
  const parts = arrows.flatMap(({ x, start, end, text }) => {
    const back = start > end ? 4 : -4;
    return [shape("path", { d: `M${x} ${start}V${end}m-3 ${back}l3 ${-back}l3 ${back}` }), shape("text", { x: x + 7, y: (start + end) / 2 + 3 }, text)];
  });
  return shape("svg", { width, height, "aria-hidden": "true" }, parts);
}

// What a row knows of the rows before it: the way of each state from where the layer begins to this row's cell.
export function past({ arrows, cells, backward }, row) {
  const steps = backward ? cells.length - row : row + 1, each = cells.length + 1;
  return arrows.filter((_, number) => number % each < steps);
}
