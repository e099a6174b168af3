// MQTT clients that get messages too slowly, the slowest first.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { results } from "../parts/banner.js";
import { disconnectMqtt } from "../parts/client_actions.js";
import { clientLink, gatewayFilter, lackingRight, mqttTabs, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";

const MOST = 100; // clients

export async function show(place, parameters, signal) {
  const top = head("Slow MQTT subscribers", {
    sub: ["by messages behind in the log, then in memory, then dropped", lackingRight("Disconnecting")],
  });
  const told = results();
  place.append(top.element, mqttTabs("slow-subscribers"), told.element);
  const list = table({
    label: "Slow subscribers",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => `${row.id}\n${row.gateway}`,
    called: (row) => row.id,
    columns: [
      { id: "id", label: "Client id", isHead: true, cell: (row) => clientLink(row.id) },
      {
        id: "behind",
        label: "Behind, messages",
        align: "n",
        cell: (row) => (row.behind > 0 ? h("span.warn-t", number(row.behind)) : number(row.behind)),
      },
      { id: "queued", label: "Waits in memory", align: "n", cell: (row) => number(row.queued) },
      { id: "inFlight", label: "In flight", align: "n", optional: 1, cell: (row) => number(row.inFlight) },
      { id: "dropped", label: "Dropped", align: "n", optional: 1, cell: (row) => number(row.dropped) },
      { id: "address", label: "From", optional: 2, cell: (row) => h("span.mono.xs", name(row.address)) },
      { id: "gateway", label: "Gateway", optional: 1, cell: (row) => name(row.gateway) },
    ],
    filters: await gatewayFilter(place, signal),
    load: ({ filter, signal: asked }) => get("slow-subscribers", { query: { limit: MOST, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT)
      ? [
          {
            label: (rows) => `Disconnect ${rows.length}`,
            isDanger: true,
            act: (rows) => disconnectMqtt([...new Set(rows.map((row) => row.id))], told.tell),
          },
        ]
      : [],
    empty: { title: "No subscriber is slow", text: "A client is listed here while messages wait for it, or if some were dropped." },
  });
  place.append(panel("Slow subscribers", { unit: `the slowest ${MOST}`, flush: list.element }));
}
