// Run: a text in, its tokens, and what the model's task says of it, as it comes.
import { build, button, choice, field, make, select } from "../dom.js";
import { barsSvg } from "../pictures.js";
import { beams, draw, stream } from "../results.js";
import { sides } from "../tokens.js";

const STRATEGIES = { greedy: [], sample: ["temperature", "top_k", "top_p", "seed"], beam: ["num_beams"] };
const WORDS = { temperature: "runTemperature", top_k: "runTopK", top_p: "runTopP", seed: "runSeed", num_beams: "runBeams", max_new_tokens: "runNew" };
const USUAL = { temperature: "1", seed: "0", num_beams: "4", top_p: "1" };
const LANGUAGES = { src_lang: "runFrom", tgt_lang: "runTo" };
const GROUPING = ["first", "simple", "average", "max", "none"];

export const screen = {
  id: "run",
  needs: "trace",
  async show(view) {
    const { root, state, t, model } = view;
    root.classList.add("results");
    const tokens = sides(view, state.token, (token) => view.set({ token }, { push: false, show: false }));
    const result = build("section", "card result", [], { "aria-label": t("runSays") });
    root.replaceChildren(...tokens.filter((one) => one.dataset.side === "read"), ...options(view), result, ...tokens.filter((one) => one.dataset.side !== "read"));
    view.share({ python: view.trace.python, names: outputs(view) });
    if (model.task && (model.tokenizer || writes(model))) await answer(view, result);
    else {
      result.append(make("h2", "", t("runSays")), make("p", "", t(model.tokenizer ? "runNoTask" : "runNoTokenizer")));
      root.dataset.painted = "yes";
    }
  },
};

const writes = (model) => Boolean(model.head?.endsWith("generation"));
const strategyOf = ({ model, state }) => (state.strategy in STRATEGIES ? state.strategy : model.task === "translation" ? "beam" : "greedy");
const outputs = ({ trace }) => Object.keys(trace.outputs).map((name) => `outputs.${name}`);

// --- options ----------------------------------------------------------------------------------------------------

function options(view) {
  const { t, state, model, set } = view;
  if (model.task === "token-classification") {
    return [build("div", "bar", select(t("runAggregation"), GROUPING.map((one) => [one, one]), state.aggregation_strategy ?? "first", (one) => set({ aggregation_strategy: one })))];
  }
  const names = writes(model) ? ["max_new_tokens", ...STRATEGIES[strategyOf(view)]] : { "question-answering": ["top_k"], "fill-mask": ["top_k"], pretraining: ["top_k"], "sentence-order-prediction": ["top_k"] }[model.task];
  if (!names) return [];
  const label = (name) => (writes(model) ? WORDS[name] : model.task === "question-answering" ? "runTopAnswers" : "runTopFills");
  const fields = names.map((name) => field(t(label(name)), build("input", "", [], {
    name, id: `option-${name}`, value: state[name] ?? USUAL[name] ?? "", placeholder: t("runAuto"), inputmode: "decimal", autocomplete: "off",
  })));
  const form = build("form", "bar options", [...fields, build("button", "", t("runApply"), { type: "submit", id: "apply" })], {
    onsubmit: (event) => { event.preventDefault(); set({ written: null, ...Object.fromEntries(new FormData(form)) }); },
  });
  if (!writes(model)) return [form];
  const kinds = Object.keys(STRATEGIES).map((one) => [one, t(`run${one[0].toUpperCase()}${one.slice(1)}`)]);
  const { languages } = view.trace;
  for (const [name, word] of languages ? Object.entries(LANGUAGES).reverse() : []) {
    form.prepend(select(t(word), languages.codes.map((one) => [one, one]), state[name] ?? languages[name], (one) => set({ [name]: one, written: null })));
  }
  form.prepend(choice(t("runStrategy"), kinds, strategyOf(view), (strategy) => set({ strategy, written: null })));
  return [form];
}

// What is asked: a number where one was typed, and else the words as they are, for the server to say what is wrong.
function asked(view) {
  const { model, state } = view, { inputs, pair } = view.asked();
  const typed = (name) => state[name] ?? (writes(model) ? USUAL[name] : undefined);
  let names = { "token-classification": ["aggregation_strategy"], "question-answering": ["top_k"], "fill-mask": ["top_k"], pretraining: ["top_k"], "sentence-order-prediction": ["top_k"] }[model.task] ?? [];
  const found = {};
  if (writes(model)) {
    found.strategy = strategyOf(view);
    names = ["max_new_tokens", ...STRATEGIES[found.strategy]];
    if (view.trace.languages) for (const name of Object.keys(LANGUAGES)) found[name] = state[name] ?? view.trace.languages[name];
  }
  for (const name of names) {
    const value = typed(name);
    if (value !== undefined && value !== "") found[name] = name === "aggregation_strategy" || Number.isNaN(Number(value)) ? value : Number(value);
  }
  return { model: model.name, inputs, pair, options: found };
}

// --- the answer -------------------------------------------------------------------------------------------------

async function answer(view, result) {
  const { t, signal, api, root, model, trouble } = view, question = asked(view), stop = new AbortController();
  const status = build("p", "soft status", t("runWorking"), { role: "status" }), body = build("div", "answer");
  const stopper = button(t("runStop"), () => stop.abort(), { id: "stop" });
  stopper.hidden = !writes(model);
  result.replaceChildren(build("div", "head", [make("h2", "", t(`runTask-${model.task}`)), status, stopper]), body);
  delete root.dataset.painted;
  const drawing = { view, body, status, question, python: view.trace.python };
  try {
    for await (const line of api.lines("/results", { body: question, signal: AbortSignal.any([signal, stop.signal]) })) take(drawing, line);
    if (!drawing.writing) status.textContent = "";
  } catch (error) {
    if (signal.aborted) return;
    if (stop.signal.aborted) status.textContent = t("runStopped", drawing.writing?.count() ?? 0);
    else if (error instanceof api.Problem) {
      status.textContent = "";
      body.append(trouble(error, () => answer(view, result)));
    } else throw error;
  }
  stopper.hidden = true;
  share(drawing);
  root.dataset.painted = "yes";
}

// One line of the answer.
function take(drawing, line) {
  const { view, body, status, question } = drawing, { t } = view;
  const told = { ...view, question };
  if (line.kind === "begin") drawing.python = line.python;
  else if (line.kind === "error") throw new view.api.Problem(422, line.detail);
  else if (line.kind in draw) {
    const { nodes, rows, svg } = draw[line.kind](line, told);
    Object.assign(drawing, { rows: rows && (() => rows), svg });
    body.append(...nodes);
  } else if (line.kind === "token" || line.kind === "step") {
    if (!drawing.writing) {
      drawing.writing = line.kind === "token" ? stream(told) : beams(told);
      drawing.rows = drawing.writing.rows;
      body.append(...drawing.writing.nodes);
    }
    drawing.writing.add(line);
    status.textContent = t(line.kind === "token" ? "runWritten" : "runSteps", drawing.writing.count());
  } else if (line.kind === "texts") {
    drawing.writing?.finish?.(line);
    const before = view.model.writes ? [] : [make("span", "soft", [question.inputs].flat().join(" ") + (view.model.tokenizer ? "" : " "))], [{ text }] = line.texts;
    body.prepend(build("p", "passage best", [...before, text.trim() ? text : ` ${t("runEmpty")}`]));
  }
}

function share({ view, question, python, rows, svg: own, writing }) {
  const svg = own ?? writing?.svg ?? (rows && (() => barsSvg(question.inputs, rows())));
  view.share({ python, names: outputs(view), svg });
}
