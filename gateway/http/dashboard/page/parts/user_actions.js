// Actions on a user: each asks first.  What is secret is never in the command or the request that is shown.

import { ApiError } from "../api.js";
import { h, name } from "../dom.js";
import { link } from "../links.js";
import { session } from "../session.js";
import { commandText, copyable } from "./copying.js";
import { confirm, openDialog } from "./dialog.js";
import { formDialog } from "./form.js";
import { perform, rest, same } from "./operations.js";

export const HIDDEN_PASSWORD = "<password>";
const HIDDEN_SECRET = "<secret>";
const SECRET_BYTES = 24;
const SECRET_HINT = "8 to 1024 characters. Empty: one is made here and shown once.";
const LOSES_OWN = "This is your own user: you lose your rights at once. Only another super user can give them back.";

/** Show the result of a change of users or policies, with the way to its entry. */
export function audited(told, fact, resource, meaning = "") {
  told.tell("info", fact, `${meaning} The audit has an entry.`.trim(), { label: "Show the audit", href: link("audit", { resource }) });
}

/** Raise ApiError where a password was not typed the same twice. */
export function checkSame(password, again) {
  if (password === again) return;
  throw new ApiError(400, "NOT_THE_SAME", "The two passwords are not the same.", { problem: { attribute: "again" } });
}

/** Buttons for a user.  `told`: of `results()`; `reload()`: asks anew; `leave()`: after the user is gone. */
export function userButtons(user, told, { reload, leave }) {
  const after = async (result, fact, meaning) => {
    if (!result) return;
    audited(told, [name(user.name), ` ${fact}`], user.name, meaning);
    await reload();
  };
  const button = (label, act, isDanger = false) => h("button", { type: "button", class: isDanger ? "danger" : "", onclick: act }, label);
  const removed = async () => (await confirm(deleteDialog(user))) && leave();
  return [
    button(
      "Change password",
      async () => after(await passwordDialog(user), "has another password.", "Connections made with the old one end."),
    ),
    button(user.hasSigningSecret ? "Change signing secret" : "Set a signing secret", async () => signingSecret(user, after)),
    user.hasSigningSecret && button(
      "Remove signing secret",
      async () => after(await confirm(removeSecretDialog(user)), "has no signing secret."),
      true,
    ),
    user.super
      ? button(
        "Take super rights",
        async () => after(await confirm(changeDialog(user, { super: false })), "is bound by policies now."),
        true,
      )
      : button(
        "Make a super user",
        async () => after(await confirm(changeDialog(user, { super: true })), "is a super user: no policy binds it."),
      ),
    user.enabled
      ? button(
        "Disable",
        async () => after(await confirm(changeDialog(user, { enabled: false })), "is disabled.", "Its logins are refused."),
        true,
      )
      : button("Enable", async () => after(await confirm(changeDialog(user, { enabled: true })), "is enabled.")),
    button("Delete", removed, true),
  ];
}

/** Tells password stores whose password it is. */
const ownerOf = (user) => ({ name: "user", label: "User", value: user.name, readonly: true, autocomplete: "username", wide: true });
const isOwn = (user) => user.name === session().user;
const ownQuery = (isLoss) => (isLoss ? { confirm: "own-rights" } : {});

function passwordDialog(user) {
  return formDialog(`Change the password of ${user.name}`, {
    loss: `Logins and connections made with the old one end${isOwn(user) ? ", this login too" : ""}.`,
    fields: [
      ownerOf(user),
      { name: "password", label: "New password", type: "password", required: true, autocomplete: "new-password" },
      { name: "again", label: "New password again", type: "password", required: true, autocomplete: "new-password" },
    ],
    submit: "Change password",
    same: () => ({ cli: commandText("entrepot user password", [user.name]), rest: rest("putUser", user, { password: HIDDEN_PASSWORD }) }),
    send: async ({ password, again }) => {
      checkSame(password, again);
      return perform("putUser", user, { password });
    },
  });
}

async function signingSecret(user, after) {
  let generated = null;
  const result = await formDialog(`Signing secret of ${user.name}`, {
    loss: user.hasSigningSecret
      ? "RocketMQ clients that sign with the old secret are refused."
      : "RocketMQ clients sign with it. Their access key is the name of the user.",
    fields: [
      ownerOf(user),
      {
        name: "secret",
        label: "Secret",
        type: "password",
        wide: true,
        autocomplete: "new-password",
        problem: ["signing secret"],
        hint: SECRET_HINT,
      },
    ],
    submit: user.hasSigningSecret ? "Change signing secret" : "Set signing secret",
    same: ({ secret }) => ({
      cli: commandText("entrepot user signing-secret", [user.name], secret === undefined ? "" : " --secret-file FILE"),
      rest: rest("putUser", user, { signingSecret: HIDDEN_SECRET }),
    }),
    send: ({ secret }) => {
      generated = secret === undefined ? randomSecret() : null;
      return perform("putUser", user, { signingSecret: secret ?? generated });
    },
  });
  if (result && generated) {
    const close = h("button.primary", { type: "button", onclick: () => dialog.close() }, "I have copied it");
    const dialog = openDialog(
      `New signing secret of ${user.name}`,
      h("p.q2", "It is shown this once."),
      h("div.same", copyable("Secret", generated)),
      h("p.acts", close),
    );
    await dialog.closed;
  }
  await after(result, "has a new signing secret.");
}

function randomSecret() {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
}

function removeSecretDialog(user) {
  return {
    title: `Remove the signing secret of ${user.name}?`,
    loss: "RocketMQ clients that sign with it are refused. The secret itself cannot be restored.",
    cli: commandText("entrepot user signing-secret", [user.name], " --remove"),
    rest: rest("putUser", user, { signingSecret: "" }),
    verb: "Remove signing secret",
    isDanger: true,
    run: () => perform("putUser", user, { signingSecret: "" }),
  };
}

const CHANGES = {
  "super true": ["Make a super user", "No policy binds it any more, and it may change users and policies. You can take it back."],
  "super false": ["Take super rights", "It may then do only what policies allow. You can take it back."],
  "enabled true": ["Enable", "It may log in again. You can take it back."],
  "enabled false": ["Disable", "Its logins are refused, and its connections end. You can take it back."],
};

function changeDialog(user, change) {
  const [[field, value]] = Object.entries(change);
  const [verb, meaning] = CHANGES[`${field} ${value}`];
  const isLoss = isOwn(user) && user.super && user.enabled && !value;
  const query = ownQuery(isLoss);
  return {
    title: `${verb}: ${user.name}?`,
    loss: isLoss ? LOSES_OWN : meaning,
    ...same("putUser", user, change, { query }),
    verb,
    isDanger: !value,
    typed: isLoss ? user.name : null,
    run: () => perform("putUser", user, change, { query }),
  };
}

function deleteDialog(user) {
  const kept = user.statements ? ` Its policy of ${user.statements} statements stays.` : "";
  const query = ownQuery(isOwn(user));
  const own = isOwn(user) ? " This is your own user: your login ends." : "";
  return {
    title: `Delete the user ${user.name}?`,
    loss: `Its logins are refused, and its connections end. Its password and secret are lost. This cannot be undone.${kept}${own}`,
    ...same("deleteUser", user, undefined, { query }),
    verb: "Delete user",
    isDanger: true,
    typed: user.name,
    run: () => perform("deleteUser", user, undefined, { query }).then(() => true),
  };
}
