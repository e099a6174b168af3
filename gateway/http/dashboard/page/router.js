// Addresses behind `#`: one page at a time, loaded when it is first shown.

import { fill, h } from "./dom.js";
import { here, link } from "./links.js";
import { PAGES, START } from "./menu.js";
import { failure, whileAsking } from "./parts/answers.js";
import { head } from "./parts/head.js";

const ROUTES = PAGES.map((entry) => ({ entry, parts: entry.route.split("/") }));
const listeners = new Set();
let running = null;
let shown = "";

/** Call `listener(entry, parameters)` after each change of the page.  `entry` is null for an unknown address. */
export const onNavigate = (listener) => listeners.add(listener);

/** Show the page of the address, now and after each change, in `main`. */
export function startRouter(main) {
  const go = (isFirst) => show(main, isFirst);
  addEventListener("hashchange", () => go(false));
  go(true);
}

/** Show the page again, with new data. */
export const showAgain = () => dispatchEvent(new HashChangeEvent("hashchange"));

function match(route) {
  const segments = route.split("/");
  for (const { entry, parts: wanted } of ROUTES) {
    if (wanted.length !== segments.length) continue;
    const parameters = {};
    const fits = wanted.every((part, at) => {
      if (!part.startsWith(":")) return part === segments[at];
      parameters[part.slice(1)] = decoded(segments[at]);
      return segments[at] !== "";
    });
    if (fits) return { entry, parameters };
  }
  return { entry: null, parameters: {} };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
  }
}

async function show(main, isFirst) {
  running?.abort();
  const controller = (running = new AbortController());
  const [route, query] = here();
  const { entry, parameters } = match(route);
  const place = h("div.page");
  fill(main, place);
  for (const listener of listeners) listener(entry, parameters);
  const from = document.activeElement;
  const focus = () => {
    const now = document.activeElement;
    const isElsewhere = now !== from && now !== document.body && now?.tagName !== "H1"; // the user went on meanwhile
    if (isFirst || isElsewhere || running !== controller || shown === route) return;
    main.querySelector("h1")?.focus({ preventScroll: true });
  };
  if (!isFirst && shown !== route) scrollTo(0, 0);
  try {
    if (entry === null) showUnknown(place, route);
    else {
      const module = await whileAsking(place, "the gateway", import(`./pages/${entry.page}.js`));
      if (controller.signal.aborted) return;
      const done = module.show(place, { ...parameters, query }, controller.signal);
      focus();
      await done;
    }
  } catch (error) {
    if (controller.signal.aborted) return;
    if (!place.querySelector("h1")) place.append(head(entry.label ?? "Page").element);
    place.append(failure("The page was not shown", error, { again: showAgain }));
  }
  focus();
  shown = route;
}

function showUnknown(place, route) {
  const top = head("There is no such page");
  const text = h("p", "No page has the address ", h("code.brk", `#/${route}`), ".");
  place.append(top.element, h("div.empty", text, h("a.btn.small", { href: link(START) }, "Go to the overview")));
}
