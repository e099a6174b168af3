// Clients that are connected to any door of any gateway, those of installed packages, too.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { duration, isUnknown, number } from "../format.js";
import { link, path } from "../links.js";
import { whileAsking } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { disconnectConnected } from "../parts/client_actions.js";
import { clientLink, gatewayFilter, lackingRight, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { door, doorName, none } from "../parts/states.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";
import { overviewStream } from "../stream.js";

export async function show(place, parameters, signal) {
  const top = head("All clients", { sub: ["of every door", lackingRight("Disconnecting")] });
  const told = results();
  place.append(top.element, told.element);
  const filters = [
    ...(await doorFilter(place, signal)),
    { name: "contains", label: "Client id contains" },
    { name: "user", label: "User, whole name" },
    ...(await gatewayFilter(place, signal)),
  ];
  const list = table({
    label: "All clients",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => [row.door, row.id, row.gateway, row.connectedSince, row.address].join("\n"),
    called: (row) => row.id,
    columns: COLUMNS,
    filters,
    load: ({ after, limit, filter, signal: asked }) => get("connected-clients", { query: { after, limit, ...filter }, signal: asked }),
    actions: may(TO_DISCONNECT)
      ? [
          {
            label: (rows) => `Disconnect ${rows.length}`,
            isDanger: true,
            act: (rows) => disconnectConnected(rows, told.tell),
          },
        ]
      : [],
    empty: { title: "No client is connected", text: "Each client of any door is listed here while it is connected." },
  });
  place.append(panel("Connected", { unit: "in the order of their ids", flush: list.element }));
}

/** The filter by door; none where the doors are not known. */
async function doorFilter(place, signal) {
  try {
    const { doors } = overviewStream.last ?? (await whileAsking(place, "all gateways", get("overview", { signal })));
    return [{ name: "door", label: "Door", type: "select", options: [["", "all"], ...doors.map((each) => [each.door, doorName(each.door)])] }];
  } catch (error) {
    signal.throwIfAborted();
    return []; // the list itself says what is wrong
  }
}

/** A client as a link to its page, where its door has such pages. */
const PAGES_OF_DOORS = {
  mqtt: clientLink,
  amqp: (id) => h("a.mono.xs", { href: link(path("amqp-connections", id)) }, name(id)),
};

const COLUMNS = [
  { id: "id", label: "Client", isHead: true, cell: (row) => PAGES_OF_DOORS[row.door]?.(row.id) ?? h("span.brk", name(row.id)) },
  { id: "door", label: "Door", cell: (row) => door(row.door) },
  { id: "user", label: "User", cell: (row) => nameOrNone(row.user) },
  { id: "from", label: "From", optional: 2, cell: (row) => h("span.mono.xs", nameOrNone(row.address)) },
  { id: "since", label: "Connected for", align: "n", optional: 1, cell: (row) => age(row.connectedSince) },
  { id: "uses", label: "Uses", optional: 1, cell: usesOf },
  { id: "held", label: "Holds", align: "n", optional: 1, cell: (row) => (isUnknown(row.held) ? none() : number(row.held)) },
  { id: "detail", label: "Detail", optional: 2, cell: (row) => nameOrNone(row.detail) },
  { id: "gateway", label: "Gateway", optional: 1, cell: (row) => name(row.gateway) },
];

const MOST_USES = 3; // in one row

const age = (since) => duration(isUnknown(since) ? null : Math.max(0, (Date.now() - Date.parse(since)) / 1000));

function usesOf(row) {
  if (row.useCount === 0) return none();
  const shown = row.uses.slice(0, MOST_USES);
  return [shown.map((each, at) => [at > 0 && ", ", name(each)]), row.useCount > shown.length && ` and ${row.useCount - shown.length} more`];
}
