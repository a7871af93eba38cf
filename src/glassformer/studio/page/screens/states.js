// States: what a recurrent network holds or a convolution finds at every token, and how long a Transformer's vectors are after every layer.
import { NOWHERE, boardOf, boardTabs, layerAndHead, placeOf, titleOf } from "../attention.js";
import { cssColour, heatmap, kindOf, legend, paintSteps, rampOf, stepsOf } from "../canvas.js";
import { build, choice, exact, link, make, number, select, visible } from "../dom.js";
import { lines } from "../plot.js";
import { matrixSvg } from "../share.js";

const SORTS = ["index", "size", "change", "saturation"];
const DOT = 7; // pixels that a cell needs to carry a mark
const ENDLESS = { rule: null, share: 0, low: [], high: [] }; // what may be of any size is never saturated
const PARTS = ["stream", "attention", "cross_attention", "feed_forward"];

export const screen = {
  id: "states",
  needs: "trace",
  async show(view) {
    const { root, t, trace, api, signal } = view;
    root.append(make("p", "busy", t("working")));
    const found = await api.json(`/traces/${trace.trace_id}/norms`, { signal });
    if (signal.aborted) return;
    const boards = trace.boards.filter((one) => one.kind === "states");
    root.replaceChildren();
    if (boards.length) await showUnits(view, boards, found);
    else showNorms(view, found);
    root.dataset.painted = "yes";
  },
};

const asked = (state) => {
  const parts = state.cell?.split(",").map(Number);
  return parts?.length === 2 && parts.every(Number.isInteger) ? parts : null;
};

// --- a recurrent network --------------------------------------------------------------------------------------

async function showUnits(view, boards, found) {
  const { root, state, t, trace, api, signal } = view;
  const board = boardOf(boards, state.board), place = placeOf(board, state), cell = board.cells[place];
  const gate = found.gates.find((one) => one.tensor === cell.tensor) ?? ENDLESS;
  const [values, tiles] = await Promise.all([
    api.slice(trace.trace_id, cell.tensor, { slice: cell.slice, signal }), api.mosaic(trace.trace_id, board.name, { side: 48, signal }),
  ]);
  if (signal.aborted) return;
  const bar = build("div", "bar", [
    boardTabs(view, boards, board),
    select(t("stSort"), SORTS.map((one) => [one, t(`stBy_${one}`)]), state.sort ?? "index", (sort) => view.set({ sort: sort === "index" ? null : sort })),
    choice(t("stShow"), ["values", "ends"].map((one) => [one, t(`stShow_${one}`)]), state.show === "ends" ? "ends" : "values", (one) => view.set({ show: one === "ends" ? one : null })),
  ]);
  const shown = build("section", "card shown"), main = build("section", "card");
  root.append(bar, overview(view, board, tiles, place, found), build("div", "split", [main, shown]));
  unitMap(view, { board, place, cell, gate, values, main, shown, edge: found.edge });
}

// Every gate of every layer as a small picture with its saturation; one is chosen.
function overview(view, board, tiles, chosen, found) {
  const { t } = view;
  const heads = build("tr", "", [make("td"), ...board.columns.map((name) => build("th", "", t(`gate_${name}`), { scope: "col" }))]);
  const rows = board.rows.map((name, row) => build("tr", "", [
    build("th", "", `${t("layer")} ${name}`, { scope: "row" }),
    ...board.columns.map((_, column) => build("td", "", tile(view, board, tiles, row * board.columns.length + column, chosen, found))),
  ]));
  const table = build("table", "tiles", [build("thead", "", heads), build("tbody", "", rows)]);
  return build("section", "card", [
    make("p", "soft", t("stTiles")), build("div", "scroll", table, { tabindex: "0", role: "region", "aria-label": t("stTiles") }),
  ]);
}

function tile(view, board, tiles, place, chosen, found) {
  const { t } = view, [, columns, high, wide] = tiles.shape, size = high * wide, picture = build("canvas", "", [], { "aria-hidden": "true" });
  const kind = kindOf(board.scales[place % columns]);
  paintSteps(picture, tiles.values.subarray(place * size, (place + 1) * size), high, wide, rampOf(kind));
  const share = found.gates.find((one) => one.tensor === board.cells[place].tensor)?.share ?? 0;
  return build("button", "", [picture, make("small", "", percent(share))], {
    type: "button", id: `tile-${Math.floor(place / columns)}-${place % columns}`, "aria-pressed": String(place === chosen),
    "aria-label": `${titleOf(board, place, t)}, ${t("stSaturated", percent(share))}`,
    onclick: () => view.set({ ...NOWHERE, ...layerAndHead(board, place) }),
  });
}

const percent = (share) => `${(100 * share).toFixed(share && share < 0.1 ? 1 : 0)} %`;

// -1 at the low end, 1 at the high end, 0 between: the rules are the server's.
function endOf(value, rule, edge) {
  if (!rule) return 0;
  if (rule === "relu") return value <= 0 ? -1 : 0;
  const held = rule === "cell" ? Math.fround(Math.tanh(value)) : value, low = rule === "gate" ? edge : edge - 1;
  return held < Math.fround(low) ? -1 : held > Math.fround(1 - edge) ? 1 : 0;
}

function sorted(values, high, wide, sort, gate) {
  const units = Array.from({ length: wide }, (_, unit) => unit), at = (time, unit) => values[time * wide + unit];
  const sizes = {
    size: (unit) => sum(high, (time) => Math.abs(at(time, unit))),
    change: (unit) => sum(high, (time) => Math.abs(at(time, unit) - (time ? at(time - 1, unit) : 0))),
    saturation: (unit) => (gate.low[unit] ?? 0) + (gate.high[unit] ?? 0),
  };
  if (!(sort in sizes)) return units;
  const size = units.map(sizes[sort]);
  return units.sort((one, other) => size[other] - size[one] || one - other);
}

function sum(count, of) {
  let total = 0;
  for (let place = 0; place < count; place++) total += of(place);
  return total;
}

function unitMap(view, { board, place: chosen, cell, gate, values, main, shown, edge }) {
  const { state, t, trace, signal } = view, [high, wide] = values.shape, tokens = trace.tokens[board.down].map((one) => one.text);
  const order = sorted(values.values, high, wide, state.sort, gate), ends = state.show === "ends", name = titleOf(board, chosen, t);
  const endAt = (value) => endOf(value, gate.rule, edge);
  const drawn = Float32Array.from(values.values, (_, n) => {
    const value = values.values[n - (n % wide) + order[n % wide]];
    return ends ? endAt(value) : value;
  });
  const scale = ends ? [-1, 1, false] : board.scales[chosen % board.columns.length], steps = stepsOf(drawn, scale);
  const told = make("p", "mono value"), one = oneUnit(view, { cell, gate, values, scale, tokens }, shown);
  function tell(time, place) {
    const unit = order[place], value = values.values[time * wide + unit], end = endAt(value);
    told.textContent = `${visible(tokens[time])} · ${t("stUnit", unit)} = ${exact(value)}${end ? ` · ${t(end < 0 ? "stAtLow" : "stAtHigh")}` : ""}`;
    view.set({ cell: `${time},${unit}` }, { push: false, show: false });
    one(unit);
  }
  main.append(make("h2", "", name), build("div", "bar", [
    legend(scale, number), ...(gate.rule ? [make("span", "soft", t(`stRule_${gate.rule}`)), make("strong", "share", t("stSaturated", percent(gate.share)))] : []),
  ]));
  const start = asked(state), from = start ? [start[0], Math.max(0, order.indexOf(start[1]))] : [0, 0];
  const matrix = heatmap({
    steps, high, wide, kind: kindOf(scale), down: tokens, label: t("stMatrix", name, high, wide), at: from, signal,
    width: main.clientWidth - 40, most: 1000, least: high <= 44 ? 14 : 0, move: tell,
    open: (time, place) => view.set({ screen: "edit", off: `${cell.tensor}:${order[place]}`, cell: null }),
  });
  main.append(matrix.element, told);
  if (!ends && matrix.cell >= DOT) main.querySelector(".cells").append(dots(drawn, high, wide, matrix, endAt));
  matrix.select(...from, { quiet: true });
  tell(...from);
  view.share({
    python: `${trace.python}\nseen["${cell.tensor}"][${cell.slice}]`, names: board.cells.map((each) => each.tensor),
    svg: () => matrixSvg({ steps, high, wide, ramp: rampOf(kindOf(scale)), down: tokens, across: order.map(String),
      title: `${trace.model} · ${name}`, ink: cssColour("ink"), paper: cssColour("card") }),
  });
}

// One unit beside the matrix: gives the function that shows another.
function oneUnit(view, { cell, gate, values, scale, tokens }, shown) {
  const { t } = view, [high, wide] = values.shape, facts = build("dl", "facts"), line = build("div", "line");
  let last = null;
  shown.append(make("h2", "", t("stOneUnit")), facts, line);
  return (unit) => {
    if (last === unit) return;
    last = unit;
    const series = Array.from({ length: high }, (_, time) => values.values[time * wide + unit]), label = t("stOverTime", unit);
    const size = sum(high, (time) => Math.abs(series[time])) / high;
    const shares = gate.rule ? [[t("stLowShare"), gate.low[unit]], [t("stHighShare"), gate.high[unit]]] : [], rows = [...shares, [t("stMeanSize"), size]];
    facts.replaceChildren(...rows.flatMap(([term, value]) => [make("dt", "", term), make("dd", "mono", exact(value))]));
    line.replaceChildren(
      make("h3", "", label),
      lines([{ name: "", values: series }], { label, low: Math.min(scale[0], ...series), high: Math.max(scale[1], ...series), names: tokens }),
      link(view, { screen: "edit", off: `${cell.tensor}:${unit}`, cell: null }, t("stSwitchOff"), { class: "button", id: "switch-off" }));
  };
}

// A mark on every value at its end.
function dots(values, high, wide, { cell, tall }, endAt) {
  const canvas = build("canvas", "dots", [], { "aria-hidden": "true" }), ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
  canvas.width = Math.ceil(wide * cell * ratio);
  canvas.height = Math.ceil(high * tall * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.lineWidth = 1;
  pen.strokeStyle = cssColour("ink");
  pen.fillStyle = cssColour("card");
  values.forEach((value, place) => {
    if (!endAt(value)) return;
    pen.beginPath();
    pen.arc((place % wide + 0.5) * cell, (Math.floor(place / wide) + 0.5) * tall, 2, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  });
  return canvas;
}

// --- a Transformer --------------------------------------------------------------------------------------------

function showNorms(view, found) {
  const { root, state, t, trace, signal } = view;
  const stack = found.stacks.find((one) => one.name === state.stack) ?? found.stacks[0];
  const parts = PARTS.filter((one) => one === "stream" || one in stack.added), part = parts.includes(state.part) ? state.part : "stream";
  const matrix = part === "stream" ? stack.stream : stack.added[part], names = (part === "stream" ? stack.rows : stack.rows.slice(1)).map((name) => layerName(name, t));
  const tokens = trace.tokens[stack.side].map((one) => one.text), high = matrix.length, wide = tokens.length;
  const values = Float32Array.from(matrix.flat()), top = values.reduce((most, one) => Math.max(most, one), 0) || 1;
  const scale = [0, top, false], steps = stepsOf(values, scale);
  const bar = build("div", "bar", [
    found.stacks.length > 1 ? choice(t("stStack"), found.stacks.map((one) => [one.name, t(`st_${one.name}`)]), stack.name, (name) => view.set({ stack: name, part: null, cell: null })) : null,
    choice(t("stLength"), parts.map((one) => [one, t(`st_${one}`)]), part, (one) => view.set({ part: one === "stream" ? null : one, cell: null })),
  ]);
  const main = build("section", "card"), shown = build("section", "card shown"), told = make("p", "mono value"), plot = build("div", "line");
  root.append(make("p", "note", t("stNormsSay")), bar, build("div", "split", [main, shown]), ends(stack, t));
  main.append(make("h2", "", t(`stNorm_${part}`)), build("div", "bar", legend(scale, number)));
  let last = null;
  function tell(row, token) {
    told.textContent = `${names[row]} · ${visible(tokens[token])} = ${exact(values[row * wide + token])}`;
    view.set({ cell: `${row},${token}` }, { push: false, show: false });
    if (last === token) return;
    last = token;
    const series = parts.map((one) => ({ name: t(`st_${one}`), values: one === "stream" ? stack.stream.map((layer) => layer[token]) : [null, ...stack.added[one].map((layer) => layer[token])] }));
    plot.replaceChildren(make("h3", "", t("stOfToken", visible(tokens[token]))),
      lines(series, { label: t("stOfToken", visible(tokens[token])), low: 0, high: Math.max(...series.flatMap((one) => one.values)), names: stack.rows.map((name) => layerName(name, t)) }));
  }
  const start = asked(state) ?? [high - 1, 0];
  const map = heatmap({
    steps, high, wide, kind: "plain", down: names, across: tokens, label: t("stNormMatrix", t(`stNorm_${part}`), high, wide), at: start, signal,
    width: main.clientWidth - 40, most: 1000, least: 20, move: tell,
  });
  main.append(map.element, told);
  map.select(...start, { quiet: true });
  shown.append(make("h2", "", t("stOneToken")), plot);
  tell(...map.at());
  view.share({
    python: `${trace.python}\n${stack.python}`, names: stack.rows,
    svg: () => matrixSvg({ steps, high, wide, ramp: rampOf("plain"), down: names, across: tokens, title: `${trace.model} · ${t(`stNorm_${part}`)}`, ink: cssColour("ink"), paper: cssColour("card") }),
  });
}

function layerName(name, t) {
  const layer = name.match(/layers\.(\d+)$/);
  return layer ? `${t("layer")}\u00a0${layer[1]}` : t("stEmbeddings");
}

// Neurons that never fire, and heads that have no pattern.
function ends(stack, t) {
  const heads = [t("layer"), t("stDead"), t("stFocused"), t("stEven")].map((text) => build("th", "", text, { scope: "col" }));
  const rows = stack.dead.map((dead, layer) => build("tr", "", [
    build("th", "", String(layer), { scope: "row" }),
    ...[dead, stack.focused[layer], stack.even[layer]].map((share) => make("td", "figure", percent(share))),
  ]));
  const table = build("table", "", [build("thead", "", build("tr", "", heads)), build("tbody", "", rows)]);
  return build("section", "card ends", [make("h2", "", t("stEnds")), make("p", "soft", t("stEndsSay")), build("div", "scroll", table, { tabindex: "0", role: "region", "aria-label": t("stEnds") })]);
}
