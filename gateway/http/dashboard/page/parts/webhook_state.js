// Subscriptions in words: their state, the circuit of their sink, and its answers.

import { h, name } from "../dom.js";
import { duration, fullTime, isUnknown, milliseconds, number, time } from "../format.js";
import { state, unknown } from "./states.js";

const STATES = { active: ["ok", "active"], unverified: ["warn", "waits for consent"], suspended: ["bad", "suspended"] };
const CIRCUITS = { closed: ["ok", "closed"], trying: ["warn", "one try"], open: ["bad", "open: pauses"] };
const WORST = ["open", "trying", "closed"];

/** The state of a subscription. */
export function subscriptionState({ status }) {
  const [kind, word] = STATES[status.state] ?? ["unknown", status.state];
  return state(kind, status.reason ? [word, ": ", name(status.reason)] : word);
}

/** The state of one circuit. */
export const circuitState = ({ state: word }) => state(...(CIRCUITS[word] ?? ["unknown", word]));

/** The worst circuit of all gateways. */
export function worstCircuit({ deliveries }) {
  const states = new Set(deliveries.map((each) => each.circuit.state));
  const worst = WORST.find((each) => states.has(each));
  return worst ? circuitState({ state: worst }) : unknown();
}

/** The answers of all gateways, the newest first. */
export function answersOf({ deliveries }) {
  const all = deliveries.flatMap(({ gateway, answers }) => answers.map((each) => ({ gateway, ...each })));
  return all.sort((one, other) => (one.time < other.time ? 1 : -1));
}

/** An answer in short: its status or fault. */
export function answerWord(answer) {
  if (!answer) return h("span.q", "none yet");
  const word = answer.status ?? name(answer.fault ?? "no answer");
  const isGood = answer.status !== null && answer.status < 300;
  return isGood ? word : state(answer.status === null ? "bad" : "warn", word);
}

/** One line of answers. */
export function answerRow(answer) {
  return h(
    "tr",
    h("td", { title: fullTime(answer.time) }, time(answer.time)),
    h("td", answerWord(answer)),
    h("td", answer.outcome.replaceAll("_", " ")),
    h("td.n", milliseconds(answer.durationMs)),
    h("td.n.opt", number(answer.events)),
    h("td.n", number(answer.attempt)),
    h("td.opt", name(answer.gateway)),
  );
}

/** A time that may not be: none. */
export const timeOrNone = (value, none = "–") =>
  isUnknown(value) ? h("span.q", none) : h("span", { title: fullTime(value) }, time(value), " UTC");

/** The waits between attempts: `1 s, 2 s, 4 s, then 10 min up to attempt 16`. */
export function scheduleWords({ retryDelaysSeconds: delays, config }) {
  if (delays.length === 0) return "It is sent once; what fails is a dead letter.";
  const same = delays.findIndex((each, at) => at > 0 && each === delays[at - 1]);
  const isWhole = same === -1 && delays.length === config.maxattempts - 1;
  const rising = same === -1 ? delays : delays.slice(0, same - 1);
  const words = rising.map((each) => duration(each));
  if (!isWhole) words.push(`then every ${duration(delays.at(-1))}`);
  return `${words.join(", ")}; after ${number(config.maxattempts)} attempts it is a dead letter.`;
}
