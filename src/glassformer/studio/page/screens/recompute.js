// Recompute: one number of the model made again by hand, and the table of all steps with their errors.
import { boardOf, boardTabs, factList, layerAndHead, placeOf, titleOf } from "../attention.js";
import { heatmap, kindOf, paintSteps, rampOf, stepsOf } from "../canvas.js";
import { build, button, exact, field, make, number, select, visible } from "../dom.js";
import { formula, share } from "../math.js";
import { linesSvg } from "../pictures.js";

const WAIT = 40; // milliseconds that a cell is rested on before it is asked for
const FEW = 6, ROWS = 120, LONGEST = 1024;

export const screen = {
  id: "recompute",
  needs: "trace",
  refuses: (_, trace) => (trace.boards.length ? null : "nothingHere"),
  async show(view) {
    const { root, state, t, trace } = view, board = boardOf(trace.boards, state.board), place = placeOf(board, state);
    const told = build("section", "card explained", make("p", "busy", t("recomputing")), { "aria-live": "polite" });
    const table = build("section", "card steps"), picker = build("div", "card picker");
    const chosen = { step: state.step ?? stepOf(board, place), at: null, found: null };
    const wide = board.kind === "states" && !state.step; // time downwards is short, and units are many
    root.append(make("p", "soft hint", t("recomputeHint")), pickers(view, board, place), build("div", wide ? "split whole" : "split", [told, picker]), table);
    const explain = explainer(view, board, told, chosen);
    const steps = showSteps(view, chosen, table);
    if (state.step) picker.append(...byNumbers(view, explain));
    else await byMatrix(view, board, place, picker, explain);
    await explain.first();
    await steps;
    view.share({
      python: () => `${trace.python}\n\n${explain.python()}`, names: [board.cells[place].tensor], svg: () => explanationSvg(view, board, chosen),
    });
    root.dataset.painted = "yes";
  },
};

// What the server calls the matrix of a place: a head, an alignment, or a gate.
function stepOf(board, place) {
  const { tensor, slice } = board.cells[place];
  if (board.kind !== "attention") return tensor;
  const attention = tensor.replace(/\.pattern$/, "");
  return board.name === "alignment" ? attention : `${attention}.head.${slice.split(",").at(-1)}`;
}

function pickers(view, board, place) {
  const { t, trace } = view, { layer, head } = layerAndHead(board, place), parts = [boardTabs(view, trace.boards, board)];
  const go = (changes) => view.set({ layer, head, cell: null, step: null, ...changes });
  if (board.rows.length > 1) parts.push(select(t("layerOf"), board.rows.map((name) => [name, name]), layer, (name) => go({ layer: name })));
  if (board.columns.length > 1) {
    const attends = board.kind === "attention", names = board.columns.map((name) => [name, attends ? name : t(`gate_${name}`)]);
    parts.push(select(t(attends ? "headOf" : "gate"), names, head, (name) => go({ head: name })));
  }
  return build("div", "bar", parts);
}

// --- choosing a cell ------------------------------------------------------------------------------------------

async function byMatrix(view, board, place, picker, explain) {
  const { t, state, trace, api, signal } = view, { tensor, slice } = board.cells[place], [, , high, wide] = board.shape;
  const scale = board.scales[place % board.columns.length], title = titleOf(board, place, t);
  const found = await api.slice(trace.trace_id, tensor, { slice, dtype: "u8", scale, signal });
  const asked = state.cell?.split(",").map(Number), inside = asked && asked[0] < high && asked[1] < wide;
  const labels = (side) => (side ? trace.tokens[side].map((token) => token.text) : []);
  const heat = heatmap({
    steps: found.values, high, wide, kind: kindOf(scale), down: labels(board.down), across: labels(board.across), signal, follow: false,
    width: picker.clientWidth - 36, most: board.across ? undefined : 1000, tallest: 420, least: !board.across && high <= 44 ? 14 : 0,
    label: t("cellsOf", title), at: inside ? asked : strongest(found.values, wide, scale), move: explain.move,
  });
  heat.element.id = "matrix";
  picker.append(make("h2", "", title), heat.element, make("p", "soft", `${t(board.axes[0])} ↓  ${t(board.axes[1])} →`));
  explain.start(heat.at(), heat);
}

// Of the last row, the cell furthest from the middle of a signed scale, or the greatest of a plain one.
function strongest(steps, wide, [low]) {
  const far = (step) => (low < 0 ? Math.abs(step - 127.5) : step);
  let best = steps.length - wide;
  for (let n = best + 1; n < steps.length; n++) if (far(steps[n]) > far(steps[best])) best = n;
  return [Math.floor(best / wide), best % wide];
}

// A step of the table has no picture: its cell is typed.
function byNumbers(view, explain) {
  const { t, state } = view;
  if (!state.cell) {
    explain.start(null, null);
    return [make("h2", "mono", state.step), make("p", "soft", t("noNumbers"))];
  }
  const at = state.cell.split(",").map(Number);
  const inputs = ["row", "column"].map((name, axis) => build("input", "", [], {
    type: "number", min: "0", id: `cell-${name}`, value: String(at[axis] || 0), onchange: () => explain.move(Number(inputs[0].value), Number(inputs[1].value)),
  }));
  explain.start(at, null);
  return [make("h2", "mono", state.step), build("div", "bar", [field(t("row"), inputs[0]), field(t("column"), inputs[1])])];
}

// --- one number -----------------------------------------------------------------------------------------------

function explainer(view, board, told, chosen) {
  const { trace, api, signal } = view;
  let asking = new AbortController(), waiting = null, heat = null;

  async function ask() {
    asking.abort();
    asking = new AbortController();
    const stop = AbortSignal.any([signal, asking.signal]), cell = chosen.at ? { cell: chosen.at.join(",") } : {};
    const query = new URLSearchParams({ step: chosen.step, ...cell });
    try {
      const found = await api.json(`/traces/${trace.trace_id}/explain?${query}`, { signal: stop });
      if (stop.aborted) return;
      chosen.found = found;
      told.replaceChildren(...explanation(view, board, chosen));
      told.dataset.cell = chosen.at?.join(",") ?? "";
    } catch (error) {
      if (error.name !== "AbortError") told.replaceChildren(view.trouble(error, view.again));
    }
  }

  return {
    start(at, matrix) { chosen.at = at; heat = matrix; },
    first() {
      if (heat) heat.select(...chosen.at, { quiet: true });
      return ask();
    },
    move(row, column) {
      if (chosen.at && row === chosen.at[0] && column === chosen.at[1]) return;
      chosen.at = [row, column];
      view.set({ cell: `${row},${column}` }, { push: false, show: false });
      clearTimeout(waiting);
      waiting = setTimeout(ask, WAIT);
    },
    python: () => `gf.explain(model, inputs, "${chosen.step}"${chosen.at ? `, cell=(${chosen.at.join(", ")})` : ""})`,
  };
}

const isShare = ({ state }, board) => !state.step && board.kind === "attention";

// What came out, as [what it is, its text, id].
function results({ t }, found) {
  const own = found.seen && (found.seen.shape.length ? figures(found.seen) : exact(found.seen.values[0]));
  return [
    [t("valueHere"), figures(found.value), "recomputed"],
    ...(own ? [[t("valueModel"), own, "models-own"]] : []),
    ...(found.error === null ? [] : [[t("difference"), small(found.error), "cell-error"]]),
  ];
}

function explanation(view, board, { step, at, found }) {
  const { t } = view, scalar = found.value.shape.length === 0, all = found.value.shape.reduce((one, size) => one * size, 1);
  const head = isShare(view, board) ? share(scoreOf(found), at) : formula(found.formula);
  const facts = results(view, found).map(([term, text, id]) => [term, build(id === "recomputed" ? "b" : "span", id === "recomputed" ? "result" : "mono", text, { id })]);
  return [
    make("h2", "", titleFor(view, board, at, step)), build("p", "formula", head),
    build("div", "operands", found.operands.map((one) => operand(one, t))),
    build("p", "substituted", substituted(found, isShare(view, board))),
    scalar ? null : make("p", "soft", t("wholeStep", found.value.values.length, all)),
    factList(facts), make("p", "soft", found.part ? t("fromPart", found.part) : t("fromIds")), make("code", "source", found.step),
  ].filter(Boolean);
}

const scoreOf = (found) => found.formula.slice(4, found.formula.indexOf(") / Σ"));

// The same as a picture: the formula, what goes in, and what comes out.
function explanationSvg(view, board, { step, at, found }) {
  if (!found) return linesSvg(step, []);
  const put = substituted(found, isShare(view, board));
  return linesSvg(`${view.trace.model} · ${titleFor(view, board, at, step)}`, [
    [found.formula], ...found.operands.map((one) => [one.symbol, one.name ?? "", figures(one)]), ...(put ? [[put]] : []),
    ...results(view, found).map(([term, text]) => ["", term, text]), [found.step],
  ]);
}

function titleFor({ t, trace, state }, board, at, step) {
  if (state.step || !at) return step;
  const quoted = (side, place) => `“${visible(trace.tokens[side][place]?.text ?? String(place))}”`, down = quoted(board.down, at[0]);
  if (board.kind !== "attention") return t("cellUnit", t(`gate_${step.split(".").at(-1)}`), at[1], `${down} (${at[0]})`);
  return t(board.down === "written" ? "cellWrites" : "cellLooks", down, quoted(board.across, at[1]));
}

// One operand: a number as it is; a vector as a strip of colours, its first numbers, and all of them on demand.
function operand(one, t) {
  const name = make("small", "mono", one.name ?? "");
  if (one.shape.length === 0) return build("div", "operand", [symbolOf(one.symbol), name, build("span", "mono figures", exact(one.values[0]))]);
  const reach = Math.max(1e-30, ...one.values.map((value) => Math.abs(value))), strip = build("canvas", "strip-of", [], { "aria-hidden": "true" });
  const shown = one.values.slice(0, LONGEST);
  paintSteps(strip, stepsOf(shown, [-reach, reach, false]), 1, shown.length, rampOf("signed"));
  const all = build("details", "", [make("summary", "", t("allNumbers", one.values.length)), build("pre", "")], {
    ontoggle: () => { all.lastChild.textContent = one.values.map(exact).join("  "); },
  });
  return build("div", "operand vector", [
    symbolOf(one.symbol), build("span", "", [name, make("small", "", one.shape.join(" × "))]),
    build("div", "figures", [strip, make("span", "mono soft", figures(one)), all]),
  ]);
}

const symbolOf = (symbol) => build("span", "symbol", formula(symbol));

// The last line of the calculation with its numbers put in.
function substituted(found, isShare) {
  const of = (symbol) => found.operands.find((one) => one.symbol.replace(/\[\d+\]$/, "") === symbol && one.shape.length === 0)?.values[0];
  const put = (...symbols) => symbols.map((symbol) => number(of(symbol)));
  if (isShare && of("mask") === false) return "mask = 0  ⇒  0";
  if (isShare) return `exp(${put("score")[0]}) / ${put("Σ exp")[0]} = ${put("exp(score)")[0]} / ${put("Σ exp")[0]} = ${number(found.value.values[0])}`;
  if (of("sum") === undefined) return "";
  const squash = found.formula.split("(")[0], [x, b, h, c, sum] = put("x · W", "b", "h · U", "c", "sum");
  const inner = of("r") === undefined ? `${x} + ${b} + ${h} + ${c}` : `${x} + ${b} + ${put("r")[0]} · (${h} + ${c})`;
  return `${squash}(${inner}) = ${squash}(${sum}) = ${number(found.value.values[0])}`;
}

// float64 has sixteen digits, float32 nine.
function figures({ shape, values }) {
  if (shape.length === 0) return String(values[0]);
  return values.slice(0, FEW).map((value) => number(value)).join("  ") + (values.length > FEW ? "  …" : "");
}

const small = (value) => (typeof value === "number" ? (value === 0 ? "0" : value.toExponential(1)) : String(value ?? "–"));

// --- the table ------------------------------------------------------------------------------------------------

async function showSteps(view, chosen, section) {
  const { t, trace, api, signal, state } = view, where = `/traces/${trace.trace_id}/steps`;
  const ask = (query) => api.json(`${where}?${new URLSearchParams(query)}`, { signal });
  let found;
  try {
    found = await ask({ block: state.step ?? chosen.step });
  } catch (error) {
    if (error.name !== "AbortError") section.replaceChildren(view.trouble(error, view.again));
    return;
  }
  const heads = ["step", "formula", "shape", "largestError", "verdict"].map((name) => build("th", "", t(name), { scope: "col" }));
  const inner = async (name) => (await ask({ of: name, block: chosen.step })).rows.slice(0, ROWS);
  const lines = (rows) => rows.map((row) => stepLine(view, row, inner));
  const body = build("tbody", "", lines(found.rows.slice(0, ROWS))), all = build("table", "", [build("thead", "", build("tr", "", heads)), body]);
  const words = found.part ? t("stepsPart", found.part, found.tolerance) : t("stepsWhole", found.rows.length, found.tolerance);
  section.replaceChildren(
    make("h2", "", t("steps")), make("p", found.part ? "note" : "soft", words),
    build("div", "scroll", all, { tabindex: "0", role: "region", "aria-label": t("steps") }));
  if (found.rows.length > ROWS) {
    const more = button(t("moreSteps", found.rows.length), () => { body.append(...lines(found.rows.slice(ROWS))); more.remove(); });
    section.append(more);
  }
  if (found.unused.length) section.append(make("p", "soft", t("unused", found.unused.join(", "))));
}

// A step that can be opened, or several of one kind that can be unfolded: inner(name) gives these.
function stepLine(view, row, inner, name = "") {
  const { t } = view, open = () => view.set({ step: row.name, cell: row.numbers ? "0,0" : null });
  return build("tr", name, [
    build("td", "", row.count === 1 ? button(row.name, open, { class: "plain mono" }) : unfolding(view, row, inner)),
    build("td", "", formula(row.formula)), build("td", "mono", row.shape.join("×") || "1"), build("td", "figure mono", small(row.error)),
    build("td", `verdict ${row.verdict === "BREACH" ? "breach" : ""}`, t(row.verdict)),
  ], { "data-step": row.name });
}

function unfolding(view, row, inner) {
  const { t } = view;
  let shown = [];
  const act = async () => {
    for (const one of shown) one.remove();
    shown = shown.length ? [] : (await inner(row.name)).map((one) => stepLine(view, one, inner, "inner"));
    made.closest("tr").after(...shown);
    made.setAttribute("aria-expanded", String(shown.length > 0));
  };
  const made = button(row.name, act, { class: "plain mono", "aria-expanded": "false", title: t("unfold", row.count) });
  made.append(make("small", "", ` ${t("timesFolded", row.count)}`));
  return made;
}
