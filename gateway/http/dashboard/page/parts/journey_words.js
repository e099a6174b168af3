// The hops of a journey in words, with links to the pages of what they are about.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { groupAddress, lettersAddress, topicLink } from "./place_links.js";
import { doorName } from "./states.js";

const TITLES = {
  takenIn: "Taken in",
  bridgedIn: "Bridged in",
  scheduled: "Waited",
  stored: "Stored",
  queued: "Queued",
  confirmed: "Confirmed",
  delivered: "Delivered",
  failed: "Failed",
  moved: "Moved aside",
  acknowledged: "Acknowledged",
  deadLettered: "Dead-lettered",
  resent: "Resent",
  tiered: "Tiered",
  ingested: "In a table",
};
const GROUP = "group/"; // before a group's stored name, in the id of its lane
const STORED = /^(?:([^/]*)\/)?(.*)$/s; // a group: its namespace, unless that is the default one, and its name
const DEAD = "%DLQ%"; // before a group, in the topic of its dead letters
const FROM = " from "; // between a client's name and its address

const ID = /^(?:[0-9a-f]{2}){12,}$/i; // of gateways and of RocketMQ's clients

/** True if a text is the id of a message.  Only what looks like one is asked for. */
export async function isMessage(text, signal) {
  if (!ID.test(text)) return false;
  try {
    await get("journeys", { query: { id: text }, signal });
    return true;
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
}

/** True for a hop that went wrong. */
export const isTrouble = (hop) => hop.kind === "failed" || hop.kind === "deadLettered";

/** The name of a hop. */
export function title(hop) {
  if (hop.kind === "failed" && hop.attempt) return `Attempt ${number(hop.attempt)} failed`;
  return TITLES[hop.kind] ?? hop.kind;
}

/** The topic of a place in the log.  The system's own topics have no pages, other than dead letters. */
export function topicOf({ topic, namespace }) {
  if (topic.startsWith(DEAD)) return anchor(lettersAddress(topic.slice(DEAD.length), namespace), topic);
  return topic.startsWith("%") ? name(topic) : topicLink(topic, namespace);
}

/** The receiver of a lane, with its page. */
export function receiver({ id, kind, name: shown }) {
  if (!id.startsWith(GROUP)) return name(shown);
  const [, namespace = null, group] = STORED.exec(id.slice(GROUP.length));
  if (kind === "bridge") return anchor(link(path("bridges", shown)), shown);
  if (kind === "webhook" && group === `webhook~${shown}`) return anchor(link(path("webhooks", shown)), shown);
  return anchor(groupAddress(group, namespace), shown);
}

const anchor = (href, text) => h("a", { href }, name(text));

/** The sentences of a hop: each a list of texts and nodes. */
export function sentences(hop, lane) {
  return [wayIn(hop), whose(hop, lane), client(hop), where(hop), broker(hop), ...said(hop)].filter(Boolean);
}

function wayIn({ kind, door, gateway }) {
  if (kind !== "takenIn" && kind !== "bridgedIn") return null;
  if (!door && !gateway) return null;
  return [door ? `${doorName(door)} door` : "A door", gateway && [" of ", h("b", name(gateway))], "."];
}

function whose({ group, attempt, kind }, lane) {
  if (!group) return null;
  const words = { webhook: "Webhook ", amqp: "AMQP queue ", bridge: "Bridge " }[lane?.kind] ?? "Group ";
  const nth = attempt && kind !== "failed" ? `, attempt ${number(attempt)}` : "";
  return [words, h("b", lane ? receiver(lane) : name(group)), nth, "."];
}

function client({ client: found, door }) {
  if (!found) return null;
  const at = found.lastIndexOf(FROM);
  if (door !== "mqtt" || at < 1) return ["Client: ", name(found), "."];
  const id = found.slice(0, at);
  return ["Client ", anchor(link(path("clients", id)), id), FROM, name(found.slice(at + FROM.length)), "."];
}

function where({ place }) {
  return place && [topicOf(place), " queue ", String(place.queueId), ", offset ", number(place.offset), "."];
}

function broker({ broker: found, epoch }) {
  return found ? ["Broker ", h("b", name(found)), epoch && `, epoch ${number(epoch)}`, "."] : null;
}

const SETTLED = new Set(["acknowledged", "settled"]); // the hop's title says so
const upper = (text) => text.replace(/^[a-z](?=[a-z])/, (letter) => letter.toUpperCase());

function said({ kind, outcome, detail }) {
  const texts = outcome === detail ? [outcome] : [outcome, detail];
  return texts
    .filter((text) => text && !(kind === "acknowledged" && SETTLED.has(text)))
    .map((text) => [name(upper(text)), /[.!?]$/.test(text) ? "" : "."]);
}

/** A few words beside a mark of the drawing, or "". */
export function note(hop) {
  if (hop.kind === "failed") return cut((hop.outcome ?? "failed").replace(/[,(].*$/s, "").trim());
  if (hop.kind === "delivered" || hop.kind === "queued") return "";
  if (hop.kind === "takenIn") return hop.door ? doorName(hop.door) : "taken in";
  if (hop.kind === "stored") return cut(hop.broker ? `${hop.broker}${hop.epoch ? `, epoch ${hop.epoch}` : ""}` : "stored");
  return { deadLettered: "dead letter", ingested: "in a table" }[hop.kind] ?? (TITLES[hop.kind] ?? hop.kind).toLowerCase();
}

const MOST_LETTERS = 28;
const cut = (text) => (text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text);
