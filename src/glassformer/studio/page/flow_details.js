// What is told of one box of Flow: its formula, its numbers in full, one of them made by hand, and the lines that compute it.
import { heatmap, paintSteps, rampOf, stepsOf } from "./canvas.js";
import { build, button, exact, link, make, number, select, visible } from "./dom.js";
import { formula } from "./math.js";

const WIDE = 256; // columns of a picture
const QUICK = 2e8; // weights × tokens up to which a number is recomputed without being asked for

// Fill `root` with what is known of a box. Gives nothing; a later call takes its place.
export async function details(view, box, root, { state = {}, remember = () => {} } = {}) {
  const { t, api, trace, signal } = view;
  root.dataset.node = "";
  root.wanted = box.name;
  const node = box.kind === "text" || box.kind === "answer" ? { ...box, source: null, weights: [], formula: "" }
    : await api.json(`/traces/${trace.trace_id}/flow/nodes/${encodeURIComponent(box.name)}`, { signal });
  if (root.wanted !== box.name) return;
  const left = build("div", "", [make("h2", "mono", box.name), factsOf(view, box, node)]), right = build("div", "");
  if (node.formula) left.append(build("p", "formula", formula(node.formula)));
  root.replaceChildren(left, right);
  if (node.source) right.append(...sourceOf(t, node.source));
  if (box.tensor) await numbers(view, box, node, left, { state, remember });
  left.append(linksOf(view, box, node));
  if (root.wanted === box.name) root.dataset.node = box.name;
}

function factsOf({ t }, box, node) {
  const rows = [[t("flowClass"), node.class_name], [t("flowShapeIs"), box.shape.join(" × ")], [t("flowWeights"), node.weights.join(", ")]];
  return build("dl", "facts", rows.filter(([, value]) => value).flatMap(([term, value]) => [make("dt", "", term), make("dd", "mono", value)]));
}

function sourceOf(t, { file, first, last, marked, text }) {
  const lines = text.split("\n").map((line, place) => build("span", marked.includes(first + place) ? "marked" : "", [make("i", "", String(first + place)), line || " "]));
  return [make("h2", "", t("flowSource")), make("p", "soft mono", `${file}:${first}–${last}`), build("div", "code", lines, { tabindex: "0", role: "region", "aria-label": t("flowSource") })];
}

function linksOf(view, box, node) {
  const { t } = view, step = node.step?.replace("*", "0"), parts = [];
  if (box.tensor && !box.tensor.startsWith("flow.")) parts.push(link(view, { screen: "tensors", tensor: box.tensor, cell: null }, t("flowTensors"), { id: "flow-tensors" }));
  if (step) parts.push(link(view, { screen: "recompute", step, cell: node.numbers ? "0,0" : null }, t("flowRecompute"), { id: "flow-recompute" }));
  return build("p", "links", parts);
}

// --- numbers --------------------------------------------------------------------------------------------------

// Which part of a tensor is a matrix: of one text, and of one head where there are several.
export function sliceOf({ shape, token_dim: dim }, head) {
  if (shape.length === 4) return { slice: dim === 2 ? `0,${head}` : `0,:,${head}`, heads: dim === 2 ? shape[1] : shape[2], wide: shape[3] };
  if (shape.length === 3) return { slice: shape[2] > WIDE ? `0,:,0:${WIDE}` : "0", heads: 0, wide: Math.min(WIDE, shape[2]) };
  return { slice: dim === null && shape[1] > WIDE ? `0,0:${WIDE}` : "0", heads: 0, wide: dim === null ? Math.min(WIDE, shape[1]) : 1 };
}

async function numbers(view, box, node, root, { state, remember }) {
  const { t, api, trace, signal } = view, place = build("div", "matrix"), told = make("p", "value", ""), made = build("div", "numbers", [], { "aria-live": "polite" });
  const heads = sliceOf(box, 0).heads, head = Math.min(heads ? heads - 1 : 0, Number(state.head) || 0);
  const { slice, wide } = sliceOf(box, head), found = await api.slice(trace.trace_id, box.tensor, { slice, dtype: "u8", signal });
  const high = found.values.length / wide, tokens = (side, count) => (trace.tokens[side]?.length === count ? trace.tokens[side].map((one) => one.text) : []);
  const across = box.kind === "weights" ? tokens(box.name.includes("cross") || box.name === "decoder.attention.pattern" ? "read" : box.side, wide) : [];
  if (heads) root.append(select(t("flowHead"), Array.from({ length: heads }, (_, n) => [n, n]), head, (one) => { remember({ head: one }); view.again(); }));
  const explain = explainer(view, node, { head, made }), newest = api.latest();
  const shown = heatmap({
    steps: found.values, high, wide, kind: found.low < 0 ? "signed" : "plain", down: box.token_dim === null ? [] : tokens(box.side, high), across, signal,
    width: Math.max(220, root.clientWidth - 8), tallest: 300, least: high <= 16 ? 13 : 0, label: t("flowMatrix", box.name, high, wide), follow: false,
    move: async (row, column) => {
      const cell = await newest(api.slice(trace.trace_id, box.tensor, { slice: cellOf(slice, box, row, column, high), signal }));
      if (!cell) return;
      const [value] = cell.values;
      told.textContent = `[${row}, ${column}] = ${exact(value)}`;
      remember({ cell: `${row},${column}` });
      explain.at(row, column);
    },
  });
  shown.element.id = "flow-matrix";
  place.append(shown.element);
  root.append(place, told, made);
  if (box.shape.at(-1) > wide && box.shape.length > 1 && wide === WIDE) root.append(make("p", "soft", t("flowFirst", WIDE, box.shape.at(-1))));
  const [row, column] = (state.cell ?? "0,0").split(",").map(Number);
  shown.select(Math.min(high - 1, row || 0), Math.min(wide - 1, column || 0));
}

function cellOf(slice, box, row, column, high) {
  if (box.shape.length === 4) return box.token_dim === 2 ? `${slice},${row},${column}` : `0,${row},${slice.split(",")[2]},${column}`;
  if (box.shape.length === 3) return `0,${row},${column}`;
  return box.token_dim === null && high === 1 ? `0,${column}` : `0,${row}`;
}

// Of a cell, the step and the cell of it that the server takes apart.
export function stepOf(node, head, row, column) {
  const { step, numbers: apart, part_shape: part } = node;
  if (step.includes(".step.*")) return apart ? { step: step.replace(".step.*", ""), cell: `${row},${column}` } : { step: step.replace("*", row) };
  if (!step.includes(".head.*")) return apart ? { step, cell: `${row},${column}` } : { step };
  if (step.endsWith(".pattern")) return { step: step.replace("*", head).replace(/\.pattern$/, ""), cell: `${row},${column}` };
  if (node.shape.length === 4) return { step: step.replace("*", head) };
  const width = part.at(-1), groups = node.shape.at(-1) / width, own = Math.floor(column / width) * Math.max(1, Math.round(headsOf(node) / groups));
  return apart ? { step: step.replace("*", own), cell: `${row},${column % width}` } : { step: step.replace("*", own) };
}

const headsOf = (node) => node.heads ?? node.shape.at(-1) / node.part_shape.at(-1);

function explainer(view, node, { head, made }) {
  const { t, api, trace, model, signal } = view, tokens = Math.max(...Object.values(trace.tokens).map((one) => one.length));
  let waiting = null, asking = new AbortController(), ready = model.parameters * tokens <= QUICK, last = null;

  async function ask(row, column) {
    asking.abort();
    asking = new AbortController();
    const stop = AbortSignal.any([signal, asking.signal]);
    if (!made.childElementCount) made.append(make("p", "busy", t("flowRecomputing")));
    try {
      const found = await api.json(`/traces/${trace.trace_id}/explain?${new URLSearchParams(stepOf(node, head, row, column))}`, { signal: stop });
      if (stop.aborted) return;
      made.replaceChildren(...explained(t, found));
      made.dataset.cell = `${row},${column}`;
    } catch (error) {
      if (error.name !== "AbortError") made.replaceChildren(make("p", "soft", error.message));
    }
  }

  return {
    at(row, column) {
      if (!node.step) return;
      last = [row, column];
      clearTimeout(waiting);
      if (ready) waiting = setTimeout(() => ask(row, column), 60);
      else made.replaceChildren(button(t("flowByHand"), () => { ready = true; ask(...last); }, { id: "flow-by-hand" }));
    },
  };
}

function explained(t, found) {
  const rows = found.operands.map((one) => [one.symbol, valueOf(one), one.name]);
  rows.push([t("flowByHandIs"), valueOf(found.value), null, "recomputed"]);
  if (found.seen) rows.push([t("flowModelIs"), valueOf(found.seen), null, "models-own"]);
  return [make("h2", "", found.step), ...rows.map(([symbol, value, name, id]) => build("div", "number", [
    build("b", "", formula(symbol)), build("span", "mono", [...[value].flat(), name ? make("small", "", ` ${visible(name).replaceAll("␣", " ")}`) : null], id ? { id: `flow-${id}` } : {}),
  ]))];
}

// A number as it is; of several a strip of colours and the first few.
function valueOf({ shape, values }) {
  if (!shape.length) return String(values[0]);
  const strip = build("canvas", "", [], { "aria-hidden": "true" }), shown = values.slice(0, 512).map(Number), reach = Math.max(1e-30, ...shown.map(Math.abs));
  paintSteps(strip, stepsOf(shown, [-reach, reach, false]), 1, shown.length, rampOf("signed"));
  return [strip, `${shape.join("×")}: ${values.slice(0, 4).map((one) => number(Number(one))).join("  ")} …`];
}
