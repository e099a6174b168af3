// The fields above a list by which the server filters it.

import { h } from "../dom.js";

const TYPING_MS = 300; // between the last key and the question

/** Fields for `filters` that write into `values` and call `changed()`; null where there are none. */
export function filterFields(filters, values, changed) {
  if (filters.length === 0) return null;
  let timer = null;
  const set = (name, value, delay) => {
    values[name] = value;
    clearTimeout(timer);
    timer = setTimeout(changed, delay);
  };
  const fields = filters.map(({ name, label, type = "search", options = [], hint }) => {
    const id = `filter-${name}`;
    const input =
      type === "select"
        ? h("select", { id, onchange: () => set(name, input.value, 0) }, options.map(([value, words]) => h("option", { value, selected: value === values[name] }, words)))
        : h("input", { id, type, value: values[name], placeholder: hint, autocomplete: "off", spellcheck: "false", oninput: () => set(name, input.value, TYPING_MS) });
    return h("p.field", h("label", { for: id }, label), input);
  });
  const go = (event) => {
    event.preventDefault();
    clearTimeout(timer);
    changed();
  };
  return h("form.filters", { role: "search", onsubmit: go }, fields);
}
