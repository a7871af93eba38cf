// What two results have in common and what not: a line in words, and the numbers of both beside their difference.
import { build, exact, make, number, table, visible } from "./dom.js";
import { shown } from "./results.js";
import { passage } from "./tokens.js";

const TOP = 8; // words compared
const CLASSES = 12; // classes shown
const MASKS = 12;
const figure = (value) => (typeof value === "number" ? build("span", "", shown(value), { title: exact(value) }) : String(value ?? "–"));
const signed = (value) => build("span", value < 0 ? "down" : "up", `${value > 0 ? "+" : ""}${number(value)}`, { title: exact(value) });

// Two bars over each other for every row {name, first, second}.
function both(rows, t) {
  const list = build("ol", "bars both");
  for (const { name, first, second } of rows) {
    const room = build("span", "bar-room", [make("i", "one"), make("i", "two")]), sizes = [first, second];
    sizes.forEach((value, place) => { room.children[place].style.width = `${100 * Math.min(1, Math.max(0, value ?? 0))}%`; });
    const change = first === null || second === null ? make("span", "figure", "–") : build("span", "figure", signed(Math.fround(second - first)));
    const told = sizes.map((value) => (value === null ? "–" : number(value))).join(" → ");
    list.append(build("li", "", [make("span", "name", name), room, make("span", "figure soft", told), change]));
  }
  const key = build("p", "soft key", [make("i", "one"), `${t("cmpFirst")} `, make("i", "two"), `${t("cmpSecond")} · ${t("cmpDelta")}`]);
  return [key, list];
}

const headline = (t, one, other) => make("p", "headline", one === other ? t("cmpSame", one) : t("cmpOther", one, other));
const find = (lines, kind) => lines.find((one) => one.kind === kind);

// The lines of both answers as nodes; logits(side, slice) fetches exact numbers of a side's output.
export async function differing(view, lines, questions, logits) {
  const kind = lines[0].map((one) => one.kind).find((one) => one in DIFFER);
  const [first, second] = lines.map((all) => find(all, kind));
  return kind && second ? DIFFER[kind]({ view, first, second, lines, questions, logits }) : [];
}

const DIFFER = { classes, entities, answers, fills, texts, likeness, vector };

async function classes({ view: { t }, first, second, logits }) {
  const score = (line, label) => line.classes.find((one) => one.label === label)?.score ?? null;
  if (first.problem === "regression") return difference(t, first.classes[0].score, second.classes[0].score);
  const raw = await Promise.all([0, 1].map((side) => logits(side, "0")));
  const change = (label) => Math.abs(score(second, label) - score(first, label)), same = raw[0].values.length === raw[1].values.length;
  const shared = first.labels.filter((label) => second.labels.includes(label)), names = shared.length > CLASSES ? shared.sort((one, other) => change(other) - change(one)).slice(0, CLASSES) : shared;
  const more = shared.length > names.length ? [make("p", "soft", t("cmpMoreClasses", shared.length - names.length))] : [];
  const rows = names.map((name) => ({ name, first: score(first, name), second: score(second, name) }));
  const numbers = names.map((name) => {
    const at = first.labels.indexOf(name), [one, other] = raw.map(({ values }) => values[at]);
    return [name, figure(one), figure(other), signed(Math.fround(other - one))];
  });
  const words = [t("cmpClass"), t("cmpFirst"), t("cmpSecond"), "Δ"];
  const several = first.problem === "multi_label_classification", best = ({ classes: all }) => (several ? all.filter((one) => one.score > 0.5).map((one) => one.label).sort().join(", ") || t("cmpNothing") : all[0].label);
  return [headline(t, best(first), best(second)), make("h3", "", t("cmpProbability")), ...both(rows, t), ...more,
    ...(same ? [table(words, numbers, t("cmpLogit"))] : [])];
}

function difference(t, one, other) {
  return [make("p", "headline", t("cmpNumber", exact(one), exact(other), number(other - one)))];
}

function likeness({ view: { t }, first, second }) {
  return difference(t, first.cosine, second.cosine);
}

function vector({ view: { t }, first, second }) {
  const dot = (one, other) => one.values.reduce((sum, value, place) => sum + value * other.values[place], 0);
  return [make("p", "headline", t("cmpCosine", number(dot(first, second) / Math.sqrt(dot(first, first) * dot(second, second)))))];
}

function entities({ view: { t }, first, second, questions }) {
  const sides = [first, second].map((line, side) => {
    const text = passage(questions[side].inputs);
    text.mark(line.entities.map((one) => ({ start: one.start, end: one.end, note: `${one.entity_group} ${shown(one.score)}` })));
    return build("div", "", [make("h3", "", t(side ? "cmpSecond" : "cmpFirst")), text.element]);
  });
  const [one, other] = [first.tokens, second.tokens], nodes = [build("div", "two", sides)];
  if (one.length !== other.length) return [make("p", "headline", t("cmpTagsUnequal", one.length, other.length)), ...nodes];
  const changed = one.map((token, place) => [token, other[place]]).filter(([before, after]) => before.entity !== after.entity);
  if (changed.length) {
    const rows = changed.slice(0, 50).map(([before, after]) => [before.word === after.word ? visible(before.word) : `${visible(before.word)} | ${visible(after.word)}`, before.entity, figure(before.score), after.entity, figure(after.score)]);
    nodes.push(table([t("cmpWord"), t("cmpFirst"), t("cmpProbability"), t("cmpSecond"), t("cmpProbability")], rows, t("cmpChange")));
  }
  return [make("p", "headline", changed.length ? t("cmpTagsOther", changed.length, one.length) : t("cmpTagsSame")), ...nodes];
}

function answers({ view: { t }, first, second, questions }) {
  const best = [first, second].map((line) => line.answers[0]), name = (one) => one.answer || t("cmpNothing");
  const sides = best.map((one, side) => {
    const text = passage(questions[side].pair);
    text.mark(one.end > one.start ? [one] : []);
    return build("div", "", [make("h3", "", t(side ? "cmpSecond" : "cmpFirst")), text.element]);
  });
  const all = [...new Set([...first.answers, ...second.answers].map(name))];
  const score = (line, answer) => line.answers.find((one) => name(one) === answer)?.score ?? null;
  return [headline(t, ...best.map(name)), build("div", "two", sides), ...both(all.map((answer) => ({ name: answer, first: score(first, answer), second: score(second, answer) })), t)];
}

// Words by their ids: the likeliest of either side.
function words(one, other) {
  const names = new Map([...one.slice(0, TOP), ...other.slice(0, TOP)].map((word) => [word.id, visible(word.name)]));
  return [...names];
}

function fills({ view: { t }, first, second }) {
  const sides = [first, second].map(({ masks }) => masks.map((all) => all.map((one) => ({ id: one.token, name: one.token_str, score: one.score }))));
  const count = Math.min(MASKS, ...sides.map((one) => one.length)), nodes = [];
  if (sides[0].length !== sides[1].length) nodes.push(make("p", "note", t("cmpMasksUnequal", sides[0].length, sides[1].length)));
  for (let mask = 0; mask < count; mask++) {
    const [one, other] = [sides[0][mask], sides[1][mask]], score = (all, id) => all.find((word) => word.id === id)?.score ?? null;
    nodes.push(make("h3", "", t("cmpMask", mask + 1)), headline(t, visible(one[0].name), visible(other[0].name)),
      ...both(words(one, other).map(([id, name]) => ({ name, first: score(one, id), second: score(other, id) })), t));
  }
  return nodes;
}

// Texts that were written, and the chances of the first token in both, from the logits themselves.
async function texts({ view, first, second, lines, logits }) {
  const { t, model } = view, tokens = lines.map((all) => all.filter((one) => one.kind === "token"));
  const apart = tokens[0].findIndex((one, place) => one.id !== tokens[1][place]?.id), shorter = apart < 0 && tokens[1].length > tokens[0].length ? tokens[0].length : apart;
  const words_ = shorter < 0 ? t("cmpWrittenSame", tokens[0].length) : t("cmpWrittenOther", shorter + 1);
  const sides = [first, second].map((line, side) => build("div", "", [make("h3", "", t(side ? "cmpSecond" : "cmpFirst")), make("p", "passage", line.texts[0].text.trim() ? line.texts[0].text : visible(line.texts[0].text))]));
  const raw = await Promise.all([0, 1].map((side) => logits(side, model.writes ? "0,0" : "0,-1")));
  const chances = raw.map(({ values }) => softmax(values)), listed = tokens.map((all) => all[0].top.map((one) => ({ id: one.id, name: one.token })));
  const rows = words(...listed).map(([id, name]) => ({ name, first: chances[0][id], second: chances[1][id] }));
  return [make("p", "headline", words_), build("div", "two", sides), make("h3", "", t("cmpNext")), ...both(rows, t)];
}

function softmax(values) {
  const most = values.reduce((one, other) => Math.max(one, other)), powers = Float64Array.from(values, (value) => Math.exp(value - most));
  const sum = powers.reduce((one, other) => one + other);
  return Float32Array.from(powers, (power) => power / sum);
}
