// Charts of lines over time.  Axes are HTML text beside an SVG that stretches, so that labels never shrink.

import { fill, h, plain, s } from "../dom.js";
import { axis, clock, duration, quantity } from "../format.js";
import { linePath } from "./sparkline.js";
import { unknown } from "./states.js";

const WIDTH = 600;
const HEIGHT = 160;
const STEPS = 4; // between five labels of the y axis
const NICE = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10];
const MAX_SERIES = 4;
const LABEL_ROOM = 18; // percent of the width that the word of an event takes
const TABLE_ROWS = 360;

/** A chart.
 *
 * `title`, `unit`; `series`: up to four of {key, label, shown, kind, isDashed}, where `kind` is a colour's class, and
 * `shown` are nodes in place of the label's text; `format`: of
 * values in legend and table; `isLog`: a log scale, which the unit then says; `limit`: {at, label}; `isLow`: less high;
 * `span`: columns of 12.  Returns {element, update(data)}, where data is {end, step, values: {key: [number|null]},
 * events: [{at, text}]}: `end` and `at` in epoch seconds, `step` in seconds, the last value is at `end`. */
export function chart({ title, unit, series, format = quantity, isLog = false, limit = null, isLow = false, span = 6 }) {
  let shown = series.slice(0, MAX_SERIES);
  let last = null;
  const legend = h("ul.legend");
  const plot = h("div.plot", { class: isLow ? "low" : "" });
  const button = h("button.small.bare.push", { type: "button", "aria-pressed": "false", "aria-label": `${title} as a table` }, "Table");
  const element = h("figure.panel.chart", { class: `c${span}` }, h("figcaption", h("h3", title), h("span.unit", isLog ? `${unit}, log scale` : unit), button, legend), plot);
  let table = null;
  button.addEventListener("click", () => {
    const isTable = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isTable));
    plot.hidden = isTable;
    table?.remove();
    table = isTable ? h("div.tw.numbers", { tabindex: "0", role: "group", "aria-label": `${title}, ${unit}` }) : null;
    if (table) element.append(table);
    if (table && last) fill(table, tableOf(shown, last, format));
  });
  const update = (data, others = null) => {
    if (others) shown = others.slice(0, MAX_SERIES);
    last = data;
    const lines = shown.map((each) => ({ ...each, values: data.values[each.key] ?? [] }));
    fill(legend, lines.map((line) => key(line, format)), h("li.q", hatched(), "no data"));
    fill(plot, drawing(lines, data, { isLog, limit, words: sentence(title, unit, lines, data, format) }));
    if (table && !table.contains(document.activeElement)) fill(table, tableOf(shown, data, format));
  };
  return { element, update };
}

const hatched = () => s("svg.hk", { "aria-hidden": "true" }, s("rect.gap", { width: 14, height: 10 }));
/** The label of a line for a second place: nodes stand in one place only. */
const copied = ({ label, shown }) => (shown ? shown.map((each) => each.cloneNode?.(true) ?? each) : label);
const latest = (values) => values.at(-1) ?? null;
const isGap = (value) => value === null || value === undefined;

function key(line, format) {
  const value = latest(line.values);
  return h("li", { class: line.kind }, h("span.key", { class: line.isDashed ? "dash" : "" }), copied(line), " ", isGap(value) ? unknown() : h("b", format(value)));
}

function drawing(lines, { end, step, events = [] }, { isLog, limit, words }) {
  const length = Math.max(...lines.map((line) => line.values.length), 2);
  const start = end - (length - 1) * step;
  const scale = (isLog ? logScale : linearScale)(lines.flatMap((line) => line.values.filter((value) => !isGap(value))), limit);
  const x = (at) => (at * WIDTH) / (length - 1);
  const y = (value) => HEIGHT - scale.part(value) * HEIGHT;
  const marks = placed(events, start, end);
  const isLimited = limit !== null && limit.at <= scale.greatest;
  const stretched = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: "100%", overflow: "visible" },
    scale.labels.map((_, at) => s("path.grid", { class: at === STEPS ? "base" : "", d: `M0 ${(at * HEIGHT) / STEPS}H${WIDTH}` })),
    marks.map((mark) => s("path.ev", { d: `M${(mark.percent * WIDTH) / 100} 0V${HEIGHT}` })),
    isLimited && s("path.limit", { d: `M0 ${y(limit.at)}H${WIDTH}` }),
    lines.map((line) => s("path.ln", { class: `${line.kind} ${line.isDashed ? "dash" : ""}`, d: linePath(line.values, x, y) })),
  );
  const picture = s(
    "svg",
    { role: "img", "aria-label": words },
    gaps(lines, length).map(([from, to]) => s("rect.gap", { x: `${(from * 100) / (length - 1)}%`, width: `${((to - from) * 100) / (length - 1)}%`, height: "100%" })),
    stretched,
    marks.filter((mark) => mark.isNamed).map((mark) => s("text.lbl", { class: mark.percent > 100 - LABEL_ROOM ? "end" : "", x: `${mark.percent}%`, y: -5 }, mark.text)),
    isLimited && s("text.lbl.bad", { x: "0%", y: `${(1 - scale.part(limit.at)) * 100}%`, dy: -5 }, limit.label),
  );
  return [h("ol.y", { "aria-hidden": "true" }, scale.labels.map((label) => h("li", label))), picture, h("ol.x", { "aria-hidden": "true" }, times(start, end).map((each) => h("li", each)))];
}

/** The scale from 0 to a round number that is a little greater than all values. */
function linearScale(values, limit) {
  const most = Math.max(...values, 0);
  const wanted = limit !== null && most >= limit.at / 2 ? Math.max(most, limit.at) : most;
  const power = 10 ** Math.floor(Math.log10(wanted || 1));
  const greatest = wanted === 0 ? STEPS : NICE.find((each) => each * power >= wanted) * power;
  const labels = Array.from({ length: STEPS + 1 }, (_, at) => axis((greatest * (STEPS - at)) / STEPS));
  return { greatest, labels, part: (value) => Math.min(value / greatest, 1) };
}

const rounded = (value) => axis(Number(value.toPrecision(value < 10 ? 1 : 2)));

function logScale(values) {
  const known = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(known.length ? Math.min(...known) : 1));
  const high = Math.max(low + 1, Math.ceil(Math.log10(known.length ? Math.max(...known) : 1)));
  const labels = Array.from({ length: STEPS + 1 }, (_, at) => rounded(10 ** (high - ((high - low) * at) / STEPS)));
  const part = (value) => Math.max(0, Math.min(1, (Math.log10(Math.max(value, 1e-12)) - low) / (high - low)));
  return { greatest: 10 ** high, labels, part };
}

/** Where no line has a value: [[from, to], ...] as places of values. */
function gaps(lines, length) {
  const found = [];
  for (let at = 0; at < length; at += 1) {
    if (!lines.every((line) => isGap(line.values[at]))) continue;
    const from = Math.max(0, at - 1);
    while (at + 1 < length && lines.every((line) => isGap(line.values[at + 1]))) at += 1;
    found.push([from, Math.min(length - 1, at + 1)]);
  }
  return found;
}

/** Events within the time shown; those too near to the one before keep their line, and lose their word. */
function placed(events, start, end) {
  let free = -LABEL_ROOM;
  return events
    .filter((event) => event.at >= start && event.at <= end)
    .sort((one, other) => one.at - other.at)
    .map((event) => {
      const percent = ((event.at - start) * 100) / (end - start);
      const isNamed = percent >= free + LABEL_ROOM;
      if (isNamed) free = percent;
      return { ...event, percent, isNamed };
    });
}

function times(start, end) {
  const isShort = end - start <= 600;
  const parts = isShort ? 3 : 6;
  return Array.from({ length: parts + 1 }, (_, at) => clock((start + ((end - start) * at) / parts) * 1000).slice(0, isShort ? 8 : 5));
}

function sentence(title, unit, lines, { end, step, events = [] }, format) {
  const length = Math.max(...lines.map((line) => line.values.length), 0);
  const said = lines.map(({ label, values }) => {
    const known = values.filter((value) => !isGap(value));
    if (known.length === 0) return `${label}: no data.`;
    const now = latest(values);
    return `${label}: ${isGap(now) ? "now unknown" : `now ${format(now)}`}, from ${format(Math.min(...known))} to ${format(Math.max(...known))}.`;
  });
  const empty = gaps(lines, length).map(([from, to]) => `No data from ${clock((end - (length - 1 - from) * step) * 1000)} to ${clock((end - (length - 1 - to) * step) * 1000)}.`);
  const marked = placed(events, end - (length - 1) * step, end).map((event) => `${clock(event.at * 1000)}: ${event.text}.`);
  return plain([`${title}, ${unit}, over ${duration(length * step)}.`, ...said, ...empty.slice(0, 3), ...marked.slice(0, 3)].join(" "));
}

function tableOf(series, { end, step, values }, format) {
  const length = Math.max(...series.map((each) => values[each.key]?.length ?? 0), 0);
  const rows = Array.from({ length: Math.min(length, TABLE_ROWS) }, (_, at) => {
    const cells = series.map((each) => values[each.key]?.[length - 1 - at] ?? null);
    return h("tr", h("th.mono.xs", { scope: "row" }, clock((end - at * step) * 1000)), cells.map((value) => h("td.n", isGap(value) ? unknown() : format(value))));
  });
  return h("table", h("thead", h("tr", h("th", { scope: "col" }, "Time, UTC"), series.map((each) => h("th.n", { scope: "col" }, copied(each))))), h("tbody", rows));
}
