// Banners: a bold fact, what it means, one action.

import { h, s } from "../dom.js";

const ICONS = {
  info: [s("circle", { cx: 8, cy: 8, r: 6.2 }), s("path", { d: "M8 7.4v3.4M8 5v.1" })],
  warn: [s("path", { d: "M8 2 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1" })],
  bad: [s("path", { d: "M5 1.8h6L14.2 5v6L11 14.2H5L1.8 11V5zM8 4.8v4M8 11v.1" })],
};

/** A banner.  `kind`: info, warn or bad.  `action`: {label, href} or {label, act}. */
export function banner(kind, fact, meaning = "", action = null) {
  const icon = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, ICONS[kind].map((each) => each.cloneNode(true)));
  const text = h("p", h("b", fact), typeof meaning === "string" && meaning ? ` ${meaning}` : meaning);
  return h("div.banner", { class: kind === "info" ? "" : kind }, icon, text, h("p.row", action && button(action)));
}

function button({ label, href, act }) {
  return href ? h("a.btn.small", { href }, label) : h("button.small", { type: "button", onclick: act }, label);
}

/** The banner of parts that did not answer; null where all did.
 *
 * `answered`: {asked, answered, missing: [{name, reason}]}; `what`: such as "gateways"; `means`: what is left out. */
export function partial(answered, { what = "gateways", means = "Sums marked ≥ leave it out.", again = null } = {}) {
  if (!answered || answered.answered >= answered.asked) return null;
  const reasons = answered.missing.slice(0, 3).map(({ name, reason }) => `${name} ${reason.replace(/\.$/, "")}.`);
  const more = answered.missing.length > 3 ? ` And ${answered.missing.length - 3} more.` : "";
  const meaning = `${reasons.join(" ")}${more} ${means}`.trim();
  return banner("warn", `${answered.answered} of ${answered.asked} ${what} answered.`, meaning, again && { label: "Ask again", act: again });
}

/** The result of an action, in numbers; stays until the next one.  Put it into a place of `results`. */
export function results() {
  const element = h("div.stack.results", { role: "status" });
  const tell = (kind, fact, meaning, action) => element.replaceChildren(banner(kind, fact, meaning, action));
  return { element, tell, clear: () => element.replaceChildren() };
}
