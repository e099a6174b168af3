// Decisions on access: what was decided, by which statement, and what a subject may do with a resource.

import { h, name, s } from "../dom.js";
import { state } from "./states.js";
import { policyLink, statementNodes, subjectName, subjectWords } from "./statements.js";

const SIGNS = { yes: "M2.5 7.5 5.5 10.5 11.5 3.5", no: "M4 7h6", deny: "M3 3l8 8m0-8-8 8" };
const REACHES = { allowed: ["yes", "allowed"], none: ["no", "no statement allows it"], denied: ["deny", "denied"] };
const OUTCOMES = {
  decides: (statement) => h(
    "b",
    { class: statement.effect === "DENY" ? "bad-t" : "" },
    statement.effect === "DENY" ? "denies it" : "allows it",
  ),
  holds: (statement) => (statement.effect === "DENY" ? "would deny it, too" : "would allow it"),
  otherAction: () => "is for another action",
  otherResource: () => "is for another resource",
  otherSource: () => "is for another source address",
};

const sign = (kind) => s("svg.yn", { viewBox: "0 0 14 14", "aria-hidden": "true" }, s(`path.${kind}`, { d: SIGNS[kind] }));

/** The sign of what a subject may do: allowed, denied, some or none. */
export function reachSign(reach) {
  if (reach === "some") return h("span.xs", { title: "only some names below it, or only from some addresses" }, "some");
  const [kind, words] = REACHES[reach] ?? ["no", reach];
  return [sign(kind), h("span.vh", words)];
}

/** What the signs mean. */
export const reachLegend = () => [
  ...Object.values(REACHES).map(([kind, words]) => h(
    "span.row",
    s("svg.hk2", { viewBox: "0 0 14 14", "aria-hidden": "true" }, s(`path.${kind}`, { d: SIGNS[kind] })),
    words,
  )),
  "some: only some names below it, or only from some addresses",
];

/** The verdict: what was decided, why, and what would hold without the deciding statement. */
export function verdict(asked, found) {
  const isAllowed = found.decision === "ALLOW";
  const icon = isAllowed ? "M6 21 16 31 34 9" : "M14 4h12l10 10v12L26 36H14L4 26V14zM13 13l14 14m0-14L13 27";
  const words = [
    isAllowed ? "Allowed: " : "Denied: ",
    subjectWords(asked.subject),
    isAllowed ? " may " : " may not ",
    asked.action,
    " ",
    h("span.brk", name(asked.resource)),
  ];
  return h(
    "div.verdict",
    { class: isAllowed ? "" : "bad" },
    s("svg", { viewBox: "0 0 40 40", "aria-hidden": "true" }, s("path", { d: icon })),
    h("div", h("p", words), h("p.q2.s", reasons(found))),
  );
}

function reasons({ decision, reason, subject, index, otherwise }) {
  if (index === null) return `${reason[0].toUpperCase()}${reason.slice(1)}.`;
  const first = [`Statement ${index} of the policy of `, policyLink(subject), decision === "ALLOW" ? " allows it. " : " denies it. "];
  if (otherwise === null) return first;
  const verb = otherwise.decision === "ALLOW" ? "allow" : "deny";
  if (otherwise.index === null) return [first, "Without it, nothing would allow it."];
  return [first, `Without it, statement ${otherwise.index} of the policy of `, policyLink(otherwise.subject), ` would ${verb} it.`];
}

/** All statements that were looked at, each with its part in the decision. */
export function decisionTrail(considered) {
  if (considered.length === 0) return h("p.pad.s.q2", "No statement was looked at.");
  return h(
    "ol.trail",
    considered.map((each) => line(each, OUTCOMES[each.outcome]?.(each.statement) ?? each.outcome, each.outcome === "decides")),
  );
}

function line({ subject, index, statement }, part, isHit) {
  const denies = statement.effect === "DENY";
  return h(
    "li",
    { class: isHit ? (denies ? "hit" : "hit allows") : "" },
    h("span.i", index),
    h("span", statementNodes(statement), " ", h("span.q.xs", "policy of ", policyLink(subject))),
    h("span.q2", part),
  );
}

/** The statements that decide about a subject, of `acls:effective`. */
export function effectiveTrail({ subject, decision, reason, value }) {
  if (decision !== null) {
    const isAllowed = decision === "ALLOW";
    return h("p.pad.s", state(isAllowed ? "ok" : "idle", `Everything is ${isAllowed ? "allowed" : "denied"}: ${reason}.`));
  }
  if (value.length === 0) return h("p.pad.s", "No statement is about ", subjectWords(subject), ": everything is denied.");
  const own = subjectName(subject);
  const part = (each) => (subjectName(each.subject) === own ? "its own" : "of all");
  return h("ol.trail", value.map((each) => line({ ...each, statement: each }, part(each), false)));
}
