// New messages of a topic as they come: a sample that says what it leaves out.  No group is read.

import { parsed } from "../api.js";
import { followEvents } from "../events.js";
import { fill, h } from "../dom.js";
import { clock, count, number } from "../format.js";
import { every } from "../live.js";
import { overviewStream } from "../stream.js";
import { failure } from "./answers.js";
import { commandText, quoted, sameFromOutside } from "./copying.js";
import { namespaceOption } from "./namespaces.js";
import { pathOf, rest } from "./operations.js";
import { columns, panel } from "./panel.js";
import { state } from "./states.js";
import { messageBeside, messageList } from "./viewer.js";

const MOST_ROWS = 200; // kept
const DRAW_SECONDS = 0.4; // between two looks at what came
const SILENCE_MS = 40_000; // the server says something every 15 s
const PREVIEW_BYTES = 1024;
const RATES = ["5", "10", "25", "50"];
const FINAL = new Set([400, 403, 404]); // refusals that another try would not change
const TYPING_MS = 400;

/** The watch of a topic, which begins at once and ends with the page. */
export function topicWatch(topic, signal) {
  return new Watch(topic, signal).start();
}

class Watch {
  constructor(topic, signal) {
    Object.assign(this, { topic, signal, waiting: [], leftOut: 0, seen: 0, rate: "10", text: "", isPaused: false, running: null });
    this.said = h("span.s", { role: "status" });
    this.fresh = h("div.bulk", { hidden: true });
    this.notes = h("div.pad", { hidden: true });
    this.foot = h("span.apart");
    this.outside = h("div.stack");
    this.side = messageBeside(signal);
    this.list = messageList({ label: "New messages", most: MOST_ROWS, choose: this.side.show });
  }

  start() {
    const rate = h(
      "select",
      { id: "watch-rate", onchange: () => this.again({ rate: rate.value }) },
      RATES.map((each) => h("option", { value: each, selected: each === this.rate }, `${each} a second`)),
    );
    let timer = null;
    const typed = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.again({ text: text.value }), TYPING_MS);
    };
    const text = h("input", { id: "watch-text", autocomplete: "off", spellcheck: "false", maxlength: 256, oninput: typed });
    this.button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.pause(!this.isPaused) }, "Pause the watch");
    const clear = h("button.bare", { type: "button", onclick: () => this.clear() }, "Clear");
    const fields = h("div.form", field("watch-text", "Only messages with this text", text), field("watch-rate", "At most", rate));
    const same = h("details.s", h("summary", "The same from outside"), this.outside);
    this.showSame();
    document.addEventListener("visibilitychange", () => this.adjust(), { signal: this.signal });
    overviewStream.watch((overview) => overview === null && this.adjust(), this.signal);
    every(DRAW_SECONDS, () => this.draw(), this.signal);
    this.signal.addEventListener("abort", () => this.running?.abort());
    this.adjust();
    this.drawFoot();
    const body = [fields, h("div.row", this.button, clear, this.said), same];
    return columns(
      panel("Live", {
        span: 7,
        unit: "looking takes none from any group",
        body,
        flush: [this.notes, this.fresh, this.list.element],
        footer: this.foot,
      }),
      this.side.element,
    );
  }

  showSame() {
    const text = this.text ? ` --text ${quoted(this.text)}` : "";
    const options = ` --rate ${this.rate}${text}${namespaceOption(this.topic.namespace)}`;
    const cli = commandText("entrepot message watch", [this.topic.name], options);
    fill(this.outside, sameFromOutside({ cli, rest: rest("watchMessages", this.topic, undefined, { rate: this.rate, text: this.text }) }));
  }

  again(change) {
    Object.assign(this, change);
    this.showSame();
    this.stop();
    this.adjust();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    this.button.setAttribute("aria-pressed", String(isPaused));
    fill(this.button, isPaused ? "Go on" : "Pause the watch");
    this.adjust();
  }

  clear() {
    Object.assign(this, { waiting: [], leftOut: 0, seen: 0 });
    this.list.show([]);
    this.fresh.hidden = true;
    this.drawFoot();
  }

  /** Read while somebody looks and nothing is paused. */
  adjust() {
    const isWanted = !this.isPaused && !overviewStream.isPaused && document.visibilityState === "visible" && !this.signal.aborted;
    if (isWanted && !this.running) this.read();
    else if (!isWanted && this.running) this.stop();
    if (!isWanted) this.tell("idle", "paused: what comes now is not shown");
  }

  stop() {
    this.running?.abort();
    this.running = null;
  }

  tell(kind, words) {
    fill(this.said, state(kind, words));
  }

  async read() {
    const running = (this.running = new AbortController());
    this.notes.hidden = true;
    this.tell("idle", "asking");
    try {
      await followEvents(pathOf("watchMessages", this.topic), {
        query: { rate: this.rate, text: this.text, bodyBytes: PREVIEW_BYTES },
        signal: running.signal,
        silence: SILENCE_MS,
        refuses: (error) => FINAL.has(error.status),
        heard: (event, data) => this.heard(event, data),
        lost: (retryAt) => this.tell("warn", `lost: tries again at ${clock(retryAt)} UTC; what came meanwhile is not shown`),
      });
    } catch (error) {
      if (running.signal.aborted) return;
      this.tell("bad", "ended");
      this.notes.hidden = false;
      fill(this.notes, failure("The topic is not watched", error, { again: () => this.read() }));
    }
  }

  heard(event, data) {
    if (event === "begun") this.tell("ok", "live");
    else if (event === "leftOut") this.leftOut += parsed(data).count;
    else if (event === "message") {
      this.seen += 1;
      this.waiting.unshift(parsed(data));
      this.waiting.length = Math.min(this.waiting.length, MOST_ROWS);
    }
  }

  /** Show what came, unless a row would move under the pointer or the focus. */
  draw({ isForced = false } = {}) {
    const { element } = this.list;
    const isHeld = !isForced && (element.matches(":hover") || element.contains(document.activeElement));
    this.fresh.hidden = !isHeld || this.waiting.length === 0;
    if (!this.fresh.hidden) this.drawFresh();
    else if (this.waiting.length) this.list.prepend(this.waiting.splice(0));
    this.drawFoot();
  }

  drawFresh() {
    const words = `Show ${this.waiting.length} new`;
    const button = this.fresh.querySelector("button");
    if (button) fill(button, words);
    else fill(this.fresh, h("button.small", { type: "button", onclick: () => this.draw({ isForced: true }) }, words));
  }

  drawFoot() {
    const gone = this.seen - this.list.rows().length - this.waiting.length;
    const facts = [
      this.seen === 0 ? "nothing new yet" : `${count(this.seen, "message")} came`,
      this.leftOut > 0 && `left out ${number(this.leftOut)} of this watch: more came than ${this.rate} a second`,
      gone > 0 && `the newest ${MOST_ROWS} are kept`,
    ].filter(Boolean);
    fill(
      this.foot,
      facts.map((fact) => h("span", fact)),
    );
  }
}

const field = (id, label, input) => h("p.field", h("label", { for: id }, label), input);
