// Actions on brokers, replicas and controllers: each asks first, and says what it does.

import { h } from "../dom.js";
import { number } from "../format.js";
import { may } from "../session.js";
import { commandText, quoted } from "./copying.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { perform, rest } from "./operations.js";

const MASTER_WORDS = "Messages wait for about 2 s until the new master leads. A replica of the set has all that was confirmed: nothing is lost.";

/** Buttons for things of the cluster.  `tell(kind, fact, meaning)`: shows a result; `reload()`: asks anew. */
export function clusterActions(tell, reload) {
  const after = async (result, fact, meaning = "The audit has an entry.") => {
    if (!result) return;
    tell("info", fact, meaning);
    await reload();
  };
  const button = (label, act, { isDanger = false, describes = label } = {}) => h("button.small", { type: "button", class: isDanger ? "danger" : "", "aria-label": describes, onclick: act }, label);
  return {
    ofBroker: (broker) => (may("Cluster:UPDATE") ? brokerButtons(broker, button, after) : []),
    ofReplica: (broker, replica) => (may("Cluster:UPDATE") ? replicaButtons(broker, replica, button, after) : null),
    addController: () => (may("Cluster:UPDATE") ? h("button.small", { type: "button", onclick: () => addController(after) }, "Add a controller") : null),
    ofController: (controller) => (may("Cluster:UPDATE") && controller.controller ? controllerButtons(controller, button, after) : null),
  };
}

function brokerButtons(broker, button, after) {
  const drain = async () => after(await confirm(drainDialog(broker)), `${broker.name} is draining.`, "New messages go to the other brokers.");
  const undrain = async () => after(await confirm(undrainDialog(broker)), `${broker.name} takes messages again.`);
  const leave = async () => after(await confirm(leaveDialog(broker)), `${broker.name} was removed.`);
  const elect = async () => after(await confirm(electDialog(broker, null)), `An election on ${broker.name} is over.`);
  if (broker.isDraining) {
    return [button("Undrain", undrain, { describes: `Undrain ${broker.name}` }), may("Cluster:DELETE") && button("Remove", leave, { isDanger: true, describes: `Remove ${broker.name}` })];
  }
  return [broker.election && button("Elect", elect, { describes: `Elect a master of ${broker.name}` }), button("Drain", drain, { isDanger: true, describes: `Drain ${broker.name}` })];
}

function drainDialog(broker) {
  return {
    title: `Drain ${broker.name}?`,
    loss: ["New messages go to the other brokers only. Groups go on until nothing is left: ", number(broker.unsettled), " messages to settle now. You can take it back."],
    cli: commandText("entrepot cluster drain", [broker.name]),
    rest: rest("putBroker", broker, { isDraining: true }),
    verb: `Drain ${broker.name}`,
    run: () => perform("putBroker", broker, { isDraining: true }),
  };
}

function undrainDialog(broker) {
  return {
    title: `Undrain ${broker.name}?`,
    loss: "New messages go to it again. Nothing is lost.",
    cli: commandText("entrepot cluster undrain", [broker.name]),
    rest: rest("putBroker", broker, { isDraining: false }),
    verb: `Undrain ${broker.name}`,
    run: () => perform("putBroker", broker, { isDraining: false }),
  };
}

function leaveDialog(broker) {
  return {
    title: `Remove ${broker.name} for good?`,
    loss: ["It is removed once it is empty: ", number(broker.unsettled), " messages to settle, ", number(broker.waiting), " that wait. Its process ends. This cannot be undone."],
    cli: commandText("entrepot cluster drain", [broker.name], " --leave"),
    rest: rest("removeBroker", broker),
    verb: `Remove ${broker.name}`,
    isDanger: true,
    typed: broker.name,
    run: () => perform("removeBroker", broker),
  };
}

function electDialog(broker, replica) {
  const body = replica ? { to: replica.replica } : {};
  const which = replica ? `r${replica.replica} as master` : "the best replica as master";
  const isSafe = !replica || replica.isInSync;
  return {
    title: `Elect ${which} of ${broker.name}?`,
    loss: isSafe ? MASTER_WORDS : `r${replica.replica} is not in the set. It has to catch up first; the election is refused if it cannot.`,
    cli: commandText("entrepot cluster elect", [broker.name], replica ? ` --to ${replica.replica}` : ""),
    rest: rest("electMaster", broker, body),
    verb: replica ? `Elect r${replica.replica}` : "Elect",
    run: () => perform("electMaster", broker, body),
  };
}

function replicaButtons(broker, replica, button, after) {
  if (!broker.election || replica.role === "master") return null;
  return button("Change", () => changeReplica(broker, replica, after), { describes: `Change r${replica.replica} of ${broker.name}` });
}

/** What can be made of a replica: by value, its words, what it means, its command, its request, and its result. */
function replicaChanges(broker, replica) {
  const names = { name: broker.name, replica: replica.replica };
  const command = (what) => commandText(`entrepot cluster replica ${what}`, [broker.name, replica.replica]);
  const fewer = "The broker can then stand one loss less. You can take it back.";
  const counting = (isObserver, label, loss, result) => ({ label, loss, cli: command(isObserver ? "observer" : "add"), rest: rest("putReplica", names, { isObserver }), run: () => perform("putReplica", names, { isObserver }), result });
  const elect = electDialog(broker, replica);
  return {
    ...(replica.role !== "away" && !replica.isObserver && { elect: { label: "Make it the master", loss: elect.loss, cli: elect.cli, rest: elect.rest, run: elect.run, result: "is the master." } }),
    ...(replica.isObserver
      ? { add: counting(false, "Count it: it may then become master", "It counts as soon as it has the whole log. Nothing is lost.", "counts as soon as it has the log.") }
      : { observer: counting(true, "Make it an observer: it copies the log, and does not count", fewer, "is to be an observer.") }),
    ...(may("Cluster:DELETE") && { remove: { label: "Remove it: it is stopped, and counts no more", loss: "It has to be stopped. The broker can then stand one loss less. To take it back, it has to join anew.", cli: command("remove"), rest: rest("removeReplica", names), run: () => perform("removeReplica", names), result: "is to count no more." } }),
  };
}

async function changeReplica(broker, replica, after) {
  const changes = replicaChanges(broker, replica);
  const options = Object.entries(changes).map(([value, { label }]) => [value, label]);
  let chosen = options[0][0];
  const result = await formDialog(`Change r${replica.replica} of ${broker.name}`, {
    fields: [{ name: "change", label: "Change", type: "select", options, value: chosen, wide: true }],
    submit: `Change r${replica.replica}`,
    same: ({ change }) => changes[change],
    send: ({ change }) => changes[(chosen = change)].run(),
  });
  await after(result, `r${replica.replica} of ${broker.name} ${changes[chosen].result}`);
}

async function addController(after) {
  const bodyOf = ({ controller, address, replaces }) => ({ controller, address, ...(replaces && { replaces }) });
  let made;
  const result = await formDialog("Add a controller", {
    loss: "It runs already, and waits to be one of them. From then on it counts when masters are elected.",
    fields: [
      { name: "controller", label: "Id", type: "number", required: true, hint: "One that was never used." },
      { name: "address", label: "Address", required: true, hint: "host:port" },
      { name: "replaces", label: "In place of", type: "number", hint: "Id of one that goes for good. Empty: none." },
    ],
    submit: "Add controller",
    same: (values) => ({
      cli: `entrepot cluster controller ${values.replaces ? `replace ${values.replaces}` : "add"} ${values.controller ?? "ID"}=${quoted(values.address ?? "HOST:PORT")}`,
      rest: rest("addController", {}, bodyOf(values)),
    }),
    send: (values) => perform("addController", {}, bodyOf((made = values))),
  });
  await after(result, `Controller ${made?.controller} was added.`);
}

function controllerButtons(controller, button, after) {
  if (!may("Cluster:DELETE") || controller.state === "outside") return null;
  const remove = async () => {
    const result = await confirm({
      title: `Remove controller ${controller.controller} for good?`,
      loss: "The others elect masters without it. Its id can never be used again. This cannot be undone.",
      cli: `entrepot cluster controller remove ${controller.controller}`,
      rest: rest("removeController", controller),
      verb: `Remove controller ${controller.controller}`,
      isDanger: true,
      typed: String(controller.controller),
      run: () => perform("removeController", controller),
    });
    await after(result, `Controller ${controller.controller} was removed.`);
  };
  return button("Remove", remove, { isDanger: true, describes: `Remove controller ${controller.controller}` });
}
