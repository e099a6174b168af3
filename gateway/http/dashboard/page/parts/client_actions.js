// Actions on clients of all doors: each asks first, says what it means, and tells what came of it.

import { name } from "../dom.js";
import { count, number } from "../format.js";
import { commandText, quoted } from "./copying.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { perform, rest, same } from "./operations.js";

const IN_AUDIT = "The audit has an entry for each.";
const DISCONNECT_WORDS = "Its will is published, its session stays. It may come back at once.";
const MAX_NAMED = 5; // names in a result

const question = (verb, names, what) => [`${verb} `, names.length === 1 ? name(names[0]) : count(names.length, what), "?"];

/** Tell how many of `outcomes` ([{what, isDone, why}]) were done, and why the others were not. */
function tellOutcomes(tell, outcomes, one, done, answered = null) {
  const failed = outcomes.filter((each) => !each.isDone);
  const amount = outcomes.length - failed.length;
  if (failed.length === 0) {
    tell(
      "info",
      [outcomes.length === 1 ? name(outcomes[0].what) : count(amount, one), ` ${outcomes.length === 1 ? "was" : "were"} ${done}.`],
      IN_AUDIT,
    );
    return;
  }
  const missing = answered?.missing ?? [];
  const why = failed.slice(0, MAX_NAMED).map((each) => [name(each.what), `: ${each.why}. `]);
  const more = failed.length > MAX_NAMED && `And ${number(failed.length - MAX_NAMED)} more. `;
  const unknown = missing.map((each) => [name(each.name), ` ${each.reason}: it was not told. `]);
  tell("warn", `${number(amount)} of ${count(outcomes.length, one)} ${amount === 1 ? "was" : "were"} ${done}.`, [
    " ",
    why,
    more,
    unknown,
    amount > 0 && IN_AUDIT,
  ]);
}

/** Disconnect MQTT clients; true where it was done. */
export async function disconnectMqtt(ids, tell) {
  const isOne = ids.length === 1;
  const asked = isOne ? ["disconnectClient", { id: ids[0] }] : ["disconnectClients", {}, { ids }];
  const result = await confirm({
    title: question("Disconnect", ids, "MQTT client"),
    loss: `${isOne ? "It gets" : "Each gets"} DISCONNECT 0x98, administrative action. ${DISCONNECT_WORDS}`,
    cli: commandText("entrepot client kick", ids),
    rest: rest(...asked),
    verb: isOne ? "Disconnect" : `Disconnect ${ids.length}`,
    isDanger: true,
    run: () => perform(...asked),
  });
  if (!result) return false;
  const outcomes = isOne ? [{ id: ids[0], disconnected: true }] : result.done.value;
  tellOutcomes(
    tell,
    outcomes.map((each) => ({ what: each.id, isDone: each.disconnected, why: each.error?.message ?? "not connected" })),
    "MQTT client",
    "disconnected",
  );
  return true;
}

/** End MQTT sessions; `loss`: what of them is known to be lost.  True where it was done. */
export async function endSessions(ids, loss, tell) {
  const said = ids.map((id) => same("endSession", { id }, undefined, { isSure: true }));
  const result = await confirm({
    title: ids.length === 1 ? ["End the session of ", name(ids[0]), "?"] : `End ${ids.length} MQTT sessions?`,
    loss: [loss, " Messages that wait for it are lost to it, and its will is published. This cannot be undone."],
    cli: said.map(({ cli }) => cli).join("\n"),
    rest: { ...said[0].rest, path: said.map((each) => each.rest.path).join("\nDELETE ") },
    verb: ids.length === 1 ? "End session" : `End ${ids.length} sessions`,
    isDanger: true,
    run: () => endAll(ids),
  });
  if (!result) return false;
  tellOutcomes(tell, result.done, "session", "ended");
  return true;
}

/** One after the other: what fails does not keep the others.  Of one alone, the failure is thrown. */
async function endAll(ids) {
  const outcomes = [];
  for (const id of ids) {
    try {
      await perform("endSession", { id });
      outcomes.push({ what: id, isDone: true });
    } catch (error) {
      if (ids.length === 1) throw error;
      outcomes.push({ what: id, isDone: false, why: error.message });
    }
  }
  return outcomes;
}

/** Close AMQP connections with a reason; true where it was done. */
export async function closeAmqp(names, loss, tell) {
  const result = await formDialog(question("Close", names, "AMQP connection"), {
    loss: [loss, " Unacknowledged messages go back to their queues. Clients may come back at once."],
    fields: [
      {
        name: "reason",
        label: "Reason that the clients are told",
        value: "an operator closed the connection",
        maxlength: 200,
        required: true,
        wide: true,
      },
    ],
    submit: names.length === 1 ? "Close" : `Close ${names.length}`,
    isDanger: true,
    same: ({ reason = "" }) => ({
      cli: commandText(`entrepot amqp close --reason ${quoted(reason)}`, names),
      rest: rest("closeAmqpConnections", {}, { names, reason }),
    }),
    send: ({ reason }) => perform("closeAmqpConnections", {}, { names, reason }),
  });
  if (!result) return false;
  const { value, answered } = result.done;
  tellOutcomes(
    tell,
    value.map((each) => ({ what: each.name, isDone: each.closed, why: "not connected" })),
    "AMQP connection",
    "closed",
    answered,
  );
  return true;
}

/** Disconnect RocketMQ clients; true where it was done. */
export async function disconnectRocketMq(ids, tell) {
  const result = await confirm({
    title: question("Disconnect", ids, "RocketMQ client"),
    loss: "Its streams end, and messages that it holds go back to their groups at once. Its SDK connects again by itself.",
    cli: commandText("entrepot rocketmq disconnect", ids),
    rest: rest("disconnectRocketMqClients", {}, { ids }),
    verb: ids.length === 1 ? "Disconnect" : `Disconnect ${ids.length}`,
    isDanger: true,
    run: () => perform("disconnectRocketMqClients", {}, { ids }),
  });
  if (!result) return false;
  const { value, answered } = result.done;
  tellOutcomes(
    tell,
    value.map((each) => ({ what: each.id, isDone: each.disconnected, why: "not connected" })),
    "RocketMQ client",
    "disconnected",
    answered,
  );
  return true;
}

/** Disconnect clients of any doors; true where it was done.  `rows`: each with its door and id. */
export async function disconnectConnected(rows, tell) {
  const clients = [...new Map(rows.map(({ door, id }) => [`${door}\n${id}`, { door, id }])).values()];
  const ids = clients.map((each) => each.id);
  const doors = [...new Set(clients.map((each) => each.door))];
  const commands = doors.map((door) =>
    commandText(
      "entrepot client kick",
      clients.filter((each) => each.door === door).map((each) => each.id),
      ` --door ${quoted(door)}`,
    ),
  );
  const result = await confirm({
    title: question("Disconnect", ids, "client"),
    loss: "What they hold goes back to their queues and groups. They may come back at once.",
    cli: commands.join("\n"),
    rest: rest("disconnectConnectedClients", {}, { clients }),
    verb: ids.length === 1 ? "Disconnect" : `Disconnect ${ids.length}`,
    isDanger: true,
    run: () => perform("disconnectConnectedClients", {}, { clients }),
  });
  if (!result) return false;
  const { value, answered } = result.done;
  tellOutcomes(
    tell,
    value.map((each) => ({ what: each.id, isDone: each.disconnected, why: each.error?.message ?? "not connected" })),
    "client",
    "disconnected",
    answered,
  );
  return true;
}
