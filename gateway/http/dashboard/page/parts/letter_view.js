// One dead letter: where it came from, why it died, its properties, and the first bytes of its body.

import { get, segment } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, fullTime, number } from "../format.js";
import { failure } from "./answers.js";
import { inNamespace } from "./namespaces.js";
import { facts, panel, scrolling } from "./panel.js";
import { messageLink, topicLink } from "./place_links.js";
import { fromBase64, preview } from "./preview.js";
import { none, state } from "./states.js";

const BODY_BYTES = 4096;

/** A panel about a letter: a row of the list.  Looking takes no message. */
export async function letterPanel(letter, close, signal) {
  const { origin } = letter;
  const path = `topics/${segment(letter.topic)}/messages/${letter.queueId}/${letter.queueOffset}`;
  let content;
  try {
    content = contents(await get(inNamespace(letter.namespace, path), { query: { bodyBytes: BODY_BYTES }, signal }));
  } catch (error) {
    if (signal.aborted) throw error;
    content = failure("The body was not shown", error);
  }
  const about = facts([
    ["Reason", letter.reason ? name(letter.reason) : none()],
    ["Dead since", fullTime(letter.time)],
    ["Attempts", number(letter.attempts)],
    ["From", origin ? [topicLink(origin.topic, origin.namespace), `, queue ${number(origin.queueId)}, offset ${number(origin.queueOffset)}`] : none()],
    ["Message", messageLink(origin?.id ?? letter.id)],
    ["Published", fullTime(letter.bornTime)],
    ["Keys", letter.keys.length ? letter.keys.map((key, at) => [at > 0 && ", ", name(key)]) : none()],
    ["Tag", letter.tag ? name(letter.tag) : none()],
    ["Size", bytes(letter.size)],
  ]);
  return panel(`Offset ${number(letter.offset)}`, {
    unit: "looking takes no message",
    acts: h("button.small", { type: "button", onclick: close }, "Close"),
    body: [about, content],
  });
}

/** Body and properties of a message of the viewer. */
function contents(row) {
  if (row.isHidden) return h("p", state("unknown", "You may not read bodies of this topic: the right to SUB is missing."));
  const mask = row.isMasked ? h("p", state("warn", "A rule masks a part of it.")) : null;
  return h("div.stack", h("h3", "Body"), mask, row.body === null ? h("p.q", "no body") : preview(fromBase64(row.body), row.size), properties(row.properties ?? []));
}

function properties(list) {
  if (list.length === 0) return h("p.q", "It has no properties.");
  const rows = list.map((each) => h("tr", h("th", { scope: "row" }, name(each.name)), h("td.brk", each.value === undefined ? h("span.mono.xs", "base64 ", each.base64) : name(each.value))));
  return scrolling("Properties", h("table.flat", h("thead", h("tr", h("th", { scope: "col" }, "Property"), h("th", { scope: "col" }, "Value"))), h("tbody", rows)));
}
