// Colours: as the system has them, light, or dark.  The choice stays in this browser.

import { h } from "./dom.js";

const KEY = "entrepot theme";
const CHOICES = { auto: "Auto", light: "Light", dark: "Dark" };

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch (error) {
    return "auto"; // a browser may refuse storage: the choice then lasts as long as the page
  }
}

/** Take the colours that were chosen before. */
export function applyTheme(choice = kept()) {
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
}

/** The three choices. */
export function themeChoice() {
  const choose = (choice) => {
    applyTheme(choice);
    try {
      localStorage.setItem(KEY, choice);
    } catch (error) {
      // as in `kept`
    }
  };
  const now = document.documentElement.dataset.theme ?? "auto";
  const labels = Object.entries(CHOICES).map(([choice, label]) =>
    h("label", h("input", { type: "radio", name: "theme", checked: now === choice, onchange: () => choose(choice) }), label),
  );
  return h("fieldset.seg.tiny", h("legend.vh", "Colours"), labels);
}
