// What can be taken along from every view: the Python that gives it, a picture, and the numbers.
import { npz } from "./api.js";
import { hex } from "./canvas.js";
import { build, button, cut, short } from "./dom.js";

// {python, svg: () => text or a promise of it, names: [tensors], more: [nodes]}; only what is given has a button. The PNG is the SVG, drawn.
export function toolbar(view, { python, svg, names = [], more = [] }) {
  const { t } = view, file = `${view.model?.name ?? "studio"}-${view.state.screen ?? "flow"}`;
  const parts = [...more];
  if (python) parts.push(button(t("copyPython"), () => copy(value(python), view), { id: "copy-python" }));
  if (svg) parts.push(button("SVG", async () => download(new Blob([await svg()], { type: "image/svg+xml" }), `${file}.svg`), { id: "export-svg", "aria-label": t("exportAs", "SVG") }));
  if (svg) parts.push(button("PNG", async () => (await drawn(await svg())).toBlob((blob) => download(blob, `${file}.png`)), { id: "export-png", "aria-label": t("exportAs", "PNG") }));
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

// A promise of a canvas with the picture on it, twice as fine as it is shown.
export async function drawn(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = build("canvas"), scale = Math.min(2, 16000 / Math.max(image.width, image.height));
  canvas.width = image.width * scale;
  canvas.height = image.height * scale;
  canvas.style.width = `${image.width}px`;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// --- a matrix as SVG ------------------------------------------------------------------------------------------

const NOT_XML = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu; // escaped or not, XML knows no such characters
export const escaped = (text) => String(text).replace(NOT_XML, "").replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

// Colour steps (high × wide) with labels; `ink` and `paper` are colours.
export function matrixSvg({ steps, high, wide, ramp, down = [], across = [], title, ink, paper }) {
  const cell = Math.max(2, Math.min(18, Math.floor(900 / Math.max(high, wide)))), [room, lean] = cell >= 9 ? [120, 64] : [12, 12], head = cut(String(title), 90);
  const text = (x, y, words, more) => `<text x="${x}" y="${y}" ${more}>${escaped(words)}</text>`;
  const parts = [];
  for (let row = 0; row < high; row++) {
    for (let column = 0; column < wide; column++) {
      const colour = hex(ramp, steps[row * wide + column]);
      parts.push(`<rect x="${room + column * cell}" y="${room + 22 + row * cell}" width="${cell}" height="${cell}" fill="${colour}"/>`);
    }
  }
  if (cell >= 9) {
    down.forEach((label, row) => parts.push(text(room - 4, room + 22 + row * cell + cell * 0.75, short(label), 'text-anchor="end"')));
    across.forEach((label, column) => {
      const x = room + column * cell + cell * 0.75, y = room + 18;
      parts.push(text(x, y, short(label), `transform="rotate(-60 ${x} ${y})"`));
    });
  }
  const width = Math.max(room + wide * cell + lean, 24 + 7 * head.length), height = room + 22 + high * cell + 12;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="ui-monospace, monospace" font-size="${Math.min(11, cell)}" fill="${ink}" shape-rendering="crispEdges">` +
    `<rect width="100%" height="100%" fill="${paper}"/>${text(12, 16, head, 'font-size="13" font-family="sans-serif"')}${parts.join("")}</svg>`;
}
