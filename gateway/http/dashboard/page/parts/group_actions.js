// Actions on groups: create, change, delete.  Each says what it does before.

import { ApiError, get } from "../api.js";
import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { inTurn, namedInTurn, tellInTurn } from "./in_turn.js";
import { DEFAULT_NAMESPACE } from "./namespaces.js";
import { pathOf, perform, same } from "./operations.js";

const RETRIES = [
  ["exponential", "longer each time"],
  ["list", "from a list"],
  ["immediate", "at once"],
];
const FILTERS = [
  ["", "none"],
  ["TAG", "by tag"],
  ["SQL92", "SQL92 over properties"],
  ["SUB_TOPIC", "MQTT filter of the name"],
];

/** Ask for a new group; resolves to {done: {group, namespace}}.  A group that exists is not touched. */
export async function createGroup(namespace = "") {
  const of = ({ name: group, namespace: chosen = DEFAULT_NAMESPACE }) => ({ name: group, namespace: chosen });
  return formDialog("Create a group", {
    fields: [
      { name: "name", label: "Name", required: true, problem: ["group name"], maxlength: 255 },
      { name: "namespace", label: "Namespace", value: namespace || DEFAULT_NAMESPACE },
      ...settingFields(NEW),
    ],
    submit: "Create the group",
    same: (values) => same("putGroup", of(values), bodyOf(values, true), { command: "create" }),
    send: async (values) => {
      const { name: group, namespace: chosen } = of(values);
      if (await groupExists(group, undefined, chosen)) {
        throw new ApiError(409, "GROUP_EXISTS", "A group of this name exists: change it on its page.", { problem: { attribute: "name" } });
      }
      await perform("putGroup", of(values), bodyOf(values, true));
      return { group, namespace: chosen };
    },
  });
}

/** A new group takes the server's defaults where a field is empty. */
const NEW = { retry: { kind: "" } };

/** Ask for other settings of a group; `definition`: those now. */
export async function changeGroup(definition) {
  return formDialog(`Change ${definition.name}`, {
    loss: "What is delivered from now on follows the new settings. You can take it back.",
    fields: settingFields(definition),
    submit: "Change the group",
    same: (values) => same("putGroup", definition, bodyOf(values), { command: "update" }),
    send: (values) => perform("putGroup", definition, bodyOf(values)),
  });
}

function settingFields(now) {
  return [
    {
      name: "maxAttempts",
      label: "Attempts",
      type: "number",
      value: now.maxAttempts,
      hint: "Then a dead letter.",
      problem: ["max_attempts"],
    },
    {
      name: "invisibleSeconds",
      label: "Invisible, seconds",
      type: "number",
      value: now.invisibleSeconds,
      hint: "Until an unsettled message comes again.",
      problem: ["invisible_seconds"],
    },
    { name: "start", label: "Start", value: now.start, hint: "earliest, latest or an RFC 3339 time.", problem: ["start position"] },
    {
      name: "maxInFlight",
      label: "Most in flight",
      type: "number",
      value: now.maxInFlight ?? "",
      hint: "Of a topic; empty: no limit of its own.",
      problem: ["max_in_flight"],
    },
    ...retryFields(now),
    ...filterFields(now),
    { name: "fifo", label: "Messages of a message group in order", type: "checkbox", value: now.fifo, wide: true },
  ];
}

function retryFields({ retry }) {
  const list = retry.kind === "list" ? (retry.delaysMs ?? []).join(", ") : "";
  return [
    {
      name: "retryKind",
      label: "Retries wait",
      type: "select",
      options: retry.kind ? RETRIES : [["", "as the server has it"], ...RETRIES],
      value: retry.kind,
    },
    {
      name: "initialMs",
      label: "First wait, ms",
      type: "number",
      value: retry.initialMs,
      hint: "Where waits get longer.",
      problem: ["initial_ms"],
    },
    { name: "maxMs", label: "Longest wait, ms", type: "number", value: retry.maxMs, hint: "Where waits get longer.", problem: ["max_ms"] },
    { name: "multiplier", label: "Factor", type: "number", value: retry.multiplier, hint: "Where waits get longer." },
    {
      name: "delaysMs",
      label: "Waits, ms",
      value: list,
      hint: "Of a list: 1000, 5000.",
      pattern: "[0-9]+( *, *[0-9]+)*",
      problem: ["delays_ms", "delaysMs"],
    },
  ];
}

const filterFields = ({ filter }) => [
  { name: "filterKind", label: "Filter", type: "select", options: FILTERS, value: filter?.kind ?? "" },
  { name: "filterText", label: "Filter's text", value: filter?.text ?? "", hint: "Such as: a || b", problem: ["filter", "expression"] },
];

/** The body of a change, from the form's values: what is empty is set to none.  A new group has the defaults there. */
function bodyOf(values, isNew = false) {
  const { maxAttempts, invisibleSeconds, start, filterKind } = values;
  const otherwise = isNew ? undefined : null;
  const maxInFlight = values.maxInFlight ?? otherwise;
  const filter = filterKind ? { kind: filterKind, text: values.filterText ?? "" } : otherwise;
  const fifo = isNew && !values.fifo ? undefined : values.fifo;
  return given({ maxAttempts, invisibleSeconds, start, maxInFlight, fifo, retry: retryOf(values), filter });
}

const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

function retryOf({ retryKind: kind, initialMs, maxMs, multiplier, delaysMs = "" }) {
  if (kind === undefined) return undefined;
  if (kind === "immediate") return { kind };
  if (kind === "list") return { kind, delaysMs: waits(delaysMs) };
  return given({ kind, initialMs, maxMs, multiplier });
}

const waits = (text) =>
  text
    .split(",")
    .filter((each) => each.trim())
    .map(Number);

/** A retry policy in words. */
export function retryWords({ kind, initialMs, maxMs, multiplier, delaysMs }) {
  if (kind === "immediate") return "at once";
  if (kind === "list") return `after ${delaysMs.map((each) => number(each)).join(", ")} ms`;
  return `after ${number(initialMs)} ms, ${multiplier} times longer each time, up to ${number(maxMs)} ms`;
}

/** Ask, and delete groups one after the other; true if it was done.  `rows`: of a list, with `lag`. */
export async function deleteGroups(rows, told) {
  const isKnown = rows.every((row) => row.lag !== null);
  const lag = isKnown ? rows.reduce((sum, row) => sum + BigInt(row.lag), 0n) : null;
  const atLeast = rows.some((row) => !row.isComplete);
  const verb = `Delete ${count(rows.length, "group")}`;
  const result = await confirm({
    title: `${verb}?`,
    loss: [
      "Their progress is lost: ",
      h("b", number(lag, { atLeast })),
      " messages wait for them, and stay in their topics. This cannot be undone.",
    ],
    ...namedInTurn(
      rows,
      (row) => name(row.name),
      (row, how) => same("deleteGroup", row, undefined, how),
    ),
    verb,
    isDanger: true,
    typed: rows.length === 1 ? rows[0].name : `delete ${rows.length}`,
    run: () => inTurn(rows, (row) => perform("deleteGroup", row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["group"], "deleted", (row) => row.name);
  return result.done.done > 0;
}

/** True if a group that the user may see has this name.  The shortest name with a prefix is first. */
export async function groupExists(text, signal, namespace = "") {
  const { value } = await get(pathOf("listGroups", { namespace }), { query: { prefix: text, limit: 1 }, signal });
  return value[0]?.name === text;
}
