// RocketMQ clients with an open Telemetry stream to any gateway.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { duration, isUnknown, number } from "../format.js";
import { results } from "../parts/banner.js";
import { disconnectRocketMq } from "../parts/client_actions.js";
import { gatewayFilter, lackingRight, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";

const KINDS = ["producer", "push-consumer", "simple-consumer", "pull-consumer"];
const MOST_TOPICS = 3; // in one row

export async function show(place, parameters, signal) {
  const top = head("RocketMQ clients", { sub: ["as they describe themselves", lackingRight("Disconnecting")] });
  const told = results();
  place.append(top.element, told.element);
  const filters = [
    { name: "contains", label: "Client id contains" },
    { name: "kind", label: "Kind", type: "select", options: [["", "any"], ...KINDS.map((kind) => [kind, kind])] },
    { name: "group", label: "Group, whole name" },
    { name: "topic", label: "Topic, whole name" },
    { name: "user", label: "User, whole name" },
    ...(await gatewayFilter(place, signal)),
  ];
  const list = table({
    label: "RocketMQ clients",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => `${row.id}\n${row.gateway}\n${row.connectedSince}`,
    called: (row) => row.id,
    columns: COLUMNS,
    filters,
    load: ({ after, limit, filter, signal: asked }) => get("rocketmq/clients", { query: { after, limit, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT)
      ? [
          {
            label: (rows) => `Disconnect ${rows.length}`,
            isDanger: true,
            act: (rows) => disconnectRocketMq([...new Set(rows.map((row) => row.id))], told.tell),
          },
        ]
      : [],
    empty: {
      title: "No RocketMQ client is connected",
      text: "Each client is listed here while its Telemetry stream to any gateway is open.",
    },
  });
  place.append(panel("Clients", { unit: "in the order of their ids", flush: list.element }));
}

const COLUMNS = [
  { id: "id", label: "Client id", isHead: true, cell: (row) => h("span.brk", name(row.id)) },
  { id: "kind", label: "Kind", cell: (row) => nameOrNone(row.kind) },
  { id: "group", label: "Group", cell: (row) => nameOrNone(row.group) },
  { id: "topics", label: "Topics", optional: 1, cell: topicsOf },
  { id: "inFlight", label: "Holds", align: "n", optional: 1, cell: (row) => (isUnknown(row.inFlight) ? none() : number(row.inFlight)) },
  { id: "user", label: "User", optional: 2, cell: (row) => nameOrNone(row.user) },
  { id: "sdk", label: "SDK", optional: 2, cell: (row) => [nameOrNone(row.language), " ", row.version ? name(row.version) : ""] },
  {
    id: "from",
    label: "From",
    optional: 2,
    cell: (row) => [h("span.mono.xs", name(row.address)), row.hostname ? [" ", name(row.hostname)] : ""],
  },
  {
    id: "since",
    label: "Connected for",
    align: "n",
    optional: 2,
    cell: (row) => duration(isUnknown(row.connectedSince) ? null : Math.max(0, (Date.now() - Date.parse(row.connectedSince)) / 1000)),
  },
  { id: "gateway", label: "Gateway", optional: 1, cell: (row) => name(row.gateway) },
];

function topicsOf(row) {
  if (row.topics.length === 0) return none();
  const shown = row.topics
    .slice(0, MOST_TOPICS)
    .map((each, at) => [at > 0 && ", ", name(each.name), each.filter ? [" (", name(each.filter), ")"] : ""]);
  return [shown, row.topics.length > MOST_TOPICS ? ` and ${row.topics.length - MOST_TOPICS} more` : ""];
}
