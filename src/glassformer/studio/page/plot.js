// Lines over a few places, as SVG: each has a name, a dash of its own and a dot at every value.
import { shape } from "./curves.js";
import { build, make, number } from "./dom.js";

const WIDE = 284, HIGH = 150, LEFT = 48, BELOW = 20, ABOVE = 8, RIGHT = 8;

// series: [{name, values}], what is no number is a gap; names: of the places, the first and the last are written.
export function lines(series, { label, low, high, names }) {
  const known = series.flatMap(({ values }) => values.filter(Number.isFinite));
  if (!Number.isFinite(low)) low = Math.min(0, ...known);
  if (!Number.isFinite(high)) high = Math.max(1, ...known);
  const count = names.length, span = high - low || 1;
  const x = (place) => LEFT + (count > 1 ? place / (count - 1) : 0.5) * (WIDE - LEFT - RIGHT);
  const y = (value) => ABOVE + (1 - (value - low) / span) * (HIGH - ABOVE - BELOW);
  const picture = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label, class: "plot" });
  for (const value of [low, (low + high) / 2, high]) {
    picture.append(shape("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(value), y2: y(value), class: "rule" }),
      shape("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  picture.append(shape("text", { x: LEFT, y: HIGH - 5 }, names[0].slice(0, 16)), shape("text", { x: WIDE - RIGHT, y: HIGH - 5, "text-anchor": "end" }, count > 1 ? names[count - 1].slice(0, 16) : ""));
  series.forEach(({ values }, nth) => {
    const points = values.map((value, place) => (Number.isFinite(value) ? [x(place), y(value)] : null)).filter(Boolean);
    picture.append(shape("polyline", { points: points.map((point) => point.join(",")).join(" "), class: `line-${nth}` }));
    if (points.length <= 40) picture.append(...points.map(([cx, cy]) => shape("circle", { cx, cy, r: 2, class: `dot-${nth}` })));
  });
  const named = series.filter((one) => one.name).map((one, nth) => {
    const key = shape("svg", { viewBox: "0 0 22 8", class: "key", "aria-hidden": "true" });
    key.append(shape("line", { x1: 0, x2: 22, y1: 4, y2: 4, class: `line-${nth}` }));
    return build("span", "", [key, make("small", "", one.name)]);
  });
  return build("figure", "lines", [picture, ...(named.length ? [build("figcaption", "", named)] : [])]);
}
