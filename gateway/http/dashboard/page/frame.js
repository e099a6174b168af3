// The frame of all pages: bar, menu, notices, and the place of the page.

import { fill, h, name, s } from "./dom.js";
import { clock, number } from "./format.js";
import { link, path } from "./links.js";
import { PAGES, SECTIONS } from "./menu.js";
import { banner } from "./parts/banner.js";
import { state } from "./parts/states.js";
import { onNavigate, startRouter } from "./router.js";
import { logOut, may, session } from "./session.js";
import { overviewStream } from "./stream.js";
import { hasKeys, keyChoice, themeChoice } from "./choices.js";

const SECOND = 1000;

/** The mark of the product. */
export function mark() {
  return s(
    "svg.mark",
    { viewBox: "0 0 22 22", "aria-hidden": "true" },
    s("path.roof", { d: "M2 9 11 2l9 7" }),
    ["M4 11h2.6v9H4z", "M7.8 11h2.6v9H7.8z", "M11.6 11h2.6v9h-2.6z", "M15.4 11H18v9h-2.6z"].map((d, at) => s(`path.d${at + 1}`, { d })),
  );
}

/** Show the frame, and the page of the address in it.  `logIn()`: asks who it is, where the gateway is open. */
export function showFrame(logIn) {
  const main = h("main.main", { id: "main", tabindex: "-1" });
  const notices = h("div.notices", { "data-kind": "" });
  const place = h("div.place");
  main.append(hatch(), notices, place);
  const bar = topBar();
  const menu = sideMenu(logIn);
  document.body.className = "app";
  fill(document.body, bar.element, menu.element, main);
  onNavigate(menu.mark);
  const update = (data, stream) => {
    bar.update(stream);
    menu.update(stream.last);
    showNotices(notices, stream);
  };
  overviewStream.watch(update);
  setInterval(() => update(null, overviewStream), SECOND);
  addKeys(bar);
  startRouter(place);
}

/** The pattern of what is not known, for every drawing of the page. */
function hatch() {
  const pattern = s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("path.hatch", { d: "M0 0v6" }));
  return s("svg", { width: 0, height: 0, "aria-hidden": "true" }, s("defs", pattern));
}

function topBar() {
  const input = h("input", { id: "find", name: "find", type: "search", placeholder: "Message id, key, topic, group or client", autocomplete: "off", spellcheck: "false" });
  const find = h("form.find", { role: "search", onsubmit: (event) => goTo(event, input) }, h("label.vh", { for: "find" }, "Find a message, topic, group or client"), input, h("kbd", { "aria-hidden": "true" }, "/"));
  const answered = h("a.nw.ans", { href: link("cluster"), hidden: true });
  const time = h("span.clock.q");
  const pause = h("button.small.pause", { type: "button", "aria-pressed": "false", title: "Stop live updates (p)", onclick: () => overviewStream.pause(!overviewStream.isPaused) }, "Pause");
  const skip = h("a.skip", { href: "#main", onclick: toMain }, "Skip to content");
  const element = h(
    "header.top",
    skip,
    h("a.brand", { href: link("overview") }, mark(), "Entrepôt"),
    hasFinder() && find,
    h("div.right", answered, time, pause),
    h("button.nav-btn", { type: "button", popovertarget: "nav" }, "Menu"),
  );
  const update = (stream) => {
    answered.hidden = !stream.last?.answered; // a link without words has no name
    fill(answered, answeredWords(stream.last?.answered));
    fill(time, clockWords(stream));
    pause.setAttribute("aria-pressed", String(stream.isPaused));
    if (pause.textContent !== (stream.isPaused ? "Go on" : "Pause")) fill(pause, stream.isPaused ? "Go on" : "Pause");
  };
  return { element, input, pause, update };
}

/** Nothing can be found while no page says that it finds. */
const hasFinder = () => PAGES.some((entry) => entry.finds);

function goTo(event, input) {
  event.preventDefault();
  if (input.value.trim()) location.hash = link(path("find", input.value.trim()));
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function answeredWords(answered) {
  if (!answered) return null;
  const isWhole = answered.answered === answered.asked;
  const words = h("span", isWhole ? `${answered.asked} of ${answered.asked}` : `${answered.answered} of ${answered.asked}`, answered.asked === 1 ? " gateway" : " gateways", h("span.opt", " answered"));
  return state(isWhole ? "ok" : "warn", words);
}

function clockWords(stream) {
  if (stream.state === "paused") return stream.lastAt ? `paused · of ${clock(stream.lastAt)} UTC` : "paused";
  if (stream.state === "refused") return "no live numbers";
  if (stream.lastAt === null) return "asking";
  const age = Math.round((Date.now() - stream.lastAt) / SECOND);
  return stream.state === "live" && age < 6 ? `live · ${clock(stream.lastAt)} UTC` : `last answer ${number(age)} s ago`;
}

function sideMenu(logIn) {
  const links = new Map();
  const counts = new Map();
  const sections = SECTIONS.map((section) => {
    const entries = PAGES.filter((entry) => entry.section === section && may(entry.right));
    if (entries.length === 0) return null;
    const items = entries.map((entry) => {
      const count = h("span.q.xs");
      const anchor = h("a", { href: link(entry.route), onclick: () => document.getElementById("nav").hidePopover?.() }, entry.label, count);
      links.set(entry.route, anchor);
      counts.set(entry, count);
      return h("li", anchor);
    });
    return h("section", h("h2", section), h("ul", items));
  });
  const element = h("nav.nav", { id: "nav", popover: "auto", "aria-label": "Pages" }, h("button.nav-close", { type: "button", popovertarget: "nav", popovertargetaction: "hide" }, "Close"), sections, foot(logIn));
  return {
    element,
    mark: (entry) => {
      for (const [route, anchor] of links) {
        if (entry && route === (entry.under ?? entry.route)) anchor.setAttribute("aria-current", "page");
        else anchor.removeAttribute("aria-current");
      }
    },
    update: (overview) => {
      if (!overview) return;
      for (const [entry, element] of counts) {
        const found = entry.count?.(overview);
        const words = found === undefined || found === null ? "" : typeof found === "number" ? number(found) : found;
        if (element.textContent !== String(words)) fill(element, words);
      }
    },
  };
}

function foot(logIn) {
  const { user, isSuper, isAnonymous, cluster, version, gateway } = session();
  const leave = async () => {
    await logOut().catch(() => {}); // the cookie is gone, whatever the others could be told
    location.reload();
  };
  const who = isAnonymous ? h("span", "This gateway is open to all · ", h("button.plain", { type: "button", onclick: logIn }, "Log in")) : h("span", name(user), isSuper ? ", super user" : "", " · ", h("button.plain", { type: "button", onclick: leave }, "Log out"));
  return h("div.foot", themeChoice(), keyChoice(), h("p", who), h("p", name(cluster), " · ", version, " on ", name(gateway)));
}

let logInAgain = null;

/** Say above the page that the login is over, with a button that calls `again()`; null takes it away. */
export function tellLoginOver(again) {
  logInAgain = again;
}

/** What is to be said above every page now: {kind, look, fact, text, action}; null where nothing is. */
function noticeOf(stream) {
  const seen = stream.lastAt ? `What you see is of ${clock(stream.lastAt)}.` : "";
  if (logInAgain) return { kind: "over", look: "bad", fact: "Your login is over.", text: "What you typed stays on this page.", action: { label: "Log in again", act: logInAgain } };
  if (stream.state === "paused") return { kind: "paused", look: "info", fact: "Updates are paused.", text: seen, action: { label: "Go on", act: () => stream.pause(false) } };
  if (stream.state !== "lost") return null;
  const wait = Math.max(0, Math.ceil(((stream.retryAt ?? 0) - Date.now()) / SECOND));
  const text = `Trying again ${wait ? `in ${wait} s` : "now"}. ${seen}`.trim();
  return { kind: "lost", look: "warn", fact: "The connection is lost.", text, action: { label: "Try now", act: () => stream.retry() } };
}

function showNotices(notices, stream) {
  const notice = noticeOf(stream);
  const says = notices.querySelector(".says");
  if (notices.dataset.kind === (notice?.kind ?? "")) {
    if (says && notice) fill(says, ` ${notice.text}`);
    return;
  }
  notices.dataset.kind = notice?.kind ?? "";
  fill(notices, notice && banner(notice.look, notice.fact, h("span.says", ` ${notice.text}`), notice.action));
}

function addKeys(bar) {
  document.addEventListener("keydown", (event) => {
    if (!hasKeys() || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key === "/" && bar.input.isConnected) {
      event.preventDefault();
      bar.input.focus();
    } else if (event.key === "p") bar.pause.click();
  });
}

const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(input|textarea|select)$/.test(target.localName));
