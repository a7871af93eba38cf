// Flow: the way of the data through the model, from the text to the answer; any block opens to its parts.
import { build, button, make, visible } from "../dom.js";
import { details } from "../flow_details.js";
import { stage } from "../flow_stage.js";

const PACE = 1300; // milliseconds that play stays with a token

export const screen = {
  id: "flow",
  needs: "trace",
  async show(view) {
    const { root, state, t, trace, api, signal } = view, where = `/traces/${trace.trace_id}/flow`;
    const query = (expand) => (expand === undefined ? "" : `?${new URLSearchParams({ expand })}`);
    const told = build("section", "card details", [], { "aria-live": "off" }), bar = build("div", "bar"), tour = build("section", "card tour", [], { hidden: true, "aria-live": "polite" });
    let flow = await api.json(where + query(state.expand), { signal });
    const remember = (changes) => view.set(changes, { push: false, show: false });

    const act = {
      open: (name, row) => {
        const { side } = flow.boxes.find((box) => box.name === name);
        if (row !== null && flow.cells[name]) player.stay(side, row); // one cell of a layer: it opens at this token
        return lay([...flow.open, name], name);
      },
      close: (name) => lay(flow.open.filter((one) => one !== name && !one.startsWith(`${name}.`)), name),
      choose: (name) => chosen(name),
      token: (side, row) => player.hover(side, row),
    };
    const scene = stage(view, act);
    const player = playing(view, scene, () => flow);

    const newest = api.latest();
    async function lay(expand, name) {
      const focus = scene.element.contains(document.activeElement);
      const found = await newest(api.json(where + query(expand.join(",")), { signal }));
      if (!found) return;
      flow = found;
      scene.show(flow);
      remember({ expand: flow.open.join(",") || "none" });
      await chosen(name, { focus, reveal: true });
    }

    async function chosen(name, { focus = false, reveal = false } = {}) {
      const box = flow.boxes.find((one) => one.name === name);
      if (!box) return;
      remember({ node: name });
      scene.choose(name, { focus });
      if (reveal) scene.reveal(name);
      player.again();
      try {
        const row = player.row(box.side);
        await details(view, box, told, { state: name === state.node ? state : row === null ? {} : { cell: `${row},0` }, remember });
      } catch (error) {
        if (error.name !== "AbortError") told.replaceChildren(view.trouble(error, view.again));
      }
    }

    const guide = guiding(view, tour, { flow: () => flow, lay, remember });
    bar.append(...player.controls, zooms(view, scene), build("div", "group", [
      button(t("flowTour"), () => guide.go(0), { id: "flow-tour", class: "main" }), button(t("flowFold"), () => lay([], flow.boxes[0].name), { id: "flow-fold" }),
    ]));
    root.append(make("p", "soft hint", t("flowHint")), bar, tour, build("div", "card frame-of-stage", scene.element), told);
    scene.show(flow);
    scene.zoom("first");
    scene.element.scrollLeft = 0;
    view.share({ python: () => `${trace.python}\n\n${pythonOf(view, flow)}`, svg: async () => (await api.ask(`${where}/svg${query(flow.open.join(",") || "none")}`, { signal })).text() });
    player.start(state.token);
    await chosen(flow.boxes.some((one) => one.name === state.node) ? state.node : flow.boxes.find((one) => one.kind === "embedding").name, { reveal: Boolean(state.node) });
    if (state.stop !== undefined) await guide.go(Number(state.stop) || 0);
    root.dataset.painted = "yes";
  },
};

function pythonOf({ model, asked }, flow) {
  const { inputs, pair, target } = asked(), more = [pair && JSON.stringify(pair), target && `target=${JSON.stringify(target)}`].filter(Boolean);
  const expand = JSON.stringify(flow.open);
  return `graph = gf.flow(${["model", model.tokenizer ? "tok" : "None", JSON.stringify(inputs), ...more].join(", ")})\nsvg = gf.flow_svg(graph, expand=${expand})`;
}

function zooms({ t }, scene) {
  const one = (text, key, by) => button(text, () => scene.zoom(by), { "aria-label": t(key), title: t(key), id: `flow-${key}` });
  return build("div", "group", [one("−", "flowSmaller", 1 / 1.25), one("⤢", "flowFit", "fit"), one("+", "flowLarger", 1.25)]);
}

// --- play: one token after another, first of what is read, then of what is written ------------------------------------

function playing(view, scene, flow) {
  const { t, trace, signal } = view, sides = ["read", "fed"].filter((side) => trace.tokens[side]);
  const places = sides.flatMap((side) => trace.tokens[side].map((token, row) => ({ side, row, token })));
  let at = null, timer = null;
  const label = build("output", "", " "), slider = build("input", "", [], { type: "range", min: "0", max: String(places.length - 1), value: "0", id: "flow-token", "aria-label": t("flowToken"), oninput: () => { stop(); go(Number(slider.value)); } });
  const play = button("▶", () => (timer === null ? run() : stop()), { id: "flow-play", class: "main", "aria-label": t("flowPlay"), title: t("flowPlay") });

  function go(place) {
    at = Math.max(0, Math.min(places.length - 1, place));
    const { side, row, token } = places[at];
    slider.value = String(at);
    label.textContent = `${at + 1}/${places.length} ${visible(token.text)}`;
    slider.setAttribute("aria-valuetext", label.textContent);
    scene.mark(side, row, { veil: true });
    view.set({ token: at }, { push: false, show: false });
  }

  function run() {
    play.textContent = "❚❚";
    play.setAttribute("aria-label", t("flowPause"));
    go(at === null || at === places.length - 1 ? 0 : at + 1);
    timer = setInterval(() => (at === places.length - 1 ? stop() : go(at + 1)), PACE);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶";
    play.setAttribute("aria-label", t("flowPlay"));
  }

  signal.addEventListener("abort", stop);
  const step = (by, text, key) => button(text, () => { stop(); go((at ?? -1) + by); }, { "aria-label": t(key), title: t(key), id: `flow-${key}` });
  const again = () => (at === null ? scene.mark(null, null) : scene.mark(places[at].side, places[at].row, { veil: true }));
  const placeOf = (side, row) => places.findIndex((one) => one.side === side && one.row === row);
  return {
    stay: (side, row) => { stop(); go(placeOf(side, row)); },
    row: (side) => (at !== null && places[at].side === side ? places[at].row : null),
    controls: [build("div", "group", [play, step(-1, "‹", "flowBefore"), slider, step(1, "›", "flowAfter"), label])],
    start(token) { if (token !== undefined && places[token]) go(Number(token)); },
    hover: (side, row) => (row === null ? again() : scene.mark(side, row, { veil: false })),
    again: () => flow() && again(),
  };
}

// --- the guided tour --------------------------------------------------------------------------------------------------

function guiding(view, root, { flow, lay, remember }) {
  const { t } = view;
  let at = null;

  async function go(number) {
    const stops = flow().tour, place = Math.max(0, Math.min(stops.length - 1, number)), stop = stops[place];
    root.hidden = false;
    const turn = (by, key, id) => button(t(key), () => go(place + by), { id, disabled: !stops[place + by], class: by > 0 ? "main" : "" });
    const focus = root.contains(document.activeElement) && document.activeElement.id;
    root.replaceChildren(
      make("p", "", t(`tour_${stop.say}`, ...stop.values)),
      build("div", "bar", [turn(-1, "flowTourBack", "tour-back"), make("small", "", `${place + 1} / ${stops.length}`), build("span", "group", [button(t("flowTourEnd"), end, { id: "tour-end" }), turn(1, "flowTourNext", "tour-next")])]));
    if (focus) (document.getElementById(focus)?.disabled ? document.getElementById("tour-end") : document.getElementById(focus))?.focus({ preventScroll: true });
    remember({ stop: place });
    at = place;
    root.dataset.stop = ""; // until it is shown
    await lay(stop.open, stop.at);
    if (at !== place) return; // another was asked for meanwhile
    if (document.getElementById("stage").getBoundingClientRect().bottom > innerHeight) root.scrollIntoView({ block: "start" }); // of a phone both are seen then
    root.dataset.stop = stop.at;
  }

  function end() {
    root.hidden = true;
    remember({ stop: null });
    document.getElementById("flow-tour").focus();
  }

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end();
  });
  return { go };
}
