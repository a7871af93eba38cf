// The state is the URL's query, and nothing else: a link shows what its sender saw.
const listeners = [];

export function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

// A link to this page with some names changed; null, undefined or "" takes one away. Only the text may be empty: it was cleared.
export function href(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || (value === "" && name !== "text")) query.delete(name);
    else query.set(name, value);
  }
  return `?${query}`;
}

// Change some names. `show: false` only remembers, and nothing is drawn anew.
export function write(changes, { push = true, show = true } = {}) {
  const address = href(changes);
  if (address !== href({})) history[push ? "pushState" : "replaceState"](null, "", address);
  if (show) tell();
}

export function listen(act) {
  listeners.push(act);
}

function tell() {
  for (const act of listeners) act();
}

addEventListener("popstate", tell);
