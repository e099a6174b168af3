// What the pages of topics ask the server for.

import { get, segment } from "../api.js";
import { inNamespace } from "./namespaces.js";

/** The path of a topic below `/api/v1/`. */
export const topicPath = (topic, namespace) => inNamespace(namespace, `topics/${segment(topic)}`);

/** True if there is a topic of that name that the user may see.  A list is asked, which misses nothing by a 404. */
export async function topicExists(topic, signal, namespace = "default") {
  const found = await get(inNamespace(namespace, "topics"), { query: { prefix: topic, limit: 1 }, signal });
  return found.value[0]?.name === topic;
}

/** The messages that a topic holds: a bigint. */
export const held = (offsets) => offsets.reduce((sum, each) => sum + BigInt(each.maxOffset) - BigInt(each.minOffset), 0n);

/** All messages ever written to a topic: a bigint. */
export const written = (offsets) => offsets.reduce((sum, each) => sum + BigInt(each.maxOffset), 0n);
