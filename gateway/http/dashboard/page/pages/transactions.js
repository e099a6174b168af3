// Transactions: half messages that wait for the commit of their producer.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, duration, fullTime, number, time } from "../format.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { topicLink } from "../parts/place_links.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 5;

export async function show(place, parameters, signal) {
  const top = head("Transactions", { sub: ["half messages of RocketMQ", "the oldest first", "times in UTC"] });
  const list = table({
    label: "Half messages",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all brokers",
    key: (row) => `${row.transactionId} ${row.id}`,
    columns: [
      { id: "transaction", label: "Transaction", isHead: true, cell: (row) => h("span.mono.xs.brk", name(row.transactionId)) },
      { id: "topic", label: "Topic", cell: (row) => topicLink(row.topic, row.namespace) },
      { id: "age", label: "Waits for", align: "n", cell: (row) => h("span", { title: fullTime(row.storeTime) }, duration(row.ageSeconds)) },
      { id: "checks", label: "Checks", align: "n", optional: 1, cell: (row) => number(row.checks) },
      {
        id: "next",
        label: "Next check",
        optional: 1,
        cell: (row) => h("span.nw", { title: fullTime(row.nextCheckAt) }, time(row.nextCheckAt)),
      },
      { id: "producer", label: "Producer", optional: 1, cell: (row) => (row.producer ? h("span.brk", name(row.producer)) : none()) },
      { id: "message", label: "Message", optional: 2, cell: (row) => h("span.mono.xs", name(row.id)) },
      { id: "size", label: "Size", align: "n", optional: 1, cell: (row) => bytes(row.size) },
    ],
    filters: [{ name: "topic", label: "Topic, whole name" }, NAMESPACE_FILTER],
    load: ({ after, limit, filter, signal: asked }) =>
      get(pathOf("listTransactions", filter), { query: { cursor: after, limit, topic: filter.topic }, signal: asked }),
    empty: { title: "No half messages", text: "A transactional message waits here until its producer commits or rolls back." },
  });
  const note = "The server asks the producer again at each check. No group sees them before the commit.";
  place.append(top.element, panel("Waiting for their end", { flush: list.element, footer: note }));
}
