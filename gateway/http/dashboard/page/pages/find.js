// Find: everything whose name is a text, of the kinds that pages say they can find.

import { ApiError } from "../api.js";
import { fill, h, name } from "../dom.js";
import { link } from "../links.js";
import { PAGES } from "../menu.js";
import { ask, empty } from "../parts/answers.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { state } from "../parts/states.js";

export async function show(place, { text }, signal) {
  const top = head(`Find ${text}`, { shown: h("span", "Find ", name(text)) });
  const kinds = PAGES.filter((entry) => entry.finds);
  const found = h("ul.found");
  place.append(top.element, panel("Found", { unit: `asked for: ${kinds.map((entry) => entry.finds.what).join(", ")}`, body: found }));
  const lines = await Promise.all(kinds.map((entry) => line(found, entry, text, signal)));
  if (signal.aborted || lines.some(Boolean)) return;
  fill(found, h("li", empty("Nothing has this name", "Names are compared whole, with upper and lower case.")));
}

/** Ask one kind, and show its answer as a line; false, without a line, where it has no such name. */
async function line(list, entry, text, signal) {
  const { what, exists } = entry.finds;
  const target = link(entry.route.replace(/:\w+/, encodeURIComponent(text)));
  const anchor = h("a", { href: target }, what, " ", h("b", name(text)));
  const element = h("li");
  list.append(element);
  const show = ({ refusal, isThere }) => (refusal ? state("unknown", `${what}: ${refusal}`) : isThere ? anchor : null);
  const found = await ask(element, (asked) => answerOf(exists, text, asked), show, { what: `for a ${what}`, fact: `${what}: not asked`, signal });
  const isShown = Boolean(found?.refusal || found?.isThere);
  if (!isShown) element.remove();
  return isShown;
}

/** {isThere}, or {refusal} where the user may not know. */
async function answerOf(exists, text, signal) {
  if (!exists) return { isThere: true };
  try {
    return { isThere: await exists(text, signal) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return { refusal: error.message };
    throw error;
  }
}
