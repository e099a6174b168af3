// Bridges to other MQTT brokers and to RocketMQ clusters: which gateway runs them, and what they carry.

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
  const clusters = table({
    label: "RocketMQ bridges",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => row.name,
    columns: clusterColumns(),
    load: ({ signal: asked }) => load(asked, "rocketmq-bridges"),
    empty: {
      title: "No bridges to RocketMQ clusters",
      text: "They carry chosen topics while clients move. The setting rocketmq_bridge.remotes names all of them.",
    },
  });
  const moved = h(
    "p.note",
    h("span", "To move the queues of a RabbitMQ here, run ", h("code.brk", SHOVEL), ". It runs by itself and tells its own progress."),
  );
  place.append(
    head("Bridges", { sub: ["to other MQTT brokers and RocketMQ clusters", "counts are those since each gateway began"] }).element,
    panel("MQTT", { flush: list.element }),
    panel("RocketMQ", { flush: clusters.element }),
    moved,
  );
}

async function load(signal, from = "bridges") {
  const found = await get(from, { signal });
  const atLeast = found.answered.answered < found.answered.asked;
  return { ...found, next: null, value: found.value.map((row) => ({ ...row, atLeast })) };
}

const runsAt = (row) => (row.gateway ? name(row.gateway) : row.owner ? name(row.owner) : unknown());
const lastError = (row) => (row.lastError ? name(row.lastError) : h("span.q", "none"));
const waiting = (row) => number(row.topics.reduce((sum, topic) => sum + topic.waiting, 0), row);

function clusterColumns() {
  return [
    { id: "name", label: "Bridge", isHead: true, cell: (row) => name(row.name) },
    { id: "servers", label: "Name servers", optional: 1, cell: (row) => h("span.mono.xs.brk", name(row.nameServers.join(", "))) },
    { id: "state", label: "State", cell: bridgeState },
    { id: "gateway", label: "Runs at", optional: 1, cell: runsAt },
    { id: "in", label: "In", align: "n", cell: (row) => number(row.received, row) },
    { id: "out", label: "Out", align: "n", cell: (row) => number(row.sent, row) },
    { id: "waiting", label: "Waiting", align: "n", cell: waiting },
    { id: "refused", label: "Refused", align: "n", cell: refused },
    { id: "error", label: "Last error", optional: 2, cell: lastError },
  ];
}

function columns() {
  return [
    { id: "name", label: "Bridge", isHead: true, cell: (row) => h("a", { href: link(path("bridges", row.name)) }, name(row.name)) },
    { id: "url", label: "Remote", optional: 1, cell: (row) => h("span.mono.xs.brk", name(row.url)) },
    { id: "state", label: "State", cell: bridgeState },
    { id: "gateway", label: "Runs at", optional: 1, cell: runsAt },
    { id: "in", label: "In", align: "n", cell: (row) => number(row.received, row) },
    { id: "out", label: "Out", align: "n", cell: (row) => number(row.sent, row) },
    { id: "refused", label: "Refused", align: "n", cell: refused },
    { id: "error", label: "Last error", optional: 2, cell: lastError },
  ];
}
