// Requests of the pages of topics.

import { get } from "../api.js";
import { pathOf } from "./operations.js";

/** The row of a topic in the list, with `answered`; null where there is none that the user may see.  A list misses nothing by
 * a 404, and tells sums also while a broker is away. */
export async function topicRow(topic, signal, namespace = "default") {
  const found = await get(pathOf("listTopics", { namespace }), { query: { prefix: topic, limit: 1 }, signal });
  const row = found.value[0];
  return row?.name === topic ? { ...row, answered: found.answered } : null;
}

/** True if there is a topic of that name that the user may see. */
export const topicExists = async (topic, signal, namespace = "default") => (await topicRow(topic, signal, namespace)) !== null;

/** A topic as its row has it.  Raises the refusal where there is none, or none for the user. */
export async function topicNow(topic, namespace, signal) {
  const row = await topicRow(topic, signal, namespace);
  return row ?? withSums(await get(pathOf("getTopic", { name: topic, namespace }), { signal }));
}

/** A topic made or granted since the list was asked: its sums are those of its queues. */
function withSums(found) {
  const sum = (value) => String(found.offsets.reduce((total, each) => total + value(each), 0n));
  const messages = sum((each) => BigInt(each.maxOffset) - BigInt(each.minOffset));
  return { ...found, messages, written: sum((each) => BigInt(each.maxOffset)), isAvailable: true, isComplete: true, answered: null };
}
