// The stage of Flow: boxes, frames and wires where the server put them, in one world that is scaled and scrolled as a whole.
import { paintSteps, rampOf } from "./canvas.js";
import { shape as svg } from "./curves.js";
import { build, make, short, visible } from "./dom.js";
import { cellsOf, past } from "./flow_cells.js";
import { worded } from "./i18n.js";

const TITLE = 35; // pixels above a picture, inside a box's border
const LABEL = 11; // pixels that a token's name needs
const LINE = 15; // pixels of a line of the text
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

/* view: of the screen. act: {open(name, row), close(name), choose(name), token(side, row | null)}.
   Gives {element, show(flow), choose(name), mark(side, row, {veil}), zoom(factor | "fit" | "first"), reveal(name)}. */
export function stage(view, act) {
  const { t, trace, signal } = view;
  const world = build("div", "world"), space = build("div", "space", world);
  const element = build("div", "stage", space, { id: "stage", role: "group", "aria-label": t("flowStage") });
  let flow = null, scale = 1, hot = null, old = new Map();

  const lengths = () => Object.fromEntries(Object.entries(trace.tokens).map(([side, listed]) => [side, listed.length]));
  const rowsOf = (side) => ({ high: flow.rows / lengths()[side], top: (middle) => middle - flow.rows / 2 });

  function show(found) {
    old = new Map([...world.querySelectorAll("[data-name]")].map((one) => [one.dataset.name, one.getBoundingClientRect()]));
    const corner = world.getBoundingClientRect();
    flow = found;
    world.style.width = `${flow.width}px`;
    world.style.height = `${flow.height}px`;
    const overlay = svg("svg", { class: "overlay", width: flow.width, height: flow.height, "aria-hidden": "true" });
    world.replaceChildren(
      ...flow.boxes.filter((box) => box.frame).map(frameOf), wiresOf(), ...flow.boxes.filter((box) => !box.frame).map(boxOf), overlay);
    hot = overlay;
    sized();
    if (!still()) for (const one of world.querySelectorAll("[data-name]")) moved(one, corner);
  }

  // From where a box was to where it is.
  function moved(one, corner) {
    const before = old.get(one.dataset.name), from = one.dataset.parent && old.get(one.dataset.parent), now = one.getBoundingClientRect();
    const start = before ?? from, home = world.getBoundingClientRect();
    if (!start) return;
    const x = (start.left - corner.left - now.left + home.left) / scale, y = (start.top - corner.top - now.top + home.top) / scale;
    if (before && !x && !y) return;
    one.animate([{ transform: `translate(${x}px, ${y}px)`, opacity: before ? 1 : 0 }, { transform: "none", opacity: 1 }], { duration: 260, easing: "ease-out" });
  }

  function put(one, box) {
    for (const [name, value] of [["left", box.x], ["top", box.y], ["width", box.width], ["height", box.height]]) one.style[name] = `${value}px`;
    one.dataset.name = box.name;
    if (box.parent) one.dataset.parent = box.parent;
    return one;
  }

  function frameOf(box) {
    const head = build("button", "head", [make("b", "", box.title), make("small", "", box.caption)], {
      type: "button", tabindex: "-1", "data-box": box.name, "aria-expanded": "true", "aria-label": t("flowClose", box.name), onclick: () => act.close(box.name),
    });
    return put(build("div", `frame kind-${box.kind}`, head), box);
  }

  // What a box is, below its name: in English as the server has cut it to the box.
  const captionOf = (box) => (worded(box.formula) === box.formula ? worded(box.caption) : worded(box.formula));

  function boxOf(box) {
    const label = [box.name, captionOf(box), box.shape_text && t("flowShape", box.shape_text), box.leaf ? "" : t("flowOpens")].filter(Boolean).join(", ");
    const one = put(build("button", `box kind-${box.kind}${box.leaf ? "" : " opens"}`, [make("b", "title", box.title), make("small", "caption", captionOf(box))], {
      type: "button", tabindex: "-1", "data-box": box.name, "aria-label": label, title: box.name,
      "aria-expanded": box.leaf ? null : "false", onclick: (event) => (box.leaf ? act.choose(box.name) : act.open(box.name, event.detail ? rowAt(box, event) : null)), // by a key: of no row
    }), box);
    const inside = contents(box);
    if (inside) {
      inside.style.top = `${TITLE}px`;
      inside.style.height = `${flow.rows}px`;
      one.append(inside);
    }
    if (box.loops && !flow.cells[box.name]) one.append(loopsOf(box));
    one.append(make("small", "shape", box.shape_text || " "));
    one.addEventListener("pointermove", (event) => {
      const row = rowAt(box, event);
      if (row !== null) act.token(box.side, row);
    }, { signal });
    one.addEventListener("pointerleave", () => act.token(null, null), { signal });
    return one;
  }

  const rowAt = (box, event) => {
    const rect = world.getBoundingClientRect(), y = (event.clientY - rect.top) / scale - (box.middle - flow.rows / 2), count = lengths()[box.side];
    return box.token_dim === null || y < 0 || y >= flow.rows ? null : Math.floor((y / flow.rows) * count);
  };

  // What stands in a box: tokens, a text, an answer, or a picture of its numbers.
  function contents(box) {
    if (box.kind === "text") return wordsOf(textOf(box.side));
    if (box.name.endsWith("input_ids")) return listOf(trace.tokens[box.side].map((token) => [visible(token.text), token.id]), box.side);
    if (box.kind === "answer") return answerOf(box);
    if (flow.cells[box.name]) return cellsOf(flow.cells[box.name], { width: box.width, height: flow.rows, tokens: trace.tokens[box.side].map((token) => token.text), picture: pictureOf });
    const picture = pictureOf(box.name);
    if (!picture) return null;
    const canvas = build("canvas", "inside pixels", [], { "aria-hidden": "true" });
    paintSteps(canvas, picture.steps, picture.rows, picture.columns, rampOf(picture.scale[0] < 0 ? "signed" : "plain"));
    return canvas;
  }

  const pictureOf = (name) => flow.pictures[name] && { ...flow.pictures[name], steps: bytes(flow.pictures[name].steps) };

  // As many lines as there is room for, from the first on.
  function wordsOf(text) {
    const lines = make("span", "lines", text);
    lines.style.setProperty("--lines", Math.floor(flow.rows / LINE));
    return build("span", "inside words", lines, { title: text });
  }

  const textOf = (side) => (side === "fed" ? trace.tokens.fed.map((token) => token.text).join("") : [view.state.text, view.state.pair].filter(Boolean).join(" / "));

  function answerOf(box) {
    const rows = flow.said.filter((one) => one.row !== null);
    if (rows.length && box.token_dim !== null) return listOf(rows.map((one) => [visible(one.text), percent(one.share)]), box.side);
    const several = new Set(flow.said.map((one) => one.of)).size > 1; // where an answer starts, and where it ends
    return build("span", "inside answers", flow.said.map((one) => {
      const line = build("span", "", [make("b", "", visible(one.text)), make("small", "", `${several ? `${one.of} ` : ""}${percent(one.share)}`)]);
      line.style.setProperty("--share", Math.max(0, Math.min(1, one.share)));
      return line;
    }));
  }

  // A name in every row, or in every second, third … where there is no room for more.
  function listOf(lines, side) {
    const { high } = rowsOf(side), every = Math.ceil(LABEL / high);
    return build("span", "inside tokens", lines.map(([text, note], row) => {
      if (row % every) return null;
      const line = build("span", "", [make("span", "", short(text, 11)), high >= 15 ? make("small", "", String(note)) : null]);
      line.style.top = `${Math.max(LABEL / 2, Math.min(flow.rows - LABEL / 2, (row + 0.5) * high))}px`;
      return line;
    }));
  }

  // Arrows from each row to the next, or to the one before where a network reads from the end.
  function loopsOf(box) {
    const { high } = rowsOf(box.side), count = lengths()[box.side], every = Math.ceil(12 / high), up = box.name.includes("right_to_left"), steps = [];
    for (let row = 0; row + every < count; row += every) {
      const [from, to] = [(row + 0.5) * high + 3, (row + every + 0.5) * high - 2];
      steps.push(up ? `M6 ${to}V${from}m-2.5 3.5l2.5 -3.5l2.5 3.5` : `M6 ${from}V${to}m-2.5 -3.5l2.5 3.5l2.5 -3.5`);
    }
    const made = svg("svg", { class: "loops", width: 12, height: flow.rows, "aria-hidden": "true" }, [svg("path", { d: steps.join("") })]);
    made.style.top = `${TITLE}px`;
    return made;
  }

  // --- wires ----------------------------------------------------------------------------------------------------

  function wiresOf() {
    const lines = [], texts = [], frames = new Set(flow.boxes.filter((box) => box.frame).map((box) => box.name));
    for (const wire of flow.wires) {
      if (wire.rows) lines.push(svg("path", { class: "ribbon", d: ribbon(wire), "data-value": wire.value }));
      else for (const { to, path } of wire.ends) lines.push(svg("path", { class: `wire ${across(wire, to) ? "cross" : wire.kind}${frames.has(to) ? "" : " tip"}`, d: path, "data-value": wire.value }));
      if (wire.text) texts.push(svg("text", { class: `at-${wire.kind}`, x: wire.x, y: wire.y }, [wire.text]));
    }
    const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, [svg("path", { d: "M0 0L8 4L0 8z" })]);
    return svg("svg", { class: "wires", width: flow.width, height: flow.height, "aria-hidden": "true" }, [svg("defs", {}, [tip]), ...lines, ...texts]);
  }

  const across = (wire, to) => wire.side === "read" && flow.boxes.find((box) => box.name === to).side === "fed";
  const middleOf = (wire) => flow.boxes.find((box) => box.name === wire.ends[0].to).middle;

  function ribbon(wire) {
    const { high, top } = rowsOf(wire.side), count = lengths()[wire.side], [from, to] = wire.span, start = top(middleOf(wire));
    const every = Math.ceil(3 / high); // more lines than pixels are one grey
    return Array.from({ length: Math.ceil(count / every) }, (_, n) => `M${from} ${(start + (n * every + 0.5) * high).toFixed(1)}H${to}`).join("");
  }

  // --- the path of one token --------------------------------------------------------------------------------------

  function mark(side, row, { veil = false } = {}) {
    hot.replaceChildren();
    element.dataset.token = row === null ? "" : `${side} ${row}`;
    if (row === null || !flow) return;
    const { high, top } = rowsOf(side), at = (middle) => top(middle) + (row + 0.5) * high, parts = [];
    if (veil && flow.causal.includes(side)) parts.push(...veils(side, row));
    const along = flow.wires.filter((wire) => wire.rows && wire.side === side);
    parts.push(svg("path", { class: "path", d: along.map((wire) => `M${wire.span[0]} ${at(middleOf(wire))}H${wire.span[1]}`).join("") }));
    for (const box of flow.boxes) {
      if (box.frame || box.side !== side || box.token_dim === null) continue;
      parts.push(svg("rect", { class: "row", x: box.x + 2, y: at(box.middle) - high / 2, width: box.width - 4, height: high, rx: 3 }));
    }
    for (const [name, look] of Object.entries(flow.looks)) parts.push(...fan(name, look, side, row));
    parts.push(svg("path", { class: "carried", d: [...statesTo(side, row), ...gatesTo(side, row)].join("") }));
    hot.append(...parts);
  }

  // In unrolled layers, the way of the states to a token from where the reading began.
  function statesTo(side, row) {
    const unrolled = flow.boxes.filter((box) => flow.cells[box.name] && box.side === side);
    return unrolled.flatMap((box) => past(flow.cells[box.name], row).map(({ x, start, end }) => {
      const left = box.x + x, above = box.middle - flow.rows / 2;
      return `M${left} ${above + start}V${above + end}`;
    }));
  }

  // What steps take from the token before, in the order of reading, where they are boxes of their own: gates, or an attention.
  function gatesTo(side, row) {
    const { high, top } = rowsOf(side), inside = flow.boxes.filter((box) => !box.frame);
    return flow.wires.filter((wire) => wire.kind === "recurrent" && wire.side === side).flatMap((wire) => {
      const before = wire.value.includes("right_to_left") ? row + 1 : row - 1, from = inside.find(({ name }) => wire.value === name || wire.value.startsWith(`${name}.`));
      if (!from || before < 0 || before >= lengths()[side]) return [];
      const x = from.x + from.width, y = top(from.middle) + (before + 0.5) * high;
      return inside.filter(({ name }) => wire.ends.some(({ to }) => to === name)).map((to) => {
        const end = top(to.middle) + (row + 0.5) * high, half = (y + end) / 2;
        return `M${x} ${y}h6C${x + 22} ${half} ${to.x - 22} ${half} ${to.x - 6} ${end}h6`;
      });
    });
  }

  // What a token looks at, as lines that are the stronger the more it does.
  function fan(name, look, side, row) {
    const box = flow.boxes.find((one) => one.name === name), wire = flow.wires.find((one) => one.rows && one.side === side && one.ends[0].to === name);
    if (!wire || box.side !== side || look.rows <= row) return [];
    const steps = bytes(look.steps), { high, top } = rowsOf(side), start = top(box.middle), [from, to] = wire.span, end = start + (row + 0.5) * high, bend = (from + to) / 2;
    return Array.from({ length: look.columns }, (_, column) => {
      const share = (steps[row * look.columns + column] / 255) * look.scale[1], y = start + (column + 0.5) * high;
      return share < 0.02 ? null : svg("path", { class: "look", d: `M${from} ${y}C${bend} ${y} ${bend} ${end} ${to} ${end}`, "stroke-opacity": Math.min(1, 0.15 + share).toFixed(2), "stroke-width": (0.6 + 3 * share).toFixed(2) });
    }).filter(Boolean);
  }

  // Rows that are still to come.
  function veils(side, row) {
    const { high, top } = rowsOf(side), rest = flow.rows - (row + 1) * high;
    return rest <= 0 ? [] : flow.boxes.filter((box) => !box.frame && box.side === side && box.token_dim !== null).map((box) =>
      svg("rect", { class: "veil", x: box.x + 1, y: top(box.middle) + (row + 1) * high, width: box.width - 2, height: rest }));
  }

  // --- size, choice, keys -------------------------------------------------------------------------------------------

  function sized() {
    world.style.transform = `scale(${scale})`;
    space.style.width = `${flow.width * scale}px`;
    space.style.height = `${flow.height * scale}px`;
  }

  function zoom(by) {
    const before = scale, middle = element.scrollLeft + element.clientWidth / 2;
    scale = by === "fit" ? Math.min(1, Math.max(0.2, (element.clientWidth - 8) / flow.width)) : by === "first" ? first() : Math.min(3, Math.max(0.2, scale * by));
    sized();
    element.scrollLeft = (middle * scale) / before - element.clientWidth / 2;
    element.dataset.scale = scale.toFixed(3);
  }

  // All of it where that can still be read, else its beginning.
  const first = () => Math.min(1, Math.max(innerWidth < 740 ? 0.85 : 0.62, Math.min((element.clientWidth - 8) / flow.width, (innerHeight * 0.66) / flow.height)));

  const buttons = () => [...world.querySelectorAll("[data-box]")];
  const find = (name) => buttons().find((one) => one.dataset.box === name);

  function choose(name, { focus = false } = {}) {
    for (const one of buttons()) {
      one.classList.toggle("chosen", one.dataset.box === name);
      one.tabIndex = one.dataset.box === name ? 0 : -1;
    }
    if (!find(name) && buttons()[0]) buttons()[0].tabIndex = 0;
    if (focus) find(name)?.focus();
  }

  function reveal(name) {
    const box = flow.boxes.find((one) => one.name === name);
    if (!box) return;
    const left = box.x * scale - 24, right = (box.x + box.width) * scale + 24, room = element.clientWidth;
    const to = right - left > room ? left : (left + right - room) / 2;
    const above = box.y * scale - 12, below = (box.y + box.height) * scale + 12 - element.clientHeight;
    const top = above < element.scrollTop ? above : Math.min(above, Math.max(element.scrollTop, below));
    element.scrollTo({ left: Math.max(0, to), top: Math.max(0, top), behavior: still() ? "auto" : "smooth" });
  }

  element.addEventListener("keydown", (event) => keys(event, { buttons, flow: () => flow, act, zoom, choose }), { signal });
  dragging(element, signal);
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // with it, as pinching says it
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1);
  }, { signal, passive: false });
  return { element, show, choose, mark, zoom, reveal };
}

// Arrow keys walk from box to box as the data does, up and down between the lanes; Escape closes the frame around.
function keys(event, { buttons, flow, act, zoom, choose }) {
  const all = buttons(), here = all.indexOf(document.activeElement);
  if (event.key === "+" || event.key === "-") return zoom(event.key === "+" ? 1.2 : 1 / 1.2);
  if (here < 0) return;
  const name = all[here].dataset.box, boxes = new Map(flow().boxes.map((box) => [box.name, box])), own = boxes.get(name);
  const order = flow().boxes.map((box) => box.name), place = order.indexOf(name);
  const lane = (down) => {
    const others = [...boxes.values()].filter((box) => !box.frame && (down ? box.middle > own.middle + 1 : box.middle < own.middle - 1));
    return others.sort((one, other) => Math.abs(one.x - own.x) - Math.abs(other.x - own.x))[0]?.name;
  };
  const to = { ArrowRight: order[place + 1], ArrowLeft: order[place - 1], Home: order[0], End: order.at(-1), ArrowDown: lane(true), ArrowUp: lane(false) };
  if (event.key in to) {
    event.preventDefault();
    if (to[event.key]) choose(to[event.key], { focus: true });
  } else if (event.key === "Escape") {
    const around = own.frame ? name : own.parent;
    if (around) act.close(around);
  }
}

// A mouse pulls the world along; fingers scroll by themselves.
function dragging(element, signal) {
  let from = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button || event.target.closest("button")) return;
    from = [event.clientX + element.scrollLeft, event.clientY + element.scrollTop];
    element.setPointerCapture(event.pointerId);
    element.classList.add("dragged");
  }, { signal });
  element.addEventListener("pointermove", (event) => {
    if (from) element.scrollTo(from[0] - event.clientX, from[1] - event.clientY);
  }, { signal });
  for (const end of ["pointerup", "pointercancel"]) {
    element.addEventListener(end, () => { from = null; element.classList.remove("dragged"); }, { signal });
  }
}

const percent = (share) => (Math.abs(share) > 1 ? share.toPrecision(3) : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`);
