// Forms from a description.  What was typed stays when the server refuses it, and its sentence stands at the field.

import { ApiError } from "../api.js";
import { fill, h } from "../dom.js";
import { failure } from "./answers.js";
import { sameFromOutside } from "./copying.js";
import { openDialog } from "./dialog.js";

let made = 0;

/** A form.
 *
 * `fields`: [{name, label, type, value, hint, required, options, wide, problem, ...attributes}].  `type`: text (default),
 * number, password, checkbox, select (with `options`: [[value, label], ...]), textarea, or any of input's.  `problem`: words
 * by which a refusal means this field, besides its name.  `submit`: the button's words.  `send(values)`: does it; values
 * are texts, numbers, booleans; empty ones are left out.  `same(values)`: {cli, rest, loss}, shown as typed.  `cancel`: called by
 * a second button.  Returns {element, values(), field(name)}. */
export function form({ fields, submit, send, same = null, cancel = null, isDanger = false, done = null }) {
  const inputs = fields.map(field);
  const wrong = h("div");
  const outside = h("div.stack");
  const button = h("button.primary", { class: isDanger ? "danger" : "" }, submit);
  const element = h("form.stack", { novalidate: true }, h("div.form", inputs.map((each) => each.element)), outside, wrong, h("p.acts.row", cancel && h("button", { type: "button", onclick: cancel }, "Cancel"), button));
  const values = () => Object.fromEntries(inputs.map((each) => [each.name, each.value()]).filter(([, value]) => value !== undefined));
  const showSame = () => {
    if (!same) return;
    const { loss, ...calls } = same(values());
    fill(outside, loss && h("p.q2", loss), sameFromOutside(calls));
  };
  element.addEventListener("input", showSame);
  showSame();
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(wrong);
    const faulty = inputs.filter((each) => !each.check());
    if (faulty.length) {
      faulty[0].input.focus();
      return;
    }
    button.disabled = true;
    try {
      const answer = await send(values());
      done?.(answer);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const meant = fieldOf(inputs, error);
      if (meant) meant.complain(error.message);
      else fill(wrong, failure("It was refused", error));
    } finally {
      button.disabled = false;
    }
  });
  return { element, values, field: (name) => inputs.find((each) => each.name === name) };
}

/** The form in a dialog; the promise of {done: answer}, or undefined where it was cancelled. */
export function formDialog(title, description) {
  let dialog = null;
  const inner = form({ ...description, cancel: () => dialog.close(), done: (answer) => dialog.close({ done: answer }) });
  dialog = openDialog(title, description.loss && h("p.q2", description.loss), inner.element);
  inner.element.querySelector("input:not([readonly]), select, textarea")?.focus();
  return dialog.closed;
}

function fieldOf(fields, error) {
  if (error.status !== 400 && error.status !== 409 && error.status !== 422) return undefined;
  const target = error.problem?.error?.target ?? error.problem?.attribute;
  const words = new Set(error.message.split(/[^\p{L}\p{N}_.-]+/u));
  return fields.find((each) => each.name === target) ?? fields.find((each) => words.has(each.name) || each.problem.some((word) => error.message.includes(word)));
}

function field({ name, label, type = "text", value, hint = "", required = false, options = [], wide = false, problem = [], ...attributes }) {
  const id = `field-${(made += 1)}`;
  const input = inputOf(type, { id, name, required, "aria-describedby": `${id}-h`, autocomplete: "off", ...attributes }, value, options);
  const said = h("span.hint", { id: `${id}-h` }, hint);
  const element = h("p.field", { class: [wide && "wide", type === "checkbox" && "check"].filter(Boolean).join(" ") }, h("label", { for: id }, label), input, said);
  const complain = (text) => {
    element.classList.add("wrong");
    input.setAttribute("aria-invalid", "true");
    fill(said, text);
    input.focus();
  };
  const calm = () => {
    if (!element.classList.contains("wrong")) return;
    element.classList.remove("wrong");
    input.removeAttribute("aria-invalid");
    fill(said, hint);
  };
  input.addEventListener("input", calm);
  const check = () => {
    calm();
    if (input.checkValidity()) return true;
    complain(input.validity.valueMissing ? `${label} is needed.` : `${input.validationMessage} ${hint}`.trim());
    return false;
  };
  return { name, problem, element, input, complain, check, value: () => valueOf(type, input) };
}

function inputOf(type, attributes, value, options) {
  if (type === "select") {
    const shown = options.map(([option, label]) => h("option", { value: option, selected: option === value }, label));
    return h("select", attributes, shown);
  }
  if (type === "textarea") return h("textarea", { rows: 6, spellcheck: "false", ...attributes, value: value ?? "" });
  if (type === "checkbox") return h("input", { type, ...attributes, checked: Boolean(value) });
  return h("input", { type: type === "number" ? "text" : type, inputmode: type === "number" ? "decimal" : null, pattern: type === "number" ? "-?[0-9]+(\\.[0-9]+)?" : null, spellcheck: "false", ...attributes, value: value ?? "" });
}

function valueOf(type, input) {
  if (type === "checkbox") return input.checked;
  if (input.value === "") return undefined;
  if (type !== "number") return input.value;
  const number = Number(input.value);
  return Number.isSafeInteger(number) || !Number.isInteger(number) ? number : input.value;
}
