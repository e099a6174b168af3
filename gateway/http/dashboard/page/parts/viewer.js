// Messages: a list of them, and one of them as JSON, text, hex, headers and attributes.  Looking consumes nothing.
//
// Rows are those of GET /topics/{name}/messages: {id, topic, namespace, queueId, offset, storeTime, size, keys, body, ...}.

import { address, get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { bytes, clock, count, fullTime, number, time } from "../format.js";
import { link } from "../links.js";
import { PAGES } from "../menu.js";
import { failure } from "./answers.js";
import { bytesOf, hexOf, hexShown, isDocument, jsonShown, textOf, textShown } from "./message_body.js";
import { pathOf } from "./operations.js";
import { facts, panel, scrolling } from "./panel.js";
import { none, state } from "./states.js";
import { choice } from "./tabs.js";

const MOST_BODY_BYTES = 65_536; // of one body; a download has all of it
const PREVIEW_BYTES = 72;
const PREVIEW_HEX = 12;
const MAX_ROWS = 600;
const CONTROL = /[\u0000-\u0008\u000e-\u001f]/; // text has none of them: bytes are shown instead
const SIDE_BY_SIDE = "(min-width: 1181px)";

/** The names of a row in paths. */
const namesOf = ({ topic, namespace, queueId, offset }) => ({ name: topic, namespace, queue: queueId, offset });

/** The identity of a row. */
export const placeOf = ({ topic, namespace, queueId, offset }) => `${namespace}/${topic}/${queueId}/${offset}`;

/** The address of a message's journey; null while there is no such page. */
export const journeyOf = (id) => (PAGES.some((each) => each.route === "journey") ? link("journey", { id }) : null);

/** One message in a panel.
 *
 * `topic`, `namespace`: where it lies, unless the row says so.  `span`: columns of 12.  `acts`: more at the right of the head.
 * `title`: in place of "Offset 12".  `signal`: of the page. */
export function messageView(row, { topic = row.topic, namespace = row.namespace, span = null, acts = [], title = null, signal } = {}) {
  return new MessageView({ ...row, topic, namespace }, { span, acts, title, signal }).element;
}

class MessageView {
  constructor(row, { span, acts, title, signal }) {
    this.row = row;
    this.signal = signal;
    this.content = h("div.stack.s");
    this.ways = h("div.row");
    const journey = journeyOf(row.id);
    const right = [acts, journey && h("a.s", { href: journey }, "Journey")].flat().filter(Boolean);
    this.element = panel(title ?? ["Offset ", number(row.offset)], { span, acts: right, body: [this.ways, this.content, factsOf(row)] });
    this.element.classList.add("message");
    this.showWays();
    this.show(this.views()[0].value);
  }

  views() {
    const { row } = this;
    this.bytes = row.body === null || row.body === undefined ? null : bytesOf(row.body);
    this.text = this.bytes && textOf(this.bytes, row.isCut);
    const forms = [
      { label: "Text", value: "text" },
      { label: "Hex", value: "hex" },
    ];
    const json = { label: "JSON", value: "json" };
    if (this.text === null) forms.reverse();
    if (this.text !== null && isDocument(this.text)) forms.unshift(json);
    else forms.push(json);
    const amount = (list) => (list ? ` ${list.length}` : "");
    return [
      ...forms,
      { label: `Headers${amount(row.properties)}`, value: "headers" },
      { label: `Attributes${amount(row.systemProperties)}`, value: "attributes" },
    ];
  }

  showWays() {
    const views = this.views();
    this.choice = choice("View", views, views[0].value, (view) => this.show(view));
    this.choice.element.classList.add("wrapseg");
    fill(this.ways, this.choice.element);
  }

  show(view) {
    this.view = view;
    if (view === "headers") fill(this.content, pairs("Headers", this.row.properties));
    else if (view === "attributes") fill(this.content, pairs("Attributes", this.row.systemProperties));
    else fill(this.content, this.body(view));
  }

  body(view) {
    const { row } = this;
    if (this.bytes === null) return [unseen(row), !row.isHidden && this.more()];
    const notes = [row.isMasked && h("p.hint", "Fields are masked by a rule of the settings."), this.extent()];
    if (this.bytes.length === 0) return [h("p.q", "The body is empty."), ...notes];
    return [scrolling("Body", this.shown(view)), ...notes];
  }

  shown(view) {
    if (view === "hex") return hexShown(this.bytes);
    if (this.text === null) return h("p.pad.q", "The bytes are not text in UTF-8: see Hex.");
    if (view === "text") return textShown(this.text);
    return jsonShown(this.text, this.row) ?? h("p.pad.q", "This is not JSON: see Text.");
  }

  /** How much of the body is here, and the ways to the rest of it. */
  extent() {
    const { row } = this;
    const download = h("a.btn.small", { href: address(pathOf("downloadBody", namesOf(row))).href, download: "" }, "Download");
    const said = row.isCut ? ["first ", bytes(this.bytes.length), " of ", bytes(row.size)] : ["all of ", bytes(row.size)];
    return h("div.row", h("span.unit", said), row.isCut && this.bytes.length < MOST_BODY_BYTES && this.more(), download);
  }

  more() {
    const least = Math.min(this.row.size, MOST_BODY_BYTES);
    const said = h("span");
    const ask = async () => {
      button.disabled = true;
      try {
        const found = await get(pathOf("viewMessage", namesOf(this.row)), { query: { bodyBytes: MOST_BODY_BYTES }, signal: this.signal });
        const { view } = this;
        this.row = { ...found, topic: this.row.topic, namespace: this.row.namespace };
        this.showWays();
        this.choice.set(view);
        this.show(view);
        this.ways.querySelector("[aria-pressed=true]")?.focus();
      } catch (error) {
        if (!this.signal?.aborted) fill(said, failure("The body was not loaded", error));
      } finally {
        button.disabled = false;
      }
    };
    const button = h("button.small", { type: "button", onclick: ask }, "Show ", bytes(least));
    return [button, said];
  }
}

function unseen(row) {
  if (row.keys === null) return h("p", state("unknown", "hidden"), " Keys, headers and bodies need the right SUB on all of the topic.");
  if (row.isHidden)
    return h("p", state("unknown", "hidden"), " A rule masks fields of it, and it is not JSON: super users alone are shown it.");
  return h("p.q", "The body was not asked for.");
}

function pairs(label, list) {
  if (list === null || list === undefined) return h("p", state("unknown", "hidden"), " They need the right SUB on all of the topic.");
  if (list.length === 0) return h("p.q", `No ${label.toLowerCase()}.`);
  const lines = list.map((each) =>
    h(
      "tr",
      h("th.brk", { scope: "row" }, name(each.name)),
      h("td.mono.xs.brk", each.base64 === undefined ? name(each.value) : binary(each.base64)),
    ),
  );
  const heads = h("tr", h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Value"));
  return scrolling(label, h("table.flat", h("thead", heads), h("tbody", lines)));
}

const binary = (base64) => [...bytesOf(base64)].map(hexOf).join(" ");

function factsOf(row) {
  return facts([
    ["Id", row.id ? h("span.mono.xs", row.id) : none()],
    [
      "Lies in",
      [
        name(row.topic),
        row.namespace !== "default" && [" of ", name(row.namespace)],
        `, queue ${row.queueId}, offset `,
        number(row.offset),
      ],
    ],
    ["Stored", row.storeTime ? fullTime(row.storeTime) : null],
    ["Sent", row.bornTime ? fullTime(row.bornTime) : null],
    ["Bytes", number(row.size)],
    ["Keys", row.keys?.length ? row.keys.map((key, at) => [at > 0 && ", ", name(key)]) : null],
    ["Tag", row.tag ? name(row.tag) : null],
    ["Sub-topic", row.subTopic ? name(row.subTopic) : null],
    ["Message group", row.messageGroup ? name(row.messageGroup) : null],
  ]);
}

/** The place beside a list for the message that is chosen there: {element, show(row, button), clear()}.  `show` moves the
 * focus to the message, and its button "Back to the list" moves it back. */
export function messageBeside(signal) {
  const element = h("div.c5.stack.beside");
  const clear = () => fill(element, panel("Message", { body: h("p.q", "Choose an offset of the list to see the message.") }));
  const show = (row, button) => {
    const back = h(
      "button.small.bare",
      { type: "button", onclick: () => (button.isConnected ? button : element).focus() },
      "Back to the list",
    );
    fill(element, messageView(row, { acts: [back], signal }));
    const title = element.querySelector("h2");
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    if (!matchMedia(SIDE_BY_SIDE).matches) element.scrollIntoView({ block: "start" });
  };
  clear();
  return { element, show, clear };
}

/** A list of rows, of which one is chosen.
 *
 * `label`: what the list is of.  `choose(row, button)`: called for the row that somebody wants to see, with its button.
 * `withTopic`: a column of it.
 * `columns`: more of [{label, cell(row), align, optional}], at the end.  `most`: rows kept, the last ones of `add` or the
 * first ones of `prepend`.  Returns {element, show(rows), add(rows), prepend(rows), rows()}; the last three keep what is
 * chosen. */
export function messageList({ label, choose, withTopic = false, columns = [], most = MAX_ROWS }) {
  const body = h("tbody");
  const shown = [withTopic && { label: "Topic", cell: (row) => name(row.topic) }, ...COLUMNS, ...columns].filter(Boolean);
  const heads = shown.map((each) => h("th", { scope: "col", class: classesOf(each) }, each.label));
  const element = scrolling(label, h("table", h("thead", h("tr", heads)), body));
  let rows = [];
  const take = (row, line, button) => {
    for (const each of body.children) mark(each, each === line);
    choose(row, button);
  };
  const lineOf = (row) => {
    const button = h("button.plain.mono.xs", { type: "button", onclick: () => take(row, line, button) }, number(row.offset));
    const line = h(
      "tr",
      shown.map((each) => h("td", { class: classesOf(each) }, each.cell ? each.cell(row) : button)),
    );
    return line;
  };
  const trim = (side) => {
    while (rows.length > most) {
      rows[side === "last" ? "pop" : "shift"]();
      body[side === "last" ? "lastElementChild" : "firstElementChild"].remove();
    }
  };
  return {
    element,
    rows: () => rows,
    show: (found) => {
      rows = [...found];
      body.replaceChildren(...rows.map(lineOf));
    },
    add: (found) => {
      rows.push(...found);
      body.append(...found.map(lineOf));
      trim("first");
    },
    prepend: (found) => {
      rows.unshift(...found);
      body.prepend(...found.map(lineOf));
      trim("last");
    },
  };
}

function mark(line, isChosen) {
  line.classList.toggle("sel", isChosen);
  const button = line.querySelector("button.plain");
  if (isChosen) button?.setAttribute("aria-current", "true");
  else button?.removeAttribute("aria-current");
}

const classesOf = ({ align, optional }) => [align, optional && "opt", optional === 2 && "opt2"].filter(Boolean).join(" ");

const COLUMNS = [
  { label: "Stored", cell: (row) => h("span.nw.mono.xs", { title: row.storeTime && fullTime(row.storeTime) }, storedAt(row.storeTime)) },
  { label: "Queue", align: "n", optional: 1, cell: (row) => String(row.queueId) },
  { label: "Offset", align: "n" },
  { label: "Key", optional: 1, cell: (row) => h("div.cut", keysOf(row)) },
  { label: "Body", optional: 1, cell: (row) => h("div.cut.mono.xs.q2", preview(row)) },
  { label: "Bytes", align: "n", cell: (row) => number(row.size) },
];

function storedAt(value) {
  if (!value) return none();
  const shown = time(value);
  return shown === clock(value) ? new Date(value).toISOString().slice(11, 23) : shown;
}

function keysOf(row) {
  if (row.keys === null) return state("unknown", "hidden");
  const [first, ...others] = row.keys;
  if (first !== undefined) return [name(first), others.length > 0 && ` and ${count(others.length, "more", "more")}`];
  return row.tag ? h("span.q2", "tag ", name(row.tag)) : none();
}

/** The beginning of a body in one line. */
function preview(row) {
  if (row.isHidden) return state("unknown", "hidden");
  if (row.body === null || row.body === undefined) return none();
  const part = bytesOf(row.body.slice(0, (PREVIEW_BYTES / 3) * 4));
  const text = textOf(part, true);
  if (part.length === 0) return none();
  if (text === null || CONTROL.test(text)) return [...part.slice(0, PREVIEW_HEX)].map(hexOf).join(" ");
  return name(text.replace(/\s+/g, " "));
}
