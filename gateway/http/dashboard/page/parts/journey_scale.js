// The broken time scale of a journey: a few stretches of time, with the long waits between them left out.

const MOST_STRETCHES = 4;
const LONG_WAIT = 0.4; // part of a stretch; a longer wait is left out
const SHORTEST_MS = 20; // stretches up to this length stay whole
const BREAK = 3; // width of a break, in percent
const PAD = [1.5, 4]; // left and right inside a stretch, in percent: notes stand at the right
const MOST_POINTS = 6; // times that make a stretch wider
const LABEL = 10; // width of a tick's label, in percent
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((each) => each * MINUTE),
  ...[1, 2, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 30, 90, 365].map((each) => each * DAY),
];

/** The scale for times in epoch milliseconds.  `width`: percent of the drawing that it has.
 *
 * Returns {at(ms): percent, ticks: [{at, label}], breaks: [percent], stretches}; a tick's label is null where it has no room. */
export function brokenScale(times, width = 100) {
  const points = [...new Set(times)].sort((one, other) => one - other);
  if (points.length === 0) return { at: () => 0, ticks: [], breaks: [], stretches: 0 };
  const stretches = placed(stretched(points), width);
  const at = (ms) => within(stretches.find(({ to }) => ms <= to) ?? stretches.at(-1), ms);
  const breaks = stretches.slice(1).map(({ left }) => left - BREAK / 2);
  return {
    at,
    ticks: labelled(
      stretches.flatMap((each) => ticksOf(each, points[0])),
      width,
    ),
    breaks,
    stretches: stretches.length,
  };
}

/** Part the times at their longest waits. */
function stretched(points) {
  const found = [points];
  while (found.length < MOST_STRETCHES) {
    const cuts = found.map(longestWait);
    const worst = cuts.reduce((best, cut, index) => (cut.part > cuts[best].part ? index : best), 0);
    if (cuts[worst].part < LONG_WAIT) break;
    const { before } = cuts[worst];
    found.splice(worst, 1, found[worst].slice(0, before), found[worst].slice(before));
  }
  return found;
}

function longestWait(points) {
  const length = points.at(-1) - points[0];
  if (length <= SHORTEST_MS) return { part: 0, before: 0 };
  let [longest, before] = [0, 0];
  for (let index = 1; index < points.length; index += 1) {
    const wait = points[index] - points[index - 1];
    if (wait > longest) [longest, before] = [wait, index];
  }
  return { part: points.length > 2 ? longest / length : 0, before };
}

function placed(parts, width) {
  const weights = parts.map((points) => 1 + Math.min(points.length, MOST_POINTS));
  const room = width - BREAK * (parts.length - 1);
  const whole = weights.reduce((one, other) => one + other, 0);
  let left = 0;
  return parts.map((points, index) => {
    const size = (room * weights[index]) / whole;
    const stretch = { from: points[0], to: points.at(-1), left, right: left + size };
    left += size + BREAK;
    return stretch;
  });
}

function within({ from, to, left, right }, ms) {
  const [start, end] = [left + PAD[0], right - PAD[1]];
  return to === from ? start : start + ((end - start) * (Math.max(ms, from) - from)) / (to - from);
}

function ticksOf(stretch, origin) {
  const { from, to, left, right } = stretch;
  const isFirst = from === origin;
  const most = Math.max(1, Math.floor((right - left) / LABEL));
  const step = STEPS.find((each) => each >= (to - from) / most) ?? to - from;
  const found =
    isFirst || to === from ? [{ at: within(stretch, from), label: isFirst ? clockMs(from) : `+${offset(from - origin, 1)}` }] : [];
  if (to === from) return found;
  for (let time = Math.ceil((from - origin) / step) * step; time <= to - origin; time += step) {
    if (time > 0) found.push({ at: within(stretch, origin + time), label: `+${offset(time, step)}` });
  }
  return found.length ? found : [{ at: within(stretch, from), label: `+${offset(from - origin, 1)}` }];
}

function labelled(ticks, width) {
  let last = -LABEL;
  return ticks.map(({ at, label }, index) => {
    const hasRoom = at - last >= LABEL * (index === 1 ? 1.2 : 1) && at <= width - LABEL / 4;
    if (hasRoom) last = at;
    return { at, label: hasRoom ? label : null };
  });
}

/** `20:29:07.412`, in UTC. */
export const clockMs = (ms) => new Date(ms).toISOString().slice(11, 23);

/** A span of time as exact as `step` is: `12 ms`, `30.4 s`, `5 min 20 s`, `2 d 4 h`; all in milliseconds. */
export function offset(ms, step = 1) {
  if (ms < SECOND) return `${ms} ms`;
  if (ms < MINUTE) return `${seconds(ms, step)} s`;
  const [size, unit, smaller, word] =
    ms < HOUR ? [MINUTE, "min", SECOND, "s"] : ms < DAY ? [HOUR, "h", MINUTE, "min"] : [DAY, "d", HOUR, "h"];
  const rest = ms % size;
  const more = smaller === SECOND ? seconds(rest, step) : String(Math.floor(rest / smaller));
  return `${Math.floor(ms / size).toLocaleString("en-US")} ${unit}${Number(more) ? ` ${more} ${word}` : ""}`;
}

function seconds(ms, step) {
  const decimals = step >= SECOND ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  return String(Number((ms / SECOND).toFixed(decimals)));
}
