// The page: paints the mosaic and one matrix, and answers mouse, touch and keys. Stands behind values.js.
// All text goes in through textContent; nothing is fetched.
const find = (id) => document.getElementById(id);
const page = JSON.parse(find("page").textContent);
const night = matchMedia("(prefers-color-scheme: dark)");
const SMALL = 64; // cells along a tile; more are pooled
const LABEL = 13; // pixels that a label needs
const LONGEST = 118; // pixels of labels
const UNITS = { entropy: " nats", distance: " tokens" };
const SHARES = ["previous", "next", "first", "sink"]; // the largest come first, of all others the smallest
const FILTERS = [["all", null, null], ["A → A", 0, 0], ["A → B", 0, 1], ["B → A", 1, 0], ["B → B", 1, 1]];
let board, order, filter = FILTERS[0], open = null, cell = [0, 0], tiles = [];

// --- values ---------------------------------------------------------------------------------------------------

function load(block) { // once, however many ask for it
  const count = block.heads.length * block.shape[0] * block.shape[1];
  block.values ??= unpack(find(block.name).textContent, count);
  return block.values;
}

// The matrix of one place in the grid, as exact as the page has it, and only what the filter shows.
async function matrix(head, whole) {
  const wanted = whole && board.blocks.find((block, n) => n > 0 && block.heads.includes(head));
  const block = wanted || board.blocks[0], all = await load(block);
  const [high, wide] = block.shape, start = block.heads.indexOf(head) * high * wide;
  const rows = kept(high, block.down, board.down, filter[1]);
  const columns = kept(wide, block.across, board.across, filter[2]);
  const values = new Float32Array(rows.length * columns.length);
  let place = 0;
  for (const row of rows) for (const column of columns) values[place++] = all[start + row * wide + column];
  const scale = board.scales[head % board.columns.length];
  const size = { high: rows.length, wide: columns.length, down: block.down, across: block.across };
  return { values, rows, columns, scale, ...size };
}

function kept(count, step, tokens, side) {
  const all = Array.from({ length: count }, (_, place) => place);
  if (side === null || !tokens) return all;
  return all.filter((place) => tokens.sides.slice(place * step, (place + 1) * step).includes(side));
}

function colours(scale) {
  const text = page.ramps[night.matches ? "dark" : "light"][scale[0] < 0 ? "signed" : "plain"];
  return Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
}

// --- small things ---------------------------------------------------------------------------------------------

function chip(text, note, side = null) {
  const made = make("span", "token" + (side === null ? "" : " side-" + side), visible(text));
  made.append(make("small", "", note));
  return made;
}

function choice(label, names, chosen, act) {
  const buttons = names.map((name) => {
    const button = make("button", "", name);
    button.type = "button";
    button.setAttribute("aria-pressed", String(name === chosen));
    button.onclick = () => act(name);
    return button;
  });
  return [make("span", "", label), ...buttons];
}

function title(head) {
  const wide = board.columns.length, [layer, kind] = board.grid;
  const names = [board.rows.length > 1 || wide > 1 ? `${layer} ${board.rows[Math.floor(head / wide)]}` : ""];
  if (wide > 1) names.push(kind === "head" ? `${kind} ${board.columns[head % wide]}` : board.columns[head % wide]);
  return names.filter(Boolean).join(" · ") || board.name;
}

function facts(head) {
  return Object.entries(board.statistics).map(([name, values]) => [name, number(values[head]) + (UNITS[name] || "")]);
}

function grid() { // what each place of the screen shows, best or first first
  const all = Array.from({ length: board.rows.length * board.columns.length }, (_, head) => head);
  const sign = SHARES.includes(order) ? -1 : 1, values = board.statistics[order];
  return order ? all.sort((one, other) => sign * (values[one] - values[other])) : all;
}

// --- the mosaic -----------------------------------------------------------------------------------------------

async function showAtlas() {
  find("atlas").hidden = false;
  find("head").hidden = true;
  find("told").textContent = "A tile opens with a click, or with the arrow keys and Enter; Esc comes back.";
  const orders = ["place", ...Object.keys(board.statistics)];
  find("orders").replaceChildren(...choice("order by", orders, order ?? "place", (name) => {
    order = name === "place" ? null : name;
    showAtlas();
  }));
  showFilters();
  showLegends(board.scales.map((scale, column) => [scale, board.columns[column]]));
  const shape = Math.min(2.4, Math.max(0.6, board.blocks[0].shape[1] / board.blocks[0].shape[0]));
  find("mosaic").style.setProperty("--shape", shape);
  tiles = grid().map(tile);
  layOut(shape);
  await Promise.all(tiles.map(async (button) => {
    const { values, high, wide, scale } = await matrix(Number(button.dataset.head), false);
    paint(button.querySelector("canvas"), pool(values, high, wide, SMALL), scale, colours(scale));
  }));
  document.body.dataset.painted = "atlas";
}

function tile(head, place) {
  const whole = board.leftOut && board.blocks.some((block, n) => n > 0 && block.heads.includes(head));
  const button = make("button", whole ? "tile whole" : "tile"), frame = make("span", "frame");
  button.type = "button";
  button.dataset.head = head;
  button.tabIndex = place ? -1 : 0;
  button.setAttribute("aria-label", [title(head), ...facts(head).map((fact) => fact.join(" "))].join(", "));
  frame.append(document.createElement("canvas"));
  button.append(frame);
  if (order) {
    const caption = make("small");
    const wide = board.columns.length;
    caption.append(make("span", "", `${board.rows[Math.floor(head / wide)]} · ${board.columns[head % wide]}`));
    caption.append(make("b", "", number(Number(board.statistics[order][head].toPrecision(3)))));
    button.append(caption);
  }
  button.onclick = () => showHead(head);
  button.onfocus = button.onpointerenter = () => {
    find("told").textContent = [title(head), ...facts(head).map((fact) => fact.join(" "))].join("   ·   ");
  };
  return button;
}

function layOut(shape) {
  const wide = board.columns.length, mosaic = find("mosaic"), room = (innerHeight - 300) / board.rows.length;
  const side = shape > 1.3 ? 150 : Math.min(Math.max(room, 44), Math.max(72, Math.min(240, 480 / wide)));
  if (order) {
    mosaic.style.gridTemplateColumns = `repeat(auto-fill, minmax(${Math.min(side, 72)}px, 1fr))`;
    mosaic.style.width = "100%";
    mosaic.replaceChildren(...tiles);
    return;
  }
  mosaic.style.gridTemplateColumns = `auto repeat(${wide}, minmax(${board.attends ? 20 : 46}px, ${side}px))`;
  mosaic.style.width = "";
  const [down, across] = board.grid, corner = across === "head" ? `${down} ↓ ${across} →` : down;
  const parts = [make("span", "name row corner", corner), ...board.columns.map((name) => make("span", "name", name))];
  board.rows.forEach((name, row) => {
    parts.push(make("span", "name row", name), ...tiles.slice(row * wide, (row + 1) * wide));
  });
  mosaic.replaceChildren(...parts);
}

find("mosaic").onkeydown = (event) => {
  const now = tiles.indexOf(document.activeElement);
  const wide = order ? getComputedStyle(find("mosaic")).gridTemplateColumns.split(" ").length : board.columns.length;
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide, Home: -now };
  const next = tiles[now + moves[event.key]];
  if (now < 0 || !(event.key in moves)) return;
  event.preventDefault();
  if (!next) return;
  tiles[now].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
};

// --- one matrix -----------------------------------------------------------------------------------------------

let shown; // the matrix on the screen

async function showHead(head, start = null) {
  open = head;
  find("atlas").hidden = true;
  find("head").hidden = false;
  const alone = board.rows.length * board.columns.length === 1;
  find("which").textContent = title(head);
  document.querySelector(".steps").hidden = alone;
  showFilters();
  shown = await matrix(head, true);
  const { columns, values, scale } = shown;
  showLegends([[scale, ""]]);
  const exact = shown.down === 1 && shown.across === 1;
  find("pooled").hidden = exact;
  const cells = `${shown.down} × ${shown.across}`;
  find("pooled").textContent = exact ? "" : `This one is not whole: a cell is the largest of ${cells} values.`;
  find("facts").replaceChildren(...facts(head).flatMap((fact) => [make("dt", "", fact[0]), make("dd", "", fact[1])]));
  find("source").textContent = board.sources[head] ?? "";
  paint(find("matrix").querySelector("canvas"), shown, scale, colours(scale));
  let best = 0;
  values.forEach((value, place) => { if (Math.abs(value) > Math.abs(values[best])) best = place; });
  cell = start ?? [Math.floor(best / columns.length), best % columns.length];
  fit();
  point();
  if (!alone) find("matrix").focus({ preventScroll: true });
  document.body.dataset.painted = "head";
}

function fit() { // cells as large as there is room for, square where both sides are tokens
  const { rows, columns } = shown, room = find("plot").parentElement.clientWidth - 40;
  const names = rows.map((row) => label(board.down, row, shown.down));
  if (board.across) names.push(...columns.map((column) => label(board.across, column, shown.across)));
  const taken = Math.min(LONGEST, 12 + 7.3 * Math.max(...names.map((name) => [...name].length)));
  const below = Math.max(300, innerHeight - find("plot").getBoundingClientRect().top - scrollY - taken - 70);
  let wide = Math.min(40, (room - taken) / columns.length), high = Math.min(34, below / rows.length);
  if (board.attends) wide = high = Math.max(Math.min(wide, high), Math.min(wide, LABEL), 3);
  else [wide, high] = [Math.max(wide, 1.5), Math.max(high, 10)];
  Object.assign(find("matrix").style, { width: wide * columns.length + "px", height: high * rows.length + "px" });
  Object.assign(find("labels-down").style, { width: taken + "px" });
  Object.assign(find("labels-across").style, { height: (board.across ? taken : 30) + "px" });
  find("axis-across").textContent = board.axes[1] + " →";
  find("axis-down").textContent = "← " + board.axes[0];
  labels("labels-down", rows, board.down, shown.down, high, "top");
  labels("labels-across", columns, board.across, shown.across, wide, "left");
  shown.size = [high, wide];
}

function label(tokens, place, pooled) {
  return tokens ? visible(tokens.texts[place * pooled]) + (pooled > 1 ? "…" : "") : String(place * pooled);
}

function labels(id, places, tokens, pooled, size, side) {
  const every = Math.ceil((tokens ? LABEL : 26) / size);
  find(id).replaceChildren(...places.flatMap((place, n) => {
    const made = make("span", "", label(tokens, place, pooled));
    made.style[side] = (n + 0.5) * size + "px";
        made.classList.toggle("off", n % every > 0);
    return [made];
  }));
}

function named(tokens, place, pooled, word) {
  const from = place * pooled, to = Math.min(from + pooled, tokens?.ids.length ?? Infinity) - 1;
  if (!tokens) return make("span", "", to === from ? `unit ${from}` : `units from ${from}`);
  if (to === from) return chip(tokens.texts[from], `${word} ${from}, id ${tokens.ids[from]}`, null);
  return chip(tokens.texts.slice(from, to + 1).join(" "), `${word}s ${from}–${to}`, null);
}

function point() { // show what is under the cursor
  const { rows, columns, values, size, down, across } = shown, [row, column] = cell;
  const value = values[row * columns.length + column], pooled = down > 1 || across > 1;
  const what = board.attends ? "weight" : "value";
  find("readout").replaceChildren(
    make("dt", "", board.axes[0]), wrap(named(board.down, rows[row], down, "token")),
    make("dt", "", board.axes[1]), wrap(named(board.across, columns[column], across, "token")),
    make("dt", "", pooled ? "largest" : what), make("dd", "number", number(value)));
  const all = Array.from(columns, (_, place) => [values[row * columns.length + place], place]);
  const line = all.filter(([strength]) => strength);
  line.sort((one, other) => Math.abs(other[0]) - Math.abs(one[0]));
  find("strongest-of").textContent = line.length ? "strongest in this row" : "";
  find("strongest").replaceChildren(...line.slice(0, 6).map(([strength, place]) => {
    const item = make("li"), bar = make("i");
    const name = make("span", "", board.across ? label(board.across, columns[place], across) + " " : "unit ");
    name.append(make("small", "", String(columns[place] * across)));
    bar.style.width = (100 * Math.abs(strength)) / Math.abs(line[0][0]) + "%";
    item.append(name, bar, make("b", "", number(strength)));
    return item;
  }));
  Object.assign(find("row-mark").style, { top: row * size[0] + "px", height: size[0] + "px" });
  Object.assign(find("column-mark").style, { left: column * size[1] + "px", width: size[1] + "px" });
  mark("labels-down", row);
  mark("labels-across", column);
}

function mark(id, place) {
  for (const old of find(id).querySelectorAll(".on")) old.classList.remove("on");
  find(id).children[place].classList.add("on");
}

find("matrix").onpointermove = find("matrix").onpointerdown = (event) => {
  const box = find("matrix").getBoundingClientRect();
  const place = (at, start, size, count) => Math.min(count - 1, Math.max(0, Math.floor((at - start) / size)));
  const [high, wide] = shown.size;
  cell = [place(event.clientY, box.top, high, shown.high), place(event.clientX, box.left, wide, shown.wide)];
  point();
};

find("matrix").onkeydown = (event) => {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!moves) return;
  event.preventDefault();
  const [row, column] = [cell[0] + moves[0], cell[1] + moves[1]];
  if (row < 0 || column < 0 || row >= shown.rows.length || column >= shown.columns.length) return;
  cell = [row, column];
  point();
};

function turn(by) {
  const all = grid();
  showHead(all[(all.indexOf(open) + by + all.length) % all.length]);
}

async function back() {
  if (open === null || board.rows.length * board.columns.length === 1) return;
  const head = open;
  open = null;
  await showAtlas();
  const last = tiles.find((button) => Number(button.dataset.head) === head);
  tiles[0].tabIndex = -1;
  last.tabIndex = 0;
  last.focus();
}

find("back").onclick = back;
find("previous").onclick = () => turn(-1);
find("next").onclick = () => turn(1);
document.onkeydown = (event) => { if (event.key === "Escape") back(); };

// --- what both views share ------------------------------------------------------------------------------------

function showFilters() {
  const pair = board.attends && board.down.sides.includes(1) && board.across.sides.includes(1);
  for (const place of document.querySelectorAll("[data-filter]")) {
    place.replaceChildren(...(pair ? choice("texts", FILTERS.map((each) => each[0]), filter[0], (name) => {
      filter = FILTERS.find((each) => each[0] === name);
      show();
    }) : []));
  }
}

function showLegends(scales) {
  const kinds = new Map();
  for (const [scale, name] of scales) {
    if (!kinds.has(scale.join())) kinds.set(scale.join(), { scale, names: [] });
    kinds.get(scale.join()).names.push(name);
  }
  find("legends").replaceChildren(...Array.from(kinds.values(), ({ scale, names }) => {
    const made = make("div", "legend"), canvas = document.createElement("canvas"), ticks = make("div");
    const [low, high, root] = scale;
    const ends = root ? [0, 0.05, 0.25, 0.5, 1] : low < 0 ? [low, 0, high] : [low, (low + high) / 2, high];
    const values = Array.from({ length: 256 }, (_, n) => low + (high - low) * (n / 255) ** (root ? 2 : 1));
    paint(canvas, { values, high: 1, wide: 256 }, scale, colours(scale));
    for (const end of ends) {
      const tick = make("span", "", number(Number(end.toPrecision(3))));
      tick.style.left = (100 * step(end, scale)) / 255 + "%";
      ticks.append(tick);
    }
    const what = board.attends ? "weight, on a root scale" : names.filter(Boolean).join(", ") || "value";
    made.append(make("span", "", what), canvas, ticks);
    return made;
  }));
}

function showTokens() {
  const two = board.across && !board.same;
  const lists = two ? [[board.axes[0], board.down], [board.axes[1], board.across]] : [["", board.down]];
  const strips = lists.map(([name, tokens]) => {
    const strip = make("div", "strip");
    if (name) strip.append(make("b", "", name));
    strip.append(...tokens.texts.map((text, place) => {
      const side = tokens.sides[place] ?? null;
      return chip(text, tokens.ids[place] + (side === null ? "" : [" A", " B"][side]), side);
    }));
    return strip;
  });
  const counts = lists.map(([name, tokens]) => `${tokens.ids.length} tokens ${name}`.trim());
  find("tokens").querySelector("summary").textContent = counts.join(", ") + ", with their ids";
  find("tokens").querySelector(".strips").replaceChildren(...strips);
  find("tokens").open = lists.every(([, tokens]) => tokens.ids.length <= 40) && innerWidth > 860;
}

async function choose(place) {
  board = page.boards[place];
  order = null;
  filter = FILTERS[0];
  open = board.rows.length * board.columns.length === 1 ? 0 : null;
  [...find("tabs").children].forEach((tab, n) => {
    tab.setAttribute("aria-selected", String(n === place));
    tab.tabIndex = n === place ? 0 : -1;
  });
  find("left-out").hidden = !board.leftOut;
  find("left-out").textContent = board.leftOut;
  find("not").hidden = !board.attends;
  showTokens();
  await show();
}

async function show() {
  await (open === null ? showAtlas() : showHead(open));
}

find("tabs").hidden = page.boards.length < 2;
page.boards.forEach((each, place) => {
  const tab = make("button", "", each.name);
  each.across = each.same ? each.down : each.across;
  each.blocks.forEach((block, n) => { block.name = `block-${place}-${n}`; });
  tab.type = "button";
  tab.setAttribute("role", "tab");
  tab.onclick = () => choose(place);
  find("tabs").append(tab);
});
find("tabs").onkeydown = (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  const tabs = [...find("tabs").children], now = tabs.indexOf(document.activeElement);
  const next = tabs[(now + by + tabs.length) % tabs.length];
  next.focus();
  next.click();
};
night.onchange = show;
onresize = () => { if (open !== null && shown) { fit(); point(); } };
choose(0);
