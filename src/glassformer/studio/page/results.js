// What a task says, drawn: each kind of line of POST /results has its picture, and gives rows to be taken along as bars.
import { cssColour, heatmap, kindOf, rampOf, stepsOf } from "./canvas.js";
import { build, button, exact, make, number, table, visible } from "./dom.js";
import { TREE, treeSvg } from "./pictures.js";
import { drawn, matrixSvg } from "./share.js";
import { pages, passage, row } from "./tokens.js";

document.head.append(build("link", "", [], { rel: "stylesheet", href: new URL("styles/results.css", import.meta.url).href }));

const CLASSES = 12; // shown at once
const MASKS = 24;
export const shown = (value) => (typeof value === "number" ? number(value) : String(value)); // JSON names what is not finite

// Bars with their numbers: rows are {name, value, pale (a second, paler value), note, chosen, act}.
export function bars(rows) {
  const list = build("ol", "bars");
  for (const { name, value, pale = null, figure = shown(value), chosen = false, act = null } of rows) {
    const bar = build("span", "bar-room", [...(pale === null ? [] : [make("i", "pale")]), make("i", "full")]);
    bar.lastChild.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
    if (pale !== null) bar.firstChild.style.width = `${100 * Math.min(1, Math.max(0, pale))}%`;
    const label = act ? button(name, act, { class: "name", "aria-pressed": String(chosen) }) : make("span", "name", name);
    list.append(build("li", chosen ? "chosen" : "", [label, bar, build("span", "figure", figure, { title: exact(value) })]));
  }
  return list;
}

export const draw = { classes, entities, answers, fills, likeness, vector };

function classes({ classes: found, problem }, { t }) {
  const rows = found.map(({ label, score }) => ({ name: label, value: score }));
  if (problem === "regression") return { nodes: [build("p", "big", shown(found[0].score), { title: exact(found[0].score) }), make("p", "soft", t("runNumber"))], rows };
  const several = problem === "multi_label_classification", some = rows.slice(0, CLASSES), rest = rows.slice(CLASSES);
  const nodes = [bars(some.map((one, place) => ({ ...one, chosen: several ? one.value > 0.5 : place === 0 })))];
  if (rest.length) nodes.push(make("p", "soft", t("runRest", rest.length, shown(rest.reduce((sum, one) => sum + one.value, 0)))));
  if (several) nodes.push(make("p", "soft", t("runTaken")));
  return { nodes, rows };
}

function entities({ entities: found, tokens }, view) {
  const { t, question } = view;
  const text = passage(question.inputs), kinds = [...new Set(found.map((one) => one.entity_group))];
  text.mark(found.map((one) => ({ start: one.start, end: one.end, name: `kind-${kinds.indexOf(one.entity_group) % 4}`, note: `${one.entity_group} ${shown(one.score)}` })));
  const facts = build("dl", "facts");
  const strip = pages(view, {
    label: t("runTags"),
    items: tokens.map((one, place) => ({ text: text.part(one.start, one.end), id: one.entity, place: "", share: one.entity === "O" ? 0 : one.score,
      name: place && one.number !== null && one.number === tokens[place - 1].number ? "goes-on" : "" })),
    choose(place) {
      const one = tokens[place], told = [[t("runToken"), visible(one.word)], [t("runWord"), one.number === null ? "–" : one.number + 1], [t("runPlace"), `${one.start}–${one.end}`], [t("runTag"), one.entity], [t("runProbability"), exact(one.score)]];
      facts.replaceChildren(...told.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", String(value))]));
    },
  });
  const nodes = [text.element, ...(found.length ? [] : [make("p", "soft", t("runNoEntity"))]), make("h3", "", t("runTags")), make("p", "soft", t("runTagsNote")), strip.element, facts];
  return { nodes, rows: found.map((one) => ({ name: `${one.word} · ${one.entity_group}`, value: one.score })) };
}

function answers({ answers: found }, { t, question, state, set }) {
  const text = passage(question.pair), list = build("div");
  const name = (one) => one.answer || t("runNoAnswer");
  function choose(place) {
    const one = found[place] ?? found[0];
    text.mark(one.end > one.start ? [one] : []);
    list.replaceChildren(bars(found.map((other, rank) => ({ name: name(other), value: other.score, chosen: other === one,
      act: () => { set({ answer: rank || null }, { push: false, show: false }); choose(rank); list.querySelector('[aria-pressed="true"]').focus(); } }))));
  }
  choose(Number(state.answer ?? 0));
  return { nodes: [text.element, list], rows: found.map((one) => ({ name: name(one), value: one.score })) };
}

function fills({ masks }, { t }) {
  const some = masks.slice(0, MASKS), rest = masks.length - some.length;
  const groups = some.map((words, place) => build("section", "mask", [
    ...(masks.length > 1 ? [make("h3", "", t("runMaskNumber", place + 1))] : []),
    bars(words.map((one, rank) => ({ name: visible(one.token_str), value: one.score, chosen: rank === 0 }))),
  ]));
  const best = masks.length === 1 ? [make("h3", "", t("runBest")), make("p", "passage", masks[0][0].sequence)] : [];
  if (rest) best.push(make("p", "soft", t("runMoreMasks", rest)));
  return { nodes: [build("div", "masks", groups), ...best], rows: masks.flat().map((one) => ({ name: one.token_str, value: one.score })) };
}

function likeness({ cosine }, { t }) {
  return { nodes: [build("p", "big", shown(cosine), { title: exact(cosine) }), make("p", "soft", t("runCosineNote"))], rows: [{ name: t("runCosine"), value: cosine }] };
}

function vector({ values }, { t, signal, root, question }) {
  const wide = Math.min(64, values.length), high = Math.ceil(values.length / wide), told = make("p", "mono value");
  const reach = Math.max(...values.map(Math.abs)) || 1, scale = [-reach, reach, false];
  const steps = stepsOf([...values, ...Array(high * wide - values.length).fill(0)], scale);
  const map = heatmap({ steps, high, wide, kind: kindOf(scale), label: t("runTask-feature-extraction"), signal, width: root.clientWidth - 40,
    move: (down, across) => { told.textContent = `[${down * wide + across}] = ${exact(values[down * wide + across] ?? NaN)}`; } });
  const norm = Math.sqrt(values.reduce((sum, one) => sum + one * one, 0));
  const svg = () => matrixSvg({ steps, high, wide, ramp: rampOf(kindOf(scale)), title: question.inputs, ink: cssColour("ink"), paper: cssColour("card") });
  return { nodes: [make("p", "soft", t("runNorm", values.length, number(norm))), map.element, told], svg };
}

// --- texts as they are written ----------------------------------------------------------------------------------

// Tokens that come one by one, each with what else could have stood there.
export function stream({ t, signal, state, set, question }) {
  const steps = [], panel = build("div", "choices"), sampled = question.options.strategy === "sample";
  const strip = row({ label: t("runWrites"), signal, choose });
  const nodes = [strip.element, make("p", "soft", t("runChoicesNote")), panel];

  function choose(place) {
    const { token, id, logprob, top } = steps[place], own = (one) => Math.exp(one.logprob);
    const rows = [...top, ...(top.some((one) => one.id === id) ? [] : [{ token, id, logprob, share: steps[place].share }])];
    panel.replaceChildren(make("h3", "", t("runChoices", place + 1, visible(token))), bars(rows.map((one) => ({
      name: visible(one.token), value: sampled ? one.share : own(one), pale: sampled ? own(one) : null, figure: sampled ? `${shown(own(one))} → ${shown(one.share)}` : shown(own(one)), chosen: one.id === id,
    }))), ...(sampled ? [make("p", "soft", t("runFilters"))] : []));
    set({ written: place }, { push: false, show: false });
  }

  function add(line) {
    steps.push(line);
    strip.add({ text: line.token, share: Math.exp(line.logprob), id: null });
    if (Number(state.written ?? -1) === steps.length - 1) strip.select(steps.length - 1, { focus: false });
  }

  return { nodes, add, count: () => steps.length, rows: () => steps.map((one) => ({ name: one.token, value: Math.exp(one.logprob) })) };
}

// The steps of a beam search as one picture, and the texts that it found.
export function beams({ t, signal, question }) {
  const steps = [], picture = build("div", "picture"), mark = make("div", "mark"), told = make("p", "mono value");
  const tree = build("div", "tree", build("div", "inside", [picture, mark]), { tabindex: "0", role: "application", "aria-roledescription": "tree", "aria-label": t("runTree") });
  const texts = build("div"), nodes = [texts, make("h3", "", t("runTree")), make("p", "soft", t("runTreeNote")), tree, told];
  let path = [], at = [0, 0], waiting = false;
  const svg = () => treeSvg(question.inputs, t("runPrompt"), steps, path);
  mark.hidden = true;

  function paint() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(async () => {
      waiting = false;
      picture.replaceChildren(await drawn(svg()));
    });
  }

  function select(step, rank) {
    if (!steps.length) return;
    const column = Math.max(0, Math.min(steps.length - 1, step));
    at = [column, Math.max(0, Math.min(steps[column].length - 1, rank))];
    const one = steps[at[0]][at[1]], fate = t(`run${one.fate[0].toUpperCase()}${one.fate.slice(1)}`);
    told.textContent = `${at[0] + 1}.${at[1] + 1}  ${visible(one.token)}  ${t("runLogprob")} ${exact(one.score)}  ${fate}`;
    mark.hidden = false;
    mark.style.left = `${TREE.left + TREE.column * at[0] - 3}px`;
    mark.style.top = `${TREE.top + TREE.row * at[1] - 3}px`;
    const left = TREE.left + TREE.column * at[0];
    if (left < tree.scrollLeft || left + TREE.wide > tree.scrollLeft + tree.clientWidth) tree.scrollLeft = left - TREE.left;
  }

  tree.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    select(at[0] + move[0], at[1] + move[1]);
  }, { signal });
  picture.addEventListener("pointermove", (event) => {
    const step = Math.floor((event.offsetX - TREE.left) / TREE.column), rank = Math.floor((event.offsetY - TREE.top) / TREE.row);
    if (steps[step]?.[rank] && (step !== at[0] || rank !== at[1] || mark.hidden)) select(step, rank);
  }, { signal });
  tree.addEventListener("focus", () => select(...at), { signal });

  return {
    nodes, svg, add: (line) => { steps.push(line.nodes); paint(); }, count: () => steps.length,
    finish({ texts: found, path: way }) {
      path = way;
      paint();
      texts.append(table([t("runRank"), t("runScore"), t("runText")],
        found.map((one, place) => [place + 1, build("span", "", shown(one.score), { title: exact(one.score) }), one.text.trim() ? one.text : visible(one.text)]), t("runWrites")));
    },
  };
}
