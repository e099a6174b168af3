// The first bytes of a body: as text where they are text, else in hexadecimal.

import { h } from "../dom.js";
import { bytes } from "../format.js";

const LINE = 16; // bytes in a line
const MOST_IN_HEX = 512;

/** The bytes of a text in base 64. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

/** A body.  `content`: its first bytes; `size`: of all of it. */
export function preview(content, size) {
  if (size === 0) return h("p.q", "The body is empty.");
  const text = asText(content, content.length < size);
  const shown = text === null ? Math.min(content.length, MOST_IN_HEX) : content.length;
  const body = text ?? inHex(content.subarray(0, shown));
  const kind = text === null ? "in hexadecimal" : "as text";
  const part = shown < size ? `the first ${bytes(shown)} of ${bytes(size)}, ${kind}` : `${bytes(size)}, ${kind}`;
  const pre = h("pre.code.wrap.numbers", { tabindex: "0", role: "group", "aria-label": "Body" }, body);
  return h("div.stack", h("p.unit", part), pre);
}

/** The text of UTF-8; null where it is none.  A character that is cut at the end does not count. */
function asText(content, isCut) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content, { stream: isCut });
    return text.includes("\0") ? null : text;
  } catch (error) {
    return null;
  }
}

function inHex(content) {
  const lines = [];
  for (let at = 0; at < content.length; at += LINE) {
    const part = [...content.subarray(at, at + LINE)];
    const codes = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const signs = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(Math.min(LINE, content.length) * 3)} ${signs}`);
  }
  return lines.join("\n");
}
