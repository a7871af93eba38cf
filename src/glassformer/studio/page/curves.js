// Curves as SVG, made by hand: lines on one scale with round ticks. Its colours are written into it, so that it can be saved as it is.
const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 52, RIGHT = 10, TOP = 8, BELOW = 24; // pixels around the lines
const FEW = 40; // points: up to so many are marked one by one

export function shape(tag, attributes = {}, inside = []) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (typeof inside === "string") made.textContent = inside;
  else made.append(...inside);
  return made;
}

// Multiples of 1, 2 or 5 times a power of ten; of a wide logarithmic scale, powers of ten.
export function ticks(low, high, most, log) {
  if (log && high / low >= 100) {
    const powers = [], apart = Math.ceil(Math.log10(high / low) / most);
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += apart) powers.push(Number(`1e${power}`));
    if (powers.length > 1) return powers;
  }
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const size = [1, 2, 5, 10, 20].map((nice) => nice * power).find((one) => (high - low) / one <= most);
  const found = [];
  for (let place = Math.ceil(low / size - 1e-9); place * size <= high * (1 + 1e-9); place++) found.push(Number((place * size).toPrecision(12)));
  return found;
}

// The least and the most, with some air; a logarithmic scale has no place for zero.
function bounds(values, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (log) {
    const air = high > low ? (high / low) ** 0.06 : 2;
    return [low / air, high * air];
  }
  const air = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
}

const words = (value) => {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return size && size < 1e-3 ? value.toExponential().replace(/(\.\d\d)\d+e/, "$1e") : String(Number(value.toPrecision(6)));
};

// No more points than can be told apart: of each pixel's, the least and the most.
function thinned(points, across) {
  if (points.length <= 2000) return points;
  const kept = [];
  for (let place = 0; place < points.length;) {
    const pixel = Math.round(across(points[place][0]));
    let low = points[place], high = low;
    for (; place < points.length && Math.round(across(points[place][0])) === pixel; place++) {
      if (points[place][1] < low[1]) low = points[place];
      if (points[place][1] > high[1]) high = points[place];
    }
    kept.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
  }
  return kept;
}

/* series: [{colour, dash, faint, points: [[step, value], …]}]; range: the first and the last step of all plots.
   Gives the picture, and `across(step)`: where a step is. */
export function plot({ series, range, width, height, log, ink }) {
  const drawn = series.map((one) => ({ ...one, points: one.points.filter(([, value]) => !log || value > 0) })).filter((one) => one.points.length);
  const element = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12 });
  const right = width - RIGHT, bottom = height - BELOW, [first, last] = range;
  const across = (step) => LEFT + ((step - first) / (last - first || 1)) * (right - LEFT);
  if (!drawn.length) return { element, across };
  const [low, high] = bounds(drawn.flatMap((one) => one.points.map(([, value]) => value)), log);
  const scaled = log ? Math.log : (value) => value;
  const down = (value) => bottom - ((scaled(value) - scaled(low)) / (scaled(high) - scaled(low))) * (bottom - TOP);
  for (const value of ticks(low, high, Math.max(2, Math.floor((bottom - TOP) / 34)), log)) {
    const y = down(value).toFixed(1);
    element.append(
      shape("line", { x1: LEFT, x2: right, y1: y, y2: y, stroke: ink, "stroke-opacity": 0.12 }),
      shape("text", { x: LEFT - 8, y, dy: ".35em", "text-anchor": "end", fill: ink, "fill-opacity": 0.7 }, words(value)));
  }
  element.append(shape("line", { x1: LEFT, x2: right, y1: bottom, y2: bottom, stroke: ink, "stroke-opacity": 0.4 }));
  const steps = ticks(first, Math.max(last, first + 1), Math.max(2, Math.floor((right - LEFT) / 80))).filter(Number.isInteger);
  for (const step of steps) {
    element.append(shape("text", { x: across(step).toFixed(1), y: bottom + 17, "text-anchor": step === last ? "end" : "middle", fill: ink, "fill-opacity": 0.7 }, words(step)));
  }
  for (const { colour, dash, faint, points } of drawn) {
    const path = thinned(points, across).map(([step, value], place) => `${place ? "L" : "M"}${across(step).toFixed(1)} ${down(value).toFixed(1)}`);
    const line = { d: path.join("") + (path.length === 1 ? "h0" : ""), fill: "none", stroke: colour, "stroke-width": faint ? 1 : 1.8 };
    element.append(shape("path", { ...line, "stroke-linejoin": "round", "stroke-linecap": "round", ...(faint ? { "stroke-opacity": 0.3 } : {}), ...(dash ? { "stroke-dasharray": "5 4" } : {}) }));
    if (points.length <= FEW && !faint) {
      for (const [step, value] of points) element.append(shape("circle", { cx: across(step).toFixed(1), cy: down(value).toFixed(1), r: 2.5, fill: colour }));
    }
  }
  return { element, across, top: TOP, bottom };
}

// Plots one below another with their titles, and the names of their colours, as one picture.
export function sheet({ plots, names, width, ink, paper }) {
  let top = 16;
  const body = [shape("rect", { width: "100%", height: "100%", fill: paper })];
  for (const [name, colour] of names) {
    top += 18;
    body.push(shape("rect", { x: 12, y: top - 9, width: 14, height: 4, fill: colour }), shape("text", { x: 34, y: top - 3, fill: ink }, name));
  }
  for (const { title, element } of plots) {
    const group = shape("g", { transform: `translate(0 ${top + 34})` }, [...element.cloneNode(true).children]);
    body.push(shape("text", { x: 12, y: top + 22, fill: ink, "font-weight": 600 }, title), group);
    top += 34 + Number(element.getAttribute("height"));
  }
  const height = top + 12;
  const whole = shape("svg", { xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12 }, body);
  return new XMLSerializer().serializeToString(whole);
}
