// The lanes of a journey: a row for each receiver, over a time scale that is broken where nothing happened for long.

import { h, name, s } from "../dom.js";
import { count } from "../format.js";
import { brokenScale } from "./journey_scale.js";
import { isTrouble, note, receiver, topicOf } from "./journey_words.js";
import { doorClass, doorName } from "./states.js";

const ROW = 36; // heights in pixels
const AXIS = 28;
const MARK = 5; // half of a mark
const END = 9; // width of the column of what has no time, in percent
const PLOT = 760; // least width of the plot in pixels, for the room that notes have
const LETTER = 6.2;
const MOST_LANES = 30;
const MOST_MARKS = 500;
const KINDS = { amqp: "amqp", webhook: "http" };
const ENDS = new Set(["failed", "acknowledged"]);
const WORDS = { group: "group", amqp: "AMQP queue", webhook: "webhook", bridge: "bridge" };

/** The drawing of a journey.  `journey`: the server's answer.  Returns {element, unit}. */
export function lanesOf(journey) {
  const lanes = journey.lanes.slice(0, MOST_LANES);
  const rows = new Map(lanes.map((lane, index) => [lane.id, index]));
  const hops = journey.hops.filter((hop) => rows.has(hop.lane)).slice(0, MOST_MARKS);
  const timed = hops.filter((hop) => hop.time !== null && hop.isKnown).map((hop) => ({ ...hop, ms: Date.parse(hop.time) }));
  const hasEnd = timed.length < hops.length;
  const scale = brokenScale(
    timed.map((hop) => hop.ms),
    hasEnd ? 100 - END : 100,
  );
  const marks = timed.map((hop) => ({
    hop,
    x: scale.at(hop.ms),
    y: middle(rows.get(hop.lane)),
    kind: kindOf(hop, lanes[rows.get(hop.lane)]),
  }));
  const ends = hasEnd ? withoutTime(hops, rows, lanes) : [];
  const height = AXIS + lanes.length * ROW;
  const drawing = s(
    "svg",
    { width: "100%", height, role: "img", "aria-label": sentence(journey, scale, lanes.length) },
    lanes.map((lane, index) => line("lane", 0, 100, middle(index) + ROW / 2, middle(index) + ROW / 2)),
    scale.ticks.map(({ at }) => line("tick", at, at, AXIS, height)),
    hasEnd && line("tick", 100 - END, 100 - END, AXIS, height),
    links(marks, rows),
    spans(marks),
    marks.map(mark),
    ends.map(mark),
    scale.breaks.map((at) => slashes(at, height)),
  );
  const names = h(
    "ul.jl-names",
    lanes.map((lane) => h("li", h("b", nameOf(lane, journey)), h("span.q", detailOf(lane, timed)))),
  );
  const axis = scale.ticks
    .filter(({ label }) => label !== null)
    .map(({ at, label }, index) => h("span.jl-t", { class: index ? "mid" : "", css: { left: `${at}%` } }, label));
  const end = hasEnd && h("span.jl-t.mid", { css: { left: `${100 - END / 2}%` } }, "time not kept");
  const plot = h("div.jl-plot", drawing, h("div", { "aria-hidden": "true" }, axis, end, notes(marks, hasEnd ? 100 - END : 100)));
  return { element: h("div.jl", names, plot), unit: units(journey, scale, lanes, hops) };
}

const middle = (row) => AXIS + row * ROW + ROW / 2;

function kindOf(hop, lane) {
  if (!hop.isKnown) return "unknown";
  if (isTrouble(hop)) return "trouble";
  return hop.door ? doorClass(hop.door) : (KINDS[lane.kind] ?? "log");
}

function nameOf(lane, { message }) {
  return lane.kind === "log" && message ? topicOf(message.place) : receiver(lane);
}

function detailOf(lane, timed) {
  if (lane.kind === "door")
    return [timed.find((hop) => hop.door)?.door, lane.detail]
      .filter(Boolean)
      .map((each, index) => [index ? " of " : "", index ? name(each) : doorName(each)]);
  if (lane.kind === "log") return ["log", lane.detail && [" of ", name(lane.detail)]];
  return WORDS[lane.kind] ?? (lane.detail && name(lane.detail));
}

function units(journey, scale, lanes, hops) {
  const words = [scale.stretches > 1 ? `${scale.stretches} time scales, broken at the slashes` : "one time scale"];
  if (lanes.length < journey.lanes.length) words.push(`the first ${lanes.length} of ${count(journey.lanes.length, "receiver")}`);
  if (hops.length === MOST_MARKS) words.push(`the first ${MOST_MARKS} hops`);
  return words.join(", ");
}

function sentence({ hops }, scale, lanes) {
  const scales = scale.stretches > 1 ? `${scale.stretches} time scales` : "one time scale";
  return `${count(hops.length, "hop")} of the message in ${count(lanes, "lane")} over ${scales}. The list below says the same.`;
}

const percent = (value) => `${value.toFixed(3)}%`;
const line = (kind, x1, x2, y1, y2) => s(`line.${kind}`, { x1: percent(x1), x2: percent(x2), y1, y2 });

/** A mark at its place, from parts that are drawn around 0. */
const placedAt = (x, y, ...parts) => s("svg", { x: percent(x), y, overflow: "visible" }, parts);

function mark({ x, y, kind, isHollow }) {
  const box = { x: -MARK, y: -MARK, width: 2 * MARK, height: 2 * MARK };
  if (kind === "unknown") return placedAt(x, y, s("rect.jl-un", box));
  if (kind === "trouble") return placedAt(x, y, s("rect.fail", box), s("path.x", { d: "M-2.5-2.5l5 5m0-5-5 5" }));
  return s("circle.hop", { class: isHollow ? `${kind} hollow` : kind, cx: percent(x), cy: y, r: MARK });
}

const slashes = (at, height) =>
  placedAt(
    at,
    0,
    s("rect.jl-gap", { x: -4, y: AXIS - 6, width: 8, height: 12 }),
    s("path.brk", { d: `M-6 ${AXIS + 5}l6-10M0 ${AXIS + 5}l6-10M-6 ${height - 1}l6-10M0 ${height - 1}l6-10` }),
  );

/** What has no time stands in the last column: hatched where it is not known, hollow where only the time is not kept. */
function withoutTime(hops, rows, lanes) {
  const found = new Map();
  for (const hop of hops.filter((each) => each.time === null || !each.isKnown)) {
    const key = `${hop.lane} ${hop.isKnown}`;
    if (!found.has(key)) found.set(key, { hop, lane: lanes[rows.get(hop.lane)] });
  }
  return [...found.values()].map(({ hop, lane }) => ({
    x: 100 - END / 2 + (hop.isKnown ? -1.2 : 1.2),
    y: middle(rows.get(hop.lane)),
    kind: kindOf(hop, lane),
    isHollow: true,
  }));
}

/** Bars from a beginning to its end: of an attempt, of being taken in and stored. */
function spans(marks) {
  return marks.map((from) => {
    if (from.hop.kind !== "delivered") return null;
    const to = marks.find(
      ({ hop }) =>
        ENDS.has(hop.kind) &&
        hop.lane === from.hop.lane &&
        hop.attempt === from.hop.attempt &&
        hop.ms >= from.hop.ms &&
        isSamePlace(hop, from.hop),
    );
    return to && to.x > from.x
      ? s("rect.span", {
          class: kindOfLane(from, to),
          x: percent(from.x),
          y: from.y - MARK,
          width: percent(to.x - from.x),
          height: 2 * MARK,
          rx: 2,
        })
      : null;
  });
}

const kindOfLane = (from, to) => (from.kind === "trouble" ? to.kind : from.kind);
const isSamePlace = ({ place: one }, { place: other }) =>
  one?.topic === other?.topic && one?.queueId === other?.queueId && one?.offset === other?.offset;

/** Lines from the log to each receiver's first hop, and from the door to the log. */
function links(marks, rows) {
  const stored = marks.find(({ hop }) => hop.kind === "stored");
  if (!stored) return null;
  const firsts = [...rows.keys()]
    .filter((lane) => lane !== stored.hop.lane)
    .map((lane) => marks.find(({ hop }) => hop.lane === lane && hop.ms >= stored.hop.ms))
    .filter(Boolean);
  const furthest = Math.max(stored.x, ...firsts.map(({ x }) => x));
  const door = marks.find(({ hop }) => hop.kind === "takenIn" || hop.kind === "bridgedIn");
  return [
    door && line("link", stored.x, stored.x, door.y, stored.y),
    furthest > stored.x && line("link", stored.x, furthest, stored.y, stored.y),
    firsts.map(({ x, y }) => line("link", x, x, stored.y, y)),
  ];
}

/** Words beside marks, where there is room for them until the next mark of the lane. */
function notes(marks, width) {
  const lanes = Map.groupBy(marks, ({ y }) => y);
  const texts = [];
  for (const row of lanes.values()) {
    row.forEach(({ hop, x, y }, index) => {
      const words = note(hop);
      const room = (((row[index + 1]?.x ?? width) - x) * PLOT) / 100 - 2 * MARK;
      if (words && words.length * LETTER < room) texts.push(h("span.jl-n", { css: { left: `${x}%`, top: `${y - 8}px` } }, name(words)));
    });
  }
  return texts;
}
