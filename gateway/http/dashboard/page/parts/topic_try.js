// A test message by the rules of any door: the form changes with the door.

import { ApiError } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count, number } from "../format.js";
import { link, path } from "../links.js";
import { quoted } from "./copying.js";
import { form } from "./form.js";
import { perform, rest } from "./operations.js";
import { panel } from "./panel.js";
import { choice } from "./tabs.js";
import { journeyOf } from "./viewer.js";

const DOORS = [
  { label: "HTTP, CloudEvents", value: "http" },
  { label: "MQTT", value: "mqtt" },
  { label: "AMQP 0-9-1", value: "amqp" },
  { label: "RocketMQ", value: "rocketmq" },
];
const PAIRS_HINT = "name=value, one a line";
const PAYLOAD = [
  { name: "payload", label: "Body", type: "textarea", wide: true, value: '{"test": true}' },
  {
    name: "payloadEncoding",
    label: "The body above is",
    type: "select",
    options: [
      ["string", "text"],
      ["base64", "base64"],
    ],
  },
];
const COMMANDS = {
  // options of `entrepot message try` by field; what has none is not in a command
  topic: "topic",
  name: "name",
  exchange: "exchange",
  routingKey: "routing-key",
  vhost: "vhost",
  tag: "tag",
  qos: "qos",
  payload: "data",
};

const fieldsOf = {
  http: () => [
    { name: "type", label: "Type", value: "dev.entrepot.test", required: true },
    { name: "source", label: "Source", value: "/dashboard", required: true },
    { name: "id", label: "Id", value: "test-1", required: true },
    { name: "subject", label: "Subject", hint: "The sub-topic" },
    { name: "datacontenttype", label: "Content type", value: "application/json" },
    { name: "data", label: "Data", type: "textarea", wide: true, value: '{"test": true}' },
  ],
  mqtt: (topic) => [
    { name: "name", label: "Topic name", value: topic.name, required: true, hint: "The topic, and a sub-topic behind a slash" },
    {
      name: "qos",
      label: "QoS",
      type: "select",
      value: "1",
      options: [
        ["0", "0"],
        ["1", "1"],
        ["2", "2"],
      ],
    },
    { name: "contentType", label: "Content type", value: "application/json" },
    { name: "responseTopic", label: "Response topic" },
    { name: "correlationData", label: "Correlation data", hint: "base64" },
    { name: "expirySeconds", label: "Expires after, seconds", type: "number" },
    { name: "userProperties", label: "User properties", type: "textarea", rows: 2, wide: true, hint: PAIRS_HINT },
    { name: "retain", label: "Retain it: later subscribers get it, too", type: "checkbox" },
    ...PAYLOAD,
  ],
  amqp: (topic) => [
    { name: "exchange", label: "Exchange", value: "amq.topic", hint: "Empty: the default one" },
    {
      name: "routingKey",
      label: "Routing key",
      value: topic.name,
      hint: "Of amq.topic: the topic, and a sub-topic behind a dot",
      problem: ["routing_key"],
    },
    { name: "vhost", label: "Virtual host", value: topic.namespace === "default" ? "/" : topic.namespace },
    { name: "content_type", label: "Content type", value: "application/json" },
    { name: "message_id", label: "Message id" },
    { name: "correlation_id", label: "Correlation id" },
    { name: "headers", label: "Headers", type: "textarea", rows: 2, wide: true, hint: PAIRS_HINT },
    ...PAYLOAD,
  ],
  rocketmq: () => [
    { name: "tag", label: "Tag" },
    { name: "keys", label: "Keys", hint: "Separated by spaces" },
    { name: "messageGroup", label: "Message group", hint: "In order within it", problem: ["message_group"] },
    { name: "deliverAt", label: "Deliver at", hint: "2026-11-22T20:00:00Z. Empty: now", problem: ["deliver_at"] },
    { name: "properties", label: "Properties", type: "textarea", rows: 2, wide: true, hint: PAIRS_HINT },
    ...PAYLOAD,
  ],
};

/** [[name, value], ...] of lines; undefined where there are none. */
function pairsOf(text, field) {
  const lines = (text ?? "").split("\n").filter((each) => each.trim() !== "");
  if (lines.some((each) => each.indexOf("=") < 1)) throw new ApiError(400, "BAD_REQUEST", `${field}: each line must be name=value`);
  return lines.length ? lines.map((each) => [each.slice(0, each.indexOf("=")).trim(), each.slice(each.indexOf("=") + 1)]) : undefined;
}

const objectOf = (pairs) => pairs && Object.fromEntries(pairs);

const bodyOf = {
  http: ({ data = "", ...attributes }, topic) => ({
    ...inTopic(topic),
    event: { specversion: "1.0", ...attributes, data: dataOf(data, attributes.datacontenttype) },
  }),
  mqtt: ({ userProperties, qos, ...values }) => ({
    ...values,
    qos: Number(qos),
    retain: values.retain || undefined,
    userProperties: pairsOf(userProperties, "userProperties"),
  }),
  amqp: ({ content_type, message_id, correlation_id, headers, ...values }) => {
    const properties = { content_type, message_id, correlation_id, headers: objectOf(pairsOf(headers, "headers")) };
    const isAny = Object.values(properties).some((each) => each !== undefined);
    return { routingKey: "", ...values, properties: isAny ? properties : undefined };
  },
  rocketmq: ({ keys, properties, payload = "", ...values }, topic) => ({
    ...inTopic(topic),
    ...values,
    payload,
    keys: keys?.split(/\s+/).filter(Boolean),
    properties: objectOf(pairsOf(properties, "properties")),
  }),
};

const inTopic = ({ name: topic, namespace }) => ({ topic, namespace: namespace === "default" ? undefined : namespace });

/** Data of a CloudEvent: JSON as it is, anything else as a text. */
function dataOf(text, type = "application/json") {
  if (!/[/+]json\b/i.test(type)) return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, "BAD_REQUEST", "data: is not JSON. Another content type takes any text.");
  }
}

/** The request of a form's values.  Raises ApiError for what cannot be one. */
function requestOf(door, values, topic) {
  const found = { door, ...bodyOf[door](values, topic) };
  if (found.payloadEncoding === "string") delete found.payloadEncoding;
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** The command of a request; null where it has fields that the command has no options for. */
function commandOf({ door, event, retain, keys = [], ...values }) {
  if (Object.keys(values).some((each) => !(each in COMMANDS))) return null;
  const words = Object.entries(values).map(([key, value]) => `--${COMMANDS[key]} ${quoted(String(value))}`);
  if (event) words.push(`--event ${quoted(JSON.stringify(event))}`);
  words.push(...keys.map((key) => `--key ${quoted(key)}`));
  if (retain) words.push("--retain");
  return `entrepot message try ${door} ${words.join(" ")}`;
}

/** The form of a test message.  `tell`: shows what became of it. */
export function tryOne(topic, tell, signal) {
  const place = h("div");
  const show = (door) => fill(place, formOf(door, topic, tell, signal));
  const doors = choice("By the rules of", DOORS, "http", show);
  doors.element.classList.add("wrapseg");
  show("http");
  const words = "Every group and webhook of the topic gets it. This cannot be taken back.";
  return panel("Publish a test message", { unit: words, body: [h("p.field", h("span.lab", "By the rules of"), doors.element), place] });
}

function formOf(door, topic, tell, signal) {
  const same = (values) => {
    try {
      const body = requestOf(door, values, topic);
      return { cli: commandOf(body), rest: rest("tryMessage", {}, body) };
    } catch (error) {
      return { loss: error.message };
    }
  };
  const send = async (values) => {
    const found = await perform("tryMessage", {}, requestOf(door, values, topic), { signal });
    told(found, tell);
    return found;
  };
  return form({ fields: fieldsOf[door](topic), submit: `Publish to ${topic.name}`, same, send }).element;
}

function told({ id, routed, places }, tell) {
  if (!routed && places.length === 0) {
    tell("warn", "No queue took the message.", "Nothing is bound to the exchange for this routing key.");
    return;
  }
  if (places.length === 0) {
    tell("info", "1 message was taken.", "It waits for its time, or this store cannot find messages by id. The audit has an entry.");
    return;
  }
  const where = places
    .slice(0, 3)
    .map((place, at) => [
      at > 0 && "; ",
      h("a", { href: lookAt(place) }, name(place.topic), ` queue ${place.queueId}, offset `, number(place.offset)),
    ]);
  const more = places.length > 3 ? ` and ${count(places.length - 3, "more place", "more places")}` : "";
  const journey = journeyOf(id);
  tell(
    "info",
    "1 message was published.",
    h("span", " ", where, more, ".", !routed && " No queue is bound to it.", " The audit has an entry."),
    journey && { label: "Journey", href: journey },
  );
}

/** The viewer of a place, with the message first. */
function lookAt({ topic, namespace, queueId, offset }) {
  const query = { by: "offset", queue: queueId, offset, direction: "forward", namespace: namespace === "default" ? null : namespace };
  return link(path("topics", topic), query);
}
