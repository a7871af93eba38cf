// What is fetched: json, numbers and lines, from this server alone. A failure is a Problem with words for a person.
const ROOT = new URL("../api/v1", import.meta.url).pathname; // the studio may lie below another address
const KEPT = 4; // traces whose descriptions are remembered

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: nobody answered
  }
}

export async function ask(path, { body, signal } = {}) {
  const request = body === undefined ? { signal } : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  };
  let answer;
  try {
    answer = await fetch(ROOT + path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable");
  }
  if (answer.ok) return answer;
  let detail = answer.statusText;
  try {
    detail = (await answer.json()).detail ?? detail;
  } catch { /* no json: the status has to do */ }
  throw new Problem(answer.status, detail);
}

export async function json(path, options) {
  return (await ask(path, options)).json();
}

// Of answers that may overtake each other only the last asked for counts: a function of a promise that gives its answer,
// or null where another was asked for meanwhile.
export function latest() {
  let asked = 0;
  return async (answer) => {
    const mine = ++asked, found = await answer;
    return mine === asked ? found : null;
  };
}

// Lines of json as they come; the last one is {"kind": "end"}, and a stream without it was dropped.
export async function* lines(path, options) {
  const reader = (await ask(path, options)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", ended = false;
  try {
    while (!ended) {
      const { value, done } = await reader.read().catch((error) => {
        if (error.name === "AbortError") throw error;
        throw new Problem(0, "dropped");
      });
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const part of parts.filter(Boolean)) {
        const line = JSON.parse(part);
        ended ||= line.kind === "end";
        yield line;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (!ended) throw new Problem(0, "dropped");
}

let listed; // the models, asked for once
export function models() {
  listed ??= json("/models").catch((error) => {
    listed = undefined;
    throw error;
  });
  return listed;
}

// --- traces ---------------------------------------------------------------------------------------------------

const traces = new Map(); // what was asked -> a promise of its description

// {model, inputs, pair, target}; the same question is sent once.
export function trace(asked) {
  const key = JSON.stringify(asked);
  if (!traces.has(key)) {
    const found = json("/traces", { body: asked });
    traces.set(key, found);
    found.catch(() => traces.delete(key));
    if (traces.size > KEPT) traces.delete(traces.keys().next().value);
  }
  return traces.get(key);
}

export function forget() { // after a trace has expired
  traces.clear();
  slices.clear();
}

const path = (id, rest) => `/traces/${encodeURIComponent(id)}/${rest}`;
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined));
const spelled = (name) => name.split("/").map(encodeURIComponent).join("/");

export function link(id, rest, values = {}) {
  return `${ROOT}${path(id, rest)}?${query(values)}`;
}

export function npz(id, names) {
  return `${ROOT}${path(id, "npz")}?${new URLSearchParams(names.map((name) => ["names", name]))}`;
}

const slices = new Map();
const ROOM = 64; // slices and mosaics remembered

// Part of a tensor: {values, shape, low, high, root}; dtype "f32" gives exact numbers, "u8" colour steps of a scale.
export function slice(id, name, { slice: asked, dtype = "f32", scale, minus, signal } = {}) {
  return remembered(path(id, `tensors/${spelled(name)}`) + `?${query({ slice: asked, dtype, scale: scale?.map(Number).join(","), minus })}`, dtype, signal);
}

// A whole board as colour steps, (rows, columns, high, wide).
export function mosaic(id, board, { side = 64, minus, signal } = {}) {
  return remembered(path(id, "mosaic") + `?${query({ board, side, minus })}`, "u8", signal);
}

async function remembered(where, dtype, signal) {
  if (slices.has(where)) return slices.get(where);
  const found = await numbers(where, dtype, signal);
  slices.set(where, found);
  if (slices.size > ROOM) slices.delete(slices.keys().next().value);
  return found;
}

async function numbers(where, dtype, signal) {
  const answer = await ask(where, { signal }), bytes = await answer.arrayBuffer();
  const head = (name) => Number(answer.headers.get(name));
  const shape = (answer.headers.get("X-Shape") || "").split(",").filter(Boolean).map(Number);
  const values = dtype === "u8" ? new Uint8Array(bytes) : new Float32Array(bytes);
  const reach = (answer.headers.get("X-Reach") || "").split(",").filter(Boolean).map(Number); // of a mosaic's columns
  return { values, shape, low: head("X-Low"), high: head("X-High"), root: head("X-Root") === 1, reach };
}
