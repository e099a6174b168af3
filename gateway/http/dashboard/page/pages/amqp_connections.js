// AMQP connections to all gateways.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { duration, number } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { closeAmqp } from "../parts/client_actions.js";
import { gatewayFilter, lackingRight, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";

export async function show(place, parameters, signal) {
  const top = head("AMQP connections", { sub: [lackingRight("Closing")] });
  const told = results();
  place.append(top.element, told.element);
  const close = (rows) => {
    const channels = rows.reduce((sum, row) => sum + row.channels, 0);
    return closeAmqp(
      rows.map((row) => row.name),
      `${number(channels)} ${channels === 1 ? "channel ends" : "channels end"}.`,
      told.tell,
    );
  };
  const filters = [
    { name: "contains", label: "Name contains", hint: "client's address" },
    { name: "vhost", label: "Virtual host, whole name" },
    { name: "user", label: "User, whole name" },
    ...(await gatewayFilter(place, signal)),
  ];
  const list = table({
    label: "AMQP connections",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => row.name,
    columns: COLUMNS,
    filters,
    load: ({ after, limit, filter, signal: asked }) => get("amqp/connections", { query: { after, limit, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT) ? [{ label: (rows) => `Close ${rows.length}`, isDanger: true, act: close }] : [],
    empty: { title: "No AMQP connection is open", text: "Each connection to any gateway is listed here while it is open." },
  });
  place.append(panel("Connections", { unit: "in the order of their names", flush: list.element }));
}

const COLUMNS = [
  {
    id: "name",
    label: "Connection",
    isHead: true,
    cell: (row) => h("a.mono.xs", { href: link(path("amqp-connections", row.name)) }, name(row.name)),
  },
  { id: "called", label: "Calls itself", optional: 1, cell: (row) => nameOrNone(row.user_provided_name || null) },
  { id: "user", label: "User", cell: (row) => nameOrNone(row.user || null) },
  { id: "vhost", label: "Virtual host", optional: 1, cell: (row) => name(row.vhost) },
  { id: "channels", label: "Channels", align: "n", cell: (row) => number(row.channels) },
  { id: "tls", label: "TLS", optional: 2, cell: (row) => (row.ssl ? "yes" : "no") },
  { id: "since", label: "Open for", align: "n", optional: 2, cell: (row) => duration(Math.max(0, (Date.now() - row.connected_at) / 1000)) },
  { id: "gateway", label: "Gateway", optional: 1, cell: (row) => name(row.gateway) },
];
