// One policy: all statements about a subject, to read and to change.

import { ApiError, get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count } from "../format.js";
import { keepInAddress, link, path } from "../links.js";
import { ask } from "../parts/answers.js";
import { banner, results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { pathOf, perform, rest, same } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { commandOf, statementFields, statementNodes, subjectWords } from "../parts/statements.js";
import { audited } from "../parts/user_actions.js";

export async function show(place, { subject, query }, signal) {
  const top = head(
    `Policy of ${subject}`,
    { shown: h("span", "Policy of ", subjectWords(subject)), crumbs: [["Policies", link("policies")]] },
  );
  const told = results();
  const content = h("div.stack.wide-gaps");
  place.append(top.element, told.element, content);
  const load = () => ask(content, (asked) => get(pathOf("getAccessPolicy", { subject }), { signal: asked }), draw, { fact: "The policy was not loaded", signal });
  const saved = async (statements) => {
    keepInAddress({ new: null });
    audited(
      told,
      ["The policy of ", name(subject), ` has ${count(statements.length, "statement")}.`],
      subject,
      "It counts from the next decision.",
    );
    await load();
  };
  const draw = (found) => {
    top.acts(buttons(subject, found, () => gone(top, content, subject, told)));
    return editor(subject, found.statements, saved);
  };
  if (query.get("new")) {
    top.sub(["not written yet"]);
    fill(content, editor(subject, null, async (statements) => (top.sub([]), saved(statements))));
  } else await load();
}

function buttons(subject, { statements }, done) {
  const remove = async () => {
    const result = await confirm({
      title: `Delete the policy of ${subject}?`,
      loss: `${count(statements.length, "statement")} about it no longer hold, from the next decision on. This cannot be undone.`,
      ...same("deleteAccessPolicy", { subject }),
      verb: "Delete policy",
      isDanger: true,
      run: () => perform("deleteAccessPolicy", { subject }).then(() => true),
    });
    if (result) done();
  };
  return [
    h("a.btn", { href: link("access", { subject }) }, "Test access"),
    h("button.danger", { type: "button", onclick: remove }, "Delete"),
  ];
}

function gone(top, content, subject, told) {
  top.acts([]);
  audited(told, ["The policy of ", name(subject), " was deleted."], subject);
  fill(content, h("div.empty", h("h2", "Nothing is said of it"), h("a.btn.small", { href: link("policies") }, "All policies")));
}

/** Fields for the statements.  `before`: those that are stored; null: there is no policy yet. */
function editor(subject, before, saved) {
  const fields = statementFields(before ?? [{ effect: "ALLOW", actions: [], resources: [], sources: [] }]);
  const save = async () => {
    if (!fields.check()) return;
    const statements = fields.values();
    const result = await confirm(saveDialog(subject, before, statements));
    if (result) await saved(statements);
  };
  const everybody = () => banner("warn", "This policy is of everybody.", "It binds all who log in, and those who show nothing.");
  return panel("Statements", {
    unit: "the first DENY that holds decides, else the first ALLOW",
    body: [
      subject === "*" ? everybody() : null,
      h("form.stack", { novalidate: true, onsubmit: (event) => event.preventDefault() }, fields.element),
      h(
        "p.row",
        h("button.primary", { type: "button", onclick: save }, "Save the policy"),
        h("a.btn", { href: link(path("users", subject)), hidden: ["*", "anonymous"].includes(subject) }, "Show the user"),
      ),
    ],
  });
}

function saveDialog(subject, before, statements) {
  const was = before === null ? "There was no policy." : `It replaces the ${count(before.length, "statement")} of now.`;
  const headers = before === null ? { "if-none-match": "*" } : {};
  const run = async () => {
    if (before !== null) await checkUnchanged(subject, before);
    return perform("putAccessPolicy", { subject }, { statements }, { headers });
  };
  return {
    title: `Save the policy of ${subject}?`,
    loss: `${count(statements.length, "statement")} will hold from the next decision on. ${was}`,
    body: h("ol.lines.s", statements.map((each) => h("li", statementNodes(each)))),
    cli: commandOf(subject, statements),
    rest: rest("putAccessPolicy", { subject }, { statements }),
    verb: "Save policy",
    run,
  };
}

/** Raise ApiError where somebody else has changed the policy since it was shown. */
async function checkUnchanged(subject, before) {
  const now = await get(pathOf("getAccessPolicy", { subject }));
  if (JSON.stringify(now.statements) === JSON.stringify(before)) return;
  const detail = "The policy was changed since it was shown here. Copy what you typed, and load the page again.";
  throw new ApiError(409, "CHANGED_MEANWHILE", detail);
}
