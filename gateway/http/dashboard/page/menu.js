// All pages: the address, the module below pages/, and the place in the menu.  A page that is not there has no line.

import { get } from "./api.js";
import { may, session } from "./session.js";

const MOST_USERS = 1000; // of those whose name has the text in it
const CLUSTER = "Cluster:LIST";

export const SECTIONS = ["Watch", "Messages", "Clients", "Move", "Govern"];

/** `route`: the address behind `#/`, where `:name` stands for one segment.  `page`: the module `pages/<page>.js`.
 * `section`, `label`: the entry of the menu; a page without them is reached from others, and `under` names the route of
 * the entry that is marked instead.  `count`: the number beside it, from the overview (null: none).  `right`: needed on
 * the whole cluster to see the entry.  `finds`: {what, exists(text, signal)} makes the find box look for names of this
 * page's one parameter; without `exists` the page itself looks. */
export const PAGES = [
  { route: "overview", page: "overview", section: "Watch", label: "Overview" },
  { route: "cluster", page: "cluster", section: "Watch", label: "Cluster", right: CLUSTER },
  { route: "alarms", page: "alarms", section: "Watch", label: "Alarms", count: ({ alarms }) => alarms.length || null, right: CLUSTER },
  { route: "settings", page: "settings", section: "Watch", label: "Settings" },

  { route: "topics", page: "topics", section: "Messages", label: "Topics", count: ({ counts }) => counts.topics },
  { route: "topics/:name", page: "topic", under: "topics", finds: { what: "topic", exists: isTopic } },
  { route: "groups", page: "groups", section: "Messages", label: "Groups", count: ({ counts }) => counts.groups },
  { route: "groups/:name", page: "group", under: "groups", finds: { what: "group", exists: isGroup } },
  { route: "queues", page: "queues", section: "Messages", label: "Queues and exchanges" },
  { route: "queues/:vhost/:name", page: "queue", under: "queues" },
  { route: "exchanges", page: "exchanges", under: "queues" },
  { route: "exchanges/:vhost/:name", page: "exchange", under: "queues" },
  { route: "bindings", page: "bindings", under: "queues" },
  { route: "queue-policies", page: "queue_policies", under: "queues" },
  { route: "journey", page: "journey", section: "Messages", label: "Message journey" },
  { route: "journey/:id", page: "journey", under: "journey", finds: { what: "message", exists: isMessage } },
  { route: "dead-letters", page: "dead_letters", section: "Messages", label: "Dead letters" },
  { route: "dead-letters/:name", page: "group_letters", under: "dead-letters" },
  { route: "timers", page: "timers", section: "Messages", label: "Timers" },
  { route: "transactions", page: "transactions", section: "Messages", label: "Transactions" },
  { route: "retained", page: "retained", section: "Messages", label: "Retained", count: ({ counts }) => counts.retained },

  { route: "connected-clients", page: "connected_clients", section: "Clients", label: "All clients", right: CLUSTER },
  { route: "clients", page: "clients", section: "Clients", label: "MQTT clients", count: connections("mqtt"), right: CLUSTER },
  { route: "clients/:id", page: "client", under: "clients", finds: { what: "MQTT client", exists: isMqttClient } },
  { route: "sessions", page: "sessions", under: "clients" },
  { route: "subscriptions", page: "subscriptions", under: "clients" },
  { route: "slow-subscribers", page: "slow_subscribers", under: "clients" },
  { route: "amqp-connections", page: "amqp_connections", section: "Clients", label: "AMQP connections", count: connections("amqp"), right: CLUSTER },
  { route: "amqp-connections/:name", page: "amqp_connection", under: "amqp-connections" },
  { route: "rocketmq-clients", page: "rocketmq_clients", section: "Clients", label: "RocketMQ clients", count: connections("rocketmq"), right: CLUSTER },
  { route: "webhooks", page: "webhooks", section: "Clients", label: "Webhooks" },
  { route: "webhooks/:id", page: "webhook", under: "webhooks" },

  { route: "bridges", page: "bridges", section: "Move", label: "Bridges", right: CLUSTER },
  { route: "bridges/:name", page: "bridge", under: "bridges" },
  { route: "event-rules", page: "event_rules", section: "Move", label: "Event rules" },
  { route: "event-rules/:topic", page: "event_rule", under: "event-rules" },
  { route: "ingest-jobs", page: "ingest_jobs", section: "Move", label: "Spark jobs", right: CLUSTER },

  { route: "access", page: "access", section: "Govern", label: "Access tester" },
  { route: "users", page: "users", section: "Govern", label: "Users" },
  { route: "users/:name", page: "user", under: "users", finds: { what: "user", exists: isUser } },
  { route: "policies", page: "policies", section: "Govern", label: "Policies" },
  { route: "policies/:subject", page: "policy", under: "policies" },
  { route: "namespaces", page: "namespaces", section: "Govern", label: "Namespaces" },
  { route: "audit", page: "audit", section: "Govern", label: "Audit" },
  { route: "components", page: "components", section: "Govern", label: "Component sheet" },
  { route: "find/:text", page: "find" },
];

/** The first page. */
export const START = "overview";

/** The number of connections to a door; at least so many where a gateway did not answer. */
function connections(door) {
  return ({ doors, answered }) => {
    const found = doors.find((each) => each.door === door)?.connections ?? null;
    if (found === null) return null;
    return answered.answered < answered.asked ? `≥ ${found.toLocaleString("en-US")}` : found;
  };
}

// The answers of the find box are loaded at its first use, as the menu is below all pages.  Who may not know is not asked
// for: a refusal would be in the audit.

async function isTopic(text, signal) {
  return (await import("./parts/topic_calls.js")).topicExists(text, signal);
}

async function isGroup(text, signal) {
  return (await import("./parts/group_actions.js")).groupExists(text, signal);
}

async function isMessage(text, signal) {
  return (await import("./parts/journey_words.js")).isMessage(text, signal);
}

async function isMqttClient(text, signal) {
  return may(CLUSTER) && (await import("./parts/client_lists.js")).isMqttClient(text, signal);
}

async function isUser(text, signal) {
  if (!session().isSuper) return false;
  const { value } = await get("users", { query: { find: text, limit: MOST_USERS }, signal });
  return value.some((user) => user.name === text);
}
