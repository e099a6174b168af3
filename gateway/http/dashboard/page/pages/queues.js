// Queues of AMQP: those of one virtual host, or of all.

import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { link, path } from "../links.js";
import { declareQueue } from "../parts/amqp_dialogs.js";
import { results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { inTurn, namedInTurn, tellInTurn } from "../parts/in_turn.js";
import { perform, rest } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { admin, pageOf, queueTabs, vhostFilter, vhostNames } from "../parts/rabbitmq.js";
import { chip, none } from "../parts/states.js";
import { table } from "../parts/table.js";

const COLUMNS = [
  "name",
  "vhost",
  "type",
  "durable",
  "auto_delete",
  "exclusive",
  "policy",
  "messages",
  "messages_ready",
  "messages_unacknowledged",
  "consumers",
];
const REFRESH_SECONDS = 5;

export async function show(place, { query }, signal) {
  const told = results();
  const names = await vhostNames(signal);
  const create = async () => {
    const made = await declareQueue(names, list.filter().vhost);
    if (!made) return;
    const { queue, isNew } = made.done;
    told.tell(
      "info",
      [isNew ? "The queue " : "There is such a queue already: ", name(queue), isNew && " was created."],
      "The audit has an entry.",
    );
    await list.reload();
  };
  const top = head("Queues and exchanges", {
    acts: h("button.primary", { type: "button", onclick: create }, "Create a queue"),
    sub: ["AMQP 0-9-1"],
  });
  const list = queueList(names, told, create, signal);
  place.append(top.element, queueTabs("queues", query.get("vhost") ?? ""), told.element, panel("Queues", { flush: list.element }));
}

function queueList(names, told, create, signal) {
  let filter = {};
  const list = table({
    label: "Queues",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all queues",
    key: (row) => `${row.vhost} ${row.name}`,
    sort: "name",
    columns: columns(),
    filters: [{ name: "q", label: "Name contains" }, vhostFilter(names)],
    load: (asked) => {
      filter = asked.filter;
      return pageOf("queues", asked, COLUMNS);
    },
    actions: [{ label: (rows) => `Delete ${count(rows.length, "queue")}`, isDanger: true, act: (rows) => deleteQueues(rows, told) }],
    empty: {
      title: "No queues",
      text: "An AMQP client declares its queues, or you create one here.",
      action: { label: "Create a queue", act: create },
    },
  });
  return { ...list, filter: () => filter };
}

function columns() {
  const flags = (row) =>
    [!row.durable && chip("transient"), row.auto_delete && chip("auto-delete"), row.exclusive && chip("exclusive")]
      .filter(Boolean)
      .map((each) => [" ", each]);
  return [
    {
      id: "name",
      label: "Queue",
      isHead: true,
      sort: "name",
      cell: (row) => [h("a", { href: link(path("queues", row.vhost, row.name)) }, name(row.name)), flags(row)],
    },
    { id: "vhost", label: "Virtual host", sort: "vhost", optional: 1, cell: (row) => name(row.vhost) },
    { id: "type", label: "Type", sort: "type", optional: 1, cell: (row) => row.type },
    { id: "ready", label: "Ready", align: "n", sort: "messages_ready", cell: (row) => number(row.messages_ready) },
    { id: "unacked", label: "Unacked", align: "n", sort: "messages_unacknowledged", cell: (row) => number(row.messages_unacknowledged) },
    { id: "consumers", label: "Consumers", align: "n", sort: "consumers", optional: 1, cell: (row) => number(row.consumers) },
    { id: "policy", label: "Policy", sort: "policy", optional: 2, cell: (row) => (row.policy ? name(row.policy) : none()) },
  ];
}

async function deleteQueues(rows, told) {
  const isKnown = rows.every((row) => row.messages !== undefined);
  const messages = isKnown ? rows.reduce((sum, row) => sum + Number(row.messages), 0) : null;
  const result = await confirm({
    title: `Delete ${count(rows.length, "queue")}?`,
    loss: [h("b", number(messages)), " messages and all bindings of these queues are lost. This cannot be undone."],
    ...namedInTurn(
      rows,
      (row) => [name(row.name), h("span.q", " in ", name(row.vhost))],
      (row) => ({ cli: admin(row.vhost, "delete queue", { name: row.name }), rest: rest("deleteQueue", row) }),
    ),
    verb: `Delete ${count(rows.length, "queue")}`,
    isDanger: true,
    typed: rows.length === 1 ? rows[0].name : `delete ${rows.length}`,
    run: () => inTurn(rows, (row) => perform("deleteQueue", row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["queue"], "deleted", (row) => row.name);
  return true;
}
