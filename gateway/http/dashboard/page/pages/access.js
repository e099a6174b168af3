// Access tester: who may what, and by which statement.  It asks the rules that the doors ask, and changes nothing.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { keepInAddress, link, path } from "../links.js";
import { ask } from "../parts/answers.js";
import { commandText, sameFromOutside, quoted } from "../parts/copying.js";
import { decisionTrail, effectiveTrail, reachLegend, reachSign, verdict } from "../parts/decisions.js";
import { head } from "../parts/head.js";
import { columns, panel } from "../parts/panel.js";
import { ACTIONS, subjectName, subjectWords, TYPES } from "../parts/statements.js";
import { state } from "../parts/states.js";
import { rest } from "../parts/operations.js";
import { table } from "../parts/table.js";
import { session } from "../session.js";

const SUGGESTED = 100;
const IS_RESOURCE = new RegExp(`^(${TYPES.join("|")}):.`, "i");

export async function show(place, { query }, signal) {
  const top = head("Access tester", {
    acts: [h("a.btn", { href: link("policies") }, "Policies"), h("a.btn", { href: link("users") }, "Users")],
    sub: ["who may what, and by which statement", "asks the rules the doors use; changes nothing"],
  });
  const answer = h("div.stack", { role: "status" }, h("p.pad.s.q2", "Name a user, an action and a resource."));
  const effective = h("div");
  const test = (asked) => Promise.all([explain(answer, asked, signal), listEffective(effective, asked, signal)]);
  const asking = question(query, test, signal);
  place.append(
    top.element,
    columns(
      panel("May this client", { span: 5, body: asking.element }),
      panel("Answer", { span: 7, flush: answer }),
      effective,
      panel("Who may what", { span: 12, flush: whoTable(signal), footer: reachLegend() }),
    ),
  );
  const subject = query.get("subject");
  if (asking.isComplete()) await asking.go();
  else if (subject) await listEffective(effective, { subject, source: query.get("source") ?? "" }, signal);
}

/** The form of the question, filled from the address. */
function question(query, test, signal) {
  const { fields, values, known } = questionFields(query);
  suggest(known, signal);
  const go = () => {
    const asked = values();
    keepInAddress(asked);
    return test({ ...asked, resource: `${asked.type}:${asked.resource}` });
  };
  const submit = (event) => {
    event.preventDefault();
    if (event.target.reportValidity()) go();
  };
  const element = h("form.form", { onsubmit: submit }, known, fields, h("p.wide.row", h("button.primary", "Test")));
  return { element, go, isComplete: () => values().subject !== "" && values().resource !== "" };
}

function questionFields(query) {
  const text = (id, label, { wide = false, ...attributes } = {}) => {
    const shared = { id: `ask-${id}`, autocomplete: "off", spellcheck: "false", value: query.get(id) ?? "" };
    const input = h("input", { ...shared, ...attributes });
    return { input, element: h("p.field", { class: wide ? "wide" : "" }, h("label", { for: `ask-${id}` }, label), input) };
  };
  const subject = text("subject", "User, anonymous, or a name from a token", { wide: true, list: "ask-users", required: true });
  const resource = text("resource", "Name", { class: "mono", required: true });
  const clientId = text("clientId", "Client id");
  const source = text("source", "Source address");
  const types = TYPES.map((each) => h("option", { value: each, selected: each === query.get("type") }, each));
  const type = h("select", { id: "ask-type" }, types);
  const chosen = query.get("action") ?? "PUB";
  const radios = ACTIONS.map((action) => h("input", { type: "radio", name: "ask-action", value: action, checked: action === chosen }));
  const known = h("datalist", { id: "ask-users" });
  const values = () => ({
    subject: subject.input.value.trim(),
    action: radios.find((each) => each.checked)?.value ?? "PUB",
    type: type.value,
    resource: resource.input.value,
    clientId: clientId.input.value.trim(),
    source: source.input.value.trim(),
  });
  const choices = h("span.seg.wrapseg", radios.map((radio) => h("label", radio, radio.value)));
  const actions = h("fieldset.field.wide", h("legend.lab.b", "Action"), choices);
  const kind = h("p.field", h("label", { for: "ask-type" }, "Resource"), type);
  return { fields: [subject.element, actions, kind, resource.element, clientId.element, source.element], values, known };
}

/** Names of users for the field; without them it still takes any. */
async function suggest(list, signal) {
  if (!session().isSuper) return;
  try {
    const { value } = await get("users", { query: { limit: SUGGESTED }, signal });
    fill(list, ["anonymous", ...value.map((user) => user.name)].map((each) => h("option", { value: each })));
  } catch (error) {
    // the answer itself tells what is wrong
  }
}

function explain(answer, { subject, action, resource, clientId, source }, signal) {
  const query = { subject, action, resource, clientId, source };
  const options = `${clientId ? ` --client-id ${quoted(clientId)}` : ""}${source ? ` --source ${quoted(source)}` : ""}`;
  const outside = {
    cli: commandText("entrepot acl explain", [subject, action, resource], options),
    rest: rest("explainAccess", {}, undefined, query),
  };
  const draw = (found) => [
    h("div.pad", verdict({ subject, action, resource }, found)),
    found.considered.length > 0 && h("h3.pad0", "How it was decided"),
    found.considered.length > 0 && decisionTrail(found.considered),
    h("div.pad.same2", sameFromOutside(outside)),
  ];
  return ask(answer, (asked) => get("acls:explain", { query, signal: asked }), draw, { fact: "It was not decided", signal });
}

function listEffective(holder, { subject, source }, signal) {
  const box = h("div");
  const title = h("span", "Statements that decide about ", subjectWords(subject));
  holder.className = "c12";
  fill(holder, panel(title, { unit: "in the order they are looked at", flush: box }));
  return ask(
    box,
    (asked) => get("acls:effective", { query: { subject, source }, signal: asked }),
    effectiveTrail,
    { fact: "The statements were not loaded", signal },
  );
}

function whoTable(signal) {
  const actions = ACTIONS.map((action) => ({ id: action, label: action, align: "c", cell: (row) => reachSign(row.actions[action]) }));
  return table({
    label: "Rights",
    signal,
    key: (row) => row.subject,
    columns: [
      { id: "subject", label: "Subject", isHead: true, cell: (row) => who(row) },
      {
        id: "kind",
        label: "Bound by",
        optional: 1,
        cell: (row) => (row.super ? "no policy: super user" : row.enabled === false ? state("idle", "disabled") : "policies"),
      },
      ...actions,
    ],
    filters: [
      { name: "on", label: "Resource", hint: "Topic:orders/#" },
      { name: "find", label: "Subject contains" },
      { name: "may", label: "Subjects", type: "select", options: [["", "with a right or a denial"], ["all", "all"]] },
    ],
    load: async ({ after, limit, filter: { on, ...filter }, signal: asked }) => {
      if (!IS_RESOURCE.test(on)) return { value: [], next: null };
      return get("acls:who", { query: { resource: on, after, limit, ...filter }, signal: asked });
    },
    empty: {
      title: "No resource is named",
      text: "Write its type, a colon and its name: Topic:orders/#, Group:billing, Namespace:team, Cluster:default.",
    },
  }).element;
}

function who(row) {
  const subject = subjectName(row.subject);
  return row.enabled === null ? subjectWords(row.subject) : h("a", { href: link(path("users", subject)) }, name(subject));
}
