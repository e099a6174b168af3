// Actions on dead letters: resend and delete some, all of a reason, or all.  Results are told in numbers.

import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { commandText, quoted } from "./copying.js";
import { confirm } from "./dialog.js";
import { namespaceOption } from "./namespaces.js";
import { perform, rest } from "./operations.js";

const MOST_LOOKED_AT = 10_000; // letters in one call of a reason
const MORE_CALLS = 8; // for brokers whose part ends within a call
const MOST_REFUSALS = 3; // named in a result
const MOST_OFFSETS = 20; // written into a command

const VERBS = {
  resend: { id: "resendDeadLetters", word: "Resend", done: "resent", command: "resend" },
  delete: { id: "deleteDeadLetters", word: "Delete", done: "deleted", command: "delete-dead-letters" },
};

/** Actions on a group's dead letters.  `told`: a place of results.
 * Each resolves to true where something was done. */
export function letterActions(group, namespace, told) {
  const place = { name: group, namespace };
  return {
    some: (verb, rows) => act(verb, place, told, { amount: rows.length, body: { offsets: rows.map((row) => row.offset) } }),
    ofReason: (verb, { reason, count: amount, isWhole, total }) =>
      act(verb, place, told, { amount, isWhole, total, reason, body: { reason } }),
    all: (verb, total) => act(verb, place, told, { amount: total, isAll: true, body: { all: true } }),
  };
}

async function act(verb, place, told, chosen) {
  const { word, done } = VERBS[verb];
  const amount = h("span", number(chosen.amount, { atLeast: chosen.isWhole === false }));
  const label = `${word} ${amount.textContent}`;
  const result = await confirm({
    title: `${label} of ${place.name}?`,
    loss: lossOf(verb, place, chosen),
    ...outside(verb, place, chosen),
    verb: label,
    isDanger: verb === "delete",
    typed: verb === "delete" && chosen.isAll ? place.name : null,
    run: (signal) => send(verb, place, chosen, signal),
  });
  if (!result) return false;
  tellOutcome(told, result.done, done, chosen);
  return result.done.amount > 0;
}

function lossOf(verb, { name: group }, chosen) {
  const which = chosen.reason === undefined ? null : ["All of the reason ", h("b", name(chosen.reason)), ". "];
  if (verb === "resend")
    return [
      which,
      "They go to ",
      h("b", name(group)),
      " only, with all attempts, and stay here until you delete them. It may get a message twice.",
    ];
  return [which, "They are gone from the dead letters for good. This cannot be undone."];
}

function outside(verb, place, { body, isAll, reason }) {
  const { offsets = [] } = body;
  const dots = offsets.length > MOST_OFFSETS ? " ..." : "";
  const some = reason === undefined ? offsets.slice(0, MOST_OFFSETS) : [];
  const what = isAll ? " --all" : reason === undefined ? "" : ` --reason ${quoted(reason)}`;
  return {
    cli: commandText(`entrepot group ${VERBS[verb].command}`, [place.name, ...some], dots + what + namespaceOption(place.namespace)),
    rest: rest(VERBS[verb].id, place, body),
  };
}

/** Do it: {amount, failed, next}.  A call looks at no more than MOST_LOOKED_AT letters of a reason, so there may be
 * several; as many as the letters there were take, since resent letters may die again meanwhile. */
async function send(verb, place, { body, total = 0 }, signal) {
  const outcome = { amount: 0, failed: [], next: null };
  const calls = body.reason === undefined ? 1 : Math.ceil(total / MOST_LOOKED_AT) + MORE_CALLS;
  for (let call = 0; call < calls; call += 1) {
    const from = outcome.next === null ? {} : { fromOffset: outcome.next };
    const answer = await perform(VERBS[verb].id, place, exactly({ ...body, ...from }), { type: "application/json", signal });
    outcome.amount += answer.deleted ?? answer.resentOffsets.length;
    outcome.failed.push(...answer.failedOffsets);
    outcome.next = answer.next ?? null;
    if (outcome.next === null) break;
  }
  return outcome;
}

/** JSON in which offsets are numbers, also those that arrived as text. */
const exactly = (body) =>
  JSON.stringify(body)
    .replace(/"fromOffset":"(\d+)"/, '"fromOffset":$1')
    .replace(/"offsets":\[[^\]]*\]/, (list) => `"offsets":${list.slice(10).replaceAll('"', "")}`);

function tellOutcome(told, { amount, failed, next }, done, { reason }) {
  const all = amount + failed.length;
  const of = failed.length ? ` of ${number(all)}` : "";
  const what = `${count(amount, "dead letter")}${of} ${amount === 1 && !failed.length ? "was" : "were"} ${done}`;
  const fact = reason === undefined ? `${what}.` : [`${what}, of the reason `, name(reason), "."];
  const refusals = failed.slice(0, MOST_REFUSALS).map((each) => ` Offset ${each.offset}: ${each.error.message}.`);
  const more = failed.length > MOST_REFUSALS ? ` And ${failed.length - MOST_REFUSALS} more failed.` : "";
  const left = next === null ? "" : ` More came meanwhile, from offset ${next} on.`;
  told.tell(failed.length || next !== null ? "warn" : "info", fact, h("span", refusals, more, left, " The audit has an entry."));
}
