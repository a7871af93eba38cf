// Results as SVG, to be taken along: bars, and the tree of a beam search. Colours are the page's own at that moment.
import { cssColour } from "./canvas.js";
import { number, short } from "./dom.js";
import { escaped } from "./share.js";

const MONO = 'font-family="ui-monospace, monospace" font-size="12"';

function sheet(width, height, title, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${cssColour("card")}"/>` +
    `<text x="16" y="22" font-family="sans-serif" font-size="13" fill="${cssColour("ink")}">${escaped(title)}</text>${parts.join("")}</svg>`;
}

// Rows are {name, value (0 to 1, or -1 to 1), figure}.
export function barsSvg(title, rows) {
  const [ink, soft, line, accent] = ["ink", "soft", "line", "accent"].map(cssColour), room = 240, wide = 320;
  const parts = rows.map(({ name, value, figure = number(value) }, place) => {
    const y = 38 + place * 24, size = Math.min(1, Math.abs(value)) * wide;
    return `<text x="${room - 8}" y="${y + 14}" text-anchor="end" fill="${ink}" ${MONO}>${escaped(short(name, 30))}</text>` +
      `<rect x="${room}" y="${y + 3}" width="${wide}" height="14" rx="3" fill="none" stroke="${line}"/>` +
      `<rect x="${room}" y="${y + 3}" width="${size}" height="14" rx="3" fill="${value < 0 ? soft : accent}"/>` +
      `<text x="${room + wide + 10}" y="${y + 14}" fill="${soft}" ${MONO}>${escaped(figure)}</text>`;
  });
  return sheet(room + wide + 110, 50 + rows.length * 24, title, parts);
}

// Rows of columns in fixed letters; a row of one text runs across all.
export function linesSvg(title, rows) {
  const ink = cssColour("ink"), wide = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 13 : 7.4), 0), several = rows.filter((row) => row.length > 1), starts = [16];
  for (let column = 0; column < (several[0]?.length ?? 1); column++) starts.push(starts[column] + 16 + Math.max(0, ...several.map((row) => wide(row[column]))));
  const parts = rows.flatMap((row, place) => row.map((text, column) =>
    `<text x="${starts[column]}" y="${52 + 20 * place}" fill="${ink}" xml:space="preserve" ${MONO}>${escaped(text)}</text>`));
  const width = Math.max(starts.at(-1), 32 + wide(title), ...rows.filter((row) => row.length === 1).map(([text]) => 32 + wide(text)));
  return sheet(Math.ceil(width), 60 + 20 * rows.length, title, parts);
}

// --- the tree of a beam search ----------------------------------------------------------------------------------

export const TREE = { column: 148, row: 32, wide: 112, high: 24, left: 84, top: 58 };
const x = (step) => TREE.left + TREE.column * step;
const y = (rank) => TREE.top + TREE.row * rank;

// Steps are lists of {token, score, parent, fate}; path has the node of each step on the way to the text found.
export function treeSvg(title, start, steps, path = []) {
  const width = x(steps.length) + 8, rows = Math.max(1, ...steps.map((one) => one.length)), middle = y((steps[0]?.length ?? 1) / 2) - 4;
  const soft = cssColour("soft"), parts = [`<text x="38" y="${middle + 4}" text-anchor="middle" fill="${soft}" ${MONO}>${escaped(short(start, 9))}</text>`];
  steps.forEach((nodes, step) => {
    parts.push(`<text x="${x(step) + TREE.wide / 2}" y="46" text-anchor="middle" fill="${soft}" ${MONO}>${step + 1}</text>`);
    const order = nodes.map((_, rank) => rank).sort((one, other) => (path[step] === one) - (path[step] === other)); // the best on top
    for (const rank of order) parts.push(edge(nodes[rank], step, rank, middle, path[step] === rank));
  });
  steps.forEach((nodes, step) => nodes.forEach((one, rank) => parts.push(node(one, step, rank, path[step] === rank))));
  return sheet(width, y(rows) + 8, title, parts);
}

function edge({ parent, fate }, step, rank, middle, best) {
  const from = step ? x(step - 1) + TREE.wide : 70, fromY = parent === null ? middle : y(parent) + TREE.high / 2, toY = y(rank) + TREE.high / 2;
  const bend = (from + x(step)) / 2, look = best ? `stroke="${cssColour("accent")}" stroke-width="2.5"` : `stroke="${cssColour("soft")}" stroke-opacity="${fate === "dropped" ? 0.25 : 0.6}"`;
  return `<path fill="none" d="M${from} ${fromY}C${bend} ${fromY} ${bend} ${toY} ${x(step)} ${toY}" ${look}/>`;
}

function node({ token, score, fate }, step, rank, best) {
  const ink = cssColour(best ? "on-accent" : fate === "dropped" ? "soft" : "ink"), frame = cssColour(fate === "ended" ? "ink" : best ? "accent" : "soft");
  const look = `fill="${cssColour(best ? "accent" : "card")}" stroke="${frame}" stroke-width="${fate === "ended" ? 2 : 1}"${fate === "dropped" ? ' stroke-dasharray="3 3"' : ""}`;
  return `<rect x="${x(step)}" y="${y(rank)}" width="${TREE.wide}" height="${TREE.high}" rx="6" ${look}/>` +
    `<text x="${x(step) + 8}" y="${y(rank) + 16}" fill="${ink}" ${MONO}>${escaped(short(token, 8))}</text>` +
    `<text x="${x(step) + TREE.wide - 7}" y="${y(rank) + 16}" text-anchor="end" fill="${ink}" ${MONO}>${score.toFixed(1)}</text>`;
}
