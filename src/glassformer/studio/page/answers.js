// What a model said before and after an edit, in the words of its task.
import { build, exact, make, number, visible } from "./dom.js";

const TAIL = 60; // characters of the prompt that are shown again

// {before, after} as nodes, or null where the task has no words for it.
export function answersOf({ task, said: { before, after } }, t, prompt) {
  if (before === null || after === null) return null;
  const show = { "text-classification": classes, "token-classification": entities, "replaced-token-detection": entities, "question-answering": answer, "fill-mask": fills, "text-generation": text, translation: text, summarization: text, "text2text-generation": text }[task];
  const read = task === "text-generation" ? prompt : "";
  return show ? { before: show(before, after, t, read), after: show(after, before, t, read) } : null;
}

function bars(rows) {
  return build("ul", "shares", rows.map(([name, share, other]) => {
    const bar = make("i");
    bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
    return build("li", other ? "moved" : "", [make("span", "mono", name), make("span", "mono", exact(share)), bar]);
  }));
}

const classes = (one) => bars([one].flat().map(({ label, score }, place) => [label, score, place === 0]));

function entities(one, other, t) {
  if (!one.length) return make("p", "soft", t("edNoEntities"));
  const known = new Set(other.map((entity) => `${entity.start} ${entity.end} ${entity.entity_group ?? entity.entity}`));
  return build("div", "strip", one.map((entity) => {
    const kind = entity.entity_group ?? entity.entity, same = known.has(`${entity.start} ${entity.end} ${kind}`);
    return build("span", same ? "token" : "token new", [entity.word, make("small", "", `${kind} ${number(entity.score)}`)]);
  }));
}

const answer = (one, _, t) => build("div", "", [make("p", "text", one.answer || t("edNoAnswer")), make("small", "mono", number(one.score))]);

// Several masks give a list for each.
const fills = (one) => build("div", "", (Array.isArray(one[0]) ? one : [one]).map((mask) => bars(mask.map(({ token_str: word, score }, place) => [visible(word), score, place === 0]))));

// What differs from the other text is marked, from the first difference on.
function text(one, other, _, prompt) {
  const [mine, theirs] = [one, other].map((found) => [found].flat()[0]).map((found) => found.generated_text ?? found.translation_text ?? found.summary_text);
  let same = 0;
  while (same < mine.length && mine[same] === theirs[same]) same++;
  const before = prompt.length > TAIL ? `…${prompt.slice(-TAIL)}` : prompt;
  return build("p", "text", [make("span", "prompt", before), make("span", "", mine.slice(0, same)), make("mark", "", mine.slice(same))]);
}
