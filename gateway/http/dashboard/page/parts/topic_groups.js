// The groups that read a topic, each with its lag there: in messages, in time, and by queue.

import { get } from "../api.js";
import { fill, h, name, s } from "../dom.js";
import { count, duration, isUnknown, number } from "../format.js";
import { link, path } from "../links.js";
import { every } from "../live.js";
import { PAGES } from "../menu.js";
import { ask, empty } from "./answers.js";
import { partial } from "./banner.js";
import { pathOf } from "./operations.js";
import { panel, scrolling } from "./panel.js";
import { state, unknown } from "./states.js";

const SECONDS = 10; // between refreshes: each row costs a question
const PAGE = 1000; // groups of one question
const MOST_PAGES = 10;
const MOST_GROUPS = 50; // whose lag is asked for
const AT_ONCE = 6;
const MOST_QUEUES = 256; // of one group
const STEPS = [0, 1, 10, 120]; // seconds: bounds of the shades

/** The panel of groups; `signal` of the page ends its refreshes. */
export function topicGroups(topic, signal) {
  const content = h("div");
  const load = (asked) => groupsOn(topic, asked);
  const draw = (found) => drawn(topic, found);
  ask(content, load, draw, { what: "the brokers", fact: "The groups were not loaded", signal });
  every(SECONDS, () => refresh(content, load, draw, signal), signal);
  const legend = s(
    "svg.heat",
    { viewBox: "0 0 128 18", "aria-hidden": "true" },
    [0, 1, 2, 3, 4].map((step) => s(`rect.k${step}`, { x: step * 26, width: 24, height: 18 })),
  );
  const words = h("span.apart", "Lag of a queue, in time:", legend, "0, under 1 s, under 10 s, under 2 min, more");
  return panel("Groups", {
    unit: "lag on this topic: messages, and the time since the oldest one was stored",
    flush: content,
    footer: words,
  });
}

async function refresh(content, load, draw, signal) {
  if (content.contains(document.activeElement) || content.matches(":hover")) return;
  try {
    const found = await load(signal);
    if (!signal.aborted && !content.contains(document.activeElement)) fill(content, draw(found));
  } catch (error) {
    // what is shown stays
  }
}

/** {groups: [{row, lag | error}], isCut, answered}: groups that have a place in the topic. */
async function groupsOn(topic, signal) {
  const found = [];
  let after = null;
  let answered = null;
  for (let page = 0; page < MOST_PAGES && found.length <= MOST_GROUPS; page += 1) {
    const answer = await get(pathOf("listGroups", { namespace: topic.namespace }), { query: { limit: PAGE, after }, signal });
    answered = worse(answered, answer.answered);
    found.push(...answer.value.filter((row) => mayRead(row, topic.name)));
    after = answer.next;
    if (!after) break;
  }
  const shown = found.slice(0, MOST_GROUPS);
  const lags = [];
  for (let at = 0; at < shown.length; at += AT_ONCE) {
    lags.push(...(await Promise.all(shown.slice(at, at + AT_ONCE).map((row) => lagOf(row, topic, signal)))));
  }
  const groups = lags.filter((each) => each.error || each.isUnknown || each.queues.length > 0);
  return { groups, isCut: Boolean(after) || found.length > shown.length, answered };
}

const worse = (one, other) => (one && one.asked - one.answered >= (other?.asked ?? 0) - (other?.answered ?? 0) ? one : other);

/** A row names the first of its topics only: more may be among those that it does not name. */
const mayRead = (row, topic) => row.topics === null || row.topics.includes(topic) || row.topicCount > row.topics.length;

async function lagOf(row, topic, signal) {
  try {
    const query = { topic: topic.name, limit: MOST_QUEUES };
    const found = await get(pathOf("getGroupLag", row), { query, signal });
    const isUnknownHere = found.lag === null;
    return {
      row,
      queues: found.value,
      lag: found.lag,
      inFlight: found.inFlight,
      isComplete: found.isComplete,
      isUnknown: isUnknownHere,
      isCut: Boolean(found.next),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { row, error };
  }
}

function drawn(topic, { groups, isCut, answered }) {
  const lacking = partial(answered, { what: "brokers", means: "Groups whose lag is there are shown as unknown." });
  if (groups.length === 0) {
    const text = "A group keeps its place in the topic. It begins when its first consumer asks for messages.";
    return h("div.pad.stack", lacking, empty("No group reads this topic", text));
  }
  const heads = [
    ["Group"],
    ["Lag, messages", "n"],
    ["Lag, time", "n"],
    ["In flight", "n opt"],
    ["Lag of its queues", "opt"],
    ["Filter", "opt opt2"],
  ];
  const head = h(
    "tr",
    heads.map(([label, classes = ""]) => h("th", { scope: "col", class: classes }, label)),
  );
  const table = h("table", h("thead", head), h("tbody", groups.map(line)));
  const cut = isCut && h("p.pad.s.q", `The first ${count(groups.length, "group")} are shown.`);
  return [lacking && h("div.pad", lacking), scrolling("Groups on the topic", table), cut];
}

function line({ row, queues, lag, inFlight, isComplete, isCut, error }) {
  const target = PAGES.some((each) => each.route === "groups/:name");
  const query = { namespace: row.namespace === "default" ? null : row.namespace };
  const title = h(
    "th.brk",
    { scope: "row" },
    target ? h("a", { href: link(path("groups", row.name), query) }, name(row.name)) : name(row.name),
  );
  if (error) return h("tr", title, h("td", { colspan: 5 }, state("unknown", error.message)));
  const atLeast = !isComplete || isCut;
  return h(
    "tr",
    title,
    h("td.n", number(lag, { atLeast: !isComplete })),
    h("td.n", slowest(queues, atLeast)),
    h("td.n.opt", number(inFlight, { atLeast: !isComplete })),
    h("td.opt", heat(queues), h("span.vh", inWords(queues))),
    h("td.opt.opt2.mono.xs", row.filter ? name(`${row.filter.kind}: ${row.filter.text}`) : h("span.q", "–")),
  );
}

/** The lag in time of the queue that is furthest behind. */
function slowest(queues, atLeast) {
  const known = queues.map((each) => each.lagSeconds).filter((each) => !isUnknown(each));
  if (known.length === 0) return unknown();
  const most = Math.max(...known);
  const isLess = atLeast || known.length < queues.length;
  return h("span", { class: most > STEPS[3] ? "bad-t" : "" }, isLess && "≥ ", duration(most));
}

const shade = (seconds) => (isUnknown(seconds) ? null : STEPS.filter((step) => seconds > step).length);

function heat(queues) {
  const width = 128 / queues.length;
  const bars = queues.map((each, at) => {
    const step = shade(each.lagSeconds);
    return s(step === null ? "rect.unknown" : `rect.k${step}`, { x: at * width, width: Math.max(width - 1.5, width * 0.7), height: 18 });
  });
  return s("svg.heat", { viewBox: "0 0 128 18", preserveAspectRatio: "none", "aria-hidden": "true" }, bars);
}

function inWords(queues) {
  const behind = queues.filter((each) => each.lag !== "0").length;
  return `${count(behind, "queue")} of ${queues.length} with a lag`;
}
