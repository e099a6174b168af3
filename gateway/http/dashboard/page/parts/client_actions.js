// Actions on clients of all doors: each asks first, says what it means, and tells what came of it.

import { del, post, segment } from "../api.js";
import { name } from "../dom.js";
import { count, number } from "../format.js";
import { quoted } from "./copying.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";

const V1 = "/api/v1/";
const IN_AUDIT = "The audit has an entry for each.";
const DISCONNECT_WORDS = "Its will is published, its session stays. It may come back at once.";
const MAX_NAMED = 5; // names in a result

/** Names as arguments of a command: none is taken for an option. */
export const words = (names) => `${names.some((each) => each.startsWith("-")) ? "-- " : ""}${names.map(quoted).join(" ")}`;

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
  const result = await confirm({
    title: question("Disconnect", ids, "MQTT client"),
    loss: `${isOne ? "It gets" : "Each gets"} DISCONNECT 0x98, administrative action. ${DISCONNECT_WORDS}`,
    cli: `entrepot client kick ${words(ids)}`,
    rest: isOne
      ? { method: "DELETE", path: `${V1}clients/${segment(ids[0])}` }
      : { method: "POST", path: `${V1}clients:disconnect`, body: { ids } },
    verb: isOne ? "Disconnect" : `Disconnect ${ids.length}`,
    isDanger: true,
    run: () => (isOne ? del(`clients/${segment(ids[0])}`) : post("clients:disconnect", { ids })),
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
  const result = await confirm({
    title: ids.length === 1 ? ["End the session of ", name(ids[0]), "?"] : `End ${ids.length} MQTT sessions?`,
    loss: [loss, " Messages that wait for it are lost to it, and its will is published. This cannot be undone."],
    cli: ids.map((id) => `entrepot session delete --yes ${words([id])}`).join("\n"),
    rest: { method: "DELETE", path: ids.map((id) => `${V1}sessions/${segment(id)}`).join("\nDELETE ") },
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
      await del(`sessions/${segment(id)}`);
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
      cli: `entrepot amqp close --reason ${quoted(reason)} ${words(names)}`,
      rest: { method: "POST", path: `${V1}amqp/connections:close`, body: { names, reason } },
    }),
    send: ({ reason }) => post("amqp/connections:close", { names, reason }),
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
    cli: `entrepot rocketmq disconnect ${words(ids)}`,
    rest: { method: "POST", path: `${V1}rocketmq/clients:disconnect`, body: { ids } },
    verb: ids.length === 1 ? "Disconnect" : `Disconnect ${ids.length}`,
    isDanger: true,
    run: () => post("rocketmq/clients:disconnect", { ids }),
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
