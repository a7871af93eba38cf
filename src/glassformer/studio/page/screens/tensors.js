// Tensors: every value of the trace and every weight by name, and a slice of one to look at.
import { cssColour, heatmap, kindOf, legend, rampOf, stepsOf } from "../canvas.js";
import { build, exact, field, make, number } from "../dom.js";
import { matrixSvg } from "../share.js";

const MOST = 150; // names shown at once
const LARGEST = 512; // cells along a side

export const screen = {
  id: "tensors",
  needs: "trace",
  async show(view) {
    const { root, state, t, trace, api, signal } = view;
    root.append(make("p", "busy", t("working")));
    const tensors = await api.json(`/traces/${trace.trace_id}/tensors`, { signal });
    const list = build("div", "tree"), count = make("p", "soft"), shown = build("section", "card shown");
    const search = build("input", "", [], {
      type: "search", id: "tensor-search", value: state.find ?? "", placeholder: t("searchHint"), autocomplete: "off",
    });
    search.addEventListener("input", () => {
      view.set({ find: search.value }, { push: false, show: false });
      fillTree(search.value);
    }, { signal });

    function fillTree(wanted) {
      const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
      const found = tensors.filter((one) => words.every((word) => one.name.toLowerCase().includes(word)));
      count.textContent = t("tensorsFound", found.length, tensors.length);
      if (words.length) {
        list.replaceChildren(...found.slice(0, MOST).map((one) => leaf(one, one.name)));
        if (found.length > MOST) list.append(make("p", "soft", t("tooMany", found.length - MOST)));
      } else list.replaceChildren(...branches(tree(tensors), ""));
    }

    function leaf(one, text) {
      const parts = [make("span", "", text), make("small", "", one.shape.join("×") || "·")];
      return build("button", "", parts, { type: "button", "aria-pressed": String(one.name === state.tensor), "data-name": one.name,
        id: `tensor-${one.name}`, onclick: () => view.set({ tensor: one.name, slice: null, cell: null }) });
    }

    // Inner branches are built when they are first opened, so that a large model stays a small page.
    function branches(node, path) {
      return [...node].map(([name, child]) => {
        const whole = path ? `${path}.${name}` : name;
        if (!child.inner.size) return leaf(child.one, name);
        const inside = build("div"), open = Boolean(state.tensor?.startsWith(`${whole}.`));
        const fill = () => inside.childElementCount || inside.append(...(child.one ? [leaf(child.one, `${name} →`)] : []), ...branches(child.inner, whole));
        if (open) fill();
        return build("details", "", [make("summary", "", name), inside], { open, ontoggle: fill });
      });
    }

    fillTree(state.find ?? "");
    root.replaceChildren(build("div", "bar", [field(t("search"), search), count]), build("div", "split", [list, shown]));
    const chosen = tensors.find((one) => one.name === state.tensor);
    if (chosen) await showTensor(view, chosen, shown);
    else {
      shown.append(make("p", "soft", t("chooseTensor")));
      view.share({ python: trace.python });
    }
    root.dataset.painted = "yes";
  },
};

function tree(tensors) {
  const top = new Map();
  for (const one of tensors) {
    let level = top, node;
    for (const part of one.name.split(".")) {
      if (!level.has(part)) level.set(part, { inner: new Map() });
      node = level.get(part);
      level = node.inner;
    }
    node.one = one;
  }
  return top;
}

const sizes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toPrecision(3)} kB` : `${(bytes / 1e6).toPrecision(3)} MB`);
const figure = (value) => (typeof value === "number" ? number(value) : String(value ?? "–"));

// The first of every axis but the last two, of which no more than a screen holds.
function usual(shape) {
  return shape.map((size, axis) => (axis < shape.length - 2 ? "0" : size > LARGEST ? `0:${LARGEST}` : ":")).join(",");
}

async function showTensor(view, one, shown) {
  const { state, t, trace, api, signal } = view, asked = state.slice ?? usual(one.shape);
  const facts = [
    [t(one.kind), one.dtype], [t("shape"), one.shape.join(" × ") || "·"], [t("size"), sizes(one.bytes)],
    [t("least"), figure(one.min)], [t("greatest"), figure(one.max)], [t("mean"), figure(one.mean)], [t("deviation"), figure(one.std)],
  ];
  const input = build("input", "", [], { id: "slice", value: asked, placeholder: t("sliceHint"), autocomplete: "off" });
  const python = `${one.python}[${asked || "..."}]`, where = `tensors/${one.name}`;
  const form = build("form", "bar", [
    field(t("slice"), input),
    build("a", "button", t("download"), { href: api.link(trace.trace_id, where, { slice: asked, format: "npy" }), download: `${one.name}.npy` }),
  ], { onsubmit: (event) => { event.preventDefault(); view.set({ slice: input.value, cell: null }); } });
  shown.append(make("h2", "mono", one.name), build("dl", "facts", facts.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)])),
    make("h3", "", t("slice")), form, make("pre", "", python));
  const found = await api.slice(trace.trace_id, one.name, { slice: asked, signal });
  if (found.shape.length > 2) {
    shown.append(make("p", "note", t("notAMatrix")));
    view.share({ python: `${trace.python}\n${python}`, names: [one.name] });
    return;
  }
  const [high, wide] = found.shape.length === 2 ? found.shape : [1, found.shape[0] ?? 1];
  const reach = found.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const scale = [found.values.some((value) => value < 0) ? -reach : 0, reach, false], steps = stepsOf(found.values, scale);
  const told = make("p", "mono value");
  const matrix = heatmap({
    steps, high, wide, kind: kindOf(scale), label: `${one.name} ${asked}`, signal, width: shown.clientWidth - 40,
    at: state.cell?.split(",").map(Number),
    move(row, column) { // the exact number, as it was fetched
      told.textContent = `[${row}, ${column}] = ${exact(found.values[row * wide + column])}`;
      view.set({ cell: `${row},${column}` }, { push: false, show: false });
    },
  });
  shown.append(build("div", "bar", legend(scale, number)), matrix.element, told);
  if (state.cell) matrix.select(...state.cell.split(",").map(Number));
  view.share({
    python: `${trace.python}\n${python}`, names: [one.name],
    svg: () => matrixSvg({ steps, high, wide, ramp: rampOf(kindOf(scale)), title: `${one.name}[${asked}]`, ink: cssColour("ink"), paper: cssColour("card") }),
  });
}
