// Resetting a group: where it goes on, and how many messages come again or are skipped, as far as that is known.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { openDialog } from "./dialog.js";
import { form } from "./form.js";
import { pathOf, perform, same } from "./operations.js";
import { unknown } from "./states.js";
import { fromField } from "./time_field.js";

const POSITIONS = [
  ["latest", "the latest: skip what waits"],
  ["earliest", "the earliest: all that is kept comes again"],
  ["time", "a time"],
  ["offset", "an offset"],
];
const TYPING_MS = 300;
const MOST_QUEUES = 64; // whose messages are looked up for a forecast
const WORD = "TIME";

/** Ask where a group goes on; resolves to {done: {topic, to, queueId}}.  `progress`: of the group, queue by queue. */
export async function resetGroup(group, namespace, progress) {
  const topics = [...new Set(progress.map((each) => each.topic))];
  const forecast = forecastOf(namespace, progress);
  const names = { name: group, namespace };
  let dialog = null;
  const inner = form({
    fields: fieldsOf(topics),
    submit: `Reset ${group}`,
    isDanger: true,
    same: (values) => {
      forecast.ask(values);
      return { loss: forecast.element, ...same("resetGroup", names, bodyOf(values)) };
    },
    send: async (values) => {
      await perform("resetGroup", names, bodyOf(values));
      return bodyOf(values);
    },
    cancel: () => dialog.close(),
    done: (answer) => dialog.close({ done: answer }),
  });
  const adjust = () => {
    const { position } = inner.values();
    for (const each of ["time", "offset"]) {
      const { element, input } = inner.field(each);
      element.hidden = each !== position;
      input.required = each === position;
    }
  };
  inner.element.addEventListener("input", adjust);
  adjust();
  dialog = openDialog(`Reset ${group}`, h("p.q2", "Its progress there is forgotten. This cannot be undone."), inner.element);
  inner.field("position").input.focus();
  const result = await dialog.closed;
  forecast.stop();
  return result;
}

function fieldsOf(topics) {
  const topic = topics.length ? { type: "select", options: topics.map((each) => [each, each]) } : { hint: "The group has read none yet." };
  return [
    { name: "topic", label: "Topic", required: true, problem: ["topic"], ...topic },
    { name: "queueId", label: "Queue", type: "number", hint: "Empty: all queues of the topic.", problem: ["queue"] },
    { name: "position", label: "Go on at", type: "select", options: POSITIONS, value: "latest", wide: true },
    { name: "time", label: "Time, UTC", type: "datetime-local", step: "1", problem: ["RFC 3339"] },
    { name: "offset", label: "Offset", inputmode: "numeric", pattern: "[0-9]{1,19}", problem: ["offset"], hint: "Digits." },
  ];
}

/** The request of the values.  Offsets are text: the server reads them exactly. */
function bodyOf({ topic = "", queueId, position, time, offset }) {
  const to = position === "time" ? (time ? fromField(time) : WORD) : position === "offset" ? (offset ?? "OFFSET") : position;
  return { topic, to, ...(queueId === undefined ? {} : { queueId }) };
}

/** What a reset means, in words that follow the form. */
function forecastOf(namespace, progress) {
  const element = h("span", { role: "status" });
  let timer = null;
  let asking = null;
  const stop = () => {
    clearTimeout(timer);
    asking?.abort();
  };
  const ask = (values) => {
    stop();
    asking = new AbortController();
    const { signal } = asking;
    timer = setTimeout(async () => {
      try {
        const words = await wordsOf(namespace, progress, values, signal);
        if (!signal.aborted) fill(element, words);
      } catch (error) {
        if (signal.aborted) return;
        fill(element, "How many messages come again: ", unknown(), " (", error.message, ")");
      }
    }, TYPING_MS);
  };
  return { element, ask, stop };
}

async function wordsOf(namespace, progress, values, signal) {
  const { topic, queueId, position, time, offset } = values;
  if ((position === "time" && !time) || (position === "offset" && !/^\d{1,19}$/.test(offset ?? ""))) return "";
  const queues = progress.filter((each) => each.topic === topic && (queueId === undefined || each.queueId === queueId));
  if (queues.length === 0) return "The group has read nothing there: its start is set.";
  if (queues.length > MOST_QUEUES && position !== "latest")
    return ["How many messages come again: ", unknown(`unknown, of ${queues.length} queues`)];
  const found = await Promise.all(queues.map((queue) => effect(namespace, queue, values, signal)));
  const sum = (key) => found.reduce((all, each) => all + each[key], 0n);
  const isExact = found.every((each) => each.isExact);
  const some = (value) => h("b", isExact ? number(value) : ["at most ", number(value)]);
  return [
    some(sum("again")),
    " messages come again; ",
    some(sum("skipped")),
    ` that wait are skipped, in ${queues.length === 1 ? "1 queue" : `${queues.length} queues`}.`,
  ];
}

/** Messages of a queue that come again, and those that are skipped.  Exact where all before the committed offset and
 * none behind it is settled, or where it goes to an end. */
async function effect(namespace, queue, { position, time, offset }, signal) {
  const [committed, end, lag] = [queue.committedOffset, queue.maxOffset, queue.lag].map(BigInt);
  if (position === "latest") return { again: 0n, skipped: lag, isExact: true };
  const query = { queue: queue.queueId, limit: 1, bodyBytes: 0, direction: "forward", from: position === "time" ? fromField(time) : null };
  const page = await get(pathOf("viewMessages", { name: queue.topic, namespace }), { query, signal });
  const first = BigInt(page.minOffset);
  const settled = end - first - lag;
  if (position === "earliest") return { again: settled > 0n ? settled : 0n, skipped: 0n, isExact: committed >= first };
  const wanted = position === "offset" ? BigInt(offset) : page.value.length ? BigInt(page.value[0].offset) : end;
  const at = wanted < first ? first : wanted > end ? end : wanted;
  const behind = settled - (committed - first); // settled ones behind the committed offset
  if (at <= committed) return { again: committed - at + behind, skipped: 0n, isExact: committed >= first };
  const most = (one, other) => (one < other ? one : other);
  return { again: most(behind, end - at), skipped: most(lag, at - committed), isExact: behind === 0n };
}
