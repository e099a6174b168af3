// Choices of this browser: colours (as the system has them, light, or dark), and keys that work everywhere.

import { h } from "./dom.js";

const THEME = "entrepot theme";
const KEYS = "entrepot keys";
const CHOICES = { auto: "Auto", light: "Light", dark: "Dark" };

// A browser may refuse storage: a choice then lasts as long as the page.
const now = new Map();

function kept(key, otherwise) {
  try {
    return now.get(key) ?? localStorage.getItem(key) ?? otherwise;
  } catch (error) {
    return otherwise;
  }
}

function keep(key, value) {
  now.set(key, value);
  try {
    localStorage.setItem(key, value);
  } catch (error) {
    // see above
  }
}

/** Take the colours that were chosen before. */
export function applyTheme(choice = kept(THEME, "auto")) {
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
}

/** The three choices. */
export function themeChoice() {
  const choose = (choice) => {
    applyTheme(choice);
    keep(THEME, choice);
  };
  const current = document.documentElement.dataset.theme ?? "auto";
  const labels = Object.entries(CHOICES).map(([choice, label]) =>
    h("label", h("input", { type: "radio", name: "theme", checked: current === choice, onchange: () => choose(choice) }), label),
  );
  return h("fieldset.seg.tiny", h("legend.vh", "Colours"), labels);
}

/** True if the keys `/` and `p` work without Ctrl or Alt. */
export const hasKeys = () => kept(KEYS, "on") === "on";

/** The choice of these keys: who speaks to the browser, or types by accident, turns them off. */
export function keyChoice() {
  const box = h("input", { type: "checkbox", checked: hasKeys(), onchange: () => keep(KEYS, box.checked ? "on" : "off") });
  return h("label.keys", box, "Keys ", h("kbd", "/"), " ", h("kbd", "p"));
}
