// The form of a subscription, new or changed.  What is secret is never shown: what is left empty stays as it is.

import { ApiError } from "../api.js";
import { formDialog } from "./form.js";
import { DEFAULT_NAMESPACE } from "./namespaces.js";
import { perform, rest } from "./operations.js";
import { objectOf, objectSoFar } from "./rabbitmq.js";

const MODES = ["binary", "structured", "batched"].map((each) => [each, each]);
const HANDSHAKES = [
  ["required", "required: nothing before its consent"],
  ["optional", "optional: slowly before its consent"],
  ["off", "off"],
];
const CREDENTIALS = [
  ["none", "none"],
  ["PLAIN", "name and password"],
  ["ACCESSTOKEN", "access token"],
  ["REFRESHTOKEN", "refresh token"],
  ["OAUTH2", "OAuth 2 client"],
];
const KEEP = ["keep", "as it is"];
const HIDDEN = "***";

/** Ask for a subscription; resolves to {done: the subscription}.  `before`: what is changed. */
export function putWebhook(before = null, namespace = "") {
  const id = before ? "updateSubscription" : "createSubscription";
  const of = (values) => before ?? { namespace: values.namespace ?? namespace };
  return formDialog(before ? `Change the webhook ${before.id}` : "Create a webhook", {
    fields: [...placeFields(before, namespace), ...deliveryFields(before), ...secretFields(before)],
    submit: before ? "Change webhook" : "Create webhook",
    same: (values) => ({ rest: rest(id, of(values), hidden(bodyOf(values, before, { objects: objectSoFar, list: listSoFar }))) }),
    send: (values) => perform(id, of(values), bodyOf(values, before, { objects: (text, field) => objectOf(field, text), list: listOf })),
  });
}

function placeFields(before, namespace) {
  const place = before
    ? []
    : [
        { name: "namespace", label: "Namespace", value: namespace || DEFAULT_NAMESPACE },
        { name: "source", label: "Topic", required: true },
        { name: "start", label: "Begins at", value: "latest", hint: "latest, earliest, a time, or an offset.", problem: ["config.start"] },
      ];
  return [
    ...place,
    {
      name: "sink",
      label: "Sink",
      type: "url",
      required: true,
      wide: true,
      value: before?.sink,
      hint: "The address that gets the events.",
    },
    { name: "types", label: "Types of events", wide: true, value: before?.types.join(", "), hint: "Parted by commas; empty: all." },
    {
      name: "filters",
      label: "Filters",
      type: "textarea",
      rows: 3,
      wide: true,
      value: before?.filters.length ? JSON.stringify(before.filters, null, 2) : "",
      hint: 'A JSON list such as [{"prefix": {"subject": "line1/"}}]; empty: all.',
    },
  ];
}

function deliveryFields(before) {
  const config = before?.config ?? {
    mode: "binary",
    maxattempts: 16,
    timeoutseconds: 30,
    initialbackoffseconds: 1,
    maxbackoffseconds: 600,
    handshake: "optional",
  };
  return [
    { name: "mode", label: "Form", type: "select", options: MODES, value: config.mode },
    { name: "handshake", label: "Consent of the receiver", type: "select", options: HANDSHAKES, value: config.handshake },
    { name: "ordered", label: "In order of the partition key", type: "checkbox", value: config.ordered },
    { name: "maxattempts", label: "Attempts", type: "number", required: true, value: config.maxattempts },
    { name: "timeoutseconds", label: "Patience, s", type: "number", required: true, value: config.timeoutseconds },
    { name: "initialbackoffseconds", label: "First wait, s", type: "number", required: true, value: config.initialbackoffseconds },
    { name: "maxbackoffseconds", label: "Longest wait, s", type: "number", required: true, value: config.maxbackoffseconds },
    { name: "maxageseconds", label: "Oldest event, s", type: "number", value: config.maxageseconds, hint: "Empty: any." },
    { name: "ratelimit", label: "Most requests a minute", type: "number", value: config.ratelimit, hint: "Empty: no limit." },
    {
      name: "headers",
      label: "Headers",
      type: "textarea",
      rows: 2,
      wide: true,
      value: headersText(before),
      hint: `A JSON object. ${HIDDEN} stands for a value that is kept.`,
    },
  ];
}

const headersText = (before) =>
  Object.keys(before?.protocolsettings.headers ?? {}).length ? JSON.stringify(before.protocolsettings.headers) : "";

function secretFields(before) {
  const hasSecret = Boolean(before?.config.signingsecret);
  const options = before?.sinkcredential ? [KEEP, ...CREDENTIALS] : CREDENTIALS;
  return [
    {
      name: "signingsecret",
      label: "Secret for signatures",
      class: "secret",
      hint: hasSecret ? "Empty: it stays." : "whsec_ and Base64; empty: not signed.",
    },
    { name: "credentialtype", label: "Login at the sink", type: "select", options, value: options[0][0] },
    { name: "identifier", label: "Name or client id", problem: ["sinkcredential.identifier"] },
    {
      name: "secret",
      label: "Password or token",
      class: "secret",
      problem: ["sinkcredential.secret", "sinkcredential.accesstoken", "sinkcredential.refreshtoken"],
    },
    { name: "tokenendpoint", label: "Address of tokens", type: "url", problem: ["sinkcredential.tokenendpoint"] },
  ];
}

function bodyOf(values, before, { objects, list }) {
  const config = { ...before?.config };
  for (const name of ["mode", "handshake", "ordered", "maxattempts", "timeoutseconds", "initialbackoffseconds", "maxbackoffseconds"])
    config[name] = values[name];
  Object.assign(config, { maxageseconds: values.maxageseconds ?? null, ratelimit: values.ratelimit ?? null });
  if (!before && values.start) config.start = values.start;
  if (values.signingsecret) config.signingsecret = values.signingsecret;
  return {
    source: before?.source ?? values.source ?? "",
    types: (values.types ?? "")
      .split(",")
      .map((each) => each.trim())
      .filter(Boolean),
    filters: list(values.filters),
    sink: values.sink ?? "",
    protocol: "HTTP",
    protocolsettings: { ...before?.protocolsettings, headers: objects(values.headers, "headers") },
    config,
    ...credentialOf(values),
  };
}

/** The credential's part of the body: nothing for one that stays. */
function credentialOf({ credentialtype, identifier, secret, tokenendpoint }) {
  if (credentialtype === KEEP[0]) return {};
  if (credentialtype === "none") return { sinkcredential: null };
  const word = { PLAIN: "secret", OAUTH2: "secret", ACCESSTOKEN: "accesstoken", REFRESHTOKEN: "refreshtoken" }[credentialtype];
  return { sinkcredential: { credentialtype, identifier, [word]: secret, tokenendpoint } };
}

/** The body with its secrets hidden, to be shown. */
function hidden(body) {
  const shown = structuredClone(body);
  if (shown.config.signingsecret) shown.config.signingsecret = HIDDEN;
  for (const word of ["secret", "accesstoken", "refreshtoken"]) if (shown.sinkcredential?.[word]) shown.sinkcredential[word] = HIDDEN;
  for (const header of Object.keys(shown.protocolsettings.headers)) shown.protocolsettings.headers[header] = HIDDEN;
  return shown;
}

function listOf(text) {
  if (!text?.trim()) return [];
  let found = null;
  try {
    found = JSON.parse(text);
  } catch (error) {
    found = null;
  }
  if (!Array.isArray(found)) throw new ApiError(400, "NOT_JSON", 'filters: a JSON list such as [{"prefix": {"subject": "line1/"}}]');
  return found;
}

function listSoFar(text) {
  try {
    return listOf(text);
  } catch (error) {
    return [];
  }
}
