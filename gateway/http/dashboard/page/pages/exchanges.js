// Exchanges of AMQP: those of one virtual host, or of all.

import { h, name } from "../dom.js";
import { link, path } from "../links.js";
import { declareExchange } from "../parts/amqp_dialogs.js";
import { results } from "../parts/banner.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { argumentsText, exchangeName, inPath, pageOf, queueTabs, vhostFilter, vhostNames } from "../parts/rabbitmq.js";
import { chip, none } from "../parts/states.js";
import { table } from "../parts/table.js";

const COLUMNS = ["name", "vhost", "type", "durable", "auto_delete", "internal", "arguments", "policy"];

export async function show(place, { query }, signal) {
  const told = results();
  const names = await vhostNames(signal);
  let vhost = query.get("vhost") ?? "";
  const create = async () => {
    const made = await declareExchange(names, vhost);
    if (!made) return;
    const { exchange, isNew } = made.done;
    told.tell(
      "info",
      [isNew ? "The exchange " : "There is such an exchange already: ", name(exchange), isNew && " was created."],
      "The audit has an entry.",
    );
    await list.reload();
  };
  const list = table({
    label: "Exchanges",
    signal,
    what: "all exchanges",
    key: (row) => `${row.vhost} ${row.name}`,
    sort: "name",
    columns: columns(),
    filters: [{ name: "q", label: "Name contains" }, vhostFilter(names)],
    load: (asked) => {
      vhost = asked.filter.vhost;
      return pageOf("exchanges", asked, COLUMNS);
    },
    empty: {
      title: "No exchanges",
      text: "An AMQP client declares its exchanges, or you create one here.",
      action: { label: "Create an exchange", act: create },
    },
  });
  const top = head("Queues and exchanges", {
    acts: h("button.primary", { type: "button", onclick: create }, "Create an exchange"),
    sub: ["AMQP 0-9-1"],
  });
  place.append(top.element, queueTabs("exchanges", vhost), told.element, panel("Exchanges", { flush: list.element }));
}

function columns() {
  const flags = (row) =>
    [!row.durable && chip("transient"), row.auto_delete && chip("auto-delete"), row.internal && chip("internal")]
      .filter(Boolean)
      .map((each) => [" ", each]);
  return [
    {
      id: "name",
      label: "Exchange",
      isHead: true,
      sort: "name",
      cell: (row) => [h("a", { href: link(path("exchanges", row.vhost, inPath(row.name))) }, exchangeName(row.name)), flags(row)],
    },
    { id: "type", label: "Type", sort: "type", cell: (row) => row.type },
    { id: "vhost", label: "Virtual host", sort: "vhost", optional: 1, cell: (row) => name(row.vhost) },
    { id: "arguments", label: "Arguments", optional: 2, cell: (row) => argumentsText(row.arguments) },
    { id: "policy", label: "Policy", sort: "policy", optional: 1, cell: (row) => (row.policy ? name(row.policy) : none()) },
  ];
}
