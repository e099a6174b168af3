// Users: who may log in, and how.  For super users.

import { ApiError, get, put, segment } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { quoted } from "../parts/copying.js";
import { formDialog } from "../parts/form.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { chip, none, state } from "../parts/states.js";
import { table } from "../parts/table.js";
import { session } from "../session.js";
import { audited, HIDDEN_PASSWORD } from "../parts/user_actions.js";

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
    filters: [{ name: "find", label: "Name contains" }, { name: "super", label: "Super user", type: "select", options: EITHER }, { name: "enabled", label: "Enabled", type: "select", options: EITHER }],
    load: ({ after, limit, filter, signal: asked }) => get("users", { query: { after, limit, ...filter }, signal: asked }),
    empty: { title: "No users", text: "Until the first one exists, the gateway is open to this machine. The first is a super user.", action: { label: "Create a user", act: create } },
  });
  if (session().isSuper) top.acts([h("button.primary", { type: "button", onclick: create }, "Create a user")]);
  place.append(top.element, told.element, panel("Users", { flush: list.element }));
}

const COLUMNS = [
  { id: "name", label: "User", isHead: true, cell: (row) => [h("a", { href: link(path("users", row.name)) }, name(row.name)), row.name === session().user && [" ", chip("you")]] },
  { id: "state", label: "State", cell: (row) => (row.enabled ? state("ok", "enabled") : state("idle", "disabled")) },
  { id: "super", label: "Rights", cell: (row) => (row.super ? h("b", "super user") : "by policy") },
  { id: "login", label: "Logs in by", optional: 1, cell: (row) => [row.hasPassword && "password", row.hasSigningSecret && "signing secret"].filter(Boolean).join(", ") || "certificate or token" },
  { id: "statements", label: "Statements", align: "n", optional: 1, cell: (row) => (row.statements ? h("a", { href: link(path("policies", row.name)) }, number(row.statements)) : none()) },
];

async function createUser(told, reload) {
  let made = "";
  const body = ({ password, super: isSuper, enabled }) => ({ ...(password !== undefined && { password }), super: isSuper, enabled });
  const result = await formDialog("Create a user", {
    fields: [
      { name: "name", label: "Name", required: true, wide: true, problem: ["already", "cannot be the name"], hint: "Also the access key of RocketMQ clients." },
      { name: "password", label: "Password", type: "password", autocomplete: "new-password", hint: "Empty: logs in by certificate or token only." },
      { name: "again", label: "Password again", type: "password", autocomplete: "new-password" },
      { name: "super", label: "Super user: no policy binds it", type: "checkbox" },
      { name: "enabled", label: "Enabled", type: "checkbox", value: true },
    ],
    submit: "Create the user",
    same: (values) => ({
      cli: `entrepot user create ${quoted(values.name ?? "NAME")}${values.password === undefined ? " --no-password" : ""}${values.super ? " --super" : ""}${values.enabled ? "" : " --disable"}`,
      rest: { method: "PUT", path: `/api/v1/users/${segment(values.name ?? "NAME")}`, body: { ...body(values), ...(values.password !== undefined && { password: HIDDEN_PASSWORD }) } },
    }),
    send: async (values) => {
      if (values.password !== values.again) throw new ApiError(400, "NOT_THE_SAME", "The two passwords are not the same.", { problem: { attribute: "again" } });
      made = values.name;
      return put(`users/${segment(values.name)}`, body(values), { headers: { "if-none-match": "*" } });
    },
  });
  if (!result) return;
  audited(told, ["The user ", name(made), " is there."], made, result.done.super ? "No policy binds it." : "It may do what policies allow.");
  await reload();
}
