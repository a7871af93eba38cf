// Head: one matrix of attention, the same weights as lines, and its tokens; choosing a cell in one marks it in all.
import { arcsOf } from "../arcs.js";
import { attentions, boardOf, boardTabs, caution, factList, factsOf, layerAndHead, ordered, placeOf, pythonOf, titleOf, without } from "../attention.js";
import { cssColour, heatmap, kindOf, legend, rampOf } from "../canvas.js";
import { build, button, chip, choice, exact, link, make, number, select, short } from "../dom.js";
import { matrixSvg } from "../share.js";

const FILTERS = ["AA", "AB", "BA", "BB"];
const WAIT = 30; // milliseconds that a cell is rested on before its row is asked for
const STRONGEST = 8;

export const screen = {
  id: "head",
  needs: "trace",
  async show(view) {
    const { root, state, t, trace, api, signal } = view, boards = attentions(trace);
    if (!boards.length) return without(view);
    const board = boardOf(boards, state.board);
    const place = placeOf(board, state), cell = board.cells[place];
    // Asked for first: the page is laid out while the answer is on its way.
    const coming = api.slice(trace.trace_id, cell.tensor, { slice: cell.slice, dtype: "u8", scale: board.scales[place % board.columns.length], signal });
    const matrix = build("div", "card matrix scroll"), lines = build("div", "card lines"), aside = build("aside", "card facing");
    root.append(controls(view, boards, board, place), caution(view, board, place), build("div", "three", [matrix, lines, aside]));
    const widths = [matrix, lines].map((one) => one.clientWidth - 36), shown = filtered(view, board, await coming);
    if (!shown.high || !shown.wide) return matrix.append(make("p", "soft", t("nothingFiltered")));
    const cursor = linked(view, board, place, shown, aside);
    const heat = heatmap({
      ...shown, kind: "plain", down: shown.down.map(textOf), across: shown.across.map(textOf), signal,
      label: t("matrixLabel", titleOf(board, place, t), shown.high, shown.wide), width: widths[0], tallest: Math.max(320, innerHeight - 330),
      move: cursor.move, open: cursor.open, at: cursor.at(),
    });
    heat.element.id = "matrix";
    matrix.append(heat.element, build("div", "bar under", [legend(board.scales[0], number)]));
    const arcs = arcsOf({ ...shown, threshold: thresholdOf(state), width: widths[1], label: t("arcsLabel"), signal, move: cursor.move });
    lines.append(threshold(view, arcs), arcs.element);
    cursor.show = (row, column) => {
      heat.select(row, column, { quiet: true });
      arcs.mark(row, column);
    };
    arcs.paint();
    cursor.move(...cursor.at());
    share(view, board, place, shown);
    root.addEventListener("keydown", (event) => { if (event.key === "Escape" && event.target.tagName !== "SELECT") view.set({ screen: "atlas", cell: null }); }, { signal });
    root.dataset.painted = "yes";
    return null;
  },
};

const textOf = (token) => token.text;

function controls(view, boards, board, place) {
  const { t, state } = view, places = ordered(board, state.order), now = places.indexOf(place), { layer, head } = layerAndHead(board, place);
  const go = (one) => view.set({ ...layerAndHead(board, one), cell: null });
  const turn = (by) => go(places[(now + by + places.length) % places.length]);
  const parts = [boardTabs(view, boards, board)];
  if (board.cells.length > 1) {
    parts.push(
      select(t("layerOf"), board.rows.map((name) => [name, name]), layer, (name) => view.set({ layer: name, head, cell: null })),
      select(t("headOf"), board.columns.map((name) => [name, name]), head, (name) => view.set({ layer, head: name, cell: null })),
      build("div", "choice turn", [
        button("←", () => turn(-1), { id: "previous-head", "aria-label": t("previousHead"), title: t("previousHead") }),
        button("→", () => turn(1), { id: "next-head", "aria-label": t("nextHead"), title: t("nextHead") }),
      ]));
  }
  if (isPair(view, board)) {
    const names = [["", t("all")], ...FILTERS.map((name) => [name, `${name[0]} → ${name[1]}`])];
    parts.push(choice(t("pairs"), names, state.pairs ?? "", (name) => view.set({ pairs: name || null, cell: null })));
  }
  parts.push(link(view, { screen: "atlas", cell: null }, t("back"), { id: "back" }));
  return build("div", "bar", parts);
}

const isPair = ({ trace }, board) => board.down === "read" && board.across === "read" && trace.tokens.read.some((token) => token.side === 1);

// The rows and columns that the filter leaves, with their tokens; `number` is a token's place in the text.
function filtered(view, board, whole) {
  const { trace, state } = view, wanted = isPair(view, board) && FILTERS.includes(state.pairs) ? state.pairs : null;
  const sides = wanted ? [...wanted].map((name) => "AB".indexOf(name)) : [null, null];
  const [down, across] = [board.down, board.across].map((name, axis) =>
    trace.tokens[name].map((token, number) => ({ ...token, number })).filter((token) => sides[axis] === null || token.side === sides[axis]));
  const width = whole.shape[1], high = down.length, wide = across.length;
  if (!wanted) return { steps: whole.values, high, wide, down, across };
  const steps = new Uint8Array(high * wide);
  down.forEach((from, row) => across.forEach((to, column) => { steps[row * wide + column] = whole.values[from.number * width + to.number]; }));
  return { steps, high, wide, down, across };
}

const thresholdOf = (state) => Math.min(1, Math.max(0, Number(state.from ?? 0.1)));

function threshold(view, arcs) {
  const { t, state } = view, words = make("span", "", t("threshold", thresholdOf(state)));
  const input = build("input", "", [], { type: "range", id: "threshold", min: "0.01", max: "0.9", step: "0.01", value: String(thresholdOf(state)) });
  input.addEventListener("input", () => {
    words.textContent = t("threshold", input.value);
    view.set({ from: input.value }, { push: false, show: false });
    arcs.setThreshold(Number(input.value));
  }, { signal: view.signal });
  return build("label", "field", [words, input]);
}

// --- one cell, everywhere -------------------------------------------------------------------------------------

function linked(view, board, place, shown, aside) {
  const { t, state, api, trace, signal } = view, { tensor, slice } = board.cells[place], { high, wide, down, across, steps } = shown;
  const readout = build("div", "readout"), row = build("ol", "strongest"), title = make("h3", "", t("strongestRow"));
  const recompute = build("p");
  aside.append(make("h2", "", titleOf(board, place, t)), readout, title, row, recompute, make("h3", "", t("statistics")), factList(factsOf(board, place, t)), make("code", "source", pythonOf(board, place)));
  let chosen = null, waiting = null, asking = new AbortController(), have = { number: -1, values: null };

  const made = {
    show() {},
    at() { // the cell that the URL names by its tokens' places, else the strongest
      const [from, to] = (state.cell ?? "").split(",").map(Number);
      const found = [down.findIndex((token) => token.number === from), across.findIndex((token) => token.number === to)];
      if (chosen) return chosen;
      if (state.cell && found[0] >= 0 && found[1] >= 0) return found;
      let best = high > 1 ? wide : 0; // the first token of a causal model has only itself
      for (let n = best + 1; n < steps.length; n++) if (steps[n] > steps[best]) best = n;
      return [Math.floor(best / wide), best % wide];
    },
    move(one, other) {
      const at = [Math.max(0, Math.min(high - 1, one)), Math.max(0, Math.min(wide - 1, other))];
      if (chosen && at[0] === chosen[0] && at[1] === chosen[1]) return;
      chosen = at;
      made.show(...at);
      const [from, to] = [down[at[0]], across[at[1]]];
      view.set({ cell: `${from.number},${to.number}` }, { push: false, show: false });
      if (have.number === from.number) tell(from, to);
      else ask(from, to);
    },
    open(one, other) {
      view.set({ screen: "recompute", board: board.name, ...layerAndHead(board, place), step: null, cell: `${down[one].number},${across[other].number}` });
    },
  };

  // A row is asked for once it is rested on; what was asked before and is no longer wanted is dropped.
  function ask(from, to) {
    delete readout.dataset.exact;
    fill(from, to, null);
    clearTimeout(waiting);
    asking.abort();
    asking = new AbortController();
    const stop = AbortSignal.any([signal, asking.signal]);
    waiting = setTimeout(async () => {
      try {
        const found = await api.slice(trace.trace_id, tensor, { slice: `${slice},${from.number}`, signal: stop });
        have = { number: from.number, values: found.values };
        const [one, other] = chosen;
        if (!stop.aborted) tell(down[one], across[other]);
      } catch (error) {
        if (error.name !== "AbortError") aside.replaceChildren(view.trouble(error, view.again));
      }
    }, WAIT);
  }

  function tell(from, to) {
    fill(from, to, have.values[to.number]);
    readout.dataset.exact = `${from.number},${to.number}`;
    view.tell(`${t(board.down === "written" ? "writes" : "looks", short(from.text), short(to.text))}: ${exact(have.values[to.number])}`);
    const best = across.filter((token) => have.values[token.number] > 0).sort((a, b) => have.values[b.number] - have.values[a.number]).slice(0, STRONGEST);
    row.replaceChildren(...best.map((token) => {
      const bar = build("i"), value = have.values[token.number];
      bar.style.width = `${(100 * value) / have.values[best[0].number]}%`;
      return build("li", "", [make("span", "", short(token.text, 12)), make("small", "", String(token.number)), build("span", "bar-room", bar), make("b", "", exact(value))]);
    }));
    recompute.replaceChildren(link(view, { screen: "recompute", board: board.name, ...layerAndHead(board, place), step: null, cell: `${from.number},${to.number}` }, t("openRecompute"), { id: "open-recompute" }));
  }

  function fill(from, to, value) {
    readout.replaceChildren(factList([
      [t(board.axes[0]), chip(from.text, `${from.number} · id ${from.id}`)], [t(board.axes[1]), chip(to.text, `${to.number} · id ${to.id}`)],
    ]), build("p", "figure-line", [make("span", "soft", t("weight")), build("b", "number", value === null ? "…" : exact(value), { title: t("exactHint"), id: "exact" })]));
  }

  return made;
}

function share(view, board, place, shown) {
  const { trace, t } = view, { steps, high, wide } = shown, title = `${view.model.name} · ${t(`board_${board.name}`)} · ${titleOf(board, place, t)}`;
  view.share({
    python: `${trace.python}\n${pythonOf(board, place)}`, names: [board.cells[place].tensor],
    svg: () => matrixSvg({ steps, high, wide, ramp: rampOf(kindOf(board.scales[0])), title, down: shown.down.map(textOf), across: shown.across.map(textOf), ink: cssColour("ink"), paper: cssColour("card") }),
  });
}
