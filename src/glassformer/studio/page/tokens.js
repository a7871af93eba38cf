// Tokens in a row, and texts whose characters they stand for. A row has one tab stop; arrow keys walk along it.
import { build, button, make, visible } from "./dom.js";

const MOST = 400; // tokens on a page at once

/* A row of tokens, one element each: items are {text, name (class), id, place, share (0 to 1: how strong its colour is)}.
   choose(place) is told which one was chosen. */
export function row({ items = [], label, choose, signal }) {
  const element = build("div", "row", [], { role: "group", "aria-label": label });
  let first = 0, at = -1; // the item that the first child is, and the one chosen

  function chip({ text, name = "", id = null, place = null, share = null }, number) {
    const one = button(visible(text), () => select(number), { class: `token ${name}`, tabindex: "-1", "data-id": id, "data-place": place, "aria-pressed": "false" });
    if (share !== null) one.style.setProperty("--share", share);
    return one;
  }

  function child(number) {
    return element.children[number - first];
  }

  function select(number, { focus = true, quiet = false } = {}) {
    if (!child(number)) return;
    child(at)?.setAttribute("aria-pressed", "false");
    for (const one of element.querySelectorAll('[tabindex="0"]')) one.tabIndex = -1;
    at = number;
    child(at).setAttribute("aria-pressed", "true");
    child(at).tabIndex = 0;
    if (focus) child(at).focus();
    if (!quiet) choose(at);
  }

  function add(item) {
    element.append(chip(item, first + element.childElementCount));
    if (element.childElementCount === 1) element.firstChild.tabIndex = 0;
    if (element.childElementCount <= MOST) return;
    element.firstChild.remove(); // a long text keeps its end
    first += 1;
    if (!element.querySelector('[tabindex="0"]')) element.firstChild.tabIndex = 0;
  }

  element.addEventListener("keydown", (event) => {
    const count = element.childElementCount, here = at < first ? first : at;
    const to = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: first, End: first + count - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(Math.max(first, Math.min(first + count - 1, to)));
  }, { signal });
  for (const item of items) add(item);
  return { element, add, select };
}

// A row of any length, as many tokens at a time as a page can hold; `at` is the one to begin with.
export function pages({ t, signal }, { items, label, choose, at = 0 }) {
  const element = build("div", "strips");
  let page, shown;

  function open(wanted) {
    page = wanted;
    const start = page * MOST, some = items.slice(start, start + MOST);
    shown = row({ items: some, label, choose: (place) => choose(start + place), signal });
    element.replaceChildren(shown.element);
    if (items.length > MOST) element.append(build("div", "bar pages", [
      button(t("runBack"), () => open(page - 1), { disabled: page === 0 }),
      make("span", "soft", t("runMore", start + 1, start + some.length, items.length)),
      button(t("runNext"), () => open(page + 1), { disabled: start + MOST >= items.length }),
    ]));
  }

  function select(place, options) {
    if (Math.floor(place / MOST) !== page) open(Math.floor(place / MOST));
    shown.select(place % MOST, options);
  }

  open(Math.floor(at / MOST));
  return { element, select };
}

// A text in which stretches of characters can be marked; Python counts characters, where JavaScript counts halves of some.
export function passage(text, pick = null) {
  const points = Array.from(text), element = build("p", "passage");
  const part = (start, end) => points.slice(start, end).join("");

  // Spans are {start, end, name (class), note}, in order; what lies within another is left out.
  function mark(spans) {
    element.replaceChildren();
    let last = 0;
    for (const { start, end, name = "", note = null } of spans) {
      if (start < last) continue;
      element.append(part(last, start), build("mark", name, part(start, end), { "data-note": note }));
      last = end;
    }
    element.append(part(last));
  }

  if (pick) element.addEventListener("click", (event) => {
    const place = caret(event);
    if (place && element.contains(place.node)) pick(Array.from(before(element, place).toString()).length);
  });
  mark([]);
  return { element, mark, part };
}

function caret({ clientX, clientY }) {
  const found = document.caretPositionFromPoint?.(clientX, clientY);
  if (found) return { node: found.offsetNode, offset: found.offset };
  const range = document.caretRangeFromPoint?.(clientX, clientY);
  return range && { node: range.startContainer, offset: range.startOffset };
}

function before(element, { node, offset }) {
  const range = document.createRange();
  range.setStart(element, 0);
  range.setEnd(node, offset);
  return range;
}

// --- what a model reads, is fed and writes ----------------------------------------------------------------------

const SIDES = { read: "runReads", fed: "runFed", written: "runWrites" };

// A card for every side of the trace. Chosen is "side,number"; remember(text) is told what is chosen.
export function sides(view, chosen, remember) {
  const [where, number] = (chosen ?? "").split(",");
  return Object.entries(view.trace.tokens).map(([side, tokens]) =>
    card(view, side, tokens, side === where ? Number(number) : null, (place) => remember(`${side},${place}`)));
}

function card(view, side, tokens, chosen, remember) {
  const { t, asked } = view, { inputs, pair } = asked(), facts = build("dl", "facts");
  const pick = (of) => (at) => {
    const found = tokens.findIndex((one) => one.side === of && one.start <= at && at < one.end);
    if (found >= 0) strip.select(found);
  };
  const texts = side === "read" && typeof inputs === "string" ? [inputs, pair].filter((one) => one !== undefined).map((one, of) => passage(one, pick(of))) : [];

  function choose(place) {
    const one = tokens[place];
    texts.forEach((text, of) => text.mark(one.side === of && one.start < one.end ? [one] : []));
    facts.replaceChildren(...told(view, one, place, tokens.length, side).flatMap(([name, value]) => [make("dt", "", name), make("dd", "", String(value))]));
    remember(place);
  }

  const known = chosen !== null && tokens[chosen] ? chosen : 0, strip = pages(view, { items: tokens.map((one) => item(one, !view.model.tokenizer)), label: t(SIDES[side]), choose, at: known });
  if (chosen !== null && tokens[chosen]) strip.select(chosen, { focus: false });
  const title = build("h2", "", [t(SIDES[side]), make("small", "", ` ${tokens.length} ${t("tokens")}`)]);
  const hint = texts.length ? [make("p", "soft", t("runLink"))] : [];
  return build("section", `card side ${side}`, [title, ...hint, ...texts.map((one) => one.element), strip.element, facts], { "data-side": side });
}

// What is read from a text has characters, but for special tokens; what is fed or written has none, and neither have ids.
function item({ text, id, start, end, side, mask }, ids) {
  if (start === undefined || ids) return { text, id, place: "" };
  return { text, id, place: start === null ? "" : `${start}–${end}`, name: `${side === null ? "special" : `side-${side}`} ${mask === 0 ? "hidden" : ""}` };
}

function told({ t, model }, one, place, count, side) {
  const facts = [[t("runToken"), `${visible(one.text)} · ${t("runOf", place + 1, count)}`], [t("runId"), one.id]];
  if (side !== "read" || !model.tokenizer) return facts;
  const where = one.side === 1 ? ` (${t("runSecond")})` : "";
  facts.push([t("runPlace"), one.start === null ? t("runNoPlace") : `${one.start}–${one.end}${where}`]);
  return [...facts, [t("runSegment"), one.segment ?? t("runNone")], [t("runMask"), t(one.mask ? "runSeen" : "runHidden")]];
}
