// Compare: two texts through one model, or one text through two checkpoints; what changes in the output and inside.
import { cssColour, heatmap, kindOf, legend, paintSteps, rampOf, stepsOf } from "../canvas.js";
import { ablateLink, layerAndHead, placeOf, titleOf } from "../attention.js";
import { differing } from "../differing.js";
import { build, choice, exact, field, make, number, select, short, visible } from "../dom.js";
import { matrixSvg } from "../share.js";

const SHAPE = ["model_type", "head", "parameters", "vocab_size", "layers", "heads", "tokenizer"];
const LARGEST = 1e6; // numbers of an output that are fetched to find their largest difference
const NARROW = 760; // pixels in which two things do not fit beside each other

export const screen = {
  id: "compare",
  needs: "trace",
  async show(view) {
    const { root, t, api, signal, trace } = view;
    root.classList.add("results");
    root.replaceChildren(...form(view));
    view.share({ python: trace.python });
    const busy = make("p", "busy", t("working"));
    try {
      const asked = second(view);
      if (asked) {
        root.append(busy);
        const other = await api.trace(asked);
        if (signal.aborted) return;
        const traces = [trace, other];
        root.append(await outputs(view, traces, asked));
        await inside(view, traces);
      }
    } catch (error) {
      if (signal.aborted || !(error instanceof api.Problem)) throw error;
      root.append(view.trouble(error, view.again));
    }
    busy.remove();
    root.dataset.painted = "yes";
  },
};

// --- what is compared -------------------------------------------------------------------------------------------

const byOf = (state) => state.by ?? (state.model2 ? "model" : "text");
const alike = ({ models, model }) => models.filter((one) => one.name !== model.name && SHAPE.every((name) => one[name] === model[name]));

// What the other trace is asked for, or nothing yet.
function second(view) {
  const { state, model } = view, first = view.asked();
  if (byOf(state) === "model") return alike(view).some((one) => one.name === state.model2) ? { ...first, model: state.model2 } : null;
  if (!state.text2) return null;
  return { ...first, inputs: view.typed(state.text2), pair: model.pairs ? state.pair2 || first.pair : undefined };
}

function form(view) {
  const { t, state, set, model } = view, by = byOf(state);
  const kinds = choice(t("cmpBy"), [["text", t("cmpByText")], ["model", t("cmpByModel")]], by, (one) => set({ by: one }));
  const notice = (title, why) => build("section", "card notice", [make("h2", "", t(title)), make("p", "", t(why, model.name))]);
  if (by === "model") {
    const others = alike(view);
    if (!others.length) return [build("div", "bar", kinds), notice("cmpNoModel", "cmpNoModelWhy")];
    const list = select(t("cmpModel"), [["", t("choose")], ...others.map((one) => [one.name, one.name])], state.model2 ?? "", (name) => set({ model2: name }));
    return [build("div", "bar", [kinds, list]), ...(second(view) ? [] : [notice("cmpNeedModel", "cmpNeedModelWhy")])];
  }
  const input = (name) => build("input", "", [], { name, id: name, value: state[name] ?? "", autocomplete: "off", spellcheck: "false" });
  const wide = field(t("cmpText"), input("text2")), parts = [kinds, wide];
  wide.classList.add("wide");
  if (model.pairs) parts.push(field(t("cmpPair"), input("pair2")));
  const asked = build("form", "bar", [...parts, build("button", "main", t("cmpGo"), { type: "submit", id: "compare" })], {
    onsubmit: (event) => { event.preventDefault(); set({ by: null, model2: null, cell: null, ...Object.fromEntries(new FormData(asked)) }); },
  });
  return [asked, ...(state.text2 ? [] : [notice("cmpNeedText", "cmpNeedTextWhy")])];
}

// --- what they say ----------------------------------------------------------------------------------------------

async function outputs(view, traces, other) {
  const { t, api, signal, model } = view, card = build("section", "card said", make("h2", "", t("cmpOutputs")));
  const writes = Boolean(model.head?.endsWith("generation"));
  if (!model.task || !(model.tokenizer || writes)) card.append(make("p", "", t("cmpNoTask")));
  else {
    const options = writes ? { strategy: "greedy" } : ["fill-mask", "pretraining", "sentence-order-prediction"].includes(model.task) ? { top_k: 200 } : {};
    const questions = [view.asked(), other].map(({ model: name, inputs, pair }) => ({ model: name, inputs, pair, options }));
    const lines = await Promise.all(questions.map((body) => all(api.lines("/results", { body, signal }), api)));
    const logits = (side, slice) => api.slice(traces[side].trace_id, "outputs.logits", { slice, signal });
    card.append(...await differing(view, lines, questions, logits));
  }
  card.append(...await Promise.all(Object.keys(traces[0].outputs).map((name) => furthest(view, traces, name))));
  return card;
}

async function all(lines, api) {
  const found = [];
  for await (const line of lines) {
    if (line.kind === "error") throw new api.Problem(422, line.detail);
    found.push(line);
  }
  return found;
}

// Where an output differs most.
async function furthest({ t, api, signal }, traces, name) {
  const shapes = traces.map((one) => one.outputs[name] ?? []), [shape] = shapes;
  if (shapes[0].join() !== shapes[1].join()) return make("p", "soft", t("cmpShapes", name, ...shapes.map((one) => one.join("×"))));
  if (shape.reduce((one, other) => one * other, 1) > LARGEST) return "";
  const { values } = await api.slice(traces[1].trace_id, `outputs.${name}`, { minus: traces[0].trace_id, signal });
  let most = 0;
  values.forEach((value, place) => { if (Math.abs(value) > Math.abs(values[most])) most = place; });
  const where = [];
  for (let axis = shape.length - 1, rest = most; axis >= 0; axis--) {
    where.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return make("p", "soft", t("cmpFar", name, exact(values[most] ?? 0), where.join(", ")));
}

// --- inside -----------------------------------------------------------------------------------------------------

async function inside(view, traces) {
  const { t, root, state, set, signal } = view, names = traces[0].boards.map((one) => one.name).filter((name) => traces[1].boards.some((one) => one.name === name));
  const card = build("section", "card", make("h2", "", t("cmpInside")));
  root.append(card);
  if (!names.length) return card.append(make("p", "", t("cmpNoBoards")));
  const name = names.includes(state.board) ? state.board : names[0], boards = traces.map((one) => one.boards.find((board) => board.name === name));
  const equal = boards[0].shape.join() === boards[1].shape.join(), columns = boards[0].columns.length;
  if (names.length > 1) card.append(choice(t("cmpBoard"), names.map((one) => [one, t(`board_${one}`)]), name, (board) => set({ board, layer: null, head: null, cell: null })));
  if (boards[0].kind === "attention") card.append(make("p", "note", t("attentionIsNot")));
  const [down, across] = [0, 1].map((side) => boards.map((board) => traces[boards.indexOf(board)].tokens[board[side ? "across" : "down"]]));
  if (!equal) card.append(make("p", "note", unequal(t, boards)));
  const place = placeOf(boards[0], state), at = [Math.floor(place / columns), place % columns];
  const open = (row, column) => set({ board: name, ...layerAndHead(boards[0], row * columns + column), cell: null });
  card.append(make("p", "soft", t(boards[0].kind === "attention" ? "cmpHeads" : "cmpGates")));
  const tiles = equal ? [await view.api.mosaic(traces[1].trace_id, name, { minus: traces[0].trace_id, signal })] : await Promise.all(traces.map((one) => view.api.mosaic(one.trace_id, name, { signal })));
  const room = wideOf(root, tiles.length) - 50, heads = boards[0].columns.map((one) => (boards[0].kind === "attention" ? one : t(`gate_${one}`)));
  const told = { board: boards[0], heads, at, open, room, signal };
  card.append(build("div", "two", tiles.map((one, side) => build("div", "", [
    make("h3", "", t(equal ? "cmpLeft" : side ? "cmpSecond" : "cmpFirst")), mosaic(one, { ...told, kinds: boards[0].scales.map((scale) => (equal ? "signed" : kindOf(scale))) }),
  ]))));
  if (equal && boards[0].kind === "attention") card.append(make("p", "soft", t("cmpReach")));
  const labels = { down, across: boards[0].across ? across : null };
  await (equal ? subtracted : beside)(view, traces, boards, at, labels, card);
}

const wideOf = (root, parts) => (root.clientWidth < NARROW ? root.clientWidth : root.clientWidth / parts);

function unequal(t, boards) {
  const axis = boards[0].shape[2] !== boards[1].shape[2] ? 2 : 3, writes = boards[0][axis === 2 ? "down" : "across"] !== "read";
  return `${t("cmpUnequal", boards[0].shape[axis], boards[1].shape[axis])} ${writes ? t("cmpUnequalFix") : ""}`;
}

// All tiles on one canvas; one is chosen.
function mosaic({ values, reach, shape: [rows, columns, high, wide] }, { board, heads, at, open, room, signal, kinds }) {
  const left = 44, top = 20, gap = 4, side = Math.max(14, Math.min(84, Math.floor((room - left) / columns) - gap));
  const tall = Math.max(14, Math.min(side, board.kind === "states" ? 48 : side)), scale = devicePixelRatio || 1;
  const width = left + columns * (side + gap), height = top + rows * (tall + gap), canvas = build("canvas", "", [], { "aria-hidden": "true" });
  const element = build("div", "mosaic", canvas, { tabindex: "0", role: "application", "aria-roledescription": "grid", "aria-label": board.name, "data-reach": reach.join() });
  Object.assign(canvas, { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  canvas.style.width = `${width}px`;
  let now = at;
  const where = (row, column) => [left + column * (side + gap), top + row * (tall + gap)], pen = canvas.getContext("2d");

  function paint() {
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    paintTiles(pen, { values, shape: [rows, columns, high, wide] }, { board, heads, ramps: kinds.map(rampOf), where, side, tall });
    pen.strokeStyle = cssColour("ink");
    pen.lineWidth = 2;
    const [x, y] = where(...now);
    pen.strokeRect(x - 1, y - 1, side + 2, tall + 2);
  }

  canvas.addEventListener("click", (event) => {
    const row = Math.floor((event.offsetY - top) / (tall + gap)), column = Math.floor((event.offsetX - left) / (side + gap));
    if (row >= 0 && column >= 0 && row < rows && column < columns) open(row, column);
  }, { signal });
  element.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter") open(...now);
    if (!move) return;
    event.preventDefault();
    now = [Math.max(0, Math.min(rows - 1, now[0] + move[0])), Math.max(0, Math.min(columns - 1, now[1] + move[1]))];
    paint();
  }, { signal });
  paint();
  return element;
}

function paintTiles(pen, { values, shape: [rows, columns, high, wide] }, { board, heads, ramps, where, side, tall }) {
  const tile = document.createElement("canvas"), letters = Math.max(2, Math.floor(side / 8)), size = high * wide;
  pen.imageSmoothingEnabled = false;
  pen.font = `12px ${cssColour("mono")}`;
  pen.fillStyle = cssColour("soft");
  for (let row = 0; row < rows; row++) pen.fillText(board.rows[row].slice(0, 5), 2, where(row, 0)[1] + tall / 2 + 4);
  for (let column = 0; column < columns; column++) pen.fillText(short(heads[column], letters), where(0, column)[0], 14);
  for (let cell = 0; cell < rows * columns; cell++) {
    paintSteps(tile, values.subarray(cell * size, (cell + 1) * size), high, wide, ramps[cell % columns]);
    pen.drawImage(tile, ...where(Math.floor(cell / columns), cell % columns), side, tall);
  }
}

const indexOf = (board, [row, column]) => row * board.shape[1] + column;
const cellOf = (board, at) => board.cells[indexOf(board, at)];
const title = (t, board, at) => titleOf(board, indexOf(board, at), t);
const python = (traces, cell) => traces.map((one, side) => `${one.python}\n${side ? "second" : "first"} = seen["${cell.tensor}"][${cell.slice}]`).join("\n\n");

// Labels of a side: the token, or both where they are not the same.
const joined = ([one, other]) => one.map(({ text }, place) => (text === other[place].text ? text : `${text}|${other[place].text}`));

// One matrix: the second minus the first, with the exact numbers of all three under the pointer.
async function subtracted(view, traces, boards, at, labels, card) {
  const { t, api, signal, state, root } = view, board = boards[0], cell = cellOf(board, at), ids = traces.map((one) => one.trace_id);
  const get = (id, minus) => api.slice(id, cell.tensor, { slice: cell.slice, minus, signal });
  const [change, first, second] = await Promise.all([get(ids[1], ids[0]), get(ids[0]), get(ids[1])]), [high, wide] = change.shape;
  const reach = change.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1, scale = [-reach, reach, false], steps = stepsOf(change.values, scale);
  const down = joined(labels.down), across = labels.across ? joined(labels.across) : [], told = make("p", "mono value");
  const matrix = heatmap({
    steps, high, wide, kind: "signed", down, across, label: `${t("cmpLeft")}: ${title(t, board, at)}`, signal, width: root.clientWidth - 40, at: state.cell?.split(",").map(Number),
    move(row, column) {
      const place = row * wide + column, where = across.length ? t("cmpCell", visible(down[row]), visible(across[column])) : t("cmpUnit", visible(down[row]), column);
      told.textContent = `${where}   ${t("cmpFirst")} ${exact(first.values[place])}   ${t("cmpSecond")} ${exact(second.values[place])}   Δ ${exact(change.values[place])}`;
      view.set({ cell: `${row},${column}` }, { push: false, show: false });
    },
  });
  card.append(make("h3", "", title(t, board, at)), build("div", "bar", [legend(scale, number), ...ablation(view, board, at)]), matrix.element, told);
  if (state.cell) matrix.select(...state.cell.split(",").map(Number));
  share(view, traces, cell, {
    python: `${python(traces, cell)}\nprint(second - first)`,
    svg: () => picture({ steps, high, wide, down, across }, "signed", `${title(t, board, at)}, Δ`),
  });
}

// Two matrices that cannot be subtracted.
async function beside(view, traces, boards, at, labels, card) {
  const { t, api, signal, root } = view, cell = cellOf(boards[0], at), told = make("p", "mono value"), scale = boards[0].scales[at[1]], parts = [];
  const found = await Promise.all(traces.map((one) => api.slice(one.trace_id, cell.tensor, { slice: cell.slice, signal })));
  found.forEach(({ values, shape: [high, wide] }, side) => {
    const down = labels.down[side].map((one) => one.text), across = labels.across?.[side].map((one) => one.text) ?? [], name = t(side ? "cmpSecond" : "cmpFirst");
    const steps = stepsOf(values, scale), matrix = heatmap({
      steps, high, wide, kind: kindOf(scale), down, across, label: `${name}: ${title(t, boards[0], at)}`, signal, width: wideOf(root, 2) - 50, most: 520,
      move: (row, column) => { told.textContent = `${name}   ${across.length ? t("cmpCell", visible(down[row]), visible(across[column])) : t("cmpUnit", visible(down[row]), column)}   ${exact(values[row * wide + column])}`; },
    });
    parts.push({ name, matrix, steps, high, wide, down, across });
  });
  card.append(make("h3", "", title(t, boards[0], at)), build("div", "bar", [legend(scale, number), ...ablation(view, boards[0], at)]),
    build("div", "two", parts.map(({ name, matrix }) => build("div", "", [make("h3", "", name), matrix.element]))), told);
  share(view, traces, cell, {
    python: `${python(traces, cell)}\nprint(first, second)`,
    svg: () => stacked(parts.map((one) => picture(one, kindOf(scale), `${title(t, boards[0], at)}, ${one.name}`))),
  });
}

const picture = (one, kind, words) => matrixSvg({ ...one, ramp: rampOf(kind), title: words, ink: cssColour("ink"), paper: cssColour("card") });

// Pictures one below another.
function stacked(all) {
  const sizes = all.map((svg) => ["width", "height"].map((name) => Number(svg.match(`${name}="([\\d.]+)"`)[1])));
  const width = Math.max(...sizes.map(([wide]) => wide)), height = sizes.reduce((sum, [, high]) => sum + high, 0);
  let top = 0;
  const placed = all.map((svg, place) => {
    const y = top;
    top += sizes[place][1];
    return svg.replace("<svg ", `<svg y="${y}" `);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${cssColour("card")}"/>${placed.join("")}</svg>`;
}

// A link that switches the chosen head off.
function ablation(view, board, at) {
  return board.kind === "attention" ? [ablateLink(view, board, indexOf(board, at))] : [];
}

function share(view, traces, cell, what) {
  const other = build("a", "button", view.t("cmpNpz"), { href: view.api.npz(traces[1].trace_id, [cell.tensor]), download: "second.npz", id: "export-npz-second" });
  view.share({ ...what, names: [cell.tensor], more: [other] });
}
