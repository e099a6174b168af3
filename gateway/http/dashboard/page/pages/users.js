// Users: who may log in, and how.  For super users.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { commandText } from "../parts/copying.js";
import { formDialog } from "../parts/form.js";
import { head } from "../parts/head.js";
import { perform, rest } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { chip, none, state } from "../parts/states.js";
import { table } from "../parts/table.js";
import { session } from "../session.js";
import { audited, checkSame, HIDDEN_PASSWORD } from "../parts/user_actions.js";

const EITHER = [["", "any"], ["true", "yes"], ["false", "no"]];

export function show(place, parameters, signal) {
  const top = head("Users", { sub: ["who may log in, at every door", "a policy says what they may do"] });
  const told = results();
  const create = () => createUser(told, () => list.reload());
  const list = table({
    label: "Users",
    signal,
    key: (row) => row.name,
    columns: COLUMNS,
    filters: [
      { name: "find", label: "Name contains" },
      { name: "super", label: "Super user", type: "select", options: EITHER },
      { name: "enabled", label: "Enabled", type: "select", options: EITHER },
    ],
    load: ({ after, limit, filter, signal: asked }) => get("users", { query: { after, limit, ...filter }, signal: asked }),
    empty: {
      title: "No users",
      text: "Until the first one exists, the gateway is open to this machine. The first is a super user.",
      action: { label: "Create a user", act: create },
    },
  });
  if (session().isSuper) top.acts([h("button.primary", { type: "button", onclick: create }, "Create a user")]);
  place.append(top.element, told.element, panel("Users", { flush: list.element }));
}

const COLUMNS = [
  {
    id: "name",
    label: "User",
    isHead: true,
    cell: (row) => [h("a", { href: link(path("users", row.name)) }, name(row.name)), row.name === session().user && [" ", chip("you")]],
  },
  { id: "state", label: "State", cell: (row) => (row.enabled ? state("ok", "enabled") : state("idle", "disabled")) },
  { id: "super", label: "Rights", cell: (row) => (row.super ? h("b", "super user") : "by policy") },
  {
    id: "login",
    label: "Logs in by",
    optional: 1,
    cell: (row) => [
      row.hasPassword && "password",
      row.hasSigningSecret && "signing secret",
    ].filter(Boolean).join(", ") || "certificate or token",
  },
  {
    id: "statements",
    label: "Statements",
    align: "n",
    optional: 1,
    cell: (row) => (row.statements ? h("a", { href: link(path("policies", row.name)) }, number(row.statements)) : none()),
  },
];

const NEW_USER = [
  {
    name: "name",
    label: "Name",
    required: true,
    wide: true,
    problem: ["already", "cannot be the name"],
    hint: "Also the access key of RocketMQ clients.",
  },
  {
    name: "password",
    label: "Password",
    type: "password",
    autocomplete: "new-password",
    hint: "Empty: logs in by certificate or token only.",
  },
  { name: "again", label: "Password again", type: "password", autocomplete: "new-password" },
  { name: "super", label: "Super user: no policy binds it", type: "checkbox" },
  { name: "enabled", label: "Enabled", type: "checkbox", value: true },
];

const bodyOf = ({ password, super: isSuper, enabled }) => ({ ...(password !== undefined && { password }), super: isSuper, enabled });

function creation(values) {
  const flags = [values.password === undefined && " --no-password", values.super && " --super", !values.enabled && " --disable"];
  const body = bodyOf({ ...values, ...(values.password !== undefined && { password: HIDDEN_PASSWORD }) });
  return {
    cli: commandText("entrepot user create", [values.name ?? "NAME"], flags.filter(Boolean).join("")),
    rest: rest("putUser", values, body),
  };
}

async function createUser(told, reload) {
  let made = "";
  const result = await formDialog("Create a user", {
    fields: NEW_USER,
    submit: "Create the user",
    same: creation,
    send: async (values) => {
      checkSame(values.password, values.again);
      made = values.name;
      return perform("putUser", values, bodyOf(values), { headers: { "if-none-match": "*" } });
    },
  });
  if (!result) return;
  const meaning = result.done.super ? "No policy binds it." : "It may do what policies allow.";
  audited(told, ["The user ", name(made), " is there."], made, meaning);
  await reload();
}
