// States and small signs: form and word carry the state, colour only repeats it.

import { h, name } from "../dom.js";

const KINDS = { ok: "", idle: ".idle", warn: ".warn", bad: ".bad", unknown: ".unkn" };
const DOORS = {
  mqtt: ["mqtt", "MQTT"],
  amqp: ["amqp", "AMQP 0-9-1"],
  rocketmq: ["rmq", "RocketMQ gRPC"],
  http: ["http", "HTTP, CloudEvents"],
};

/** A state with its word.  `kind`: ok ●, idle ○, warn ▲, bad ■, unknown (hatched). */
export function state(kind, word) {
  return h(`span.st${KINDS[kind]}`, word);
}

/** In place of a number that nobody gave. */
export function unknown(word = "unknown") {
  return h("span.unk", word);
}

/** In place of a value that does not apply. */
export const none = () => h("span.q", "–");

/** The arch and name of a door: mqtt, amqp, rocketmq or http. */
export function door(kind, label = DOORS[kind]?.[1] ?? kind) {
  return h("span.door", { class: doorClass(kind) }, label);
}

/** The class that gives a door's colour to charts and bars. */
export const doorClass = (kind) => DOORS[kind]?.[0] ?? "log";

/** The name of a door. */
export const doorName = (kind) => DOORS[kind]?.[1] ?? kind;

/** A short remark beside a value. */
export const chip = (text) => h("span.chip", text);

/** A value that a rule hides, with the rule's name. */
export const masked = (rule) => h("span.masked.mono.xs", "masked by rule ", name(rule));

/** A number with its unit, for key numbers and facts. */
export const withUnit = (value, unit) => [value, h("span.unit", unit)];
