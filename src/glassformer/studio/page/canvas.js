// A matrix on a canvas: one pixel a value, labels beside it, one cell chosen by mouse, touch or arrow keys.
import { build, make, short } from "./dom.js";
import { ramps } from "./ramps.js";
import { step } from "./values.js";

const LABEL = 12; // pixels that a label needs
const LONGEST = 110; // pixels of labels
const LEAN = 40; // pixels by which the last label above leans out

export function isDark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// 256 colours of three bytes: "plain" or "signed", light or dark as the page is.
export function rampOf(kind) {
  return Uint8Array.from(ramps[isDark() ? "dark" : "light"][kind].match(/../g), (pair) => parseInt(pair, 16));
}

// A colour of a ramp as CSS and SVG spell it, and the colour of a text on it.
export const hex = (ramp, step) => `#${[0, 1, 2].map((n) => ramp[3 * step + n].toString(16).padStart(2, "0")).join("")}`;
export const inkOn = (ramp, step) => (0.299 * ramp[3 * step] + 0.587 * ramp[3 * step + 1] + 0.114 * ramp[3 * step + 2] > 128 ? "#101415" : "#ffffff");

export const kindOf = ([low]) => (low < 0 ? "signed" : "plain");

// Values as colour steps of a scale [low, high, root].
export function stepsOf(values, scale) {
  return Uint8Array.from(values, (value) => step(value, scale));
}

// One pixel a step.
export function paintSteps(canvas, steps, high, wide, ramp) {
  canvas.width = wide;
  canvas.height = high;
  const context = canvas.getContext("2d"), image = context.createImageData(wide, high), colours = new Uint32Array(256);
  for (let one = 0; one < 256; one++) colours[one] = 0xff000000 | (ramp[3 * one + 2] << 16) | (ramp[3 * one + 1] << 8) | ramp[3 * one];
  const pixels = new Uint32Array(image.data.buffer);
  for (let place = 0; place < steps.length; place++) pixels[place] = colours[steps[place]];
  context.putImageData(image, 0, 0);
}

export function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* A matrix that can be walked over.
   options: steps (Uint8Array), high, wide, kind ("plain" | "signed"), down, across (labels or []), label (for screen readers),
   at: [row, column], move(row, column), open(row, column), signal, most: pixels it may be wide, least: pixels that a row is high
   at least; follow: false where the pointer must click, and not only pass, to choose. */
export function heatmap(options) {
  const { steps, high, wide, kind, down = [], across = [], label, move = () => {}, open = () => {}, signal, most = 760, tallest = 620, follow = true } = options;
  const picture = build("canvas", "pixels", [], { "aria-hidden": "true" }), mark = build("canvas", "mark", [], { "aria-hidden": "true" });
  const frame = build("div", "cells", [picture, mark]);
  const names = build("canvas", "names", [], { "aria-hidden": "true" });
  const element = build("div", "heatmap", [names, frame], {
    tabindex: "0", role: "application", "aria-roledescription": "matrix", "aria-label": label,
  });
  let at = options.at ?? null; // no cell before one is chosen

  const room = Math.min(most, Math.max(160, (options.width ?? most)));
  const wanted = Math.min(26, Math.max(tallest / high, 1), Math.max((room - LONGEST - (across.length ? LEAN : 0)) / wide, 1));
  const left = Math.max(wanted, options.least ?? 0) >= LABEL && down.length ? LONGEST : 0;
  const cell = Math.min(wanted, (room - left) / wide), tall = Math.max(cell, options.least ?? 0), width = cell * wide, height = tall * high;
  const above = cell >= LABEL && across.length ? LONGEST - 20 : 0, right = above ? LEAN : 0, labelled = left || above;

  paintSteps(picture, steps, high, wide, rampOf(kind));
  for (const [name, value] of [["width", width], ["height", height]]) frame.style[name] = `${value}px`;
  frame.style.marginLeft = `${left}px`;
  frame.style.marginTop = `${above}px`;
  element.style.width = `${left + width + right}px`;
  frame.style.marginRight = `${right}px`;
  if (labelled) paintNames(names, { down: left ? down : [], across: above ? across : [], cell, tall, left, above, width: width + right, height });
  else names.hidden = true;
  const scale = devicePixelRatio || 1;
  mark.width = Math.ceil(width * scale);
  mark.height = Math.ceil(height * scale);

  function select(row, column, { quiet = false } = {}) {
    at = [Math.max(0, Math.min(high - 1, row)), Math.max(0, Math.min(wide - 1, column))];
    const pen = mark.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = cssColour("accent");
    pen.globalAlpha = 0.18;
    pen.fillRect(0, at[0] * tall, width, tall);
    pen.fillRect(at[1] * cell, 0, cell, height);
    pen.globalAlpha = 1;
    pen.clearRect(at[1] * cell, at[0] * tall, cell, tall);
    pen.strokeStyle = cssColour("ink");
    pen.lineWidth = 2;
    pen.strokeRect(at[1] * cell - 1, at[0] * tall - 1, cell + 2, tall + 2);
    if (!quiet) move(...at);
  }

  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return [Math.floor(((event.clientY - box.top) / box.height) * high), Math.floor(((event.clientX - box.left) / box.width) * wide)];
  };
  frame.addEventListener("pointermove", (event) => {
    const [row, column] = place(event);
    if (follow && (!at || row !== at[0] || column !== at[1])) select(row, column);
  }, { signal });
  frame.addEventListener("click", (event) => {
    select(...place(event));
    open(...at);
  }, { signal });
  element.addEventListener("keydown", (event) => {
    const jump = event.shiftKey ? 10 : 1;
    const steps = { ArrowUp: [-jump, 0], ArrowDown: [jump, 0], ArrowLeft: [0, -jump], ArrowRight: [0, jump], Home: [0, -wide], End: [0, wide] };
    if (event.key in steps) {
      event.preventDefault();
      select((at?.[0] ?? 0) + steps[event.key][0], (at?.[1] ?? 0) + steps[event.key][1]);
    } else if (event.key === "Enter" && at) open(...at);
  }, { signal });
  element.addEventListener("focus", () => select(...(at ?? [0, 0])), { signal });

  return { element, canvas: picture, select, at: () => at, cell, tall };
}

function paintNames(canvas, { down, across, cell, tall, left, above, width, height }) {
  const scale = devicePixelRatio || 1, pen = canvas.getContext("2d");
  canvas.width = Math.ceil((left + width) * scale);
  canvas.height = Math.ceil((above + height) * scale);
  canvas.style.width = `${left + width}px`;
  canvas.style.height = `${above + height}px`;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = `12px ${cssColour("mono")}`;
  pen.fillStyle = cssColour("soft");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  down.forEach((text, row) => pen.fillText(short(text, 14), left - 6, above + (row + 0.5) * tall));
  pen.textAlign = "left";
  across.forEach((text, column) => {
    pen.save();
    pen.translate(left + (column + 0.5) * cell, above - 6);
    pen.rotate(-Math.PI / 3);
    pen.fillText(short(text, 12), 0, 0);
    pen.restore();
  });
}

// The colours of a scale, from its least to its greatest value.
export function legend([low, high, root], number) {
  const kind = kindOf([low]), bar = build("canvas", "ramp", [], { "aria-hidden": "true" });
  paintSteps(bar, Uint8Array.from({ length: 256 }, (_, one) => one), 1, 256, rampOf(kind));
  const ends = [make("small", "", number(low)), bar, make("small", "", number(high) + (root ? " √" : ""))];
  return build("span", "legend", ends);
}
