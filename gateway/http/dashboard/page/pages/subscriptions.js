// Subscriptions of MQTT clients that are connected to any gateway.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { clientLink, gatewayFilter, mqttTabs, REFRESH_SECONDS } from "../parts/client_lists.js";
import { subscriptionOptions } from "../parts/client_panels.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { table } from "../parts/table.js";

export async function show(place, parameters, signal) {
  const top = head("MQTT subscriptions", { sub: ["of connected clients, as they wrote them"] });
  place.append(top.element, mqttTabs("subscriptions"));
  const filters = [
    { name: "client", label: "Client id, whole" },
    { name: "filter", label: "Topic filter, whole", hint: "factory/#" },
    ...(await gatewayFilter(place, signal)),
  ];
  const list = table({
    label: "Subscriptions",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => `${row.client}\n${row.filter}\n${row.gateway}`,
    columns: [
      { id: "client", label: "Client id", isHead: true, cell: (row) => clientLink(row.client) },
      { id: "filter", label: "Filter", cell: (row) => h("span.mono", name(row.filter)) },
      { id: "qos", label: "QoS", align: "n", cell: (row) => number(row.qos) },
      { id: "options", label: "Options", optional: 1, cell: subscriptionOptions },
      { id: "gateway", label: "Gateway", optional: 1, cell: (row) => name(row.gateway) },
    ],
    filters,
    load: ({ after, limit, filter, signal: asked }) => get("subscriptions", { query: { after, limit, ...filter }, signal: asked }),
    empty: {
      title: "No connected client subscribes",
      text: "Subscriptions of connected clients are listed here. Those of sessions that are away are on the page of their client.",
    },
  });
  place.append(panel("Subscriptions", { unit: "by client and filter", flush: list.element }));
}
