// Train: the table of runs, and the curves of those that are ticked, which grow while a run goes on.
import { cssColour, isDark } from "../canvas.js";
import { build, button, field, make, number, select, table } from "../dom.js";
import { plot, shape, sheet } from "../curves.js";
import { download } from "../share.js";

const EVERY = 1500; // milliseconds between two looks at the runs
const HEIGHT = 210; // pixels of a plot
const SMOOTHED = ["loss", "grad_norm"];
const COLOURS = { light: ["#d1570a", "#5a57d6", "#b0327f", "#5e7d12", "#7a5c3e"], dark: ["#ff9a52", "#a5a2ff", "#f27fc0", "#a9cf56", "#cfa888"] };

export const screen = {
  id: "train",
  needs: "nothing",
  async show(given) {
    const view = { ...given, t: (key, ...values) => given.t(`train.${key}`, ...values) }, { root, state, t, api, signal } = view;
    const found = await api.json("/runs", { signal }), known = new Map(found.runs.map((one) => [one.name, one]));
    const asked = state.runs === undefined ? found.runs.slice(0, 1).map((one) => one.name) : listed(state.runs);
    const chosen = asked.filter((name) => known.has(name)), rows = new Map();
    if (!found.runs.length) return waitForOne(view, found.folder);
    await Promise.all(chosen.map((name) => fetchRows(view, name, rows)));
    const context = { view, known, chosen, rows, colours: [cssColour("accent"), ...COLOURS[isDark() ? "dark" : "light"]] };
    const list = runTable(context, found.folder), notes = build("div", "notes"), curves = build("div", "curves");
    const lost = build("p", "note", t("quiet"), { hidden: true, role: "status" });
    root.replaceChildren(list.element, lost, notes, controls(context, () => draw()), curves);
    const board = plots(context, curves);

    function draw() {
      list.fill();
      notes.replaceChildren(...remarks(context, asked));
      board.draw();
    }

    draw();
    new ResizeObserver(() => board.draw()).observe(curves);
    share(context, board);
    root.dataset.painted = "yes";
    follow(view, lost, async () => {
      const now = await api.json("/runs", { signal }), names = now.runs.map((one) => one.name);
      if (names.some((name) => !known.has(name)) || names.length !== known.size) return view.again();
      for (const one of now.runs) known.set(one.name, one);
      const fresh = await Promise.all(chosen.map((name) => fetchRows(view, name, rows)));
      if (fresh.some(Boolean)) draw();
      else list.fill();
      return null;
    });
    return null;
  },
};

const listed = (text) => text.split(",").filter(Boolean).map(decodeURIComponent);
const spelled = (names) => names.map(encodeURIComponent).join(",") || ",";

// Look again and again until the screen is left; a server that is away is asked once more.
async function follow({ signal }, lost, look) {
  const pause = () => new Promise((go) => {
    const clock = setTimeout(go, EVERY);
    signal.addEventListener("abort", () => { clearTimeout(clock); go(); }, { once: true });
  });
  for (await pause(); !signal.aborted; await pause()) {
    if (document.hidden) continue;
    try {
      await look();
      lost.hidden = true;
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (error.status === undefined) throw error;
      lost.hidden = false;
    }
  }
}

function waitForOne(view, folder) {
  const { root, t, api, signal } = view, lost = build("p", "note", t("quiet"), { hidden: true, role: "status" });
  const command = `glassformer train text-classification --arch lstm --data microworld --out ${folder}/first`;
  root.replaceChildren(lost, build("section", "card notice", [make("h2", "", t("noRuns")), make("p", "", t("noRunsFix", folder)), make("pre", "", command)]));
  root.dataset.painted = "yes";
  follow(view, lost, async () => {
    if ((await api.json("/runs", { signal })).runs.length) view.again();
  });
}

// The rows that are new since the last time; whether there were any.
async function fetchRows({ api, signal }, name, rows) {
  const known = rows.get(name) ?? [], path = name.split("/").map(encodeURIComponent).join("/");
  const found = await api.json(`/runs/${path}/metrics?after=${known.length}`, { signal });
  rows.set(name, [...known.slice(0, found.first), ...found.rows]);
  return found.rows.length > 0 || found.first < known.length;
}

// --- the table ------------------------------------------------------------------------------------------------

function runTable({ view, known, chosen, colours }, folder) {
  const { t, set } = view, cells = new Map();
  const heads = ["show", "runName", "task", "startedFrom", "state", "step", "best", "lastLoss", "changed"].map((key) => t(key));
  const rows = [...known.keys()].map((name) => {
    const box = build("input", "", [], { type: "checkbox", id: `run-${name}`, checked: chosen.includes(name), "aria-label": `${t("show")}: ${name}` });
    box.addEventListener("change", () => set({ runs: spelled(box.checked ? [...chosen, name] : chosen.filter((one) => one !== name)) }));
    const swatch = build("span", "swatch"), label = build("label", "name", [swatch, make("span", "", name)], { for: box.id });
    if (chosen.includes(name)) swatch.style.background = colours[chosen.indexOf(name) % colours.length];
    cells.set(name, heads.slice(2).map(() => build("span")));
    return [box, label, ...cells.get(name)];
  });
  const element = table(heads, rows, t("runsIn", folder));
  element.classList.add("card");

  function fill() {
    for (const [name, one] of known) {
      const epoch = one.epochs && one.epoch >= 0 ? t("inEpoch", one.step, one.epoch + 1, one.epochs) : String(one.step);
      const steps = one.steps ? t("ofSteps", one.step, one.steps) : epoch;
      const best = one.best ? t("atStep", one.best.metric.replace("dev_", ""), number(one.best.value), one.best.step) : "–";
      const when = new Date(1000 * one.changed).toLocaleString(document.documentElement.lang, { dateStyle: "short", timeStyle: "medium" });
      const texts = [one.task ?? "–", one.model ?? "–", t(one.state), steps, best, one.loss === null ? "–" : number(one.loss), when];
      cells.get(name).forEach((cell, place) => {
        if (cell.textContent !== texts[place]) cell.textContent = texts[place];
      });
      cells.get(name)[2].className = `state ${one.state}`;
    }
  }
  return { element, fill };
}

function remarks({ view, known, chosen, rows }, asked) {
  const { t } = view, found = asked.filter((name) => !known.has(name)).map((name) => make("p", "note", t("missingRun", name)));
  for (const name of chosen) {
    const one = known.get(name);
    if (one.state === "stopped") found.push(build("p", "note", [make("span", "", t("goOn", name)), make("code", "", `glassformer train ${one.folder}/recipe.toml --resume`)]));
    if (!rows.get(name).length) found.push(make("p", "note", t("noRows", name)));
  }
  return chosen.length ? found : [...found, make("p", "note", t("chooseRuns"))];
}

function controls({ view }, draw) {
  const { t, state, set } = view, quietly = { push: false, show: false };
  const slider = build("input", "", [], { type: "range", id: "smoothing", min: 0, max: 0.98, step: 0.02, value: state.smooth ?? 0 });
  slider.addEventListener("input", () => {
    set({ smooth: slider.value === "0" ? null : slider.value }, quietly);
    state.smooth = slider.value;
    draw();
  });
  const log = build("input", "", [], { type: "checkbox", id: "logarithmic", checked: state.log === "yes" });
  log.addEventListener("change", () => {
    state.log = log.checked ? "yes" : undefined;
    set({ log: state.log }, quietly);
    draw();
  });
  return build("div", "bar", [field(t("smoothing"), slider), build("label", "tick", [log, make("span", "", t("logarithmic"))])]);
}

// --- the curves -----------------------------------------------------------------------------------------------

// Each value counts for less the longer ago it was; the first ones are not drawn towards zero.
function smoothed(points, share) {
  let sum = 0, weight = 0;
  return points.map(([step, value]) => {
    sum = share * sum + (1 - share) * value;
    weight = share * weight + (1 - share);
    return [step, sum / weight];
  });
}

const pointsOf = (rows, key) => rows.filter((row) => row[key] !== undefined).map((row) => [row.step, row[key]]);

const plainly = (key) => key.replace("dev_", "").replaceAll("_", " ");

// The scores that the runs shown have, and the one that is shown.
function scoresOf({ view, known, chosen, rows }) {
  const keys = new Set(chosen.flatMap((name) => rows.get(name).flatMap((row) => Object.keys(row))));
  const all = [...keys].filter((key) => key.startsWith("dev_") && key !== "dev_loss");
  return { all, score: [view.state.score, known.get(chosen[0])?.best?.metric, all[0]].find((one) => all.includes(one)) };
}

// The curves of some keys, one for each run that has them.
function curvesOf({ chosen, rows, colours }, keys) {
  return chosen.flatMap((name, place) => keys.filter(Boolean).map((key) => ({
    name: chosen.length > 1 ? `${name} ${key}` : key, colour: colours[place % colours.length], dash: key === "dev_loss", key,
    points: pointsOf(rows.get(name), key),
  }))).filter((one) => one.points.length);
}

function withSmooth(series, share) {
  return series.flatMap((one) => (share && SMOOTHED.includes(one.key)
    ? [{ ...one, faint: true }, { ...one, points: smoothed(one.points, share) }] : [one]));
}

function plots(context, element) {
  const { view, chosen, rows } = context, { t, state, set, tell, signal } = view;
  let drawn = [];

  function draw() {
    const focused = document.activeElement?.id, { score } = scoresOf(context);
    const all = chosen.flatMap((name) => rows.get(name).map((row) => row.step)).filter(Number.isFinite);
    const range = all.length ? [Math.min(0, ...all.slice(0, 1)), all.reduce((most, step) => Math.max(most, step), 1)] : [0, 1];
    const panels = [["loss", ["loss", "dev_loss"]], ["score", [score]], ["rate", ["lr"]], ["norm", ["grad_norm"]]];
    drawn = panels.map(([id, keys]) => ({ id, series: curvesOf(context, keys) })).filter((one) => one.series.length)
      .map((one) => panel(context, one, range, wide()));
    drawn.forEach(pointed);
    element.replaceChildren(...drawn.map((one) => one.element));
    if (state.at !== undefined) point(Number(state.at));
    if (focused && element.querySelector(`#${CSS.escape(focused)}`)) document.getElementById(focused).focus({ preventScroll: true });
  }

  function pointed({ frame, steps, across }) {
    const near = (event) => {
      const x = event.clientX - frame.getBoundingClientRect().left;
      return steps.reduce((best, step) => (Math.abs(across(step) - x) < Math.abs(across(best) - x) ? step : best), steps[0]);
    };
    frame.addEventListener("pointermove", (event) => point(near(event)), { signal });
    frame.addEventListener("click", (event) => point(near(event)), { signal });
    frame.addEventListener("keydown", (event) => walk(event, steps), { signal });
  }

  const wide = () => {
    const columns = getComputedStyle(element).gridTemplateColumns.split(" ").length;
    return Math.max(260, Math.floor((element.clientWidth - 16 * (columns - 1)) / columns) - 34);
  };

  function walk(event, steps) {
    const at = steps.indexOf(Number(state.at ?? NaN)), jump = event.shiftKey ? 10 : 1, last = steps.length - 1;
    const places = { ArrowLeft: at < 0 ? last : at - jump, ArrowRight: at < 0 ? 0 : at + jump, Home: 0, End: last };
    if (!(event.key in places)) return;
    event.preventDefault();
    point(steps[Math.max(0, Math.min(last, places[event.key]))]);
    tell(`${t("atThatStep", state.at)}: ${drawn.flatMap((one) => [...one.values.children].map((each) => each.textContent)).join(", ")}`);
  }

  // One step in all plots at once; the numbers are those of the file.
  function point(step) {
    state.at = String(step);
    set({ at: step }, { push: false, show: false });
    for (const one of drawn) {
      for (const end of ["x1", "x2"]) one.cursor.setAttribute(end, one.across(step).toFixed(1));
      one.cursor.setAttribute("visibility", "visible");
      showValues(t, one, step);
    }
  }

  return { draw, drawn: () => drawn };
}

function panel(context, { id, series }, range, width) {
  const { t, state } = context.view, ink = cssColour("ink"), { score } = scoresOf(context);
  const made = plot({ series: withSmooth(series, Number(state.smooth ?? 0)), range, width, height: HEIGHT, log: state.log === "yes", ink });
  const steps = [...new Set(series.flatMap((one) => one.points.map(([step]) => step)))].sort((one, other) => one - other);
  const cursor = shape("line", { y1: 8, y2: HEIGHT - 24, stroke: ink, "stroke-opacity": 0.5, visibility: "hidden", class: "cursor" });
  made.element.setAttribute("aria-hidden", "true");
  made.element.append(cursor);
  const frame = build("div", "frame", [], { tabindex: "0", role: "application", id: `plot-${id}`, "aria-label": t("curveKeys", t(id)) });
  frame.append(made.element);
  const values = build("ul", "values"), title = id === "score" ? plainly(score) : t(id);
  const element = build("section", "card panel", [build("div", "top", heading(context, id, series)), frame, values]);
  const one = { id, series, steps, cursor, values, frame, element, title, across: made.across, picture: made.element };
  showValues(t, one, Number(state.at ?? steps.at(-1)));
  return one;
}

function heading(context, id, series) {
  const { t, set } = context.view, { all, score } = scoresOf(context), choices = all.map((name) => [name, plainly(name)]);
  if (id === "score" && choices.length > 1) return [select(t("score"), choices, score, (name) => set({ score: name }))];
  const dashed = id === "loss" && series.some((one) => one.dash);
  return [make("h2", "", t(id)), ...(dashed ? [make("small", "", `${t("training")} · ${t("development")}`)] : [])];
}

// The value at this step, or else the last one before it.
function showValues(t, { series, values }, step) {
  values.replaceChildren(...series.map((one) => {
    const found = one.points.findLast(([at]) => at <= step) ?? one.points[0], mark = build("span", one.dash ? "mark dash" : "mark");
    mark.style.borderColor = one.colour;
    return build("li", "", [
      mark, make("span", "", `${one.name.replace("dev_", "dev ").replaceAll("_", " ")} `), make("b", "", String(found[1])),
      make("small", "", ` ${t("atThatStep", found[0])}`),
    ]);
  }));
}

function share({ view, known, chosen, rows, colours }, board) {
  if (!chosen.length) return;
  const files = chosen.map((name) => `    ${JSON.stringify(name)}: ${JSON.stringify(`${known.get(name).folder}/metrics.jsonl`)},`).join("\n");
  const python = `import json\nfrom pathlib import Path\n\nfiles = {\n${files}\n}\nrows = {name: [json.loads(line) for line in Path(file).read_text().splitlines()] for name, file in files.items()}`;
  const width = () => Math.max(...board.drawn().map((one) => Number(one.picture.getAttribute("width"))), 260);
  const svg = () => sheet({
    plots: board.drawn().map((one) => ({ title: one.title, element: one.picture })), width: width(), ink: cssColour("ink"), paper: cssColour("card"),
    names: chosen.map((name, place) => [name, colours[place % colours.length]]),
  });
  const file = () => download(new Blob([csv(chosen, rows)], { type: "text/csv" }), "studio-train.csv");
  view.share({ python, svg, more: [button("CSV", file, { id: "export-csv", "aria-label": view.t("saveCsv") })] });
}

// Every line of the runs shown, one below another; what a line does not have stays empty.
function csv(chosen, rows) {
  const lines = chosen.flatMap((run) => rows.get(run).map((row) => ({ run, ...row }))), heads = [...new Set(lines.flatMap(Object.keys))];
  const cell = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return [heads, ...lines.map((line) => heads.map((name) => line[name] ?? ""))].map((line) => line.map((one) => cell(String(one))).join(",")).join("\n");
}
