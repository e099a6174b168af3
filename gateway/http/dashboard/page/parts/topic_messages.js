// The messages of a topic: what to look for, what was found, and the one that was chosen.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { count, number } from "../format.js";
import { keepInAddress } from "../links.js";
import { ask, empty } from "./answers.js";
import { commandText, sameFromOutside, quoted } from "./copying.js";
import { namespaceOption } from "./namespaces.js";
import { pathOf, rest } from "./operations.js";
import { columns, panel } from "./panel.js";
import { choice } from "./tabs.js";
import { messageBeside, messageList } from "./viewer.js";

const PREVIEW_BYTES = 1024; // of each body
const PAGE = 50;
const WAYS = [
  { label: "Newest", value: "newest" },
  { label: "Offset", value: "offset" },
  { label: "Time", value: "time" },
  { label: "Key", value: "key" },
  { label: "Id", value: "id" },
];
const TIME_HINT = "2026-11-22T20:00:00Z";
const DIRECTIONS = [
  ["backward", "Newest first"],
  ["forward", "Oldest first"],
];
const FILTERS = [
  ["TAG", "Tag"],
  ["SQL92", "SQL92"],
  ["SUB_TOPIC", "Sub-topic"],
];
/** Fields by name: the ways that have them, and how they are asked for. */
const FIELDS = {
  queue: { label: "Queue", ways: "newest offset time", hint: "all", inputmode: "numeric" },
  offset: { label: "Offset", ways: "offset", hint: "the end", inputmode: "numeric" },
  from: { label: "Stored at or after", ways: "time key", hint: TIME_HINT },
  to: { label: "Stored before", ways: "time key", hint: TIME_HINT },
  key: { label: "Key", ways: "key" },
  id: { label: "Message id", ways: "id" },
  direction: { label: "Order", ways: "offset time", options: DIRECTIONS },
  filterKind: { label: "Filter by", ways: "newest offset time key", options: FILTERS },
  filter: { label: "Filter", ways: "newest offset time key", hint: "red || blue, or total > 100" },
  text: { label: "Text in headers", ways: "newest offset time key" },
  bodyText: { label: "Text in bodies", ways: "newest offset time key" },
};
const NAMES = Object.keys(FIELDS);

/** The viewer of a topic.  `query`: parameters of the address, which says what to look for first. */
export function topicMessages(topic, query, signal) {
  return new TopicMessages(topic, query, signal).start();
}

class TopicMessages {
  constructor(topic, query, signal) {
    Object.assign(this, { topic, signal, next: null, lookedAt: 0 });
    this.values = Object.fromEntries(NAMES.map((each) => [each, query.get(each) ?? ""]));
    this.way = WAYS.some(({ value }) => value === query.get("by")) ? query.get("by") : "newest";
    this.fields = h("div.form");
    this.notes = h("div.pad", { hidden: true });
    this.foot = h("span.apart", { role: "status" });
    this.side = messageBeside(signal);
    this.outside = h("div.stack");
    this.list = messageList({ label: "Messages", choose: this.side.show });
  }

  start() {
    const ways = choice("Where to look", WAYS, this.way, (way) => {
      this.way = way;
      this.drawFields();
    });
    ways.element.classList.add("wrapseg");
    this.drawFields();
    const look = (event) => {
      event.preventDefault();
      this.look();
    };
    const button = h("button.primary", "Look");
    const form = h(
      "form.stack",
      { role: "search", "aria-label": "Messages", onsubmit: look, oninput: () => this.showSame() },
      ways.element,
      this.fields,
      h("div.row", button),
    );
    const same = h("details.s", h("summary", "The same from outside"), this.outside);
    const found = panel("Messages", {
      span: 7,
      unit: "looking takes none from any group",
      body: [form, same],
      flush: [this.notes, this.list.element],
      footer: this.foot,
    });
    this.look();
    this.element = columns(found, this.side.element);
    return this.element;
  }

  drawFields() {
    const shown = NAMES.filter((each) => FIELDS[each].ways.includes(this.way));
    fill(
      this.fields,
      shown.map((each) => this.field(each)),
    );
    this.showSame();
  }

  field(key) {
    const { label, hint, options, inputmode } = FIELDS[key];
    const id = `look-${key}`;
    const set = () => (this.values[key] = input.value);
    const input = options
      ? h(
          "select",
          { id, oninput: set },
          options.map(([value, words]) => h("option", { value, selected: value === this.values[key] }, words)),
        )
      : h("input", { id, value: this.values[key], placeholder: hint, inputmode, autocomplete: "off", spellcheck: "false", oninput: set });
    return h("p.field", h("label", { for: id }, label), input);
  }

  /** The parameters of the question: only those of the way, and no order or kind where they mean nothing. */
  query() {
    const found = {};
    for (const key of NAMES) if (FIELDS[key].ways.includes(this.way) && this.values[key] !== "") found[key] = this.values[key].trim();
    if (this.way === "offset") found.queue ??= "0";
    if (!found.queue) delete found.direction;
    if (!found.filter) delete found.filterKind;
    return found;
  }

  showSame() {
    const query = this.query();
    const request = rest("viewMessages", this.topic, undefined, { ...query, bodyBytes: PREVIEW_BYTES });
    fill(this.outside, sameFromOutside({ cli: this.command(query), rest: request }));
  }

  command({ filter, filterKind = "TAG", direction, bodyText, ...others }) {
    const words = Object.entries(others).map(([key, value]) => ` --${key} ${quoted(value)}`);
    if (filter) words.push(` --filter ${quoted(`${filterKind}:${filter}`)}`);
    if (bodyText) words.push(` --body-text ${quoted(bodyText)}`);
    if (others.queue && direction !== "forward") words.push(" --backward");
    return commandText("entrepot message list", [this.topic.name], words.join("") + namespaceOption(this.topic.namespace));
  }

  look() {
    const query = this.query();
    keepInAddress({ ...Object.fromEntries(NAMES.map((each) => [each, null])), ...query, by: this.way === "newest" ? null : this.way });
    Object.assign(this, { asked: query, next: null, lookedAt: 0 });
    this.list.show([]);
    this.side.clear();
    return this.ask({});
  }

  /** Ask for what comes next.  One queue goes on at an offset, all of them at a cursor. */
  goOn() {
    const { queue, from, to } = this.asked;
    return this.ask(queue === undefined ? { cursor: this.next } : { offset: this.next, from, to });
  }

  ask(more) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const signal = AbortSignal.any([asking.signal, this.signal]);
    const query = { ...this.asked, limit: PAGE, bodyBytes: PREVIEW_BYTES, ...more };
    this.notes.hidden = false;
    return ask(this.notes, (asked) => get(pathOf("viewMessages", this.topic), { query, signal: asked }), (found) => this.show(found), {
      what: "the queues",
      fact: "The messages were not loaded",
      signal,
    });
  }

  /** Show a page of messages; returns what stands in place of a list without any. */
  show({ value, next, lookedAt, minOffset, maxOffset }) {
    this.next = next;
    this.lookedAt += lookedAt;
    this.list.add(value);
    const amount = this.list.rows().length;
    const isNothing = amount === 0;
    this.list.element.hidden = isNothing;
    this.notes.hidden = !isNothing;
    const facts = [`${count(amount, "message")} shown`, `looked at ${number(this.lookedAt)}`];
    if (minOffset !== null && maxOffset !== null) facts.push(`the queue has offsets ${number(minOffset)} to ${number(maxOffset)}`);
    const goOn = h("button.small", { type: "button", onclick: () => this.goOn() }, "Go on");
    const had = this.foot.contains(document.activeElement);
    fill(
      this.foot,
      facts.map((fact) => h("span", fact)),
      next ? goOn : h("span", "that is all"),
    );
    if (had) this.foot.querySelector("button")?.focus();
    const why = next ? "There are more to look at: go on." : "Nothing in the topic fits what was asked for.";
    return isNothing ? empty("No message was found", why) : null;
  }
}
