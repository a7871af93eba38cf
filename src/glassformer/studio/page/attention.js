// What the screens of attention share: boards, heads and their names, orders, and what attention is not.
import { build, choice, exact, link, make } from "./dom.js";

// A place of one board means nothing to another.
export const NOWHERE = { layer: null, head: null, cell: null, step: null };
const UNITS = { entropy: "nats", distance: "tokensUnit" };
const SHARES = ["previous", "next", "first", "sink"]; // the largest come first, of all others the smallest

export const attentions = (trace) => trace.boards.filter((board) => board.kind === "attention");

// The board that the URL names, or the first of its kind.
export function boardOf(boards, name) {
  return boards.find((board) => board.name === name) ?? boards[0];
}

// Which matrix of a board the URL means: its place in reading order.
export function placeOf(board, state) {
  const row = Math.max(0, board.rows.indexOf(state.layer ?? "")), column = Math.max(0, board.columns.indexOf(state.head ?? ""));
  return row * board.columns.length + column;
}

export function layerAndHead(board, place) {
  const wide = board.columns.length;
  return { layer: board.rows[Math.floor(place / wide)], head: board.columns[place % wide] };
}

export function titleOf(board, place, t) {
  const { layer, head } = layerAndHead(board, place);
  if (board.name === "alignment") return t("board_alignment");
  return board.kind === "attention" ? t("headNamed", layer, head) : t("gateNamed", layer, t(`gate_${head}`));
}

// All places of a board, in the order asked for.
export function ordered(board, order) {
  const all = board.cells.map((_, place) => place), values = board.statistics[order];
  const sign = SHARES.includes(order) ? -1 : 1;
  return values ? all.sort((one, other) => sign * (values[one] - values[other]) || one - other) : all;
}

export function factsOf(board, place, t) {
  return Object.entries(board.statistics).map(([name, values]) => {
    const unit = UNITS[name] ? ` ${t(UNITS[name])}` : "";
    return [t(name), exact(values[place]) + unit];
  });
}

export function factList(pairs) {
  return build("dl", "facts", pairs.flatMap(([name, value]) => [make("dt", "", name), typeof value === "string" ? make("dd", "", value) : build("dd", "", value)]));
}

export const pythonOf = (board, place) => `seen["${board.cells[place].tensor}"][${board.cells[place].slice}]`;

// The name that Edit knows a head by, layers.3.attention:5; an alignment has one head and goes out whole.
export function ablationTarget(board, place) {
  const { tensor, slice } = board.cells[place], name = tensor.replace(/\.pattern$/, "");
  return board.name === "alignment" ? name : `${name}:${slice.split(",").at(-1)}`;
}

// One line that says what attention is not, with the ablation beside it.
export function caution(view, board, place) {
  const words = make("span", "", `${view.t("attentionIsNot")} `);
  return build("p", "note caution", [words, ablateLink(view, board, place, { id: "switch-off" })]);
}

export function ablateLink(view, board, place, attributes = {}) {
  const words = view.t(board.name === "alignment" ? "switchAlignment" : "switchOff");
  return link(view, { screen: "edit", off: ablationTarget(board, place), cell: null }, words, attributes);
}

export function boardTabs(view, boards, chosen) {
  if (boards.length < 2) return null;
  const names = boards.map(({ name }) => [name, view.t(`board_${name}`)]);
  return choice(view.t("part"), names, chosen.name, (name) => view.set({ ...NOWHERE, board: name }));
}

// What a screen of attention says of a model that has none: which of those that are here have some.
export function without(view) {
  const { root, t, models } = view;
  const others = models.filter((one) => one.attends && one.examples.length).map(({ name, examples: [first] }) =>
    build("li", "", link(view, { ...NOWHERE, board: null, model: name, text: first.inputs, pair: first.pair ?? null, target: null }, name)));
  root.append(build("section", "card notice", [
    make("p", "", t("noAttention")), link(view, { screen: "states" }, t("openStates"), { id: "open-states" }),
    ...(others.length ? [make("p", "", t("withAttention")), build("ul", "", others)] : []),
  ]));
  view.share({ python: view.trace.python });
  root.dataset.painted = "yes";
}

export const en = {
  part: "Part", board_attention: "attention", board_encoder: "encoder", board_decoder: "decoder", board_cross: "cross-attention",
  board_alignment: "alignment", board_states: "states", "board_encoder states": "encoder states", "board_decoder states": "decoder states", board_features: "features",
  headNamed: "layer {0} · head {1}", gateNamed: "layer {0} · {1}", headOf: "Head", layerOf: "Layer", orderBy: "Order by", place: "place",
  entropy: "entropy", distance: "distance", previous: "previous", next: "next", first: "first", sink: "sink",
  "mean size": "mean size", change: "change", nats: "nats", tokensUnit: "tokens",
  read: "read", written: "written", fed: "fed", from: "from", to: "to", time: "time", unit: "unit",
  gate_hidden: "hidden", gate_cell: "cell", gate_candidate: "candidate", gate_input: "input gate", gate_forget: "forget gate",
  gate_output: "output gate", gate_reset: "reset gate", gate_update: "update gate", gate_features: "features",
  noAttention: "This model has no attention. Its States screen shows what it remembers, token by token.", withAttention: "Models here that have attention:",
  switchAlignment: "Switch this attention off and see", openStates: "Open States", openHead: "Open this head", openRecompute: "Recompute this weight", recomputeHead: "Recompute it",
};
export const zh = {
  part: "部分", board_attention: "注意力", board_encoder: "编码器", board_decoder: "解码器", board_cross: "交叉注意力",
  board_alignment: "对齐", board_states: "状态", "board_encoder states": "编码器状态", "board_decoder states": "解码器状态", board_features: "特征",
  headNamed: "第 {0} 层 · 头 {1}", gateNamed: "层 {0} · {1}", headOf: "头", layerOf: "层", orderBy: "排序", place: "位置",
  entropy: "熵", distance: "距离", previous: "前一个", next: "后一个", first: "首个", sink: "汇聚",
  "mean size": "平均大小", change: "变化", nats: "纳特", tokensUnit: "词元",
  read: "读入", written: "写出", fed: "输入", from: "从", to: "到", time: "时间", unit: "单元",
  gate_hidden: "隐状态", gate_cell: "细胞状态", gate_candidate: "候选值", gate_input: "输入门", gate_forget: "遗忘门",
  gate_output: "输出门", gate_reset: "重置门", gate_update: "更新门", gate_features: "特征",
  noAttention: "这个模型没有注意力。“状态”视图逐个词元地显示它记住了什么。", withAttention: "这里有注意力的模型：",
  switchAlignment: "关掉这个注意力试试", openStates: "打开状态", openHead: "打开这个头", openRecompute: "重算这个权重", recomputeHead: "重算它",
};
