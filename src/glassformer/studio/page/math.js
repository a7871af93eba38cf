// Formulas as they are written by hand: subscripts, powers, roots and fractions from plain elements.
import { build, make } from "./dom.js";
import { worded } from "./i18n.js";

// "σ(x W_iᵀ + b_i)" with its subscripts low and its T high.
export function formula(english) {
  const text = worded(english), parts = text.split(/(_\w+|[ᵀ²])/).filter(Boolean).map((part) => {
    if (part.startsWith("_")) return make("sub", "", part.slice(1));
    return part === "ᵀ" || part === "²" ? make("sup", "", part === "ᵀ" ? "T" : "2") : part;
  });
  return build("span", "math", parts, { role: "math", "aria-label": text });
}

export function fraction(over, under) {
  return build("span", "fraction", [build("span", "", over), build("span", "", under)]);
}

// The weight of one cell: exp of its score over the sum of those that the mask keeps.
export function share(score, place) {
  const [row, column] = place;
  return build("span", "math", [
    make("i", "", "a"), make("sub", "", `${row},${column}`), " = ",
    fraction(["exp(", make("i", "", "s"), make("sub", "", `${row},${column}`), ")"], ["Σ", make("sub", "", "j"), " exp(", make("i", "", "s"), make("sub", "", `${row},j`), ")"]),
    build("span", "where", [make("i", "", "s"), " = ", formula(score)]),
  ], { role: "math", "aria-label": `exp(${score}) / Σ exp` });
}
