// The sheet of parts: every part and state, with invented data.  For those who write pages.

import { ApiError } from "../api.js";
import { h, name, s } from "../dom.js";
import { number } from "../format.js";
import { empty, failure, loading } from "../parts/answers.js";
import { banner, results } from "../parts/banner.js";
import { chart } from "../parts/chart.js";
import { sameFromOutside } from "../parts/copying.js";
import { confirm } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { head } from "../parts/head.js";
import { same } from "../parts/operations.js";
import { columns, facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { exampleHistory, exampleRows } from "../parts/sheet.js";
import { sparkline } from "../parts/sparkline.js";
import { chip, door, masked, none, state, unknown, withUnit } from "../parts/states.js";
import { table } from "../parts/table.js";
import { choice } from "../parts/tabs.js";

const SURFACES = [["ground", "the page"], ["surface", "panels, bars"], ["ink", "values, names"], ["ink2", "prose"], ["ink3", "labels, units"], ["edge", "borders of controls"], ["focus", "focus ring only"]];
const COLOURS = [["mqtt", "MQTT"], ["amqp", "AMQP 0-9-1"], ["rmq", "RocketMQ gRPC"], ["http", "HTTP, webhooks"], ["log", "log, brokers, tier"], ["warn", "warning"], ["bad", "critical, failed"]];
const HOSTILE = [["retour<script>", "markup: shown as typed"], ["orders/\u202egnp", "bidi: isolated, the sign is named"], ["a\u0000b", "control: named"], ["plant/line/very-long-name-that-breaks-anywhere/x", "long: breaks, never cut"]];

export function show(place, parameters, signal) {
  const top = head("Component sheet", { sub: ["one look for all pages", "invented data, for developers"] });
  const told = results();
  place.append(
    top.element,
    columns(
      panel("Surfaces, text, focus", { span: 6, body: swatches(SURFACES) }),
      panel("Doors and states", { span: 6, unit: "warm means trouble, nothing else is warm", body: swatches(COLOURS) }),
      panel("Type", { span: 6, body: type() }),
      panel("States", { span: 6, flush: states() }),
      panel("Controls", { span: 6, unit: "32 px, 24 px in tables, 40 px on phones", body: controls() }),
      exampleChart(),
    ),
    keyNumbers([{ label: "Key number", value: "4.6", unit: "ms", more: "a remark" }, { label: "Trouble", value: "3:41", unit: "min", kind: "bad" }, { label: "Needs an eye", value: "5", unit: "of 6", kind: "warn" }, { label: "Not known", value: unknown() }]),
    panel("List", { unit: "sorted and filtered by the server", flush: exampleList(told, signal) }),
    h("h2", "Banners: who did not answer, what that means, what to do"),
    h("div.stack", banner("info", "Updates are paused.", "What you see is of 20:41:20.", { label: "Go on", act: () => {} }), banner("warn", "3 of 4 gateways answered.", "gw-4 gave no answer within 1.5 s. Sums marked ≥ leave it out.", { label: "Ask again", act: () => {} }), banner("bad", "No broker answers.", "Gateways are up; nothing can be read or written.")),
    columns(
      h("div.c4.stack", h("h2", "Empty, loading, refused"), empty("No webhooks on returns", "A webhook sends each new event of a topic to an https address.", { label: "Add a webhook", act: () => {} }), waiting(signal), failure("The topic was not made", new ApiError(409, "TOPIC_EXISTS", "A topic named “returns” exists in this namespace.", { requestId: "7f31c2" }))),
      h("div.c4.stack", h("h2", "Confirm"), asking(told), panel("The same from outside", { body: sameFromOutside(same("deleteTopic", { name: "returns" })) })),
      h("div.c4.stack", h("h2", "After it"), told.element, h("h2", "Hostile names are text"), hostile()),
    ),
  );
}

const swatches = (items) => h("div.sw", items.map(([colour, use]) => h("div", s(`svg.f-${colour}`, { "aria-hidden": "true" }, s("rect", { width: "100%", height: "100%" })), h("b", colour), h("br"), h("span.q", use))));

function type() {
  const line = (label, node) => h("p", h("span", label), node);
  return h("div.type", line("num 26/600", h("span.num", withUnit("4.6", "ms"))), line("h1 24/650", h("span.h1", "orders")), line("h2 17/650", h("span.h2", "Groups")), line("body 14/400", h("span", "The group goes on from the newest message.")), line("table 13/400", h("span.s", "billing, 284,190 messages, 3 min 41 s")), line("micro 12/400", h("span.xs.q", "Lag, messages")), line("mono 12", h("span.mono.xs.brk", "019AF2C0917D4E31B07F20CA00000001")));
}

function states() {
  const rows = [
    [state("ok", "reads"), "it works", "quiet on purpose: no green"],
    [state("idle", "idle"), "nothing to do, or off", "groups, bridges, clients"],
    [state("warn", "catching up"), "works, needs an eye", "triangle and word"],
    [state("bad", "circuit open"), "does not work", "square and word"],
    [state("unknown", "not known"), "nobody answered", "hatched; never 0"],
    [unknown(), "a number nobody gave", "in place of the number"],
    [h("b", number(11_940, { atLeast: true })), "a sum with a part missing", "with a banner that says which"],
    [none(), "does not apply", "the topic has no group"],
    [masked("pci"), "you may not see it", "names the rule"],
  ];
  const heads = ["Look", "Means", "Used for"].map((title) => h("th", { scope: "col" }, title));
  return scrolling("States", h("table", h("thead", h("tr", heads)), h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", cell)))))));
}

function controls() {
  const doors = ["mqtt", "amqp", "rocketmq", "http"].map((kind) => door(kind));
  const fields = [
    { name: "queues", label: "Queues", type: "number", value: "8", hint: "1 to 1024. Default: 4." },
    { name: "retention", label: "Retention, hours", type: "number", value: "3 days", hint: "Use a number. Example: 72." },
    { name: "kind", label: "Kind", type: "select", options: [["normal", "normal"], ["fifo", "in order"]] },
    { name: "traced", label: "Keep a trace", type: "checkbox", hint: "Costs one record a message." },
  ];
  const example = form({ fields, submit: "Check", send: async () => {} });
  const buttons = h("p.row", h("button.primary", "Publish to orders"), h("button", "Reset a group"), h("button.danger", "Delete"), h("button.small", "Resend 3"), h("button.bare", "Clear"), h("button", { disabled: true }, "Previous"), h("button.forced", "Has focus"));
  const live = choice("Example", [{ label: "Live", value: "live" }, { label: "Offset", value: "offset" }, { label: "Time", value: "time" }], "live", () => {});
  return [buttons, h("div.row", live.element, doors, chip("resent 20:35"), h("kbd", "/")), example.element, facts([["Broker", "broker-1"], ["Trend", sparkline([3, 4, 6, 5, null, 7, 9, 8, 12])]])];
}

function exampleChart() {
  const series = [{ key: "mqtt", label: "MQTT", kind: "mqtt" }, { key: "p99", label: "p99", kind: "log", isDashed: true }];
  const made = chart({ title: "Chart", unit: "unit of the y axis", series, limit: { at: 70, label: "alarm at 70" }, isLow: true });
  made.update(exampleHistory(Math.floor(Date.now() / 1000)));
  return made.element;
}

function exampleList(told, signal) {
  const list = table({
    label: "Tills",
    signal,
    limit: 8,
    inAddress: false,
    key: (row) => row.name,
    columns: [
      { id: "name", label: "Till", isHead: true, sort: "name", cell: (row) => name(row.name) },
      { id: "zone", label: "Zone", optional: 1, cell: (row) => row.zone },
      { id: "lag", label: "Lag, messages", align: "n", sort: "lag", cell: (row) => number(row.lag) },
    ],
    filters: [{ name: "q", label: "Name contains" }, { name: "zone", label: "Zone", type: "select", options: [["", "any"], ["a", "a"], ["b", "b"], ["c", "c"]] }],
    load: async (asked) => exampleRows(asked),
    actions: [{ label: (rows) => `Disconnect ${rows.length}`, act: async (rows) => told.tell("info", `${rows.length} tills were chosen.`, "This sheet does nothing to them.") ?? true }],
  });
  return list.element;
}

function waiting(signal) {
  const wait = loading("2 brokers");
  signal.addEventListener("abort", wait.stop);
  return h("div.panel", h("header", h("h3", "Groups")), h("div.body", wait.element));
}

function asking(told) {
  const open = async () => {
    const result = await confirm({ title: "Delete the topic returns?", loss: "12 messages and 1 group lose it. This cannot be undone.", ...same("deleteTopic", { name: "returns" }), verb: "Delete topic", isDanger: true, typed: "returns", run: async () => {} });
    if (result) told.tell("info", "The question was answered.", "This sheet deletes nothing.");
  };
  return h("div.panel.pad.stack", h("p.s.q2", "Says what is lost, and shows the same from outside. The name is typed first where it cannot be undone."), h("p", h("button.danger", { type: "button", onclick: open }, "Delete returns")));
}

const hostile = () => h("div.panel.tw", { tabindex: "0", role: "group", "aria-label": "Hostile names" }, h("table", h("tbody", HOSTILE.map(([text, means]) => h("tr", h("th.mono.brk", { scope: "row" }, name(text)), h("td.q2", means))))));
