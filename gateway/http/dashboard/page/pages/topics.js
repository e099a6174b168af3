// Topics: which one is busy, what it holds, and how it is kept.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, count, duration, number, quantity } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { Rates } from "../parts/rates.js";
import { sparkline } from "../parts/sparkline.js";
import { state, unknown } from "../parts/states.js";
import { table } from "../parts/table.js";
import { newTopic } from "../parts/topic_form.js";

const SECONDS = 5; // between refreshes
const KINDS = [
  ["normal", "Topics of users"],
  ["all", "All kinds"],
  ["deadLetter", "Dead letters"],
  ["retry", "Retries"],
  ["queue", "AMQP queues"],
  ["subscription", "Webhooks"],
  ["system", "System"],
];
const KIND_WORDS = { deadLetter: "dead letters", retry: "retries", queue: "AMQP queue", subscription: "webhook", system: "system" };
const TYPES = [
  ["", "Any type"],
  ["NORMAL", "NORMAL"],
  ["PRIORITY", "PRIORITY"],
];

let deleted = null;

/** Tell on the next list that a topic was deleted. */
export const noteDeleted = (topic) => (deleted = topic);

export async function show(place, parameters, signal) {
  const told = results();
  const rates = new Rates(SECONDS);
  const create = () => newTopic({ namespace: list.filter().namespace, tell: told.tell, done: () => list.reload(), signal });
  const top = head("Topics", { acts: h("button.primary", { type: "button", onclick: create }, "Create a topic") });
  const list = topicList({ rates, top, create, signal });
  place.append(top.element, told.element, panel("List of topics", { unit: "sorted by the server, before paging", flush: list.element }));
  if (deleted !== null) told.tell("info", h("span", "The topic ", name(deleted), " was deleted."), "The audit has an entry.");
  deleted = null;
}

function topicList({ rates, top, create, signal }) {
  let filter = {};
  const load = async ({ after, limit, sort, filter: given, signal: asked }) => {
    filter = given;
    const { namespace, kind, ...others } = given;
    const query = { after, limit, sort, ...others, kind: kind === "all" ? "" : kind };
    const found = await get(pathOf("listTopics", { namespace }), { query, signal: asked });
    rates.take(found.value.map((row) => [keyOf(row), row.isComplete ? row.written : null]));
    top.sub([`${count(found.total, "topic")}${given.contains || given.type ? " fit the filter" : ""}`, kindWords(given.kind)]);
    return found;
  };
  const list = table({
    label: "Topics",
    signal,
    seconds: SECONDS,
    what: "the brokers",
    sort: "name",
    key: keyOf,
    load,
    columns: columnsWith(rates),
    filters: [
      { name: "contains", label: "Name contains" },
      NAMESPACE_FILTER,
      { name: "kind", label: "Kind", type: "select", value: "normal", options: KINDS },
      { name: "type", label: "Type", type: "select", options: TYPES },
    ],
    empty: {
      title: "No topics",
      text: "A topic keeps messages in order, for as long as its retention says. Publishing to a new name makes one, too.",
      action: { label: "Create a topic", act: create },
    },
  });
  return { ...list, filter: () => filter };
}

const keyOf = (row) => `${row.namespace}/${row.name}`;

const kindWords = (kind) => (kind === "all" ? null : `kind: ${KINDS.find(([each]) => each === kind)?.[1] ?? kind}`);

function columnsWith(rates) {
  return [
    { id: "name", label: "Topic", isHead: true, sort: "name", cell: topicCell },
    { id: "type", label: "Type", optional: 2, cell: (row) => h("span.xs.q2", KIND_WORDS[row.kind] ?? row.type) },
    { id: "queues", label: "Queues", align: "n", optional: 1, cell: (row) => queuesOf(row) },
    { id: "in", label: "In, msg/s", align: "n", cell: (row) => rateCell(row, rates) },
    { id: "line", label: "2 min", optional: 1, cell: (row) => lineCell(row, rates) },
    { id: "messages", label: "Messages", align: "n", sort: "messages", cell: (row) => number(row.messages, lower(row)) },
    { id: "written", label: "Ever written", align: "n", sort: "written", optional: 1, cell: (row) => number(row.written, lower(row)) },
    { id: "kept", label: "Kept for", optional: 2, cell: (row) => h("span.q2.nw", keptFor(row)) },
  ];
}

const lower = (row) => ({ atLeast: !row.isComplete });

function topicCell(row) {
  const query = { namespace: row.namespace === "default" ? null : row.namespace };
  const anchor = h("a", { href: link(path("topics", row.name), query) }, name(row.name));
  return row.isAvailable ? anchor : [anchor, " ", state("warn", "its broker gave no answer")];
}

function queuesOf(row) {
  const placed = row.placement && Object.values(row.placement).reduce((sum, each) => sum + each, 0);
  return number(placed ?? row.queues);
}

/** The first answer has no rate yet: the second one, a few seconds later, has. */
function rateCell(row, rates) {
  if (!row.isComplete) return unknown();
  const rate = rates.rate(keyOf(row));
  return rate === null ? h("span.q.xs", "counting") : quantity(rate);
}

function lineCell(row, rates) {
  const values = rates.line(keyOf(row));
  return values.length ? sparkline(values) : "";
}

/** How long messages stay, in short words. */
export function keptFor({ cleanup, retentionSeconds, retentionBytes, tierSeconds }) {
  if (cleanup === "COMPACT") return "last of each key";
  if (cleanup === "CONSUMED") return "until settled";
  const words = [
    retentionSeconds && duration(retentionSeconds),
    retentionBytes && bytes(retentionBytes),
    tierSeconds && `tier ${duration(tierSeconds)}`,
  ];
  const known = words.filter(Boolean);
  return known.length ? known.join(", ") : "as the broker says";
}
