// Statements of policies: as nodes, as words of the command line, and as fields to change them.

import { fill, h, name } from "../dom.js";
import { link, path } from "../links.js";
import { commandText, quoted } from "./copying.js";

const PREFIX = "User:";
export const ACTIONS = ["PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST"];
export const TYPES = ["Topic", "Group", "Cluster", "Namespace"];

let made = 0;

/** The name of a subject: `till` of `User:till`. */
export const subjectName = (subject) => (subject.startsWith(PREFIX) ? subject.slice(PREFIX.length) : subject);

/** A subject in words: its name, with what `*` and `anonymous` stand for. */
export function subjectWords(subject) {
  const plainName = subjectName(subject);
  if (plainName === "*") return [h("span.mono", "*"), h("span.q", " everybody")];
  if (plainName === "anonymous") return ["anonymous", h("span.q", " who shows nothing")];
  return name(plainName);
}

/** A link to the policy of a subject. */
export const policyLink = (subject) => h("a", { href: link(path("policies", subjectName(subject))) }, subjectWords(subject));

/** A statement as nodes: `ALLOW PUB on Topic:a/# from 10.0.0.0/8`. */
export function statementNodes({ effect, actions, resources, sources }) {
  const listed = (items) => items.map((item, at) => [at > 0 && ", ", h("span.mono.xs.brk", name(item))]);
  return h(
    "span",
    h("b", { class: effect === "DENY" ? "bad-t" : "" }, effect),
    ` ${actions.join(", ")} on `,
    listed(resources),
    sources.length > 0 && [" from ", listed(sources)],
  );
}

/** The command that sets a policy; null where the command line cannot write a name with `,` or `@`. */
export function commandOf(subject, statements) {
  if (statements.some((each) => [...each.resources, ...each.sources].some((word) => /[,@]/.test(word)))) return null;
  const words = statements.map(({ effect, actions, resources, sources }) => {
    const parts = [actions, resources, ...(sources.length ? [sources] : [])].map((list) => list.join(","));
    return ` ${effect === "DENY" ? "--deny" : "--allow"} ${quoted(parts.join("@"))}`;
  });
  return commandText("entrepot acl set", [subject], words.join(""));
}

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

/** Fields for all statements of a policy.  Returns {element, values(), check()}: `check` complains about what is missing,
 * and is true where nothing is. */
export function statementFields(statements) {
  const list = h("div.stack");
  let rows = [];
  const draw = () => fill(
    list,
    rows.length ? rows.map((row) => row.element) : h("p.q.s", "No statement: the policy allows and denies nothing."),
  );
  const renumber = () => rows.forEach((row, at) => row.number(at + 1));
  const add = (statement) => {
    const row = oneStatement(statement, () => {
      rows = rows.filter((each) => each !== row);
      renumber();
      draw();
      more.focus();
    });
    rows.push(row);
    renumber();
    draw();
    return row;
  };
  const more = h(
    "button.small",
    { type: "button", onclick: () => add({ effect: "ALLOW", actions: [], resources: [], sources: [] }).focus() },
    "Add a statement",
  );
  statements.forEach(add);
  draw();
  const check = () => {
    const faulty = rows.filter((row) => !row.check());
    faulty[0]?.focus();
    return faulty.length === 0;
  };
  return { element: h("div.stack", list, h("p.row", more)), values: () => rows.map((row) => row.value()), check };
}

function oneStatement(statement, remove) {
  const id = `statement-${(made += 1)}`;
  const legend = h("legend.lab.b");
  const effect = h(
    "select",
    { id: `${id}-e` },
    ["ALLOW", "DENY"].map((word) => h("option", { value: word, selected: word === statement.effect }, word)),
  );
  const boxes = ["ALL", ...ACTIONS].map((action) => [
    action,
    h("input", { type: "checkbox", checked: statement.actions.includes(action) }),
  ]);
  const resources = h(
    "textarea.mono",
    { id: `${id}-r`, rows: 3, spellcheck: "false", "aria-describedby": `${id}-rh`, value: statement.resources.join("\n") },
  );
  const sources = h("textarea.mono", { id: `${id}-s`, rows: 3, spellcheck: "false", value: statement.sources.join("\n") });
  const said = h("p.bad-t.s", { role: "alert" });
  const button = h("button.small.danger", { type: "button", onclick: remove }, "Remove");
  const element = h(
    "fieldset.statement.stack",
    legend,
    h("p.row", h("label.vh", { for: `${id}-e` }, "Effect"), effect, boxes.map(([action, box]) => h("label.tick", box, action)), button),
    h(
      "div.form",
      h(
        "p.field",
        h("label", { for: `${id}-r` }, "Resources, one a line"),
        resources,
        h("span.hint", { id: `${id}-rh` }, "Topic:factory/#, Topic~^fact.*y$, Group:workers, Namespace:team, Cluster:*"),
      ),
      h(
        "p.field",
        h("label", { for: `${id}-s` }, "Only from these networks, one a line"),
        sources,
        h("span.hint", "Empty: from anywhere. Such as 10.0.0.0/8."),
      ),
    ),
    said,
  );
  const value = () => ({
    effect: effect.value,
    actions: boxes.filter(([, box]) => box.checked).map(([action]) => action),
    resources: linesOf(resources.value),
    sources: linesOf(sources.value),
  });
  const check = () => {
    const { actions, resources: named } = value();
    fill(said, actions.length === 0 ? "Choose an action." : named.length === 0 ? "Name a resource." : null);
    return actions.length > 0 && named.length > 0;
  };
  const number = (at) => {
    fill(legend, `Statement ${at}`);
    button.setAttribute("aria-label", `Remove statement ${at}`);
  };
  return { element, value, check, number, focus: () => (value().actions.length ? resources : boxes[0][1]).focus() };
}
