// Dialogs: modal, closed by Esc.  The focus goes back to where it was.

import { ApiError } from "../api.js";
import { fill, h } from "../dom.js";
import { failure } from "./answers.js";
import { sameFromOutside } from "./copying.js";

let made = 0;

/** Open a dialog with these contents; returns {element, close(value), closed}, where `closed` is the promise of the
 * value, undefined after Esc. */
export function openDialog(title, ...contents) {
  const id = `dialog-${(made += 1)}`;
  const before = document.activeElement;
  let value;
  const box = h("div.dlg", h("h2", { id }, title), contents);
  const element = h("dialog", { "aria-labelledby": id }, box);
  document.body.append(element);
  const closed = new Promise((resolve) => {
    element.addEventListener("close", () => {
      element.remove();
      if (before?.isConnected) before.focus();
      resolve(value);
    });
  });
  element.showModal();
  const close = (result) => {
    value = result;
    element.close();
  };
  addEventListener("hashchange", () => element.open && element.close(), { once: true });
  return { element, close, closed };
}

/** Ask before something is done, do it, and return {done: value of `run`}; undefined where it was cancelled.
 *
 * `title`: a question; `loss`: what is lost, in numbers, and if it can be taken back; `cli`, `rest`: the same from
 * outside; `verb`: the button's words, such as "Resend 3"; `isDanger`: it cannot be undone; `typed`: a name to type first;
 * `body`: more nodes; `run(signal)`: does it.  A failure is shown here, and may be tried again. */
export async function confirm({ title, loss, cli, rest, verb, isDanger = false, typed = null, body = null, run }) {
  const failed = h("div");
  const act = h("button.primary", { type: "button", class: isDanger ? "danger" : "", disabled: typed !== null }, verb);
  const cancel = h("button", { type: "button", autofocus: true }, "Cancel");
  const dialog = openDialog(title, loss && h("p.q2", loss), body, typed !== null && typing(typed, act), sameFromOutside({ cli, rest }), failed, h("p.acts", cancel, act));
  cancel.focus();
  cancel.addEventListener("click", () => dialog.close());
  const controller = new AbortController();
  act.addEventListener("click", async () => {
    act.disabled = true;
    fill(act, `${verb} …`);
    try {
      dialog.close({ done: await run(controller.signal) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(failed, failure("It was not done", error));
    } finally {
      fill(act, verb);
      act.disabled = false;
    }
  });
  const result = await dialog.closed;
  controller.abort();
  return result;
}

function typing(wanted, act) {
  const id = `typed-${(made += 1)}`;
  const input = h("input", { id, autocomplete: "off", spellcheck: "false", oninput: () => (act.disabled = input.value !== wanted) });
  return h("p.field", h("label", { for: id }, "Type ", h("bdi.mono", wanted), " to go on"), input);
}
