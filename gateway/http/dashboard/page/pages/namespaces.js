// Namespaces: each has topics and groups with names of its own.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { formDialog } from "../parts/form.js";
import { head } from "../parts/head.js";
import { perform, same } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";
import { audited } from "../parts/user_actions.js";

const DEFAULT = "default";
const maybe = (value) => (value === null ? none() : number(value));

export function show(place, parameters, signal) {
  const top = head("Namespaces", { sub: ["topics and groups with names of their own", "only an empty one can be deleted"] });
  const told = results();
  const create = () => createNamespace(told, () => list.reload());
  const remove = (row) => deleteNamespace(row, told, () => list.reload());
  const list = table({
    label: "Namespaces",
    signal,
    key: (row) => row.name,
    columns: [
      { id: "name", label: "Namespace", isHead: true, cell: (row) => name(row.name) },
      { id: "topics", label: "Topics", align: "n", cell: (row) => number(row.topics) },
      { id: "groups", label: "Groups", align: "n", cell: (row) => number(row.groups) },
      { id: "vhost", label: "AMQP virtual host", optional: 1, cell: (row) => (row.vhost === null ? none() : name(row.vhost)) },
      { id: "queues", label: "Queues", align: "n", optional: 1, cell: (row) => maybe(row.queues) },
      { id: "exchanges", label: "Exchanges", align: "n", optional: 2, cell: (row) => maybe(row.exchanges) },
      { id: "queuePolicies", label: "Queue policies", align: "n", optional: 2, cell: (row) => maybe(row.queuePolicies) },
      {
        id: "do",
        label: "",
        align: "n",
        cell: (row) => row.name !== DEFAULT && h(
          "button.small.danger",
          { type: "button", "aria-label": `Delete ${row.name}`, onclick: () => remove(row) },
          "Delete",
        ),
      },
    ],
    filters: [{ name: "find", label: "Name contains" }],
    load: ({ after, limit, filter, signal: asked }) => get("namespaces", { query: { after, limit, ...filter }, signal: asked }),
  });
  top.acts([h("button.primary", { type: "button", onclick: create }, "Create a namespace")]);
  place.append(top.element, told.element, panel("Namespaces", { flush: list.element }));
}

async function createNamespace(told, reload) {
  let made = "";
  const result = await formDialog("Create a namespace", {
    fields: [{ name: "name", label: "Name", required: true, wide: true, problem: ["namespace"], hint: "An existing one stays as it is." }],
    submit: "Create the namespace",
    same: (values) => same("putNamespace", values, {}),
    send: (values) => {
      made = values.name;
      return perform("putNamespace", values, {});
    },
  });
  if (!result) return;
  audited(told, ["The namespace ", name(made), " is there."], made);
  await reload();
}

async function deleteNamespace(row, told, reload) {
  const result = await confirm({
    title: `Delete the namespace ${row.name}?`,
    loss: [
      "It has ",
      number(row.topics),
      " topics and ",
      number(row.groups),
      " groups. It is deleted only if it has none, so no message is lost. You can create it again.",
    ],
    ...same("deleteNamespace", row),
    verb: "Delete namespace",
    isDanger: true,
    run: () => perform("deleteNamespace", row).then(() => true),
  });
  if (!result) return;
  audited(told, ["The namespace ", name(row.name), " was deleted."], row.name);
  await reload();
}
