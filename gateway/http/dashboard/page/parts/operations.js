// Operations as the gateway's table has them: their requests, and the same by command and REST.

import { address, call, get, segment } from "../api.js";
import { commandText, quoted } from "./copying.js";
import { isDefault, namespaceOption } from "./namespaces.js";

const NAME = /\{(\w+)\}/g;
let hints = null;

/** Load the table, once.  Raises ApiError. */
export async function loadOperations() {
  hints ??= await get("/dashboard/operations.json", { cache: "no-cache" });
}

/** The path of an operation by its id.  `names`: those of the path, such as a row has them, and its `namespace`.  One that
 * is not known yet stands there in capitals. */
export function pathOf(id, names = {}) {
  const { path, within } = hints[id];
  const template = within && !isDefault(names.namespace) ? within : path;
  return template.replaceAll(NAME, (_, name) => segment(said(names, name)));
}

const said = (values, name) => String([undefined, null, ""].includes(values[name]) ? name.toUpperCase() : values[name]);

/** Ask for an operation.  Raises ApiError. */
export const perform = (id, names, body, options) => call(hints[id].method, pathOf(id, names), { ...options, body });

/** The request of an operation, to be shown. */
export function rest(id, names, body, query) {
  const path = pathOf(id, names);
  return { method: hints[id].method, path: path + address(path, query).search, body };
}

/** An operation by command and REST: {cli, rest}.  `command`: which one, where it has several.  `isSure`: it is not to ask.
 * `cli` is null where no command says it. */
export function same(id, names, body, { query, command, isSure = false } = {}) {
  return { cli: commandLine(hints[id], names, { ...query, ...body }, command, isSure), rest: rest(id, names, body, query) };
}

function commandLine({ within, commands = {}, arguments: taken, options }, names, fields, command, isSure) {
  const { words, asks } = commands[command ?? Object.keys(commands)[0]] ?? {};
  if (!words) return null;
  const known = Object.entries(options).filter(([name]) => fields[name] !== undefined);
  const written = known.map(([name, option]) => optionText(option, fields[name]));
  if (written.includes(null)) return null;
  const values = taken.map((name) => said({ ...names, ...fields }, name));
  const others = written.join("") + (within ? namespaceOption(names.namespace) : "") + (asks && isSure ? " --yes" : "");
  return commandText(words, values, others);
}

/** A field's option with its value; null where the command cannot say it. */
function optionText(option, value) {
  if (Array.isArray(option)) return ` ${option[value ? 0 : 1]}`;
  if (option.sends) return value === option.sends ? ` ${option.option}` : "";
  const { option: flag = option, forms = [], isMany = false } = option;
  const all = isMany && value !== null ? Object.entries(value).map(([name, each]) => ({ name, value: each })) : [value];
  const texts = all.map((each) => textOf(forms, each));
  return texts.includes(undefined) ? null : texts.map((text) => ` ${flag} ${quoted(text)}`).join("");
}

/** The text of a value: of null or an object by the form that names just its fields; undefined where there is none. */
function textOf(forms, value) {
  if (typeof value !== "object") return String(value);
  const names = (fields) => [...fields].sort().join();
  const wanted = names(Object.keys(value ?? {}));
  const form = forms.find((each) => names([...each.matchAll(NAME)].map(([, name]) => name)) === wanted);
  return form?.replaceAll(NAME, (_, name) => value[name]);
}
