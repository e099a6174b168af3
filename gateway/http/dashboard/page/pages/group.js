// A group: how far behind in each queue, who consumes from where, its settings, and what can be done about it.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { duration, fullTime, isUnknown, number } from "../format.js";
import { link } from "../links.js";
import { ask } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { changeGroup, deleteGroups, retryWords } from "../parts/group_actions.js";
import { resetGroup } from "../parts/group_reset.js";
import { head } from "../parts/head.js";
import { pathOf } from "../parts/operations.js";
import { facts, keyNumbers, panel } from "../parts/panel.js";
import { lettersAddress, namespaceQuery, topicLink } from "../parts/place_links.js";
import { door, none, state, unknown } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 5;
const LAG_CRITICAL_SECONDS = 900;
const LAG_SECONDS = 120;
const DOORS = { member: "whole queues", webhook: "webhook", websocket: "WebSocket" };

export async function show(place, { name: group, query }, signal) {
  const namespace = query.get("namespace") ?? "";
  const told = results();
  const top = head(group, {
    shown: name(group),
    crumbs: [["Groups", link("groups", namespaceQuery(namespace))]],
    sub: ["group", namespace ? ["namespace ", name(namespace)] : null],
  });
  const now = h("div.stack");
  const settings = h("div.stack");
  place.append(top.element, told.element, now, settings);
  const load = () =>
    ask(settings, (asked) => definitionOf(group, namespace, asked), draw, {
      what: "all brokers",
      fact: "The group was not loaded",
      signal,
    });
  let sums = { lag: null, isComplete: false };
  const draw = (definition) => {
    top.acts(buttons(definition, told, load, lists, () => sums));
    return settingsPanel(definition);
  };
  const lists = [];
  const found = await load();
  if (signal.aborted || !found) return;
  lists.push(
    lagList(group, namespace, (page) => fill(now, keyFigures((sums = page))), signal),
    consumerList(group, namespace, signal),
  );
  settings.before(panel("Lag by queue", { unit: "messages not settled yet", flush: lists[0].element }));
  settings.before(panel("Consumers", { unit: "of every door and gateway", flush: lists[1].element }));
}

/** The definition of a group, from a page of one row, which comes without its broker, too.  What is not in the page is
 * refused by the server, with the reason. */
async function definitionOf(group, namespace, signal) {
  const { value } = await get(pathOf("listGroups", { namespace }), { query: { prefix: group, limit: 1 }, signal });
  return value[0]?.name === group ? value[0] : get(pathOf("getGroup", { name: group, namespace }), { signal });
}

function buttons(definition, told, load, lists, sums) {
  const { name: group, namespace } = definition;
  const again = async (result, fact) => {
    if (!result) return;
    told.tell("info", fact, "The audit has an entry.");
    await Promise.all([load(), ...lists.map((list) => list.reload())]);
  };
  const change = async () => again(await changeGroup(definition), ["The settings of ", name(group), " were changed."]);
  const reset = async () => {
    const result = await resetGroup(group, namespace, await progressOf(group, namespace, told));
    if (result) await again(result, [name(group), " goes on at ", String(result.done.to), " in ", name(result.done.topic), "."]);
  };
  const remove = async () => {
    const { lag, isComplete } = sums();
    if (await deleteGroups([{ name: group, namespace, lag, isComplete }], told)) location.hash = link("groups", namespaceQuery(namespace));
  };
  const button = (label, act, isDanger = false) => h("button", { type: "button", class: isDanger ? "danger" : "", onclick: act }, label);
  const letters = h("a.btn", { href: lettersAddress(group, namespace) }, "Dead letters");
  return [letters, button("Change settings", change), button("Reset offsets", reset), button("Delete", remove, true)];
}

/** Where the group is in every queue; none where it is not told, which the result's place says. */
async function progressOf(group, namespace, told) {
  try {
    return (await get(pathOf("getGroup", { name: group, namespace }))).progress;
  } catch (error) {
    told.tell("warn", "Where the group is now is not known.", error.message);
    return [];
  }
}

function settingsPanel(group) {
  const filter = group.filter ? [group.filter.kind, ": ", name(group.filter.text)] : none();
  return panel("Settings", {
    body: facts([
      ["Attempts", number(group.maxAttempts)],
      ["Retries", retryWords(group.retry)],
      ["Invisible", duration(group.invisibleSeconds)],
      ["Start", group.start],
      ["Most in flight", isUnknown(group.maxInFlight) ? "no limit of its own" : number(group.maxInFlight)],
      ["Order", group.fifo ? "in order in each message group" : "none"],
      ["Filter", filter],
      ["Namespace", name(group.namespace)],
    ]),
  });
}

function keyFigures({ lag, inFlight, isComplete, value, next }) {
  const atLeast = !isComplete && lag !== null;
  const ages = value.filter((row) => row.lag !== "0").map((row) => row.lagSeconds);
  const known = ages.filter((seconds) => seconds !== null);
  const oldest = ages.length === 0 ? (lag === "0" && isComplete ? 0 : null) : known.length ? Math.max(...known) : null;
  const isPart = oldest !== null && (next !== null || known.length < ages.length || !isComplete);
  const kind = oldest >= LAG_CRITICAL_SECONDS ? "bad" : oldest >= LAG_SECONDS ? "warn" : "";
  return keyNumbers([
    { label: "Lag", value: number(lag, { atLeast }), unit: "messages" },
    {
      label: "Oldest of them",
      value: [isPart && "≥ ", duration(oldest)],
      kind,
      more: next === null ? "since it was stored" : "of the queues shown",
    },
    { label: "In flight", value: number(inFlight, { atLeast }), unit: "messages", more: "delivered, not settled" },
  ]);
}

function lagList(group, namespace, told, signal) {
  return table({
    label: "Queues",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all brokers",
    key: (row) => `${row.topic} ${row.queueId}`,
    filters: [
      {
        name: "lagging",
        label: "Queues",
        type: "select",
        options: [
          ["", "all"],
          ["true", "with a lag"],
        ],
      },
    ],
    columns: [
      { id: "topic", label: "Topic", isHead: true, cell: (row) => topicLink(row.topic, namespace) },
      { id: "queue", label: "Queue", align: "n", cell: (row) => row.queueId },
      { id: "committed", label: "Committed", align: "n", optional: 1, cell: (row) => number(row.committedOffset) },
      { id: "end", label: "End", align: "n", optional: 1, cell: (row) => number(row.maxOffset) },
      { id: "inFlight", label: "In flight", align: "n", optional: 1, cell: (row) => number(row.inFlight) },
      { id: "lag", label: "Lag, messages", align: "n", cell: (row) => number(row.lag) },
      { id: "seconds", label: "Lag, time", align: "n", cell: ageOf },
    ],
    load: async ({ after, limit, filter, signal: asked }) => {
      const page = await get(pathOf("getGroupLag", { name: group, namespace }), { query: { after, limit, ...filter }, signal: asked });
      told(page);
      return page;
    },
    empty: { title: "It has read no queue yet", text: "Queues come here when its first consumer reads them." },
  });
}

function ageOf({ lagSeconds, oldestTime }) {
  if (isUnknown(lagSeconds)) return unknown();
  return h(
    "span",
    { title: oldestTime && `the oldest is of ${fullTime(oldestTime)}`, class: lagSeconds >= LAG_SECONDS ? "warn-t" : "" },
    duration(lagSeconds),
  );
}

function consumerList(group, namespace, signal) {
  const list = table({
    label: "Consumers",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    inAddress: false,
    key: (row) => [row.gateway, row.door, row.client, row.detail, row.topics].join(" "),
    columns: [
      { id: "client", label: "Consumer", isHead: true, cell: (row) => h("span.brk", name(row.client)) },
      { id: "door", label: "Door", cell: (row) => door(row.door, DOORS[row.door]) },
      { id: "user", label: "User", optional: 1, cell: (row) => (row.user ? name(row.user) : none()) },
      { id: "address", label: "From", optional: 1, cell: (row) => (row.address ? h("span.mono.xs", name(row.address)) : none()) },
      { id: "reads", label: "Reads", optional: 1, cell: readsOf },
      { id: "held", label: "Holds", align: "n", cell: (row) => (isUnknown(row.held) ? none() : number(row.held)) },
      { id: "gateway", label: "Gateway", optional: 1, cell: (row) => (row.gateway ? name(row.gateway) : none()) },
    ],
    load: async ({ signal: asked }) => {
      const page = await get(pathOf("listGroupConsumers", { name: group, namespace }), { signal: asked });
      cut.hidden = !page.isCut;
      return { ...page, next: null };
    },
    empty: { title: "Nobody consumes now", text: "Messages wait for the group until a consumer connects." },
  });
  const cut = h("p.pad", { hidden: true }, state("warn", "A gateway has more consumers than it tells: the list is not whole."));
  return { ...list, element: h("div", list.element, cut) };
}

function readsOf({ topics, queues, detail }) {
  const named = topics.map((topic, at) => [at > 0 && ", ", name(topic)]);
  return [named, queues && ` queues ${queues.join(", ")}`, detail && h("span.q.xs.brk", " ", name(detail))];
}
