// Edit: parts of the model ablated, and what it says then beside what it said before.
import { cssColour, hex, inkOn, legend, rampOf } from "../canvas.js";
import { build, button, choice, exact, field, make, number, select, short, visible } from "../dom.js";
import { grid } from "../grid.js";
import { answersOf } from "../answers.js";
import { escaped } from "../share.js";
import { step } from "../values.js";

const tried = new Map(); // trace and way out -> {head: {kl, delta}}
let past = { of: "", steps: [] }; // what was ablated before in the question shown, for undo

export const screen = {
  id: "edit",
  needs: "trace",
  refuses: (model) => (model.head ? null : "edNoHead"),
  async show(view) {
    const { root, state, t, trace, api, signal } = view;
    const ablated = (state.off ?? "").split(",").filter(Boolean), to = state.to === "mean" ? "mean" : "zero";
    const place = /^\d+$/.test(state.place ?? "") ? Number(state.place) : undefined;
    const board = build("section", "card board"), result = build("section", "result", make("p", "busy", t("working")));
    root.append(build("div", "workspace", [board, result]));
    const targets = await api.json(`/traces/${trace.trace_id}/editable`, { signal });
    if (signal.aborted) return;
    const context = { view, targets, ablated, to, result }, of = JSON.stringify(view.asked());
    if (past.of !== of) past = { of, steps: [] };
    fillBoard(board, context);
    let answer;
    try {
      answer = await api.json(`/traces/${trace.trace_id}/edits`, { body: { off: ablated, to, place }, signal });
    } catch (error) {
      if (error.status !== 422) throw error;
      result.replaceChildren(build("section", "card problem", [make("h2", "", t("problem")), make("p", "", error.message),
        button(t("edReset"), () => ablate(context, []), { id: "reset-off" })], { role: "alert" }));
      root.dataset.painted = "yes";
      return;
    }
    if (signal.aborted) return;
    fillResult(context, answer);
    if (ablated.length) view.tell(t("edTold", ablated.length, exact(answer.largest)));
    view.share({
      python: answer.python ? `${trace.python}
${answer.python}` : trace.python,
      names: Object.keys(trace.outputs).flatMap((name) => [`outputs.${name}`, `edited.${name}`]),
      svg: () => deltaSvg(answer, trace.model),
    });
    root.dataset.painted = "yes";
  },
};

// --- ablation -------------------------------------------------------------------------------------------------

function ablate({ view, ablated }, names, { remember = true } = {}) {
  if (remember) past.steps.push(ablated.join(","));
  view.set({ off: names.join(","), place: null });
}

const toggled = (ablated, name) => (ablated.includes(name) ? ablated.filter((one) => one !== name) : [...ablated, name]);
const headsOf = (targets) => targets.filter((one) => one.kind === "head").flatMap((one) => Array.from({ length: one.size }, (_, n) => `${one.name}:${n}`));

function fillBoard(board, context) {
  const { view, targets, ablated, to } = context, { t } = view, heads = headsOf(targets);
  board.append(make("h2", "", t("edBoard")),
    build("div", "bar", [choice(t("edTo"), [["zero", t("edZero")], ["mean", t("edMean")]], to, (one) => view.set({ to: one === "mean" ? one : null }))]),
    ablatedNow(context));
  if (heads.length) board.append(...grids(context), headSweep(context, heads));
  for (const one of targets.filter((part) => part.kind === "alignment")) {
    board.append(build("div", "choice alignment", [make("span", "", t("edAlignment")), whole(context, { whole: one.name })]));
  }
  board.append(byNumber(context));
}

function ablatedNow(context) {
  const { view, targets, ablated } = context, { t } = view, heads = headsOf(targets);
  const chips = ablated.slice(0, 40).map((name) => button(`${name} ×`, () => ablate(context, ablated.filter((one) => one !== name)), { class: "off", "aria-label": t("edBackOn", name) }));
  if (ablated.length > 40) chips.push(make("span", "soft", t("edMore", ablated.length - 40)));
  const others = heads.filter((name) => !ablated.includes(name)), rest = ablated.filter((name) => !heads.includes(name));
  return build("div", "now", [
    make("p", "soft", ablated.length ? t("edOff", ablated.length) : t("edNothing")),
    build("div", "strip", chips),
    build("div", "strip", [
      button(t("edUndo"), () => { const before = past.steps.pop(); ablate(context, (before ?? "").split(",").filter(Boolean), { remember: false }); }, { id: "undo", disabled: past.steps.length === 0 }),
      button(t("edReset"), () => ablate(context, []), { id: "reset", disabled: ablated.length === 0 }),
      heads.length ? button(t("edOthers"), () => ablate(context, [...rest, ...others]), { id: "others", title: t("edOthersSay") }) : null,
    ]),
  ]);
}

// Heads as a table of layers × heads, a layer's own switch before them; inside a table the arrow keys move.
function grids(context) {
  const groups = new Map();
  for (const one of context.targets.filter((part) => part.kind === "head")) {
    const [, side, layer, kind] = one.name.match(/^(.*?)layers\.(\d+)\.(\w+)$/);
    const name = kind === "cross_attention" ? "cross" : side.replace(".", "") || "attention";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push({ ...one, layer, whole: kind === "attention" ? `${side}layers.${layer}` : null });
  }
  return [...groups].map(([name, rows]) => headTable(context, name, rows));
}

function headTable(context, name, rows) {
  const { t } = context.view, most = Math.max(...rows.map((one) => one.size));
  const cells = rows.map((one) => [
    ...(one.whole ? [whole(context, one)] : []), ...Array.from({ length: one.size }, (_, n) => oneHead(context, one, n)),
  ]);
  const numbers = Array.from({ length: most }, (_, n) => build("th", "", String(n), { scope: "col" }));
  const head = build("tr", "", [build("th", "", t("layer"), { scope: "col" }), ...(rows[0].whole ? [build("th", "", t("edWhole"), { scope: "col" })] : []), ...numbers]);
  const body = rows.map((one, row) => build("tr", "", [build("th", "", one.layer, { scope: "row" }), ...cells[row].map((cell) => build("td", "", cell))]));
  const table = build("table", "heads", [make("caption", "", t(`edHeads_${name}`)), build("thead", "", head), build("tbody", "", body)]);
  roving(table, cells);
  return build("div", "scroll", table);
}

function roving(table, cells) {
  cells.flat().forEach((cell, place) => { cell.tabIndex = place ? -1 : 0; });
  const find = (target) => cells.map((row, r) => [r, row.indexOf(target)]).find(([, c]) => c >= 0);
  table.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }, at = find(event.target);
    if (!at || !(event.key in moves)) return;
    event.preventDefault();
    const row = Math.max(0, Math.min(cells.length - 1, at[0] + moves[event.key][0]));
    cells[row][Math.max(0, Math.min(cells[row].length - 1, at[1] + moves[event.key][1]))].focus();
  });
  table.addEventListener("focusin", (event) => {
    if (!find(event.target)) return;
    for (const cell of cells.flat()) cell.tabIndex = cell === event.target ? 0 : -1;
  });
}

function whole(context, one) {
  const { view, ablated } = context, gone = ablated.includes(one.whole);
  return button(gone ? view.t("edIsOff") : view.t("edIsOn"), () => ablate(context, toggled(ablated, one.whole)), {
    class: "layer", id: `switch-${one.whole}`, "aria-pressed": String(gone), "aria-label": view.t("edSwitch", one.whole),
  });
}

function oneHead(context, one, head) {
  const { view, ablated, to } = context, name = `${one.name}:${head}`, gone = ablated.includes(name);
  const made = button(String(head), () => ablate(context, toggled(ablated, name)), {
    class: "head", id: `switch-${name}`, "data-name": name, "aria-pressed": String(gone), "aria-label": view.t("edSwitch", name),
  });
  const tellEffect = () => {
    const found = tried.get(keyOf(context.view, to))?.[name];
    if (found) view.tell(effectWords(view.t, name, found));
  };
  made.addEventListener("pointerenter", tellEffect);
  made.addEventListener("focus", tellEffect);
  return made;
}

function byNumber(context) {
  const { view, targets, ablated } = context, { t } = view, places = targets.filter((one) => one.kind === "neuron" || one.kind === "unit");
  if (!places.length) return build("div");
  const list = select(t("edPlace"), places.map((one) => [one.name, `${one.name} (${one.size})`]), places[0].name, () => limit());
  const input = build("input", "", [], { type: "number", min: "0", value: "0", id: "neuron-number", required: true });
  const limit = () => { input.max = String(places.find((one) => one.name === list.querySelector("select").value).size - 1); };
  limit();
  const kind = places[0].kind === "unit" ? "edUnit" : "edNeuron";
  return build("form", "bar number", [list, field(t(kind), input), build("button", "", t("edSwitchOff"), { type: "submit", id: "switch-neuron" })], {
    onsubmit: (event) => {
      event.preventDefault();
      ablate(context, [...new Set([...ablated, `${list.querySelector("select").value}:${Number(input.value)}`])]);
    },
  });
}

// --- every head, one after another ----------------------------------------------------------------------------

const keyOf = (view, to) => `${view.trace.trace_id} ${to}`;

function effectWords(t, name, { kl, delta }) {
  return t("edEffect", name, kl === null ? "–" : number(kl), exact(delta));
}

function headSweep(context, heads) {
  const { view, to } = context, { t, api, trace, signal, state } = view;
  const key = keyOf(view, to), done = build("progress", "", [], { max: String(heads.length), value: "0", "aria-label": t("edTrying"), hidden: true });
  const note = make("p", "soft"), bar = build("div", "bar");
  let running = null;
  const start = button(t("edTry", heads.length), () => (running ? running.abort() : go()), { id: "try-heads" });
  const measure = choice(t("edBy"), [["kl", "KL"], ["delta", t("edDelta")]], state.measure === "delta" ? "delta" : "kl", (one) => view.set({ measure: one === "delta" ? one : null }));
  signal.addEventListener("abort", () => running?.abort());

  function paint() {
    const found = tried.get(key) ?? {}, names = Object.keys(found), by = state.measure === "delta" || names.some((name) => found[name].kl === null) ? "delta" : "kl";
    const value = (name) => found[name][by] ?? 0, reach = Math.max(0, ...names.map((name) => Math.abs(value(name)))) || 1;
    const scale = [by === "delta" ? -reach : 0, reach, false], ramp = rampOf(by === "delta" ? "signed" : "plain");
    for (const name of names) {
      const cell = document.getElementById(`switch-${name}`);
      if (!cell || cell.getAttribute("aria-pressed") === "true") continue;
      const at = step(value(name), scale);
      cell.style.backgroundColor = hex(ramp, at);
      cell.style.color = inkOn(ramp, at);
      cell.title = effectWords(t, name, found[name]);
    }
    bar.replaceChildren(start, ...(names.length ? [measure, legend(scale, number)] : []));
    if (names.length) {
      const best = names.reduce((one, other) => (Math.abs(value(other)) > Math.abs(value(one)) ? other : one));
      note.textContent = t("edTried", names.length, heads.length, best);
    }
  }

  async function go() {
    running = new AbortController();
    const found = {};
    tried.set(key, found);
    start.textContent = t("edCancel");
    done.hidden = false;
    try {
      for await (const line of api.lines(`/traces/${trace.trace_id}/edits/heads`, { body: { to }, signal: running.signal })) {
        if (line.kind === "problem") throw new api.Problem(line.status, line.detail);
        if (line.kind === "head") {
          found[line.name] = { kl: line.kl, delta: line.delta };
          done.value = line.done;
          paint();
        } else if (line.kind === "end" && line.done < heads.length) view.tell(t("edTooLong", line.done, Math.round(line.seconds)));
      }
    } catch (error) {
      if (error.name !== "AbortError") context.result.prepend(view.trouble(error, view.again));
    }
    running = null;
    done.hidden = true;
    start.textContent = t("edTry", heads.length);
    paint();
    if (!signal.aborted) context.view.root.dataset.tried = "yes";
  }

  requestAnimationFrame(paint);
  paint();
  return build("div", "trial", [bar, done, note]);
}

// --- before and after -----------------------------------------------------------------------------------------

function fillResult(context, answer) {
  const { view, ablated } = context, { t } = view, few = answer.places.length > 1;
  const words = answersOf(answer, t, view.state.text), parts = [];
  if (!ablated.length) parts.push(make("p", "note", t("edStart")));
  if (words) {
    parts.push(build("section", "card pair", [
      build("div", "", [make("h2", "", t("edBefore")), words.before]), build("div", "after", [make("h2", "", t("edAfter")), words.after]),
    ]));
  }
  const where = few ? t("edAt", answer.side ? visible(answer.places[answer.place]) : t(`ed_${answer.places[answer.place]}`)) : "";
  const kl = answer.kl?.[answer.place];
  parts.push(build("section", "card", [
    make("h2", "", `${t("edDeltas")} ${where}`), make("p", "soft kl", kl === undefined || !ablated.length ? "" : t("edKl", number(kl))), deltas(answer, t),
  ]));
  if (few) parts.push(places(context, answer));
  if (ablated.length) parts.push(build("section", "card", [make("h2", "", "Python"), make("pre", "", answer.python)]));
  context.result.replaceChildren(...parts);
}

function deltas(answer, t) {
  const reach = Math.max(...answer.changes.map((one) => Math.abs(one.delta))) || 1;
  const rows = answer.changes.map((one) => {
    const bar = build("span", `delta ${one.delta < 0 ? "down" : "up"}`, make("i"));
    bar.firstChild.style.width = `${(100 * Math.abs(one.delta)) / reach}%`;
    return build("tr", "", [build("th", "mono", visible(one.name), { scope: "row" }), make("td", "figure mono", exact(one.before)), make("td", "figure mono", exact(one.after)),
      build("td", "figure mono", exact(one.delta)), build("td", "bar-cell", bar), make("td", "figure mono", number(one.share_before)), make("td", "figure mono", number(one.share_after))]);
  });
  const heads = [t("edChoice"), t("edLogitBefore"), t("edLogitAfter"), "Δ", "", t("edShareBefore"), t("edShareAfter")];
  const table = build("table", "deltas", [build("thead", "", build("tr", "", heads.map((text) => (text ? build("th", "", text, { scope: "col" }) : make("td"))))), build("tbody", "", rows)]);
  return build("div", "scroll", table, { tabindex: "0", role: "region", "aria-label": t("edDeltas") });
}

// Every place with its likeliest choice before and after; one is chosen for the Δ above.
function places(context, answer) {
  const { view } = context, { t, signal } = view, most = Math.max(...(answer.kl ?? [0])) || 1;
  const columns = [t("edBefore"), t("edAfter"), "KL"], { before, after } = answer.best;
  const table = grid({
    rows: answer.places.map((name) => (answer.side ? visible(name) : t(`ed_${name}`))), columns,
    text: (row, column) => (column === 2 ? (answer.kl ? number(answer.kl[row]) : "–") : [before, after][column][row]),
    step: (row, column) => (column === 2 && answer.kl ? step(answer.kl[row], [0, most, true]) : column === 1 && before[row] !== after[row] ? 140 : null),
    label: t("edPlacesSay"), at: [answer.place, 2], strong: (row) => row === answer.place, signal, room: 480,
    open: (row) => view.set({ place: row }),
  });
  return build("section", "card", [make("h2", "", t("edPlaces")), make("p", "soft", t("edPlacesSay")), table.element]);
}

// --- taken along ----------------------------------------------------------------------------------------------

function deltaSvg(answer, title) {
  const reach = Math.max(...answer.changes.map((one) => Math.abs(one.delta))) || 1, high = 22, middle = 300;
  const rows = answer.changes.map((one, row) => {
    const wide = (140 * Math.abs(one.delta)) / reach, y = 34 + row * high;
    return `<text x="10" y="${y + 15}">${escaped(short(one.name, 22))}</text>` +
      `<rect x="${one.delta < 0 ? middle - wide : middle}" y="${y + 3}" width="${wide}" height="${high - 6}" fill="${one.delta < 0 ? cssColour("soft") : cssColour("accent")}"/>` +
      `<text x="460" y="${y + 15}">${exact(one.delta)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="600" height="${44 + rows.length * high}" font-family="ui-monospace, monospace" font-size="12" fill="${cssColour("ink")}">` +
    `<rect width="100%" height="100%" fill="${cssColour("card")}"/><text x="10" y="20" font-family="sans-serif">${escaped(`${title}: Δ logits without ${answer.off.slice(0, 6).join(", ") || "nothing"}`)}</text>${rows.join("")}</svg>`;
}
