// Elements from code.  Text stays text: no markup is parsed, and control characters are shown by name.

const SVG = "http://www.w3.org/2000/svg";
// Control and format characters: C0, C1, soft hyphen, zero-width, bidi marks and overrides, separators, BOM, tags.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const HIDDEN_IN_NAMES = new RegExp(`[\\t\\n]|${HIDDEN.source}`, "g");
const PLAIN_ONLY = new Set(["option", "textarea", "title", "text", "tspan", "desc"]);
const PROPERTIES = new Set(["value", "checked", "indeterminate", "selected"]);

/** The code point of a character in words: `U+202E`. */
const codePoint = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** A text for attributes and titles, where a hidden character is written as `‹U+202E›`. */
export function plain(text) {
  return String(text).replace(HIDDEN, (sign) => `‹${codePoint(sign)}›`);
}

/** An element: `h("td.n", {title: "..."}, "12", " ", node)`.
 *
 * The tag may have classes.  Attributes: a function listens to an event (`onclick`); true is an empty attribute; false,
 * null and undefined leave it out; `css: {width: "40%"}` sets style properties.  Children: text, numbers, nodes, arrays of
 * them; null, undefined and false are left out. */
export function h(tag, ...rest) {
  return made((name) => document.createElement(name), tag, rest);
}

/** As `h`, for SVG: `s("rect", {width: 4, height: 4})`. */
export function s(tag, ...rest) {
  return made((name) => document.createElementNS(SVG, name), tag, rest);
}

/** A foreign name: isolated from the direction of its surroundings, with each hidden character named. */
export function name(text) {
  const value = String(text ?? "");
  if (value === "") return h("span.q", "(empty)");
  const found = document.createElement("bdi");
  addText(found, value, HIDDEN_IN_NAMES);
  return found;
}

/** Replace all children of an element. */
export function fill(element, ...children) {
  const found = document.createDocumentFragment();
  add(found, children, element.localName);
  element.replaceChildren(found);
  return element;
}

function made(create, tag, rest) {
  const [localName, ...classes] = tag.split(".");
  const element = create(localName);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  if (isAttributes(rest[0])) setAttributes(element, rest.shift());
  add(element, rest, localName);
  return element;
}

const isAttributes = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);

function setAttributes(element, attributes) {
  const late = [];
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function" && key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "css") for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    else if (key === "class") element.setAttribute("class", `${element.getAttribute("class") ?? ""} ${value}`.trim());
    else if (PROPERTIES.has(key) && !(element instanceof SVGElement)) late.push([key, value]);
    else element.setAttribute(key, value === true ? "" : plain(value));
  }
  for (const [key, value] of late) element[key] = value;
  if (late.length && element.localName === "option") element.setAttribute("value", attributes.value ?? "");
}

function add(element, children, localName) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) add(element, child, localName);
    else if (child instanceof Node) element.append(child);
    else if (PLAIN_ONLY.has(localName)) element.append(plain(child));
    else addText(element, String(child), HIDDEN);
  }
}

function addText(element, text, hidden) {
  let from = 0;
  for (const match of text.matchAll(hidden)) {
    element.append(text.slice(from, match.index), h("span.chip", codePoint(match[0])));
    from = match.index + match[0].length;
  }
  element.append(from ? text.slice(from) : text);
}
