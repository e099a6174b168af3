// Timers: messages that wait for their time; they can be taken back, or get another time.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, count, duration, fullTime, time } from "../format.js";
import { results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { formDialog } from "../parts/form.js";
import { head } from "../parts/head.js";
import { inTurn, namedInTurn, tellInTurn } from "../parts/in_turn.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf, perform, same } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { messageLink, topicLink } from "../parts/place_links.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";
import { fromField, inField } from "../parts/time_field.js";

const REFRESH_SECONDS = 5;

export async function show(place, parameters, signal) {
  const told = results();
  const top = head("Timers", { sub: ["messages that wait for their time", "the next one first", "times in UTC"] });
  const list = table({
    label: "Timers",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all brokers",
    key: (row) => row.handle,
    called: calledAs,
    columns: [
      { id: "id", label: "Message", isHead: true, cell: (row) => messageLink(row.id) },
      { id: "at", label: "Comes at", cell: (row) => h("span.nw", { title: fullTime(row.deliverAt) }, time(row.deliverAt)) },
      {
        id: "in",
        label: "In",
        align: "n",
        optional: 1,
        cell: (row) => duration(Math.max(0, (new Date(row.deliverAt) - Date.now()) / 1000)),
      },
      { id: "topic", label: "Topic", cell: (row) => topicLink(row.topic, row.namespace) },
      {
        id: "keys",
        label: "Keys",
        optional: 1,
        cell: (row) => (row.keys.length ? row.keys.map((key, at) => [at > 0 && ", ", name(key)]) : none()),
      },
      { id: "size", label: "Size", align: "n", optional: 1, cell: (row) => bytes(row.size) },
      { id: "do", label: "", cell: (row) => changeButton(row, told, () => list.reload()) },
    ],
    filters: [{ name: "topic", label: "Topic, whole name" }, NAMESPACE_FILTER],
    load: ({ after, limit, filter, signal: asked }) =>
      get(pathOf("listTimers", filter), { query: { cursor: after, limit, topic: filter.topic }, signal: asked }),
    actions: [{ label: (rows) => `Take back ${rows.length}`, isDanger: true, act: (rows) => recall(rows, told) }],
    empty: { title: "No timers", text: "A message with a delivery time waits here until then." },
  });
  place.append(top.element, told.element, panel("Waiting", { flush: list.element }));
}

/** What a row is called: its handle is too long. */
const calledAs = (row) => `${row.id} of ${row.topic}`;

async function recall(rows, told) {
  const verb = `Take back ${count(rows.length, "message")}`;
  const result = await confirm({
    title: `${verb}?`,
    loss: "They are never delivered. This cannot be undone.",
    ...namedInTurn(
      rows,
      (row) => [name(row.id), " of ", name(row.topic)],
      (row, how) => same("recallMessage", row, undefined, how),
    ),
    verb,
    isDanger: true,
    run: () => inTurn(rows, (row) => perform("recallMessage", row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["message"], "taken back", calledAs);
  return result.done.done > 0;
}

function changeButton(row, told, reload) {
  const change = async () => {
    const result = await formDialog("Change the time", {
      loss: ["The message ", name(row.id), " of ", name(row.topic), " comes at the new time; a past one is now. You can take it back."],
      fields: [
        {
          name: "deliverAt",
          label: "Comes at, UTC",
          type: "datetime-local",
          step: "1",
          required: true,
          value: inField(row.deliverAt),
          wide: true,
        },
      ],
      submit: "Change the time",
      same: ({ deliverAt }) => same("retimeMessage", row, { deliverAt: deliverAt ? fromField(deliverAt) : "TIME" }),
      send: ({ deliverAt }) => perform("retimeMessage", row, { deliverAt: fromField(deliverAt) }),
    });
    if (!result) return;
    told.tell("info", ["The message ", name(row.id), ` comes at ${fullTime(result.done.deliverAt)}.`], "The audit has an entry.");
    await reload();
  };
  return h("button.small", { type: "button", "aria-label": `Change the time of ${calledAs(row)}`, onclick: change }, "Change time");
}
