// One user: how it logs in, what decides about it, and what can be done.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { link, path } from "../links.js";
import { ask } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { sameFromOutside } from "../parts/copying.js";
import { head } from "../parts/head.js";
import { pathOf, same } from "../parts/operations.js";
import { facts, panel } from "../parts/panel.js";
import { chip, state } from "../parts/states.js";
import { effectiveTrail } from "../parts/decisions.js";
import { audited, userButtons } from "../parts/user_actions.js";
import { session } from "../session.js";

export async function show(place, { name: user }, signal) {
  const shown = h("span", name(user));
  const top = head(user, { shown, crumbs: [["Users", link("users")]], sub: user === session().user ? ["this is you"] : [] });
  const told = results();
  const content = h("div.stack.wide-gaps");
  place.append(top.element, told.element, content);
  const load = () => ask(content, (asked) => both(user, asked), draw, { fact: "The user was not loaded", signal });
  const leave = () => {
    top.acts([]);
    audited(told, ["The user ", name(user), " was deleted."], user, "Its logins are refused.");
    fill(content, h("div.empty", h("h2", "This user was deleted"), h("a.btn.small", { href: link("users") }, "All users")));
  };
  const draw = ([found, effective]) => {
    top.acts(userButtons(found, told, { reload: load, leave }));
    return [overview(found), rights(found, effective), h("section.panel.pad", sameFromOutside(same("getUser", { name: user })))];
  };
  await load();
}

async function both(user, signal) {
  const found = await get(pathOf("getUser", { name: user }), { signal });
  return [found, await get("acls:effective", { query: { subject: `User:${user}` }, signal })];
}

function overview(user) {
  return panel("Login", {
    state: user.enabled ? state("ok", "enabled") : state("idle", "disabled"),
    body: facts([
      ["Rights", user.super ? [h("b", "super user"), " ", chip("no policy binds it")] : "by policy"],
      ["Password", user.hasPassword ? "set" : "none: logs in by certificate or token"],
      ["Signing secret", user.hasSigningSecret ? "set, for RocketMQ clients" : "none"],
      [
        "Own policy",
        h(
          "a",
          { href: link(path("policies", user.name), user.statements ? {} : { new: "1" }) },
          user.statements ? `${user.statements} statements` : "none: write one",
        ),
      ],
    ]),
  });
}

function rights(user, effective) {
  const acts = h("a.btn.small", { href: link("access", { subject: user.name }) }, "Test access");
  return panel(
    "Statements that decide about it",
    { unit: "those of everybody included, in the order they are looked at", acts, flush: effectiveTrail(effective) },
  );
}
