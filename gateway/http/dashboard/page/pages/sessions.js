// MQTT sessions whose client is away.

import { get } from "../api.js";
import { h } from "../dom.js";
import { isUnknown, number, time } from "../format.js";
import { results } from "../parts/banner.js";
import { endSessions } from "../parts/client_actions.js";
import { clientLink, lackingRight, mqttTabs, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";

export async function show(place, parameters, signal) {
  const top = head("MQTT sessions that are away", {
    sub: ["messages wait for them in the log", "times in UTC", lackingRight("Ending a session")],
  });
  const told = results();
  const end = (rows) => {
    const subscriptions = rows.reduce((sum, row) => sum + row.subscriptionCount, 0);
    return endSessions(
      rows.map((row) => row.id),
      `${number(subscriptions)} ${subscriptions === 1 ? "subscription is" : "subscriptions are"} gone.`,
      told.tell,
    );
  };
  const list = table({
    label: "Sessions",
    signal,
    seconds: REFRESH_SECONDS,
    what: "the store",
    key: (row) => row.id,
    columns: COLUMNS,
    filters: [{ name: "prefix", label: "Client id begins with" }],
    load: ({ after, limit, filter, signal: asked }) =>
      get("sessions", { query: { connected: "false", after, limit, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT)
      ? [{ label: (rows) => (rows.length === 1 ? "End 1 session" : `End ${rows.length} sessions`), isDanger: true, act: end }]
      : [],
    empty: {
      title: "No session is away",
      text: "A session stays after its client has gone, by a session expiry (MQTT 5) or clean session 0.",
    },
  });
  place.append(
    top.element,
    mqttTabs("sessions"),
    told.element,
    panel("Sessions", { unit: "in the order of their ids", flush: list.element }),
  );
}

const COLUMNS = [
  { id: "id", label: "Client id", isHead: true, cell: (row) => clientLink(row.id) },
  { id: "user", label: "User", optional: 1, cell: (row) => nameOrNone(row.user) },
  { id: "away", label: "Away since", align: "n", cell: (row) => time(row.disconnectedSince) },
  { id: "ends", label: "Ends", align: "n", cell: (row) => (isUnknown(row.expiresAt) ? "never" : time(row.expiresAt)) },
  { id: "subscriptions", label: "Subscriptions", align: "n", optional: 1, cell: (row) => number(row.subscriptionCount) },
  { id: "will", label: "Will to", optional: 2, cell: (row) => nameOrNone(row.will) },
  { id: "willAt", label: "Will is sent", align: "n", optional: 2, cell: (row) => (isUnknown(row.willAt) ? none() : time(row.willAt)) },
  { id: "address", label: "Was at", optional: 2, cell: (row) => h("span.mono.xs", nameOrNone(row.address)) },
];
