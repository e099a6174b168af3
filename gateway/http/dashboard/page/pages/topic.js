// One topic: its messages, the groups on it, its queues and settings; a test message; its new messages live.

import { fill, h, name } from "../dom.js";
import { count, number, percent, quantity } from "../format.js";
import { link, path } from "../links.js";
import { every } from "../live.js";
import { ask } from "../parts/answers.js";
import { partial, results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { perform, same } from "../parts/operations.js";
import { keyNumbers, panel } from "../parts/panel.js";
import { Rates } from "../parts/rates.js";
import { sparkline } from "../parts/sparkline.js";
import { unknown } from "../parts/states.js";
import { tabs } from "../parts/tabs.js";
import { topicNow } from "../parts/topic_calls.js";
import { topicSettings } from "../parts/topic_form.js";
import { topicGroups } from "../parts/topic_groups.js";
import { topicMessages } from "../parts/topic_messages.js";
import { topicQueues } from "../parts/topic_queues.js";
import { tryOne } from "../parts/topic_try.js";
import { topicWatch } from "../parts/topic_watch.js";
import { overviewStream } from "../stream.js";
import { keptFor, noteDeleted } from "./topics.js";

const SECONDS = 5; // between refreshes
const TABS = [
  ["messages", "Messages"],
  ["groups", "Groups on it"],
  ["queues", "Queues"],
  ["settings", "Settings"],
  ["try", "Try one"],
  ["live", "Live"],
];

export async function show(place, { name: topic, query }, signal) {
  const namespace = query.get("namespace") || "default";
  const tab = TABS.some(([key]) => key === query.get("tab")) ? query.get("tab") : "messages";
  const above = [["Topics", link("topics", { namespace: namespace === "default" ? null : namespace })]];
  const top = head(topic, { shown: name(topic), crumbs: above });
  const told = results();
  const numbers = h("div.stack");
  const content = h("div.stack.wide-gaps");
  const ways = tabsOf(topic, namespace, tab);
  place.append(top.element, told.element, numbers, ways, content);
  ways.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  const rates = ratesOf(`${namespace}/${topic}`);
  const look = (asked) => topicNow(topic, namespace, asked);
  const drawTop = (found) => {
    rates.take([["in", found.isComplete ? found.written : null]]);
    top.sub(about(found));
    const lacking = partial(found.answered, { what: "brokers", means: "Sums marked ≥ leave it out." });
    fill(numbers, lacking, keyNumbers(numbersOf(found, rates)));
  };
  const draw = (found) => {
    top.acts(actionsOf(found, signal));
    drawTop(found);
    const again = async () => drawTop(await look(signal));
    return contentOf(tab, found, { query, tell: told.tell, again, signal });
  };
  const found = await ask(content, look, draw, { what: "the brokers", fact: "The topic was not loaded", signal });
  if (found) every(SECONDS, () => refresh(look, drawTop, signal), signal);
}

let last = null;

/** The rates of a topic, which go on from one tab to the next. */
function ratesOf(key) {
  if (last?.key !== key) last = { key, rates: new Rates(SECONDS) };
  return last.rates;
}

async function refresh(look, draw, signal) {
  try {
    const found = await look(signal);
    if (!signal.aborted) draw(found);
  } catch (error) {
    // what is shown stays; the bar tells that nothing answers
  }
}

function tabsOf(topic, namespace, current) {
  const own = namespace === "default" ? null : namespace;
  const items = TABS.map(([key, label]) => ({
    label,
    href: link(path("topics", topic), { tab: key === "messages" ? null : key, namespace: own }),
    isCurrent: key === current,
  }));
  return tabs("Parts of the topic", items);
}

function about(topic) {
  const many = (overviewStream.last?.brokers.length ?? 0) > 1 && !topic.placement;
  return [
    topic.kind && topic.kind !== "normal" ? `kind ${topic.kind}` : null,
    `${topic.type}, ${topic.permission}`,
    topic.placement ? placementWords(topic.placement) : `${count(topic.queues, "queue")}${many ? " on each broker" : ""}`,
    `kept ${keptFor(topic)}`,
    topic.maxBacklog ? `at most ${number(topic.maxBacklog)} behind` : null,
    topic.trace > 0 ? ["traces ", percent(topic.trace)] : null,
  ];
}

const placementWords = (placement) => [
  "queues: ",
  Object.entries(placement).map(([broker, queues], at) => [at > 0 && ", ", `${queues} on `, name(broker)]),
];

function numbersOf(topic, rates) {
  const rate = rates.rate("in");
  const line = rates.line("in");
  const lower = { atLeast: !topic.isComplete };
  const counting = topic.isComplete ? h("span.q.s", "counting") : unknown();
  return [
    {
      label: "In",
      value: rate === null ? counting : quantity(rate),
      unit: rate === null ? null : "msg/s",
      more: line.length ? sparkline(line) : null,
    },
    { label: "Messages", value: number(topic.messages, lower) },
    { label: "Ever written", value: number(topic.written, lower) },
  ];
}

function contentOf(tab, topic, { query, tell, again, signal }) {
  if (tab === "groups") return topicGroups(topic, signal);
  if (tab === "queues") return topicQueues(topic, signal);
  if (tab === "try") return tryOne(topic, tell, signal);
  if (tab === "live") return topicWatch(topic, signal);
  if (tab === "messages") return topicMessages(topic, query, signal);
  const place = h("div");
  const settings = (now) => {
    const done = (found) => {
      settings(found);
      place.querySelector("input, select")?.focus();
      return again();
    };
    fill(place, topicSettings(now, { tell, done, signal }));
  };
  settings(topic);
  return panel("Settings", { unit: "only what is changed is sent", body: place });
}

function actionsOf(topic, signal) {
  const { namespace } = topic;
  const own = namespace === "default" ? null : namespace;
  const remove = async () => {
    const done = await confirm({
      title: ["Delete the topic ", name(topic.name), "?"],
      loss: await lossOf(topic, signal),
      ...same("deleteTopic", topic, undefined, { isSure: true }),
      verb: "Delete topic",
      isDanger: true,
      typed: topic.name,
      run: () => perform("deleteTopic", topic),
    });
    if (!done) return;
    noteDeleted(topic.name);
    location.hash = link("topics", { namespace: own });
  };
  return [
    h("button.danger", { type: "button", onclick: remove }, "Delete"),
    h("a.btn.primary", { href: link(path("topics", topic.name), { tab: "try", namespace: own }) }, "Publish a test message"),
  ];
}

/** What is lost, as it is now; the numbers of the page may be older. */
async function lossOf(topic, signal) {
  const now = await topicNow(topic.name, topic.namespace, signal).catch(() => topic);
  const amount = [
    now.isComplete ? "" : "at least ",
    now.messages === null ? "an unknown number of messages" : count(now.messages, "message"),
  ];
  return ["It holds ", amount, ". They are lost, and every group loses its place in it. This cannot be undone."];
}
