// The packet trace of one MQTT client: begin, show, end.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { bytes, clock, isUnknown, number, time } from "../format.js";
import { every } from "../live.js";
import { session } from "../session.js";
import { empty, failure } from "./answers.js";
import { partial } from "./banner.js";
import { commandText } from "./copying.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { pathOf, perform, rest } from "./operations.js";
import { panel, scrolling } from "./panel.js";
import { state } from "./states.js";

const SHOWN = 200; // packets
const SECONDS = 2; // between two looks at a running trace
const SECONDS_OF_TRACE = 60;
const FAILURES = 0x80; // reason codes from here on
const MARKS = ["time", "client", "address", "direction", "type", "gateway"];

/** The trace of a client id or an address.  `tell`: shows results of actions.  Returns {element}. */
export function packetTrace(target, tell, signal) {
  return new PacketTrace(target, tell, signal).start();
}

class PacketTrace {
  constructor(target, tell, signal) {
    Object.assign(this, { target, tell, signal, found: null, names: { client: target } });
    this.list = h("div");
    this.about = h("span.unit");
    this.acts = h("span.row");
    this.said = h("div.notes");
    this.element = panel("Packet trace", { span: 8, unit: this.about, acts: this.acts, flush: [this.said, this.list] });
  }

  start() {
    if (!session()?.isSuper) {
      fill(
        this.list,
        h("div.pad", empty("Traces are for super users", "A packet trace may show messages, whatever the rights on their topics.")),
      );
      return this;
    }
    this.look();
    every(SECONDS, () => this.isRunning() && this.look(), this.signal);
    return this;
  }

  isRunning() {
    return this.found !== null && Date.parse(this.found.until) + SECONDS * 1000 > Date.now();
  }

  /** Traces are listed first: to ask for one that is not there is an error. */
  async look() {
    try {
      const { value, answered } = await get("traces", { signal: this.signal });
      const isThere = value.some((each) => each.target === this.target);
      const found = isThere ? await get(pathOf("getPacketTrace", this.names), { query: { limit: SHOWN }, signal: this.signal }) : null;
      if (!this.signal.aborted) this.show(found, found?.answered ?? answered);
    } catch (error) {
      if (!this.signal.aborted) fill(this.said, h("div.pad", failure("The trace was not loaded", error, { again: () => this.look() })));
    }
  }

  show(found, answered) {
    const wasThere = this.found !== null;
    this.found = found;
    const lacking = partial(answered, { means: "Packets there are missing." });
    fill(this.said, lacking && h("div.pad", lacking));
    this.showHead(wasThere);
    if (this.list.matches(":hover") || this.list.contains(document.activeElement)) return;
    if (found === null)
      fill(
        this.list,
        h(
          "div.pad",
          empty(
            "It is not traced",
            "A trace keeps the last packets in both directions, at whichever gateway the client is. It ends by itself.",
          ),
        ),
      );
    else if (found.packets.length === 0)
      fill(this.list, h("div.pad", empty("No packet yet", "Packets are here as soon as the client sends or gets one.")));
    else fill(this.list, packetTable(found.packets));
  }

  showHead(wasThere) {
    const { found } = this;
    const running =
      found &&
      (this.isRunning()
        ? state("ok", ["on until ", clock(found.until), " UTC"])
        : state("idle", ["over since ", clock(found.until), " UTC"]));
    fill(
      this.about,
      found && [running, found.payloads ? ", with payloads, " : ", without payloads, ", number(found.seen), " packets seen"],
    );
    if (this.acts.childElementCount && wasThere === (found !== null)) return; // the buttons stay, with their focus
    const begin = h("button.small", { type: "button", onclick: () => this.begin() }, found ? "Begin anew" : "Start trace");
    const stop = found && h("button.small", { type: "button", onclick: () => this.stop() }, "Stop trace");
    fill(this.acts, begin, " ", stop);
  }

  async begin() {
    const result = await formDialog(["Trace the packets of ", name(this.target), "?"], {
      loss: "All gateways keep its last 1,000 packets in memory. Passwords are never among them.",
      fields: [
        { name: "seconds", label: "Seconds", type: "number", value: SECONDS_OF_TRACE, required: true, hint: "1 to 3,600" },
        { name: "payloads", label: "With payloads", type: "checkbox", hint: "the first 1,024 bytes of each message" },
      ],
      submit: "Start trace",
      same: ({ seconds, payloads }) => ({
        cli: commandText(`entrepot client trace --seconds ${seconds ?? SECONDS_OF_TRACE}${payloads ? " --payloads" : ""}`, [this.target]),
        rest: rest("startPacketTrace", this.names, { seconds, payloads }),
      }),
      send: (values) => perform("startPacketTrace", this.names, values),
    });
    if (!result) return;
    this.tell("info", [name(this.target), " is traced until ", time(result.done.until), " UTC."], "The audit has an entry.");
    await this.look();
  }

  async stop() {
    const result = await confirm({
      title: ["Stop the trace of ", name(this.target), "?"],
      loss: [number(this.found?.packets.length ?? null), " shown packets are deleted. This cannot be undone."],
      cli: commandText("entrepot client trace --stop", [this.target]),
      rest: rest("endPacketTrace", this.names),
      verb: "Stop trace",
      isDanger: true,
      run: () => perform("endPacketTrace", this.names),
    });
    if (!result) return;
    this.tell("info", ["The trace of ", name(this.target), " was deleted."], "The audit has an entry.");
    await this.look();
  }
}

function packetTable(packets) {
  const rows = packets.toReversed().map((each) => {
    const isFailure = [each.reason ?? 0, ...(each.reasons ?? [])].some((code) => code >= FAILURES);
    return h(
      "tr",
      h("td.mono.xs.q2.nw", each.time.slice(11, 23)),
      h("td.nw", each.direction === "in" ? "from client" : "to client"),
      h("td.b", each.type),
      h("td.brk", { class: isFailure ? "bad-t" : "q2" }, contents(each)),
      h("td.opt.opt2.q2.nw", name(each.gateway)),
    );
  });
  const heads = [["Time, UTC"], ["Way"], ["Packet"], ["What it says"], ["Gateway", "opt opt2"]].map(([title, classes = ""]) =>
    h("th", { scope: "col", class: classes }, title),
  );
  return scrolling("Packet trace", h("table", h("thead", h("tr", heads)), h("tbody", rows)));
}

const hex = (code) => `0x${code.toString(16).toUpperCase().padStart(2, "0")}`;

/** Words for fields of packets: label and value, or null for what says nothing. */
const FIELDS = {
  topic: (value) => h("span.mono", name(value)),
  packet_id: (value) => `id ${value}`,
  packet_ids: (value) => `ids ${value.join(" ")}`,
  qos: (value) => `QoS ${value}`,
  size: (value) => bytes(value),
  retain: (value) => value && "retain",
  dup: (value) => value && "sent again",
  reason: (value) => `reason ${hex(value)}`,
  reasons: (value) => `reasons ${value.map(hex).join(" ")}`,
  payload: (value) => ["payload ", h("span.mono", name(value))],
  client_id: () => null,
  version: (value) => `protocol level ${value}`,
  keep_alive: (value) => `keep alive ${value} s`,
  clean_start: (value) => `clean start ${value ? "on" : "off"}`,
  username: (value) => ["user ", name(value)],
  will_topic: (value) => ["will to ", name(value)],
  session_present: (value) => (value ? "session present" : "new session"),
  filters: (value) =>
    Array.isArray(value)
      ? value.map((each, at) => [at > 0 && ", ", h("span.mono", name(each))])
      : Object.entries(value).map(([each, qos], at) => [at > 0 && ", ", h("span.mono", name(each)), ` QoS ${qos}`]),
};

function contents(packet) {
  const shown = Object.entries(packet)
    .filter(([field, value]) => !MARKS.includes(field) && !isUnknown(value))
    .map(([field, value]) => (FIELDS[field] ? FIELDS[field](value) : [`${field} `, name(JSON.stringify(value))]))
    .filter((each) => each !== null && each !== false);
  return shown.map((each, at) => [at > 0 && ", ", each]);
}
