// The queues of a topic: their offsets, their share of what is written, and a way into each.

import { get } from "../api.js";
import { h, s } from "../dom.js";
import { number, quantity } from "../format.js";
import { link, path } from "../links.js";
import { pathOf } from "./operations.js";
import { panel } from "./panel.js";
import { Rates } from "./rates.js";
import { table } from "./table.js";

const SECONDS = 5; // between refreshes
const ORDERS = {
  queue: (row) => BigInt(row.queueId),
  messages: (row) => row.messages,
  to: (row) => BigInt(row.maxOffset),
};

/** The panel of a topic's queues. */
export function topicQueues(topic, signal) {
  const rates = new Rates(SECONDS);
  const load = async ({ after, limit, sort, signal: asked }) => {
    const found = await get(pathOf("getTopic", topic), { signal: asked });
    rates.take(found.offsets.map((each) => [each.queueId, each.maxOffset]));
    return page(found, after, limit, sort);
  };
  const list = table({
    label: "Queues",
    signal,
    seconds: SECONDS,
    what: "the brokers",
    sort: "queue",
    inAddress: false,
    limit: 100,
    key: (row) => String(row.queueId),
    load,
    columns: [
      { id: "queue", label: "Queue", isHead: true, sort: "queue", cell: (row) => row.queueId },
      { id: "from", label: "From offset", align: "n", optional: 1, cell: (row) => number(row.minOffset) },
      { id: "to", label: "To offset", align: "n", sort: "to", cell: (row) => number(row.maxOffset) },
      { id: "messages", label: "Messages", align: "n", sort: "messages", cell: (row) => number(row.messages) },
      { id: "in", label: "In, msg/s", align: "n", optional: 1, cell: (row) => rateOf(rates, row) },
      { id: "share", label: "Beside the longest", optional: 1, cell: (row) => bar(row) },
      { id: "look", label: "", align: "n", cell: (row) => h("a.s", { href: lookAt(topic, row) }, "Look") },
    ],
  });
  return panel("Queues", { flush: list.element });
}

function rateOf(rates, row) {
  const rate = rates.rate(row.queueId);
  return rate === null ? h("span.q.xs", "counting") : quantity(rate);
}

function lookAt({ name, namespace }, row) {
  return link(path("topics", name), { by: "offset", queue: row.queueId, namespace: namespace === "default" ? null : namespace });
}

function bar({ share }) {
  const track = s("rect.track", { y: 2, width: 100, height: 6 });
  return s(
    "svg.bar.log",
    { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    track,
    s("rect.fill", { y: 2, width: share * 100, height: 6 }),
  );
}

/** One page of the queues in an order: all of them are here already. */
function page(topic, after, limit, sort) {
  const all = topic.offsets.map((each) => ({ ...each, messages: BigInt(each.maxOffset) - BigInt(each.minOffset) }));
  const most = all.reduce((one, each) => (each.messages > one ? each.messages : one), 1n);
  for (const each of all) each.share = Number((each.messages * 1000n) / most) / 1000;
  const by = ORDERS[sort.replace("-", "")];
  const sign = sort.startsWith("-") ? -1 : 1;
  all.sort((one, other) => (by(one) < by(other) ? -sign : by(one) > by(other) ? sign : one.queueId - other.queueId));
  const from = Number(after ?? 0);
  return { value: all.slice(from, from + limit), next: from + limit < all.length ? String(from + limit) : null };
}
