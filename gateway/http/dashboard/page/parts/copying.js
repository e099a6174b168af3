// The same from outside: the command and the REST call of an action, to be copied.

import { fill, h } from "../dom.js";

/** A text with a button that copies it. */
export function copyable(label, text) {
  const button = h("button.small", { type: "button", "aria-label": `Copy ${label}` }, "Copy");
  const code = h("pre.code.wrap", { tabindex: "0", role: "group", "aria-label": label }, text);
  button.addEventListener("click", async () => {
    await copy(code, text);
    fill(button, "Copied");
  });
  return h("div.cmd", h("span", label), code, button);
}

async function copy(code, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    getSelection().selectAllChildren(code); // pages over plain HTTP have no clipboard: the old way has
    document.execCommand("copy");
  }
}

/** CLI and REST of one action.  `cli`: the command; `rest`: {method, path, body}, with the path below the server. */
export function sameFromOutside({ cli = null, rest = null }) {
  return h("div.same", h("h3", "The same from outside"), cli && copyable("CLI", cli), rest && copyable("REST", restText(rest)));
}

const restText = ({ method, path, body }) => `${method} ${path}${body === undefined || body === null ? "" : `\n${JSON.stringify(body)}`}`;

/** A word of a command line, quoted where a shell needs it. */
export const quoted = (word) => (/^[\w%+,./:=@-]+$/.test(word) ? word : `'${String(word).replaceAll("'", `'\\''`)}'`);

/** A command of its words, its arguments and the text of its options.  No argument is taken for an option. */
export function commandText(words, values, options = "") {
  const texts = values.map(String);
  const said = texts.map((text) => ` ${quoted(text)}`).join("");
  return texts.some((text) => text.startsWith("-")) ? `${words}${options} --${said}` : words + said + options;
}
