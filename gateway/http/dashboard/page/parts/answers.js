// Views in place of data: loading, empty, refused, failed; and `ask`, which shows all of them by itself.

import { ApiError } from "../api.js";
import { fill, h, s } from "../dom.js";
import { link } from "../links.js";
import { every } from "../live.js";
import { PAGES } from "../menu.js";
import { session } from "../session.js";
import { state } from "./states.js";

const SKELETON_MS = 200; // shorter waits show nothing
const WIDTHS = ["82%", "64%", "73%"];

/** Nothing is here: what would be, and one action {label, href} or {label, act}. */
export function empty(title, text, action = null) {
  const button = action && (action.href ? h("a.btn.small.primary", { href: action.href }, action.label) : h("button.small.primary", { type: "button", onclick: action.act }, action.label));
  return h("div.empty", h("h2", title), text && h("p", text), button);
}

/** Lines that stand for what is asked for, with the time that the asking takes: "asking 2 brokers, 0.6 s". */
export function loading(what) {
  const begun = performance.now();
  const said = h("p.unit");
  const lines = h("div.stack.waits", { "aria-busy": "true", hidden: true }, said, WIDTHS.map((width) => s("svg.skel", { "aria-hidden": "true" }, s("rect", { width, height: 12, rx: 3 }))));
  const timer = setInterval(() => {
    lines.hidden = false;
    fill(said, `asking ${what}, ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  }, SKELETON_MS);
  const stop = () => {
    clearInterval(timer);
    lines.removeAttribute("aria-busy");
  };
  return { element: lines, stop };
}

/** Show at the end of `place` that `what` is asked, until the promise is settled; its value. */
export async function whileAsking(place, what, promise) {
  const wait = loading(what);
  place.append(wait.element);
  try {
    return await promise;
  } finally {
    wait.stop();
    wait.element.remove();
  }
}

/** A refusal or failure: the fact, the server's sentence, code and request id, and what can be done. */
export function failure(fact, error, { again = null } = {}) {
  if (error instanceof ApiError && error.status === 403) return noRights(fact, error);
  const isKnown = error instanceof ApiError;
  const code = isKnown ? [error.status || null, error.code, error.requestId && `request ${error.requestId}`].filter(Boolean).join(" · ") : String(error);
  if (!isKnown) console.error(error);
  return h(
    "section.panel.failure",
    { role: "alert" },
    h("header", h("h2", state("bad", fact))),
    h("div.body.stack.s", h("p", isKnown ? error.message : "The page has a fault of its own."), h("pre.code.wrap", code), again && h("p.row", h("button.small", { type: "button", onclick: again }, "Try again"))),
  );
}

/** What the user may not see, with the missing right in the server's words. */
export function noRights(fact, error) {
  const who = session()?.user ? "A super user can give you the right." : "Log in with a user who has the right.";
  const canTest = PAGES.some((entry) => entry.route === "access");
  return h("div.empty", { role: "alert" }, h("h2", state("warn", fact)), h("p", error.message), h("p", who), canTest && h("a.btn.small", { href: link("access") }, "Test access"));
}

const TEMPORARY = new Set([0, 429, 502, 503, 504]);
/** Interval between tries of what failed for now. */
export const RETRY_SECONDS = 5;

/** True for a failure that may be over soon: no answer, or a server that is not ready. */
export const isTemporary = (error) => error instanceof ApiError && TEMPORARY.has(error.status);

/** The next try of what failed: by `again`, which is for a button, or by itself where the failure may be over soon. */
class NextTry {
  constructor(signal) {
    this.signal = signal;
    this.resolve = () => undefined;
  }

  again = () => this.resolve("asked for");

  /** Returns "asked for", "by itself", or undefined once the signal aborts. */
  async after(error) {
    const ended = new AbortController();
    const how = await new Promise((resolve) => {
      this.resolve = resolve;
      this.signal?.addEventListener("abort", () => resolve(undefined), { once: true, signal: ended.signal });
      if (isTemporary(error)) every(RETRY_SECONDS, () => resolve("by itself"), ended.signal);
    });
    ended.abort();
    return how;
  }
}

/** Ask for something and show it in `place`: a skeleton after 200 ms, then what `show(found)` returns, or the failure.
 * One that may be over soon is tried again, quietly, until there is an answer.
 *
 * `work(signal)`: asks.  `what`: named while waiting, such as "2 brokers".  `fact`: of the failure.  Returns what was
 * found, or undefined where the user may not see it or leaves. */
export async function ask(place, work, show, { what = "the gateway", fact = "It was not loaded", signal }) {
  const next = new NextTry(signal);
  let failed = null; // its failure stays while it is tried again by itself
  for (;;) {
    const wait = failed ? null : loading(what);
    if (wait) fill(place, wait.element);
    try {
      const found = await work(signal);
      if (signal?.aborted) return undefined;
      fill(place, await show(found));
      return found;
    } catch (error) {
      if (signal?.aborted) return undefined;
      if (failed?.message !== error.message) fill(place, failure(fact, error, { again: next.again }));
      if (error instanceof ApiError && error.status === 403) return undefined;
      const how = await next.after(error);
      if (how === undefined) return undefined;
      failed = how === "by itself" ? error : null;
    } finally {
      wait?.stop();
    }
  }
}
