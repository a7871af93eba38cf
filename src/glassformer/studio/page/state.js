// The state is the URL's query, and nothing else: a link shows what its sender saw.
const listeners = [];

export function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

// Change some names; null, undefined or "" takes one away. `show: false` only remembers, and nothing is drawn anew.
export function write(changes, { push = true, show = true } = {}) {
  const query = new URLSearchParams(location.search), before = query.toString();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  if (query.toString() !== before) history[push ? "pushState" : "replaceState"](null, "", `?${query}`);
  if (show) tell();
}

// A link to this page with some names changed.
export function href(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  return `?${query}`;
}

export function listen(act) {
  listeners.push(act);
}

function tell() {
  for (const act of listeners) act();
}

addEventListener("popstate", tell);
