// Groups: who reads what, and how far behind.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { results } from "../parts/banner.js";
import { createGroup, deleteGroups } from "../parts/group_actions.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { groupAddress, groupLink, topicLink } from "../parts/place_links.js";
import { chip, none, state, unknown } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 5;
const MOST_TOPICS = 3; // named in a row
const KINDS = [
  ["", "all"],
  ["normal", "of clients"],
  ["queue", "of AMQP queues"],
  ["subscription", "of webhooks"],
  ["shared", "of MQTT shares"],
];
const KIND_WORDS = { queue: "AMQP queue", subscription: "webhook", shared: "MQTT share" };

export async function show(place, parameters, signal) {
  const told = results();
  let namespace = "";
  const create = async () => {
    const made = await createGroup(namespace);
    if (!made) return;
    const { group, namespace: its } = made.done;
    told.tell("info", ["The group ", name(group), " was created."], "The audit has an entry.", {
      label: "Show it",
      href: groupAddress(group, its),
    });
    await list.reload();
  };
  const top = head("Groups", { acts: h("button.primary", { type: "button", onclick: create }, "Create a group") });
  const list = table({
    label: "Groups",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all brokers",
    key: (row) => row.name,
    sort: "name",
    columns: columns(),
    filters: [
      { name: "contains", label: "Name contains" },
      { name: "kind", label: "Kind", type: "select", options: KINDS },
      NAMESPACE_FILTER,
    ],
    load: async ({ after, limit, sort, filter, signal: asked }) => {
      const { namespace: chosen, ...rest } = filter;
      namespace = chosen;
      const page = await get(pathOf("listGroups", { namespace: chosen }), { query: { after, limit, sort, ...rest }, signal: asked });
      top.sub([`${count(page.total, "group")} that you may see`]);
      return page;
    },
    actions: [{ label: (rows) => `Delete ${rows.length}`, isDanger: true, act: (rows) => deleteGroups(rows, told) }],
    empty: {
      title: "No groups",
      text: "A group reads topics for its consumers, and remembers how far they are.",
      action: { label: "Create a group", act: create },
    },
  });
  place.append(top.element, told.element, panel("Groups", { unit: "lag: messages not settled yet", flush: list.element }));
}

function columns() {
  return [
    {
      id: "name",
      label: "Group",
      isHead: true,
      sort: "name",
      cell: (row) => [groupLink(row.name, row.namespace), row.kind in KIND_WORDS ? [" ", chip(KIND_WORDS[row.kind])] : null],
    },
    { id: "topics", label: "Reads", optional: 1, cell: topicsOf },
    { id: "attempts", label: "Attempts", align: "n", optional: 2, cell: (row) => number(row.maxAttempts) },
    { id: "inFlight", label: "In flight", align: "n", sort: "inFlight", optional: 1, cell: (row) => figure(row, row.inFlight) },
    { id: "lag", label: "Lag, messages", align: "n", sort: "lag", cell: (row) => figure(row, row.lag) },
    { id: "state", label: "State", optional: 1, cell: stateOf },
  ];
}

const figure = (row, value) => number(value, { atLeast: row.isAvailable && !row.isComplete });

function topicsOf({ topics, topicCount, namespace }) {
  if (topics === null) return unknown();
  if (topics.length === 0) return none();
  const shown = topics.slice(0, MOST_TOPICS).map((topic, at) => [at > 0 && ", ", topicLink(topic, namespace)]);
  return [shown, topicCount > MOST_TOPICS && ` and ${topicCount - MOST_TOPICS} more`];
}

function stateOf(row) {
  if (!row.isAvailable) return state("unknown", "no broker tells");
  if (!row.isComplete) return state("warn", "a broker is silent");
  return state(row.lag === "0" ? "idle" : "ok", row.lag === "0" ? "nothing waits" : "reads");
}
