// Bridges to other MQTT brokers: which gateway runs them, and what they carry.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { bridgeState, refused } from "../parts/bridge_state.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { unknown } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 5;
const SHOVEL = "entrepot shovel rabbitmq --from amqp://user:password@host --all";

export async function show(place, parameters, signal) {
  const list = table({
    label: "Bridges",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => row.name,
    columns: columns(),
    load: ({ signal: asked }) => load(asked),
    empty: {
      title: "No bridges",
      text: "A bridge carries messages in from another MQTT broker, or out to it. The setting bridge.remotes names all bridges.",
    },
  });
  const moved = h(
    "p.note",
    h("span", "To move the queues of a RabbitMQ here, run ", h("code.brk", SHOVEL), ". It runs by itself and tells its own progress."),
  );
  place.append(
    head("Bridges", { sub: ["to other MQTT brokers", "counts are those since each gateway began"] }).element,
    panel("Bridges", { flush: list.element }),
    moved,
  );
}

async function load(signal) {
  const found = await get("bridges", { signal });
  const atLeast = found.answered.answered < found.answered.asked;
  return { ...found, next: null, value: found.value.map((row) => ({ ...row, atLeast })) };
}

function columns() {
  return [
    { id: "name", label: "Bridge", isHead: true, cell: (row) => h("a", { href: link(path("bridges", row.name)) }, name(row.name)) },
    { id: "url", label: "Remote", optional: 1, cell: (row) => h("span.mono.xs.brk", name(row.url)) },
    { id: "state", label: "State", cell: bridgeState },
    {
      id: "gateway",
      label: "Runs at",
      optional: 1,
      cell: (row) => (row.gateway ? name(row.gateway) : row.owner ? name(row.owner) : unknown()),
    },
    { id: "in", label: "In", align: "n", cell: (row) => number(row.received, row) },
    { id: "out", label: "Out", align: "n", cell: (row) => number(row.sent, row) },
    { id: "refused", label: "Refused", align: "n", cell: refused },
    { id: "error", label: "Last error", optional: 2, cell: (row) => (row.lastError ? name(row.lastError) : h("span.q", "none")) },
  ];
}
