// Policies of queues and exchanges: arguments given by name, users' and operators'.

import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { putPolicy } from "../parts/amqp_dialogs.js";
import { results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { inTurn, namedInTurn, tellInTurn } from "../parts/in_turn.js";
import { perform, rest } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { admin, argumentsText, pageOf, queueTabs, vhostFilter, vhostNames } from "../parts/rabbitmq.js";
import { table } from "../parts/table.js";

const COLUMNS = ["name", "vhost", "pattern", "apply-to", "definition", "priority"];

const CREATE = { policies: "Create a policy", "operator-policies": "Create an operator's policy" };

export async function show(place, { query }, signal) {
  const told = results();
  const names = await vhostNames(signal);
  const vhost = query.get("vhost") ?? "";
  const users = policies("policies", "Policies", names, vhost, told, signal);
  const operators = policies("operator-policies", "Operators' policies", names, vhost, told, signal);
  const acts = [
    h("button", { type: "button", onclick: operators.create }, CREATE["operator-policies"]),
    h("button.primary", { type: "button", onclick: users.create }, CREATE.policies),
  ];
  const top = head("Queues and exchanges", {
    acts,
    sub: ["AMQP 0-9-1", "Of the matching policies, the one with the highest priority holds. An operator's only narrows."],
  });
  place.append(
    top.element,
    queueTabs("queue-policies", vhost),
    told.element,
    panel("Policies", { flush: users.element }),
    panel("Operators' policies", { flush: operators.element }),
  );
}

function policies(kind, label, names, vhost, told, signal) {
  const put = async (policy) => {
    const made = await putPolicy(kind, names, vhost, policy);
    if (!made) return;
    told.tell(
      "info",
      ["The policy ", name(made.done), policy ? " was changed." : " was created."],
      "It holds from now on. The audit has an entry.",
    );
    await list.reload();
  };
  const create = () => put(null);
  const act = (policy) =>
    h("button.small", { type: "button", "aria-label": `Change ${policy.name}`, onclick: () => put(policy) }, "Change");
  const list = table({
    label,
    signal,
    inAddress: kind === "policies",
    what: "all policies",
    key: (row) => `${row.vhost} ${row.name}`,
    sort: "name",
    columns: columns(act),
    filters: kind === "policies" ? [{ name: "q", label: "Name contains" }, vhostFilter(names)] : [],
    load: (asked) => pageOf(kind, kind === "policies" ? asked : { ...asked, filter: { vhost } }, COLUMNS),
    actions: [
      { label: (rows) => `Delete ${count(rows.length, "policy", "policies")}`, isDanger: true, act: (rows) => remove(kind, rows, told) },
    ],
    empty: {
      title: `No ${label.toLowerCase()}`,
      text: "A policy gives queues limits, times to live and dead-letter exchanges by their names.",
      action: { label: CREATE[kind], act: create },
    },
  });
  return { element: list.element, create };
}

function columns(act) {
  return [
    { id: "name", label: "Policy", isHead: true, sort: "name", cell: (row) => name(row.name) },
    { id: "vhost", label: "Virtual host", sort: "vhost", optional: 1, cell: (row) => name(row.vhost) },
    { id: "pattern", label: "Pattern", cell: (row) => h("span.mono.xs", name(row.pattern)) },
    { id: "for", label: "For", optional: 1, sort: "apply-to", cell: (row) => row["apply-to"].replace("_", " ") },
    { id: "priority", label: "Priority", align: "n", sort: "priority", optional: 1, cell: (row) => number(row.priority) },
    { id: "definition", label: "Definition", optional: 1, cell: (row) => argumentsText(row.definition) },
    { id: "do", label: "", cell: act },
  ];
}

async function remove(kind, rows, told) {
  const [command, id] = kind === "policies" ? ["delete policy", "deletePolicy"] : ["delete operator_policy", "deleteOperatorPolicy"];
  const amount = count(rows.length, "policy", "policies");
  const result = await confirm({
    title: `Delete ${amount}?`,
    loss: "Queues and exchanges go without their arguments at once, or take the next matching policy. You can create them again.",
    ...namedInTurn(
      rows,
      (row) => [name(row.name), h("span.q", " in ", name(row.vhost))],
      (row) => ({ cli: admin(row.vhost, command, { name: row.name }), rest: rest(id, row) }),
    ),
    verb: `Delete ${amount}`,
    isDanger: true,
    run: () => inTurn(rows, (row) => perform(id, row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["policy", "policies"], "deleted", (row) => row.name);
  return true;
}
