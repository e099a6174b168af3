// Policies: what is said of each subject.  For super users.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { formDialog } from "../parts/form.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { policyLink, statementNodes } from "../parts/statements.js";
import { table } from "../parts/table.js";
import { session } from "../session.js";

const SHOWN_STATEMENTS = 3;

export function show(place, parameters, signal) {
  const top = head("Policies", { sub: ["what each subject may do", "DENY goes before ALLOW", "super users are bound by none"] });
  const list = table({
    label: "Policies",
    signal,
    key: (row) => row.subject,
    columns: [
      { id: "subject", label: "Subject", isHead: true, cell: (row) => policyLink(row.subject) },
      { id: "count", label: "Statements", align: "n", cell: (row) => number(row.statements.length) },
      { id: "statements", label: "First statements", optional: 1, cell: first },
    ],
    filters: [{ name: "find", label: "Subject contains" }],
    load: ({ after, limit, filter, signal: asked }) => get("acls", { query: { after, limit, ...filter }, signal: asked }),
    empty: {
      title: "No policies",
      text: "A policy allows or denies actions on topics, groups, namespaces and the cluster.",
      action: { label: "Write a policy", act: write },
    },
  });
  const acts = [
    h("a.btn", { href: link("access") }, "Test access"),
    session().isSuper && h("button.primary", { type: "button", onclick: write }, "Write a policy"),
  ];
  top.acts(acts);
  place.append(top.element, panel("Policies", { flush: list.element }));
}

function first({ statements }) {
  const more = statements.length - SHOWN_STATEMENTS;
  return [
    h("ul.lines.s", statements.slice(0, SHOWN_STATEMENTS).map((each) => h("li", statementNodes(each)))),
    more > 0 && h("span.q.xs", `and ${more} more`),
  ];
}

async function write() {
  const result = await formDialog("Write a policy", {
    fields: [{
      name: "subject",
      label: "Subject",
      required: true,
      wide: true,
      hint: "A user, anonymous, or * for everybody. Statements are written on the next page.",
    }],
    submit: "Go on",
    send: async ({ subject }) => subject,
  });
  if (result) location.hash = link(path("policies", result.done), { new: "1" });
}
