// The head of a page: title, actions, what it is about.

import { fill, h, plain } from "../dom.js";
import { session } from "../session.js";

/** The head, which also names the document.
 *
 * `acts`: buttons and links at the right; `sub`: facts below the title, parted by dots; `crumbs`: [[label, href], ...] of
 * the pages above; `shown`: a node in place of the title's text, such as `name(topic)`.
 * Returns {element, acts(nodes), sub(items)}. */
export function head(title, { acts = [], sub = [], crumbs = [], shown = null } = {}) {
  document.title = [plain(title), session()?.cluster, "Entrepôt"].filter(Boolean).join(" · ");
  const actions = h("div.acts", acts);
  const below = h("p.sub");
  const above = crumbs.length ? h("nav.crumbs", { "aria-label": "Above" }, crumbs.map(([label, href]) => [h("a", { href }, label), " / "]), shown ?? title) : null;
  const setSub = (items) => fill(below, items.filter((item) => item !== null && item !== undefined).map((item) => h("span", item)));
  setSub(sub);
  const element = h("div.head", above, h("h1", { tabindex: "-1" }, shown?.cloneNode(true) ?? title), actions, below);
  return { element, acts: (nodes) => fill(actions, nodes), sub: setSub };
}
