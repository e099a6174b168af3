// Bodies of messages as JSON, text and hex.  Everything becomes text nodes.  What is cut is shown as far as it goes.

import { h, plain } from "../dom.js";

const TOKEN = /[{}[\],:]|"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/sy;
const SPACE = /[ \t\n\r]*/y;
const CUT_WORD = /^(?:"[^]*|[-+.\w]{1,64})$/; // what may be left of the last token of a cut body
const MAX_INDENT = 24; // levels: deeper ones are not indented further
const MAX_NAMED = 2000; // hidden characters, each with an element of its own
const BEGINS = new Set(["{", "[", ","]); // after these a line begins
const HEX_WIDTH = 16;
const MASK = '"***"';
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** The bytes of a base64 text. */
export function bytesOf(base64) {
  const binary = atob(base64);
  return Uint8Array.from(binary, (sign) => sign.charCodeAt(0));
}

/** The bytes as UTF-8; null where they are none.  A last character that `isCut` may have halved is left out. */
export function textOf(bytes, isCut = false) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isCut });
  } catch (error) {
    return null;
  }
}

/** A text with its hidden characters named. */
export function textShown(text) {
  const lines = text.replaceAll("\r\n", "\n");
  const hidden = lines.match(HIDDEN)?.length ?? 0;
  return h("pre.code.wrap", hidden > MAX_NAMED ? plain(lines) : lines);
}

/** Lines of offset, bytes and characters, 16 bytes each. */
export function hexShown(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += HEX_WIDTH) {
    const part = [...bytes.subarray(at, at + HEX_WIDTH)];
    const digits = part
      .map(hexOf)
      .join(" ")
      .padEnd(HEX_WIDTH * 3);
    const signs = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits} ${signs}`);
  }
  return h("pre.code", lines.join("\n"));
}

/** Two digits of a byte. */
export const hexOf = (byte) => byte.toString(16).padStart(2, "0");

/** True for a text that begins as a JSON object or array. */
export const isDocument = (text) => /^[ \t\n\r]*[{[]/.test(text);

/** A JSON text with one member a line, as it was written; null where it is not JSON. */
export function jsonShown(text, { isCut = false, isMasked = false } = {}) {
  if (!isCut && !isJson(text)) return null;
  const found = tokensOf(text, isCut);
  return found && h("pre.code.wrap", laidOut(found, isMasked));
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    return false;
  }
}

/** The tokens, and what is left of the last one of a cut text. */
function tokensOf(text, isCut) {
  const tokens = [];
  let at = 0;
  for (;;) {
    SPACE.lastIndex = at;
    SPACE.test(text);
    at = SPACE.lastIndex;
    if (at >= text.length) return { tokens, rest: "" };
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (match === null) {
      const rest = text.slice(at);
      return isCut && tokens.length && CUT_WORD.test(rest) ? { tokens, rest } : null;
    }
    tokens.push(match[0]);
    at = TOKEN.lastIndex;
  }
}

/** Texts and elements: keys are marked, values that a mask hides, and the rest of a cut text. */
function laidOut({ tokens, rest }, isMasked) {
  const parts = [];
  let line = "";
  let depth = 0;
  const mark = (tag, text) => {
    parts.push(line, h(tag, text));
    line = "";
  };
  const breakLine = () => (line += `\n${"  ".repeat(Math.min(depth, MAX_INDENT))}`);
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") breakLine();
      line += token;
      return;
    }
    if (BEGINS.has(before)) breakLine();
    if (token === "{" || token === "[") depth += 1;
    if (token === ":") line += ": ";
    else if (tokens[at + 1] === ":") mark("span.k", token);
    else if (isMasked && token === MASK) mark("span.masked", "masked");
    else line += token;
  });
  if (rest && BEGINS.has(tokens.at(-1))) breakLine();
  if (rest) mark("span.q2", rest);
  parts.push(line);
  return parts;
}
