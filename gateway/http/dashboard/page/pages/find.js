// Find: everything whose name is a text, of the kinds that pages say they can find.

import { fill, h, name } from "../dom.js";
import { link } from "../links.js";
import { PAGES } from "../menu.js";
import { empty, failure } from "../parts/answers.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { state } from "../parts/states.js";

export async function show(place, { text }, signal) {
  const top = head(`Find ${text}`, { shown: h("span", "Find ", name(text)) });
  const kinds = PAGES.filter((entry) => entry.finds);
  const found = h("ul.found");
  place.append(top.element, panel("Found", { unit: `asked for: ${kinds.map((entry) => entry.finds.what).join(", ")}`, body: found }));
  const lines = await Promise.all(kinds.map((entry) => line(entry, text, signal)));
  if (signal.aborted) return;
  const hits = lines.filter((each) => each !== null);
  fill(found, hits.length ? hits : h("li", empty("Nothing has this name", "Names are compared whole, with upper and lower case.")));
}

async function line(entry, text, signal) {
  const { what, exists } = entry.finds;
  const target = link(entry.route.replace(/:\w+/, encodeURIComponent(text)));
  const anchor = h("a", { href: target }, what, " ", h("b", name(text)));
  if (!exists) return h("li", anchor);
  try {
    return (await exists(text, signal)) ? h("li", anchor) : null;
  } catch (error) {
    if (signal.aborted) return null;
    return error.status === 403 ? h("li", state("unknown", `${what}: ${error.message}`)) : h("li", failure(`${what}: not asked`, error));
  }
}
