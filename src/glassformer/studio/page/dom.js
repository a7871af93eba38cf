// Small parts of a page. All text enters through textContent.
import { make, number, visible } from "./values.js";
import { keyOf } from "./i18n.js";

export { make, number, visible };

// make("div", "card", [one, other]) or with a text; attributes by name, on… are listeners.
export function build(tag, name, inside = [], attributes = {}) {
  const made = make(tag, name, typeof inside === "string" ? inside : "");
  if (typeof inside !== "string") made.append(...[inside].flat().filter((one) => one !== null && one !== undefined));
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  return made;
}

export function button(text, act, attributes = {}) {
  return build("button", "", text, { type: "button", onclick: act, ...attributes });
}

// One of several, as buttons: names are [value, text] pairs.
export function choice(label, names, chosen, act) {
  const buttons = names.map(([value, text]) =>
    button(text, () => act(value), { "aria-pressed": String(value === chosen), id: `choice-${keyOf(label)}-${value}` }));
  return build("div", "choice", [make("span", "", label), ...buttons], { role: "group", "aria-label": label });
}

export function select(label, names, chosen, act) {
  const options = names.map(([value, text]) => build("option", "", text, { value, selected: String(value) === String(chosen) }));
  const list = build("select", "", options, { onchange: () => act(list.value), id: `select-${keyOf(label)}` });
  return build("label", "field", [make("span", "", label), list]);
}

export function field(label, input) {
  return build("label", "field", [make("span", "", label), input]);
}

// A link to another screen that the shell follows without loading the page anew.
export function link({ href, set }, changes, text, attributes = {}) {
  return build("a", "", text, { href: href(changes), ...attributes, onclick: (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    set(changes);
  } });
}

// A table of rows of texts or nodes.
export function table(heads, rows, caption = "") {
  const cell = (tag) => (inside) => build(tag, typeof inside === "number" ? "figure" : "", typeof inside === "object" && inside ? inside : String(inside ?? ""));
  const made = build("table", "", [
    ...(caption ? [make("caption", "", caption)] : []),
    build("thead", "", build("tr", "", heads.map((text) => build("th", "", text, { scope: "col" })))),
    build("tbody", "", rows.map((row) => build("tr", "", row.map(cell("td"))))),
  ]);
  return build("div", "scroll", made, { tabindex: "0", role: "region", "aria-label": caption || heads.join(", ") });
}

export function chip(text, note = "", side = null) {
  const made = make("span", side === null ? "token" : `token side-${side}`, visible(text));
  if (note !== "") made.append(make("small", "", note));
  return made;
}

// A float32 in the fewest digits that mean it and no other.
export function exact(value) {
  if (!Number.isFinite(value)) return String(value ?? "–");
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

// As much of a text as there is room for; of a token so that its blanks can be seen.
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const short = (token, most = 16) => cut(visible(token), most);
