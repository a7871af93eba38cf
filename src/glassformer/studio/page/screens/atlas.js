// Atlas: all heads of a model as one mosaic, painted on one canvas from one answer.
import { attentions, boardOf, boardTabs, caution, factList, factsOf, layerAndHead, ordered, placeOf, pythonOf, titleOf, without } from "../attention.js";
import { cssColour, kindOf, legend, paintSteps, rampOf } from "../canvas.js";
import { build, choice, link, make, number, short } from "../dom.js";

const MOST = 64; // cells along a tile
const NAMES = [104, 84, 44]; // pixels for tokens before, above and behind a matrix that is alone
const CAPTION = 18, SMALLEST = 22, LARGEST = 460;

export const screen = {
  id: "atlas",
  needs: "trace",
  async show(view) {
    const { root, state, t, trace, api, signal } = view, boards = attentions(trace);
    if (!boards.length) return without(view);
    const board = boardOf(boards, state.board), order = board.statistics[state.order] ? state.order : "place";
    const orders = ["place", ...Object.keys(board.statistics)].map((name) => [name, t(name)]);
    const frame = build("div", "card frame"), aside = build("aside", "card facing");
    const many = board.cells.length > 1, orderBy = (name) => view.set({ order: name === "place" ? null : name });
    root.append(
      build("div", "bar", [boardTabs(view, boards, board), many ? choice(t("orderBy"), orders, order, orderBy) : null]),
      make("p", "soft hint", t(many ? "atlasHint" : "alignmentHint")), build("div", "split", [frame, aside]));
    const layout = arranged(board, order, frame.clientWidth - 36);
    const cells = Math.max(8, Math.min(MOST, Math.floor(Math.min(layout.wide, layout.high) * (devicePixelRatio || 1))));
    const found = await api.mosaic(trace.trace_id, board.name, { side: cells, signal });
    const mosaic = mosaicOf(view, board, found, layout, (place) => tellOf(view, board, place, aside));
    frame.append(mosaic.element, build("div", "bar under", [legend(board.scales[0], number), make("small", "", pooledText(board, found, t))]));
    mosaic.choose(placeOf(board, state));
    view.share({
      python: () => `${trace.python}\n${pythonOf(board, mosaic.chosen())}`,
      svg: () => mosaicSvg(mosaic.canvas), names: [...new Set(board.cells.map((cell) => cell.tensor))],
    });
    root.dataset.painted = "yes";
    return null;
  },
};

function pooledText(board, found, t) {
  const [, , high, wide] = board.shape, down = Math.ceil(high / found.shape[2]), across = Math.ceil(wide / found.shape[3]);
  return down > 1 || across > 1 ? t("atlasPooled", down, across) : "";
}

// Where each tile goes: by place a grid of layers and heads with their numbers beside it, else rows as long as fit.
function arranged(board, order, room) {
  const [rows, columns, tall, broad] = board.shape, shape = Math.min(2.4, Math.max(0.5, broad / tall));
  const sorted = order !== "place", places = ordered(board, order), gap = sorted ? 10 : 4, below = sorted ? CAPTION : 0;
  const [left, above, right] = sorted ? [0, 0, 0] : board.cells.length === 1 ? NAMES : [46, 36, 0];
  const height = Math.max(360, innerHeight - 330) / rows - gap;
  let wide = Math.min(LARGEST, (room - left - right) / columns - gap);
  if (sorted) wide = Math.min(LARGEST, Math.max(92, Math.min(wide, height * shape)), room - gap);
  else wide = Math.min(wide, Math.max(height * shape, 48));
  wide = Math.max(SMALLEST, Math.floor(wide));
  const high = Math.max(SMALLEST, Math.round(wide / shape)), across = sorted ? Math.max(1, Math.floor((room + gap) / (wide + gap))) : columns;
  const corner = (n) => [left + (n % across) * (wide + gap), above + Math.floor(n / across) * (high + gap + below)];
  return { places, sorted, order, wide, high, gap, across, left, above, below, corner,
    width: left + Math.min(across, places.length) * (wide + gap) + right, height: above + Math.ceil(places.length / across) * (high + gap + below) };
}

function mosaicOf(view, board, found, layout, told) {
  const { t, signal } = view, { places, corner, wide, high } = layout, scale = devicePixelRatio || 1;
  const canvas = build("canvas", "mosaic", [], { "aria-hidden": "true" }), mark = build("canvas", "mark", [], { "aria-hidden": "true" });
  const element = build("div", "tiles", [canvas, mark], {
    id: "mosaic", tabindex: "0", role: "application", "aria-roledescription": "mosaic", "aria-label": t("mosaic", t(`board_${board.name}`), board.rows.length, board.columns.length),
  });
  for (const one of [canvas, mark]) {
    one.width = Math.ceil(layout.width * scale);
    one.height = Math.ceil(layout.height * scale);
  }
  element.style.width = `${layout.width}px`;
  element.style.height = `${layout.height}px`;
  paintTiles(canvas.getContext("2d"), view, board, found, layout, scale);
  element.dataset.tiles = JSON.stringify({ places, corners: places.map((_, n) => corner(n)), wide, high, cells: found.shape.slice(2) });
  let at = 0, shown = -1;

  function draw(n) {
    if (n === shown) return;
    shown = n;
    const pen = mark.getContext("2d"), [x, y] = corner(n);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, layout.width, layout.height);
    pen.strokeStyle = cssColour("accent");
    pen.lineWidth = 3;
    pen.strokeRect(x - 1, y - 1, wide + 2, high + 2);
    told(places[n]);
  }

  const openOne = (n) => view.set({ screen: "head", board: board.name, ...layerAndHead(board, places[n]), cell: null });
  const under = (event) => {
    const box = element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const column = Math.floor((x - layout.left) / (wide + layout.gap)), row = Math.floor((y - layout.above) / (high + layout.gap + layout.below));
    return x < layout.left || column >= layout.across || row < 0 ? -1 : row * layout.across + column;
  };
  element.addEventListener("pointermove", (event) => { if (places[under(event)] !== undefined) draw(under(event)); }, { signal });
  element.addEventListener("pointerleave", () => draw(at), { signal });
  element.addEventListener("click", (event) => { if (places[under(event)] !== undefined) openOne(under(event)); }, { signal });
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.across, ArrowDown: layout.across, Home: -at, End: places.length - 1 - at }[event.key];
    if (event.key === "Enter") openOne(at);
    if (by === undefined) return;
    event.preventDefault();
    if (places[at + by] === undefined) return;
    at += by;
    draw(at);
    view.set(layerAndHead(board, places[at]), { push: false, show: false });
    view.tell([titleOf(board, places[at], t), ...factsOf(board, places[at], t).map((fact) => fact.join(" "))].join(" · "));
  }, { signal });
  const choose = (place) => { at = Math.max(0, places.indexOf(place)); draw(at); };
  return { element, canvas, choose, chosen: () => places[at] };
}

function paintTiles(pen, view, board, found, layout, scale) {
  const [rows, columns, tall, broad] = found.shape, { places, corner, wide, high } = layout, source = document.createElement("canvas");
  paintSteps(source, found.values, rows * columns * tall, broad, rampOf(kindOf(board.scales[0]))); // all tiles, one below another
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.imageSmoothingEnabled = false;
  places.forEach((place, n) => pen.drawImage(source, 0, place * tall, broad, tall, ...corner(n), wide, high));
  pen.fillStyle = cssColour("soft");
  pen.font = `12px ${cssColour("mono")}`;
  pen.textBaseline = "middle";
  if (layout.sorted) paintCaptions(pen, board, layout);
  else if (board.cells.length === 1) paintTokens(pen, view.trace, board, layout);
  else paintNumbers(pen, board, layout, view.t);
}

function paintCaptions(pen, board, { places, corner, wide, high, order }) {
  places.forEach((place, n) => {
    const [x, y] = corner(n), { layer, head } = layerAndHead(board, place);
    pen.textAlign = "left";
    pen.fillText(`${layer}·${head}`, x, y + high + 9);
    pen.textAlign = "right";
    pen.fillText(board.statistics[order][place].toPrecision(3), x + wide, y + high + 9);
  });
}

function paintNumbers(pen, board, { corner, wide, high, left, above, width, height }, t) {
  pen.textAlign = "center";
  board.columns.forEach((head, column) => pen.fillText(head, corner(column)[0] + wide / 2, 27));
  pen.fillText(t("headsAcross"), (left + width) / 2, 8);
  pen.textAlign = "right";
  board.rows.forEach((layer, row) => pen.fillText(layer, left - 6, corner(row * board.columns.length)[1] + high / 2));
  pen.textAlign = "center";
  pen.translate(8, (above + height) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(t("layersDown"), 0, 0);
}

// Of many tokens every second, third … so that their names do not touch.
function paintTokens(pen, trace, board, { wide, high, left, above }) {
  const [down, across] = [board.down, board.across].map((side) => trace.tokens[side]);
  const cells = [high / down.length, wide / across.length], apart = cells.map((cell) => Math.ceil(13 / cell));
  pen.textAlign = "right";
  down.forEach(({ text }, row) => { if (row % apart[0] === 0) pen.fillText(short(text, 13), left - 6, above + (row + 0.5) * cells[0]); });
  pen.textAlign = "left";
  across.forEach(({ text }, column) => {
    if (column % apart[1]) return;
    pen.save();
    pen.translate(left + (column + 0.5) * cells[1], above - 6);
    pen.rotate(-Math.PI / 3);
    pen.fillText(short(text, 11), 0, 0);
    pen.restore();
  });
}

function tellOf(view, board, place, aside) {
  const { t } = view, chosen = { board: board.name, ...layerAndHead(board, place), cell: null, step: null };
  aside.replaceChildren(
    make("h2", "", titleOf(board, place, t)), factList(factsOf(board, place, t)), make("code", "source", pythonOf(board, place)),
    build("p", "links", [link(view, { screen: "head", ...chosen }, t("openHead"), { id: "open-head" }), link(view, { screen: "recompute", ...chosen }, t("recomputeHead"), { id: "open-recompute" })]),
    caution(view, board, place));
}

// The mosaic in an SVG: one picture of all its pixels, at the size it was painted.
function mosaicSvg(canvas) {
  const { width, height } = canvas;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${cssColour("card")}"/><image width="${width}" height="${height}" href="${canvas.toDataURL()}"/></svg>`;
}
