// The shell: what is asked at the top, the screens at the side, and the one that is shown.
import * as api from "./api.js";
import { build, button, field, link, make, select } from "./dom.js";
import { toolbar } from "./share.js";
import { href, listen, read, write } from "./state.js";
import { languages, learn, nameOf, speak, t } from "./i18n.js";

const SCREENS = ["flow", "run", "atlas", "head", "recompute", "states", "lens", "tensors", "edit", "compare", "train"];
const find = (id) => document.getElementById(id);
const screens = new Map(); // id -> a promise of its module, with its words and rules loaded
let showing = new AbortController();
let focused = null; // the id of what had the focus before the page was drawn anew

function load(id) {
  if (!screens.has(id)) {
    document.head.append(build("link", "", [], { rel: "stylesheet", href: new URL(`styles/${id}.css`, import.meta.url).href }));
    const parts = Promise.all([import(`./screens/${id}.js`), import(`./i18n/${id}.js`)]);
    screens.set(id, parts.then(([{ screen }, words]) => {
      learn(words);
      return screen;
    }));
  }
  return screens.get(id);
}

export function tell(text) {
  find("told").textContent = text;
}

// --- the top --------------------------------------------------------------------------------------------------

// Ids where the model has no tokenizer, else the text as it is.
function typed(model, words) {
  if (!words || model.tokenizer) return words || undefined;
  const ids = words.split(/[\s,]+/).filter(Boolean), wrong = ids.find((one) => !/^\d+$/.test(one));
  if (wrong !== undefined) throw new api.Problem(422, t("noId", wrong));
  return ids.map(Number);
}

// What stands at the top, sent or not: no change of the page throws it away.
const written = () => Object.fromEntries(new FormData(find("ask")));
const go = (changes, options = {}) => write(options.show === false ? changes : { ...written(), ...changes }, options);

function asked(model, state) {
  const inputs = typed(model, state.text);
  if (inputs === undefined) return null;
  const pair = model.pairs && state.pair ? state.pair : undefined;
  return { model: model.name, inputs, pair, target: model.writes ? typed(model, state.target) : undefined };
}

function showTop(models, model, state) {
  find("brand").querySelector("span").textContent = t("studio");
  document.querySelector(".skip").textContent = t("skip");
  const form = find("ask");
  const language = select(t("language"), languages.map((one) => [one, nameOf(one)]), document.documentElement.lang === "en" ? "en" : "zh", (lang) => go({ lang }));
  const theme = select(t("theme"), ["auto", "light", "dark"].map((one) => [one, t(one)]), state.theme ?? "auto", (one) => go({ theme: one === "auto" ? null : one }));
  find("manners").replaceChildren(language, theme);
  if (!model) {
    form.replaceChildren();
    return;
  }
  const input = (name, hint, value) => build(name === "text" ? "textarea" : "input", "", name === "text" ? value : [], {
    name, id: `ask-${name}`, placeholder: hint, autocomplete: "off", spellcheck: "false",
    ...(name === "text" ? { rows: "1" } : { value }),
  });
  const words = input("text", t(model.tokenizer ? "textHint" : "idsHint"), state.text ?? "");
  words.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  words.addEventListener("input", () => grow(words));
  const parts = [...examples(model), field(t(model.tokenizer ? "text" : "ids"), words)];
  parts.at(-1).classList.add("wide");
  if (model.pairs) parts.push(field(t("pair"), input("pair", t("pairHint"), state.pair ?? "")));
  if (model.writes) parts.push(field(t("target"), input("target", t("targetHint"), state.target ?? "")));
  parts.push(build("button", "main", t("go"), { type: "submit", id: "go" }));
  showChoice(form, models, model);
  while (form.childElementCount > 1) form.lastElementChild.remove();
  form.append(...parts);
  grow(words);
}

function examples(model) {
  if (!model.examples.length) return [];
  const names = model.examples.map((one, place) => [place, one.inputs]);
  const list = select(t("examples"), [["", t("choose")], ...names], "", (place) => {
    const one = model.examples[place];
    if (one) write({ text: one.inputs, pair: one.pair, target: null });
  });
  list.classList.add("examples");
  return [list];
}

// The list of models stays the same element, so that its name can be typed while the rest changes.
function showChoice(form, models, model) {
  const key = [document.documentElement.lang, ...models.map((one) => one.name)].join();
  if (form.firstElementChild?.dataset.key !== key) {
    const list = select(t("model"), models.map((one) => [one.name, one.name]), model.name, (name) => {
      const { model: old, ...state } = read(), own = { ...state, ...written() }, examples = (of) => models.find((one) => one.name === of)?.examples ?? [];
      const strange = own.text?.trim() && !examples(old).some((one) => one.inputs === own.text), [first] = examples(name);
      write({ ...cleared(state), model: name, ...(strange || !first ? { text: own.text, pair: own.pair, target: own.target } : { text: first.inputs, pair: first.pair }) });
    });
    list.dataset.key = key;
    form.replaceChildren(list);
  }
  form.querySelector("select").value = model.name;
}

function grow(area) {
  area.rows = Math.min(6, Math.max(1, area.value.split("\n").length, Math.ceil(area.value.length / 70)));
}

// A screen's own choices mean nothing to another model.
function cleared(state) {
  const kept = ["screen", "lang", "theme"];
  return Object.fromEntries(Object.keys(state).filter((name) => !kept.includes(name)).map((name) => [name, null]));
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ cell: null });
});

// Where a cell or a step is means nothing to another screen, but for a weight of Head that Recompute takes apart.
function turned(id) {
  const { screen = SCREENS[0], step } = read(), same = screen === id || (!step && ["head", "recompute"].includes(screen) && ["head", "recompute"].includes(id));
  return same ? { screen: id } : { screen: id, cell: null, step: null };
}

function showNav(current) {
  const nav = find("screens");
  nav.setAttribute("aria-label", t("screens"));
  nav.replaceChildren(...SCREENS.map((id) =>
    link({ href, set: () => go(turned(id)) }, turned(id), t(id), { id: `to-${id}`, "data-screen": id, "aria-current": id === current ? "page" : null })));
  const here = nav.querySelector("[aria-current]");
  if (here && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - nav.clientWidth / 2;
}

// --- the screen -----------------------------------------------------------------------------------------------

function card(title, text, more = []) {
  return build("section", "card notice", [make("h2", "", title), make("p", "", text), ...more]);
}

const REASONS = { 0: (error) => t(error.message), 410: () => t("gone"), 429: () => t("busy") };

// What went wrong in words, and a button that tries again.
export function trouble(error, again) {
  const words = REASONS[error.status]?.(error) ?? error.message;
  return build("section", "card problem", [
    make("h2", "", t("problem")), make("p", "", words), button(t("retry"), () => { api.forget(); again(); }, { id: "retry", class: "main" }),
  ], { role: "alert" });
}

async function show() {
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  if (document.activeElement !== document.body) focused = document.activeElement.id;
  let state = read();
  const wanted = state.screen ?? SCREENS[0], id = SCREENS.includes(wanted) ? wanted : null;
  speak(state.lang);
  if (["light", "dark"].includes(state.theme)) document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
  tell("");
  document.title = `${id ? t(id) : "?"} · Glassformer`;
  const root = build("div", `screen screen-${id}`), main = find("screen");
  const heading = build("div", "heading", [make("h1", "", id ? t(id) : "")]);
  if (!main.childElementCount) main.replaceChildren(heading, make("p", "busy", t("opening"))); // a studio that has just begun
  try {
    const models = await api.models();
    if (signal.aborted) return;
    const model = models.find((one) => one.name === state.model) ?? (state.model ? null : models[0]);
    if (model && state.text === undefined && model.examples.length) { // a first visit has something to look at
      write({ model: model.name, text: model.examples[0].inputs, pair: model.examples[0].pair }, { push: false, show: false });
      state = read();
    }
    showTop(models, model, state);
    showNav(id);
    refocus();
    if (!id) throw new api.Problem(404, t("notHere", state.screen));
    const screen = await load(id);
    if (signal.aborted) return;
    main.replaceChildren(heading, root);
    await fill({ screen, models, model, state, root, heading, signal });
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    if (!(error instanceof api.Problem)) console.error(error);
    root.replaceChildren(trouble(error, show));
    main.replaceChildren(heading, root);
  }
  if (signal.aborted) return;
  refocus(find("screen"));
  focused = null;
}

// The keyboard goes on where it was: at the element of the same id, or else at the screen.
function refocus(otherwise = null) {
  if (focused !== null && document.activeElement === document.body) (find(focused) ?? otherwise)?.focus({ preventScroll: true });
}

async function fill({ screen, models, model, state, root, heading, signal }) {
  if (screen.needs !== "nothing") {
    if (!models.length) return root.replaceChildren(card(t("noModels"), t("noModelsFix")));
    if (!model) throw new api.Problem(404, t("noModelNamed", state.model));
  }
  let trace = null;
  if (screen.needs === "trace") {
    const wanted = asked(model, state);
    if (!wanted) return root.replaceChildren(card(t("noText"), t("noTextFix")));
    root.replaceChildren(make("p", "busy", t("working")));
    trace = await api.trace(wanted);
    if (signal.aborted) return null;
    root.replaceChildren();
  }
  const refused = screen.refuses?.(model, trace);
  if (refused) return root.replaceChildren(card(t("nothingHere"), t(refused)));
  const view = { root, state, set: go, href, models, model, trace, asked: () => asked(model, state), typed: (words) => typed(model, words), api, t, tell, signal, trouble, again: show };
  view.share = (what) => {
    heading.querySelector(".tools")?.remove();
    heading.append(toolbar(view, what));
  };
  return screen.show(view);
}

// What no screen awaits, as what a click asks for: an answer that is not wanted any more is no fault, another failure is said.
addEventListener("unhandledrejection", (event) => {
  const error = event.reason, root = document.querySelector(".screen");
  if (error?.name === "AbortError") event.preventDefault();
  if (!(error instanceof api.Problem) || !root) return;
  event.preventDefault();
  root.querySelector(":scope > .problem")?.remove();
  root.prepend(trouble(error, show));
  root.firstElementChild.scrollIntoView({ block: "nearest" });
});

listen(show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();
