// Changes of a topic's event rule.

import { ApiError } from "../api.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { DEFAULT_NAMESPACE } from "./namespaces.js";
import { perform, rest } from "./operations.js";

const ON_INVALID = [
  ["refuse", "refuse it"],
  ["divert", "divert it to another topic"],
];

/** Ask for a rule; resolves to {done: {namespace, topic}}.  `before`: the rule that is changed, with `topic`, `namespace`
 * and `schemaText`. */
export function putEventRule(before = null, namespace = "") {
  const of = (values) => ({ namespace: before?.namespace ?? values.namespace ?? "", topic: before?.topic ?? values.topic ?? "" });
  const named = (values) => ({ name: of(values).topic, namespace: of(values).namespace });
  const place = before
    ? []
    : [
        { name: "namespace", label: "Namespace", value: namespace || DEFAULT_NAMESPACE },
        { name: "topic", label: "Topic", required: true },
      ];
  return formDialog(before ? `Change the event rule of ${before.topic}` : "Create an event rule", {
    fields: [
      ...place,
      {
        name: "dedupSeconds",
        label: "Known events are dropped for, s",
        type: "number",
        value: before?.dedupSeconds ?? 0,
        hint: "By source and id; 0: never.",
      },
      {
        name: "schema",
        label: "JSON Schema of the data",
        type: "textarea",
        wide: true,
        value: before?.schemaText ?? "",
        hint: "Empty: any data.",
      },
      {
        name: "dataschema",
        label: "Address of the schema",
        wide: true,
        value: before?.dataschema ?? "",
        hint: "An event that names another one does not conform.",
      },
      { name: "onInvalid", label: "What does not conform", type: "select", options: ON_INVALID, value: before?.onInvalid ?? "refuse" },
      { name: "divertTo", label: "Diverted to topic", value: before?.divertTo ?? "" },
    ],
    submit: before ? "Change rule" : "Create rule",
    same: (values) => ({ rest: rest("putEventRules", named(values), shownBody(values)) }),
    send: async (values) => {
      checkSchema(values.schema);
      await perform("putEventRules", named(values), bodyText(values), { type: "application/json" });
      return of(values);
    },
  });
}

const plainFields = ({ dedupSeconds, dataschema, onInvalid, divertTo }) => ({
  dedupSeconds: dedupSeconds ?? 0,
  dataschema: dataschema ?? null,
  onInvalid,
  divertTo: divertTo ?? null,
});

/** The body, with the schema as it was typed: its large numbers stay exact. */
function bodyText(values) {
  const rest = JSON.stringify(plainFields(values));
  return `${rest.slice(0, -1)},"schema":${values.schema?.trim() || "null"}}`;
}

function shownBody(values) {
  try {
    return JSON.parse(bodyText(values));
  } catch (error) {
    return { ...plainFields(values), schema: "…" };
  }
}

function checkSchema(text) {
  if (!text?.trim()) return;
  try {
    JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, "NOT_JSON", `schema: ${error.message}`);
  }
}

/** Delete the rule of a topic. */
export function deleteEventRule(namespace, topic) {
  const named = { name: topic, namespace };
  return confirm({
    title: `Delete the event rule of ${topic}?`,
    loss: "From then on the topic takes any data, and events that it knows already. Its messages stay. You can create the rule again.",
    rest: rest("deleteEventRules", named),
    verb: "Delete rule",
    isDanger: true,
    run: () => perform("deleteEventRules", named),
  });
}

/** The text of one member of a JSON object, as the server wrote it; null where it is null. */
export function memberText(text, member) {
  const begin = text.indexOf(`"${member}":`);
  if (begin === -1) return null;
  let at = begin + member.length + 3;
  const from = at;
  let depth = 0;
  let isText = false;
  for (; at < text.length; at += 1) {
    const sign = text[at];
    if (isText) {
      if (sign === "\\") at += 1;
      else if (sign === '"') isText = false;
    } else if (sign === '"') isText = true;
    else if (sign === "{" || sign === "[") depth += 1;
    else if (sign === "}" || sign === "]") {
      if (depth === 0) break;
      depth -= 1;
    } else if (sign === "," && depth === 0) break;
  }
  const found = text.slice(from, at);
  return found === "null" ? null : found;
}

/** JSON in lines, where that keeps its numbers exact; else as it is. */
export const inLines = (text) => (/\d{16}|\d[eE]/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2));
