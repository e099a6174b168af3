// Tabs and choices, as links: each is an address.

import { h } from "../dom.js";

/** Tabs of one thing: [{label, href, count, isCurrent}]. */
export function tabs(label, items) {
  return h("nav.tabs", { "aria-label": label }, items.map((item) => h("a", { href: item.href, "aria-current": item.isCurrent && "page" }, item.label, item.count !== undefined && h("span.ct", item.count))));
}

/** A choice of few: [{label, value}]; `choose(value)` is called with another one.  Returns {element, set(value)}. */
export function choice(label, items, current, choose) {
  const buttons = items.map((item) => h("button.seg-b", { type: "button", "aria-pressed": String(item.value === current), onclick: () => take(item.value) }, item.label));
  const set = (value) => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(items[at].value === value)));
  const take = (value) => {
    set(value);
    choose(value);
  };
  return { element: h("div.seg", { role: "group", "aria-label": label }, buttons), set };
}
