// What can be taken along from every view: the Python that gives it, a picture, and the numbers.
import { npz } from "./api.js";
import { build, button } from "./dom.js";

// {python, svg: () => text, png: () => canvas or a promise of one, names: [tensors], more: [nodes]}; only what is given has a button.
export function toolbar(view, { python, svg, png, names = [], more = [] }) {
  const { t, tell } = view, file = `${view.model?.name ?? "studio"}-${view.state.screen ?? "run"}`;
  const parts = [...more];
  if (python) parts.push(button(t("copyPython"), () => copy(value(python), view), { id: "copy-python" }));
  if (svg) parts.push(button("SVG", () => download(new Blob([svg()], { type: "image/svg+xml" }), `${file}.svg`), { id: "export-svg", "aria-label": t("exportAs", "SVG") }));
  if (png) parts.push(button("PNG", async () => (await png()).toBlob((blob) => download(blob, `${file}.png`)), { id: "export-png", "aria-label": t("exportAs", "PNG") }));
  if (names.length && view.trace) {
    const label = { "aria-label": t("exportAs", "npz"), id: "export-npz", class: "button" };
    parts.push(build("a", "", "npz", { href: npz(view.trace.trace_id, names), download: `${file}.npz`, ...label }));
  }
  return build("div", "tools", parts, { role: "toolbar", "aria-label": t("tools") });
}

const value = (one) => (typeof one === "function" ? one() : one);

async function copy(text, { t, tell }) {
  try {
    await navigator.clipboard.writeText(text);
    tell(t("copied"));
  } catch { // no permission: at least it can be seen and selected
    tell(text);
  }
}

export function download(blob, name) {
  const link = build("a", "", "", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// --- a matrix as SVG ------------------------------------------------------------------------------------------

export const escaped = (text) => String(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
const hex = (ramp, step) => `#${[0, 1, 2].map((n) => ramp[3 * step + n].toString(16).padStart(2, "0")).join("")}`;

// Colour steps (high × wide) with labels; `ink` and `paper` are colours.
export function matrixSvg({ steps, high, wide, ramp, down = [], across = [], title, ink, paper }) {
  const cell = Math.max(2, Math.min(18, Math.floor(900 / Math.max(high, wide)))), room = cell >= 9 ? 120 : 12;
  const text = (x, y, words, more) => `<text x="${x}" y="${y}" ${more}>${escaped(words)}</text>`;
  const parts = [];
  for (let row = 0; row < high; row++) {
    for (let column = 0; column < wide; column++) {
      const colour = hex(ramp, steps[row * wide + column]);
      parts.push(`<rect x="${room + column * cell}" y="${room + 22 + row * cell}" width="${cell}" height="${cell}" fill="${colour}"/>`);
    }
  }
  if (cell >= 9) {
    down.forEach((label, row) => parts.push(text(room - 4, room + 22 + row * cell + cell * 0.75, label, 'text-anchor="end"')));
    across.forEach((label, column) => {
      const x = room + column * cell + cell * 0.75, y = room + 18;
      parts.push(text(x, y, label, `transform="rotate(-60 ${x} ${y})"`));
    });
  }
  const width = room + wide * cell + 12, height = room + 22 + high * cell + 12;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="ui-monospace, monospace" font-size="${Math.min(11, cell)}" fill="${ink}" shape-rendering="crispEdges">` +
    `<rect width="100%" height="100%" fill="${paper}"/>${text(12, 16, title, 'font-size="13" font-family="sans-serif"')}${parts.join("")}</svg>`;
}
