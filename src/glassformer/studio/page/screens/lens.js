// Lens: what the model would say if it stopped after each layer, or after each token.
import { cssColour, kindOf, legend, rampOf } from "../canvas.js";
import { build, choice, exact, make, number, visible } from "../dom.js";
import { grid } from "../grid.js";
import { matrixSvg } from "../share.js";
import { step } from "../values.js";

const TOP = 5;
const layered = (lens) => lens.kind !== "time" && lens.kind !== "prefix";

export const screen = {
  id: "lens",
  needs: "trace",
  refuses: (model) => (model.head ? null : "lensNoHead"),
  async show(view) {
    const { root, state, t, trace, api, signal } = view;
    root.append(make("p", "busy", t("lensWorking")));
    const { lenses } = await api.json(`/traces/${trace.trace_id}/lens?top=${TOP}`, { signal });
    if (signal.aborted) return;
    const lens = lenses.find((one) => one.kind === state.lens) ?? lenses[0];
    const colour = meanings(lens).includes(state.colour) ? state.colour : "share";
    const cells = cellsOf(lens, colour), shown = build("section", "card shown");
    const bar = build("div", "bar", [
      lenses.length > 1 ? choice(t("lensOf"), lenses.map((one) => [one.kind, t(`lens_${one.kind}`)]), lens.kind, (kind) => view.set({ lens: kind, cell: null })) : null,
      choice(t("lensColour"), meanings(lens).map((one) => [one, t(`lensBy_${one}`)]), colour, (one) => view.set({ colour: one })),
      legend(cells.scale, cells.ranked ? (end) => t(end ? "lensFirst" : "lensLast") : number),
    ]);
    const columns = layered(lens) ? lens.rows.map((name) => plain(name, t)) : lens.cells[0].ids[0].map((_, place) => t("lensPlace", place + 1));
    const table = grid({
      rows: lens.columns.map((name) => (lens.side ? visible(name) : t(`lens_${name}`))), columns,
      text: (row, column) => nameOf(lens, cells.choice(row, column)), step: cells.step, kind: kindOf(cells.scale),
      strong: (row) => lens.choices === "words" && lens.asked.includes(row) && lens.asked.length < lens.columns.length,
      label: t("lensTable", lens.columns.length, columns.length), at: cellAsked(state), signal, room: root.clientWidth - 370,
      move(row, column) {
        view.set({ cell: `${row},${column}` }, { push: false, show: false });
        fill(shown, view, lens, row, layered(lens) ? column : 0, columns);
      },
    });
    root.replaceChildren(
      make("p", "note", t(lens.kind === "time" && lens.choices === "classes" ? "lensSays_tags" : `lensSays_${lens.kind}`)), bar,
      build("div", "split", [build("div", "card", table.element), shown]));
    table.draw();
    const start = cellAsked(state) ?? [lens.asked[0] ?? 0, columns.length - 1];
    table.select(...(layered(lens) || state.cell ? start : [start[0], 0]), { quiet: true });
    fill(shown, view, lens, table.at()[0], layered(lens) ? table.at()[1] : 0, columns);
    table.draw();
    share(view, lens, cells, columns, table);
    root.dataset.painted = "yes";
  },
};

function cellAsked(state) {
  const parts = state.cell?.split(",").map(Number);
  return parts?.length === 2 && parts.every(Number.isInteger) ? parts : undefined;
}

const nameOf = (lens, id) => lens.names[id] ?? String(id);

// embeddings, layers.3, decoder.layers.3: what a person calls them.
function plain(name, t) {
  const layer = name.match(/layers\.(\d+)$/);
  return layer ? `${t("layer")}\u00a0${layer[1]}` : t("lensEmbeddings");
}

function meanings(lens) {
  const found = ["share"];
  if (layered(lens)) found.push("rank");
  if (lens.next) found.push("next");
  if (lens.kind === "prefix") found.push("final");
  if (lens.cells[0].entropy[0] !== null) found.push("entropy");
  return found;
}

// What each cell says, and its colour step.
function cellsOf(lens, colour) {
  const spread = layered(lens), most = Math.log(lens.count);
  const source = (column) => lens.cells[spread ? column : 0];
  const choiceAt = (row, column) => source(column).ids[row][spread ? 0 : column];
  const rank = (name) => (row, column) => {
    const place = source(column)[name][row];
    return place === null ? null : 1 - Math.log(place + 1) / most; // the first is darkest
  };
  const values = {
    share: (row, column) => source(column).shares[row][spread ? 0 : column],
    rank: rank("rank"), next: rank("next_rank"),
    final: (row) => lens.cells[0].share[row],
    entropy: (row, column) => source(column).entropy[row],
  };
  const ranked = colour === "rank" || colour === "next";
  const scale = colour === "entropy" ? [0, most || 1, false] : [0, 1, !ranked];
  const value = values[colour];
  return { scale, ranked, choice: choiceAt, step: (row, column) => {
    const found = value(row, column);
    return found === null ? null : step(found, scale);
  } };
}

// The likeliest choices of one cell, exactly.
function fill(shown, { t }, lens, place, row, columns) {
  const cell = lens.cells[row], rows = cell.ids[place].map((id, nth) => {
    const bar = make("i", "share");
    bar.style.width = `${100 * Math.max(0, Math.min(1, cell.shares[place][nth]))}%`;
    return build("li", "", [build("span", "word mono", visible(nameOf(lens, id))), make("span", "exact mono", exact(cell.shares[place][nth])), bar]);
  });
  const answer = lens.answers[place], facts = [];
  if (lens.kind !== "time") facts.push([t("lensFinal"), visible(nameOf(lens, answer))], [t("lensFinalRank"), t("lensRank", cell.rank[place] + 1, lens.count)], [t("lensFinalShare"), exact(cell.share[place])]);
  if (lens.next && lens.next[place] !== null) {
    facts.push([t("lensNext"), visible(nameOf(lens, lens.next[place]))], [t("lensNextRank"), t("lensRank", cell.next_rank[place] + 1, lens.count)], [t("lensNextShare"), exact(cell.next_share[place])]);
  }
  if (cell.entropy[place] !== null) facts.push([t("lensEntropy"), `${number(cell.entropy[place])} nat`]);
  if (cell.kl[place] !== null && lens.kind !== "time") facts.push([t("lensKl"), `${number(cell.kl[place])} nat`]);
  const where = lens.side ? visible(lens.columns[place]) : t(`lens_${lens.columns[place]}`);
  shown.replaceChildren(
    make("h2", "", layered(lens) ? `${where} · ${columns[row]}` : where),
    build("ol", "best", rows),
    build("dl", "facts", facts.flatMap(([name, value]) => [make("dt", "", name), make("dd", "mono", String(value))])));
}

function share(view, lens, cells, columns, table) {
  const { trace } = view, high = lens.columns.length, wide = columns.length;
  const steps = () => Uint8Array.from({ length: high * wide }, (_, n) => cells.step(Math.floor(n / wide), n % wide) ?? 0);
  view.share({
    python: `${trace.python}\n${lens.python}`, names: Object.keys(trace.outputs).map((name) => `outputs.${name}`),
    svg: () => matrixSvg({ steps: steps(), high, wide, ramp: rampOf(kindOf(cells.scale)), down: lens.columns, across: columns,
      title: `${trace.model} · ${view.t("lens")}`, ink: cssColour("ink"), paper: cssColour("card") }),
  });
}
