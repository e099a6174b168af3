// Common parts of the lists of clients: their tabs, the filter by gateway, and how one MQTT client is looked for.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { isUnknown } from "../format.js";
import { link, path } from "../links.js";
import { may } from "../session.js";
import { whileAsking } from "./answers.js";
import { none } from "./states.js";
import { tabs } from "./tabs.js";

export const REFRESH_SECONDS = 5;

/** The right that disconnecting, closing and ending take. */
export const TO_DISCONNECT = "Cluster:UPDATE";

const MQTT_LISTS = [
  ["clients", "Connected"],
  ["sessions", "Sessions that are away"],
  ["subscriptions", "Subscriptions"],
  ["slow-subscribers", "Slow subscribers"],
];

/** The lists of MQTT, of which `current` is shown. */
export const mqttTabs = (current) =>
  tabs(
    "Lists of MQTT",
    MQTT_LISTS.map(([route, label]) => ({ label, href: link(route), isCurrent: route === current })),
  );

/** A client's id as a link to its page. */
export const clientLink = (id) => h("a", { href: link(path("clients", id)) }, name(id));

/** A name that may be missing, which then does not apply. */
export const nameOrNone = (text) => (isUnknown(text) ? none() : name(text));

/** Words that name the right to act, where it is missing. */
export const lackingRight = (what) => (may(TO_DISCONNECT) ? null : h("span", `${what} takes UPDATE on the cluster`));

/** The filter by gateway; none where the gateways are not known.  `place` shows that they are asked. */
export async function gatewayFilter(place, signal) {
  if (!may("Cluster:LIST")) return [];
  try {
    const { value } = await whileAsking(place, "all gateways", get("gateways", { signal }));
    if (value.length < 2) return [];
    return [{ name: "gateway", label: "Gateway", type: "select", options: [["", "all"], ...value.map((each) => [each.name, each.name])] }];
  } catch (error) {
    signal.throwIfAborted();
    return []; // the list itself says what is wrong
  }
}

/** The row of one MQTT client, undefined where it is not connected to those that answered: {row, answered}.  A list is
 * asked, not the client, which is an error where it is away. */
export async function connectedClient(id, signal) {
  const { value, answered } = await get("clients", { query: { prefix: id, limit: 2 }, signal });
  return { row: value.find((each) => each.id === id), answered };
}

/** What `asked` finds; null where it has gone since the list was made. */
export async function unlessGone(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** The record of one MQTT session, undefined where there is none. */
export async function sessionHead(id, signal) {
  const { value } = await get("sessions", { query: { prefix: id, limit: 1 }, signal });
  return value.find((each) => each.id === id);
}

/** True for the id of a client that is connected, or has a session. */
export async function isMqttClient(id, signal) {
  const [{ row }, head] = await Promise.all([connectedClient(id, signal), sessionHead(id, signal)]);
  return row !== undefined || head !== undefined;
}
