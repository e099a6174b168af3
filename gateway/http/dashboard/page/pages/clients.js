// MQTT clients that are connected to any gateway.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { duration, isUnknown, number } from "../format.js";
import { results } from "../parts/banner.js";
import { disconnectMqtt } from "../parts/client_actions.js";
import { clientLink, gatewayFilter, lackingRight, mqttTabs, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";
import { overviewStream } from "../stream.js";

export async function show(place, parameters, signal) {
  const top = head("MQTT clients");
  const told = results();
  place.append(top.element, mqttTabs("clients"), told.element);
  overviewStream.watch((overview) => overview && top.sub([amount(overview), lackingRight("Disconnecting")]), signal);
  const filters = [
    { name: "contains", label: "Client id contains" },
    { name: "user", label: "User, whole name" },
    ...(await gatewayFilter(place, signal)),
  ];
  const list = table({
    label: "MQTT clients",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => `${row.id}\n${row.gateway}`,
    called: (row) => row.id,
    columns: COLUMNS,
    filters,
    load: ({ after, limit, filter, signal: asked }) => get("clients", { query: { after, limit, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT)
      ? [
          {
            label: (rows) => `Disconnect ${rows.length}`,
            isDanger: true,
            act: (rows) => disconnectMqtt([...new Set(rows.map((row) => row.id))], told.tell),
          },
        ]
      : [],
    empty: {
      title: "No MQTT client is connected",
      text: "Each client of any gateway is listed here while it is connected. Sessions of clients that are away are in the next list.",
    },
  });
  place.append(panel("Connected", { unit: "in the order of their ids", flush: list.element }));
}

const COLUMNS = [
  { id: "id", label: "Client id", isHead: true, cell: (row) => clientLink(row.id) },
  { id: "user", label: "User", optional: 1, cell: (row) => nameOrNone(row.user) },
  { id: "gateway", label: "Gateway", cell: (row) => name(row.gateway) },
  { id: "address", label: "From", optional: 2, cell: (row) => h("span.mono.xs", name(row.address)) },
  { id: "version", label: "MQTT", align: "n", optional: 2, cell: (row) => row.version },
  { id: "since", label: "Connected for", align: "n", optional: 1, cell: (row) => age(row.connectedSince) },
  { id: "subscriptions", label: "Subscriptions", align: "n", optional: 1, cell: (row) => number(row.subscriptions) },
  { id: "inFlight", label: "In flight", align: "n", optional: 1, cell: (row) => number(row.inFlight) },
  { id: "queued", label: "Waits", align: "n", cell: (row) => number(row.queued) },
  { id: "lagging", label: "Queues behind", align: "n", optional: 2, cell: (row) => warned(row.lagging) },
  { id: "dropped", label: "Dropped", align: "n", optional: 1, cell: (row) => warned(row.dropped) },
  { id: "refused", label: "Refused", align: "n", optional: 2, cell: (row) => warned(row.refused) },
];

const age = (since) => (isUnknown(since) ? duration(null) : duration(Math.max(0, (Date.now() - Date.parse(since)) / 1000)));

const warned = (value) => (value > 0 ? h("span.warn-t", number(value)) : number(value));

function amount(overview) {
  const mqtt = overview.doors.find((each) => each.door === "mqtt");
  const atLeast = overview.answered.answered < overview.answered.asked;
  return h("span", number(mqtt?.connections, { atLeast }), " connections to all gateways");
}
