// One dead letter: where it came from, why it died, and the message as it was.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, fullTime, number } from "../format.js";
import { failure } from "./answers.js";
import { pathOf } from "./operations.js";
import { facts, panel } from "./panel.js";
import { messageLink, topicLink } from "./place_links.js";
import { none } from "./states.js";
import { messageView } from "./viewer.js";

const BODY_BYTES = 4096;

/** Panels about a letter: a row of the list.  Looking takes no message. */
export async function letterPanel(letter, close, signal) {
  const { origin } = letter;
  const path = pathOf("viewMessage", { name: letter.topic, namespace: letter.namespace, queue: letter.queueId, offset: letter.queueOffset });
  let content;
  try {
    content = messageView(await get(path, { query: { bodyBytes: BODY_BYTES }, signal }), {
      signal,
      title: "The message",
    });
  } catch (error) {
    if (signal.aborted) throw error;
    content = failure("The body was not shown", error);
  }
  const about = facts([
    ["Reason", letter.reason ? name(letter.reason) : none()],
    ["Dead since", fullTime(letter.time)],
    ["Attempts", number(letter.attempts)],
    [
      "From",
      origin
        ? [topicLink(origin.topic, origin.namespace), `, queue ${origin.queueId}, offset ${number(origin.queueOffset)}`]
        : none(),
    ],
    ["Message", messageLink(origin?.id ?? letter.id)],
    ["Published", fullTime(letter.bornTime)],
    ["Keys", letter.keys.length ? letter.keys.map((key, at) => [at > 0 && ", ", name(key)]) : none()],
    ["Tag", letter.tag ? name(letter.tag) : none()],
    ["Size", bytes(letter.size)],
  ]);
  const head = panel(`Offset ${number(letter.offset)}`, {
    unit: "looking takes no message",
    acts: h("button.small", { type: "button", onclick: close }, "Close"),
    body: about,
  });
  return h("div.stack.wide-gaps", head, content);
}
