// The fields of a topic: to create one, and to change one.

import { ApiError } from "../api.js";
import { h, name } from "../dom.js";
import { link, path } from "../links.js";
import { form, formDialog } from "./form.js";
import { perform, same } from "./operations.js";
import { topicExists } from "./topic_calls.js";

const choices = (words) => words.map((word) => [word, word]);
const DISKS = [
  ["RULE", "RULE, as the broker says"],
  ["ASYNC", "ASYNC, the master's disk"],
];
const CLEANUPS = [
  ["DELETE", "DELETE, by age and size"],
  ["CONSUMED", "CONSUMED, once settled"],
  ["COMPACT", "COMPACT, last of each key"],
];
const FIELDS = [
  { name: "queues", label: "Queues", type: "number", hint: "1 to 1024, on each broker. Empty: as the settings say" },
  {
    name: "writeQueues",
    label: "Queues for new messages",
    type: "number",
    hint: "Empty: all of them",
    isNull: true,
    problem: ["write_queues"],
  },
  { name: "type", label: "Type", type: "select", options: choices(["NORMAL", "PRIORITY"]) },
  { name: "permission", label: "Permission", type: "select", options: choices(["READ_WRITE", "READ", "WRITE", "NONE"]) },
  { name: "cleanup", label: "Cleanup", type: "select", options: CLEANUPS },
  {
    name: "retentionSeconds",
    label: "Retention, seconds",
    type: "number",
    hint: "Example: 259200 for 72 h. Empty: the broker's",
    isNull: true,
    problem: ["retention_seconds"],
  },
  {
    name: "retentionBytes",
    label: "Retention, bytes",
    type: "number",
    hint: "Empty: the broker's",
    isNull: true,
    problem: ["retention_bytes"],
  },
  {
    name: "tierSeconds",
    label: "In the tier, seconds",
    type: "number",
    hint: "Empty: none go there",
    isNull: true,
    problem: ["tier_seconds"],
  },
  {
    name: "maxMessageBytes",
    label: "Longest body, bytes",
    type: "number",
    hint: "Empty: the server's",
    isNull: true,
    problem: ["max_message_bytes"],
  },
  {
    name: "maxBacklog",
    label: "Longest backlog, messages",
    type: "number",
    hint: "Of the slowest group; beyond it new ones are refused",
    isNull: true,
    problem: ["max_backlog"],
  },
  { name: "confirm", label: "Confirmed by", type: "select", options: DISKS },
  { name: "trace", label: "Share of traced messages", type: "number", hint: "0 to 1" },
  {
    name: "placement",
    label: "Placement",
    hint: "Brokers and their queues: broker-0=4, broker-1=4. Empty: all brokers",
    isNull: true,
    wide: true,
  },
];
const NEW = { type: "NORMAL", permission: "READ_WRITE", cleanup: "DELETE", confirm: "RULE", trace: 0 };

/** A placement as text: `broker-0=4, broker-1=4`. */
const placementText = (placement) =>
  Object.entries(placement ?? {})
    .map(([broker, queues]) => `${broker}=${queues}`)
    .join(", ");

/** The placement of a text; null for none; undefined for a text that is none. */
function placementOf(text) {
  const parts = (text ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
  const pairs = parts.map((part) => /^(.+?)\s*=\s*(\d{1,9})$/.exec(part));
  if (pairs.some((pair) => pair === null)) return undefined;
  return pairs.length ? Object.fromEntries(pairs.map(([, broker, queues]) => [broker, Number(queues)])) : null;
}

/** The fields whose value is another one than before, as the API takes them. */
function changed(values, before) {
  const change = {};
  for (const field of FIELDS) {
    const isPlacement = field.name === "placement";
    const now = isPlacement ? placementOf(values.placement) : (values[field.name] ?? (field.isNull ? null : undefined));
    if (now === undefined) continue;
    const earlier = before[field.name] ?? null;
    if (JSON.stringify(now) !== JSON.stringify(earlier)) change[field.name] = now;
  }
  return change;
}

function checkPlacement(values) {
  if (placementOf(values.placement) !== undefined) return;
  throw new ApiError(400, "BAD_REQUEST", "placement: must be brokers with their queues, such as broker-0=4, broker-1=4");
}

const withValues = (values) =>
  FIELDS.map(({ isNull, ...field }) => ({
    ...field,
    value: field.name === "placement" ? placementText(values.placement) : values[field.name],
  }));

/** Ask for the fields of a new topic, and create it.  `tell`: shows the result; `done()`: called after it. */
export async function newTopic({ namespace, tell, done, signal }) {
  const title = { name: "name", label: "Name", required: true, wide: true, hint: "1 to 127 letters, digits, - and _", maxlength: 127 };
  const made = await formDialog("Create a topic", {
    fields: [title, ...withValues(NEW)],
    submit: "Create topic",
    same: (values) => same("putTopic", { name: values.name, namespace }, changed(values, NEW), { command: "create" }),
    send: async (values) => {
      checkPlacement(values);
      if (await topicExists(values.name, signal, namespace))
        throw new ApiError(409, "TOPIC_EXISTS", `name: there is a topic ${values.name} already`);
      await perform("putTopic", { name: values.name, namespace }, changed(values, NEW), { signal });
      return values.name;
    },
  });
  if (!made) return;
  const target = link(path("topics", made.done), { namespace });
  tell("info", h("span", "The topic ", name(made.done), " was created."), "The audit has an entry.", { label: "Show it", href: target });
  done();
}

/** The form of all settings of a topic.  `done(topic)`: called with the topic as it is after a change. */
export function topicSettings(topic, { tell, done, signal }) {
  return form({
    fields: withValues(topic),
    submit: "Change topic",
    same: (values) => same("putTopic", topic, changed(values, topic), { command: "update" }),
    send: async (values) => {
      checkPlacement(values);
      const change = changed(values, topic);
      const words = Object.keys(change);
      if (words.length === 0) return tell("info", "Nothing was changed.", "All fields are as they were.");
      const found = await perform("putTopic", topic, change, { signal });
      tell(
        "info",
        `${words.length === 1 ? "1 field" : `${words.length} fields`} of the topic changed: ${words.join(", ")}.`,
        "The audit has an entry.",
      );
      return done(found);
    },
  }).element;
}
