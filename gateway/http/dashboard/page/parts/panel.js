// Panels, key numbers and facts: the boxes of a page.

import { h } from "../dom.js";

let made = 0;

/** A panel with a heading.
 *
 * `unit`: a remark beside the title; `state`: a node of `state()`; `acts`: at the right; `body`: padded content; `flush`:
 * content up to the edges, such as a table; `footer`: facts; `span`: columns of 12 in a `div.cols`. */
export function panel(title, { unit = null, state = null, acts = [], body = null, flush = null, footer = null, span = null } = {}) {
  const id = `panel-${(made += 1)}`;
  return h(
    "section.panel",
    { "aria-labelledby": id, class: span ? `c${span}` : "" },
    h("header", h("h2", { id }, title), state && h("span.s", state), unit && h("span.unit", unit), [acts].flat().length > 0 && h("span.push", acts)),
    body && h("div.body.stack", body),
    flush,
    footer && h("footer", [footer].flat().map((each) => h("span", each))),
  );
}

/** Key numbers: [{label, value, unit, more, kind}]; `kind`: warn or bad. */
export function keyNumbers(items, { span = null } = {}) {
  return h(
    "dl.kpis",
    { class: span ? `c${span}` : "" },
    items.map(({ label, value, unit, more, kind }) =>
      h("div", h("dt", label), h("dd.num", { class: kind ? `${kind}-t` : "" }, value, unit && h("span.unit", unit)), more && h("dd.more", more)),
    ),
  );
}

/** Pairs of label and value; null values are left out. */
export function facts(pairs) {
  return h("dl.facts", pairs.filter(([, value]) => value !== null && value !== undefined).map(([label, value]) => [h("dt", label), h("dd", value)]));
}

/** What may be wider than its place, such as a table: it scrolls, also by keyboard.  `label` says what it is. */
export const scrolling = (label, ...children) => h("div.tw", { tabindex: "0", role: "group", "aria-label": label }, children);

/** Columns of 12. */
export const columns = (...children) => h("div.cols", children);
