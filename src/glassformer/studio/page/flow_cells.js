// A recurrent layer unrolled, inside its box of Flow: one cell at every token's row, and its states from cell to cell.
import { paintSteps, rampOf } from "./canvas.js";
import { shape } from "./curves.js";
import { build, make, short, visible } from "./dom.js";

/* layer: {cells, arrows, values, backward} as the server laid them out in `height` pixels. picture(name): of a value
   {rows, columns, scale, steps (Uint8Array)}. tokens: the texts. */
export function cellsOf(layer, { width, height, tokens, picture }) {
  const states = layer.values.map(picture);
  const cells = layer.cells.map((cell, row) => {
    const strips = states.map((state) => strip(state, row)), one = build("span", "cell", [make("i", "", short(visible(tokens[row]), 8)), build("span", "strips", strips)]);
    one.style.top = `${cell.y}px`;
    one.style.height = `${cell.height}px`;
    return one;
  });
  return build("span", "unrolled", [...cells, arrowsOf(layer.arrows, width, height)]);
}

// One state after one token: a colour for every number.
function strip({ columns, scale, steps }, row) {
  const canvas = build("canvas", "pixels", [], { "aria-hidden": "true" });
  paintSteps(canvas, steps.subarray(row * columns, (row + 1) * columns), 1, columns, rampOf(scale[0] < 0 ? "signed" : "plain"));
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
