// Overview: is it well, where does it flow, who is behind, who is what.

import { get } from "../api.js";
import { fill, h, name, s } from "../dom.js";
import { bytes, bytesParts, count, duration, isUnknown, milliseconds, number, quantity, time } from "../format.js";
import { here, keepInAddress, link } from "../links.js";
import { every } from "../live.js";
import { failure, loading } from "../parts/answers.js";
import { partial } from "../parts/banner.js";
import { chart } from "../parts/chart.js";
import { clusterMap } from "../parts/cluster_map.js";
import { head } from "../parts/head.js";
import { columns, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { door, doorClass, none, state, unknown } from "../parts/states.js";
import { choice } from "../parts/tabs.js";
import { overviewStream } from "../stream.js";

const SPANS = [{ label: "5 min", value: "300" }, { label: "1 h", value: "3600" }];
const LAG_KINDS = ["trouble", "log", "rmq", "http"];
const REFRESH_SECONDS = 2;
const HOUR_STEPS = 5; // refreshes between two questions for the last hour, whose values are 10 s apart
const HALF = 109; // width of one side of the bars
const MIDDLE = 113;

export async function show(place, parameters, signal) {
  const span = parameters.query.get("span") === "300" ? "300" : "3600";
  const spans = choice("Span of the charts", SPANS, span, (value) => {
    keepInAddress({ span: value === "3600" ? null : value });
    draw();
  });
  const top = head("Overview", { acts: spans.element });
  const notes = h("div.stack.notes");
  const alarms = h("ul.alarms", { "aria-live": "polite" });
  const alarmBox = h("section", { "aria-labelledby": "alarms-title", hidden: true }, h("h2.vh", { id: "alarms-title" }, "Alarms"), alarms);
  const now = h("div.stack");
  const map = h("div.stack");
  const charts = overviewCharts();
  const draw = charts.follow(signal);
  place.append(top.element, notes, alarmBox, now, charts.element, map);
  const update = (overview) => {
    top.sub(aboutCluster(overview));
    refill(notes, [partial(overview.answered, { means: "Sums marked ≥ leave it out; its connections are not known.", again: null })].filter(Boolean));
    notes.hidden = notes.childElementCount === 0;
    alarmBox.hidden = overview.alarms.length === 0;
    refill(alarms, overview.alarms.map(alarm));
    refill(now, [columns(doors(overview), numbers(overview))]);
    refill(map, [panel("Cluster", { unit: "who is what now", acts: h("a.s", { href: link("cluster") }, "Epochs, sets and offsets"), flush: clusterMap(overview) })]);
  };
  await follow(now, update, signal);
}

/** Call `update` with each overview: the first is asked for, those after it come from the stream. */
async function follow(place, update, signal) {
  overviewStream.watch((overview) => overview && update(overview), signal);
  if (overviewStream.last) return;
  const wait = loading("all gateways");
  fill(place, wait.element);
  try {
    const overview = await get("overview", { signal });
    if (!overviewStream.last) update(overview);
  } catch (error) {
    if (signal.aborted) return;
    const again = () => follow(place, update, signal);
    if (!overviewStream.last) fill(place, failure("The overview was not loaded", error, { again }));
  } finally {
    wait.stop();
  }
}

/** Replace children only where they changed, and never what has the focus. */
function refill(element, children) {
  const isSame = element.childNodes.length === children.length && children.every((child, at) => child.isEqualNode(element.childNodes[at]));
  if (!isSame && !element.contains(document.activeElement)) fill(element, children);
  else if (!isSame) keepFocus(element, children);
}

function keepFocus(element, children) {
  const focused = document.activeElement;
  const selector = focused.getAttribute("href") ? `[href="${CSS.escape(focused.getAttribute("href"))}"]` : `[aria-label="${CSS.escape(focused.getAttribute("aria-label") ?? "")}"]`;
  fill(element, children);
  element.querySelector(selector)?.focus({ preventScroll: true });
}

function aboutCluster({ cluster, gateways, answered, brokers, controllers, version }) {
  const replicas = Math.max(0, ...brokers.map((broker) => broker.replicas.length));
  const groups = brokers.length && `${count(brokers.length, replicas ? "broker group" : "broker")}${replicas ? ` with ${count(replicas, "replica")}` : ""}`;
  const parts = [count(answered?.asked ?? gateways.length, "gateway"), groups || "store in this process", controllers.length && count(controllers.length, "controller")];
  const rules = [...new Set(brokers.map((broker) => broker.rule).filter(Boolean))];
  return [name(cluster), parts.filter(Boolean).join(", "), rules.length ? `confirm rule ${rules.join(", ")}` : null, `version ${version}`];
}

function alarm({ severity, subject, text, since, link: target }) {
  const when = h("span.q.nw", { title: since }, time(since));
  const shown = target ? h("a", { href: target }, "Show") : h("span");
  return h("li", state(severity === "critical" ? "bad" : "warn", severity), h("span", h("b", name(subject), text ? ":" : ""), " ", text), when, shown);
}

function doors({ doors: rows, answered }) {
  const atLeast = answered && answered.answered < answered.asked;
  const greatest = Math.max(1e-9, ...rows.flatMap((row) => [row.in ?? 0, row.out ?? 0]));
  const head = h(
    "tr",
    h("th", { scope: "col" }, "Door"),
    h("th.n.opt", { scope: "col" }, "Connections"),
    h("th.n", { scope: "col" }, "In"),
    h("th.c", { scope: "col" }, h("span.opt", "into the log \u00a0·\u00a0 out of it"), h("span.vh", "In and out as bars")),
    h("th.n", { scope: "col" }, "Out"),
    h("th.n.opt", { scope: "col" }, "Bytes/s in"),
    h("th.n.opt", { scope: "col" }, "Refused/min"),
  );
  const lines = rows.map((row) =>
    h("tr", h("th", { scope: "row" }, door(row.door)), h("td.n.opt", number(row.connections, { atLeast })), h("td.n.b", quantity(row.in, { atLeast })), h("td", bars(row, greatest)), h("td.n.b", quantity(row.out, { atLeast })), h("td.n.opt", bytes(row.bytesIn)), h("td.n.opt", quantity(row.refused))),
  );
  const sum = (key) => {
    const known = rows.map((row) => row[key]).filter((value) => !isUnknown(value));
    return known.length ? { value: known.reduce((one, other) => one + other, 0), atLeast: atLeast || known.length < rows.length } : null;
  };
  const total = (key, format) => (sum(key) ? format(sum(key).value, sum(key)) : unknown());
  const foot = h("tr", h("th", { scope: "row" }, "All doors"), h("td.n.opt", total("connections", number)), h("td.n", total("in", quantity)), h("td"), h("td.n", total("out", quantity)), h("td.n.opt", total("bytesIn", bytes)), h("td.n.opt", total("refused", quantity)));
  const table = h("table.roomy", h("thead", head), h("tbody", lines), h("tfoot", foot));
  const missing = (answered?.missing ?? []).map((each) => each.name);
  const unit = `messages/s, last 10 s${missing.length ? `, without ${missing.slice(0, 3).join(", ")}` : ""}`;
  return panel("Doors", { unit, span: 8, flush: scrolling("Rates by door", table) });
}

/** In grows to the left of the log, out to the right. */
function bars(row, greatest) {
  const width = (value) => (isUnknown(value) ? 0 : Math.max(value > 0 ? 1 : 0, (value / greatest) * HALF));
  const bar = (value, kind, x) => s("rect", { class: isUnknown(value) ? "gap" : kind, x, y: 4, width: isUnknown(value) ? HALF : width(value), height: 14 });
  const left = isUnknown(row.in) ? HALF : width(row.in);
  return s("svg.mirror", { class: doorClass(row.door), viewBox: "0 0 226 22", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(row.in, "bar-in", MIDDLE - 2 - left), s("rect.axis", { x: MIDDLE - 1, y: 0, width: 2, height: 22 }), bar(row.out, "bar-out", MIDDLE + 2));
}

function numbers({ confirm, furthest, disk, tier, doors: rows, answered }) {
  const atLeast = answered && answered.answered < answered.asked ? "≥ " : "";
  const refused = rows.map((row) => row.refused).filter((value) => !isUnknown(value));
  const sum = refused.reduce((one, other) => one + other, 0);
  return keyNumbers(
    [
      latency("Confirm latency p50", confirm?.p50),
      latency("Confirm latency p99", confirm?.p99),
      furthestGroup(furthest),
      { label: "Publishing refused", value: refused.length ? `${atLeast}${quantity(sum)}` : unknown(), unit: refused.length ? "/min" : "" },
      freeDisk(disk),
      tierNumber(tier),
    ],
    { span: 4 },
  );
}

function latency(label, value) {
  if (isUnknown(value)) return { label, value: unknown("nothing confirmed"), more: "in the last 10 s" };
  return { label, value: milliseconds(value).replace(/ ms$/, ""), unit: "ms" };
}

function furthestGroup(furthest) {
  if (!furthest) return { label: "Furthest group", value: none(), more: "no group is behind" };
  const more = [name(furthest.group), " on ", name(furthest.topic), ", ", number(furthest.messages, { atLeast: furthest.isComplete === false }), " messages"];
  if (isUnknown(furthest.seconds)) return { label: "Furthest group", value: unknown(), more };
  const seconds = Math.round(furthest.seconds);
  const inMinutes = seconds >= 60 && seconds < 3600;
  const [value, unit] = inMinutes ? [`${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`, "min"] : duration(furthest.seconds).split(/ (.*)/s);
  return { label: "Furthest group", value, unit, more, kind: furthest.seconds >= 120 ? "bad" : "" };
}

function freeDisk(disk) {
  if (!disk?.length) return { label: "Local disk free", value: unknown() };
  const sum = (key) => disk.reduce((total, each) => total + each[key], 0);
  const [value, unit] = bytesParts(sum("free"));
  return { label: "Local disk free", value, unit, kind: sum("free") < sum("size") * 0.1 ? "warn" : "", more: ["of ", bytesParts(sum("size")).join(" "), disk.every((each) => each.isComplete) ? "" : ", without a broker"] };
}

function tierNumber(tier) {
  if (!tier) return { label: "In the tier", value: none(), more: "no tier is set up" };
  const [value, unit] = bytesParts(tier.bytes) ?? [unknown(), ""];
  return { label: "In the tier", value, unit, more: tier.lagMessages > 0 ? [quantity(tier.lagMessages), " messages not uploaded yet"] : "all uploaded" };
}

const DOOR_SERIES = [["mqtt", "MQTT"], ["amqp", "AMQP"], ["rocketmq", "RocketMQ"], ["http", "HTTP"]];
const doorSeries = (direction) => DOOR_SERIES.map(([kind, label]) => ({ key: `${direction}.${kind}`, label, kind: doorClass(kind) }));

/** The four charts.  `follow(signal)` keeps them fresh, and returns what draws them now. */
function overviewCharts() {
  const incoming = chart({ title: "Messages in", unit: "messages/s", series: doorSeries("in"), format: quantity });
  const outgoing = chart({ title: "Messages out", unit: "messages/s", series: doorSeries("out"), format: quantity });
  const latencySeries = [{ key: "confirm.p50", label: "p50", kind: "p50" }, { key: "confirm.p99", label: "p99", kind: "p99", isDashed: true }];
  const latencies = chart({ title: "Confirm latency", unit: "ms, all doors", series: latencySeries, format: milliseconds, isLog: true });
  const lags = chart({ title: "Groups furthest behind", unit: "seconds", series: [], format: (value) => duration(value), limit: { at: 120, label: "alarm at 120 s" } });
  const failed = h("div.c12", { hidden: true });
  const element = columns(failed, incoming.element, outgoing.element, latencies.element, lags.element);
  const follow = (signal) => {
    const draw = async () => {
      const span = here()[1].get("span") === "300" ? "300" : "3600";
      try {
        const { series, ...times } = await get("overview/history", { query: { span }, signal });
        const data = { ...times, values: series };
        for (const each of [incoming, outgoing, latencies]) each.update(data);
        lags.update(data, lagSeries(series));
        failed.hidden = true;
      } catch (error) {
        if (signal.aborted) return;
        failed.hidden = false;
        fill(failed, failure("The history was not loaded", error, { again: draw }));
      }
    };
    draw();
    let waits = 0;
    const step = async () => {
      waits += 1;
      if (here()[1].get("span") !== "300" && waits % HOUR_STEPS !== 0) return;
      await draw();
    };
    every(REFRESH_SECONDS, step, signal);
    return draw;
  };
  return { element, follow };
}

/** The groups whose last known lag is greatest. */
function lagSeries(series) {
  const last = (values) => values.findLast((value) => value !== null) ?? 0;
  return Object.entries(series)
    .filter(([key]) => key.startsWith("lag."))
    .sort(([, one], [, other]) => last(other) - last(one))
    .slice(0, LAG_KINDS.length)
    .map(([key], at) => {
      const [topic, group] = key.slice("lag.".length).split(/\/(.*)/s);
      return { key, label: `${group} on ${topic}`, shown: [name(group), " on ", name(topic)], kind: LAG_KINDS[at] };
    });
}
