// Numbers, sizes and times in words.  Unknown (null, undefined) is never 0: it is the element of `unknown`.

import { unknown } from "./parts/states.js";

const GROUPS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const TWO = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS = 86_400_000;

/** True for a value that nobody gave. */
export const isUnknown = (value) => value === null || value === undefined;

/** `12,480`.  Takes numbers, bigints and offsets as text; with `atLeast`, `≥ 12,480`. */
export function number(value, { atLeast = false } = {}) {
  if (isUnknown(value)) return unknown();
  const text = typeof value === "string" ? GROUPS.format(BigInt(value)) : GROUPS.format(value);
  return atLeast ? `≥ ${text}` : text;
}

/** A rate or a small quantity: `0.4`, `12`, `5,640`. */
export function quantity(value, { atLeast = false } = {}) {
  if (isUnknown(value)) return unknown();
  const text = Math.abs(value) < 10 ? ONE.format(value) : GROUPS.format(value);
  return atLeast ? `≥ ${text}` : text;
}

/** `980`, `12.4 k`, `1.24 M`: for key numbers. */
export function short(value) {
  if (isUnknown(value)) return unknown();
  const size = Math.abs(value);
  if (size >= 1e9) return `${TWO.format(value / 1e9)} G`;
  if (size >= 1e6) return `${TWO.format(value / 1e6)} M`;
  if (size >= 1e4) return `${ONE.format(value / 1e3)} k`;
  return size < 10 ? TWO.format(value) : ONE.format(value);
}

/** A label of an axis: `0`, `2.5 k`, `8 k`, `1.2 M`. */
export function axis(value) {
  const size = Math.abs(value);
  const step = [[1e9, " G"], [1e6, " M"], [1e3, " k"]].find(([least]) => size >= least) ?? [1, ""];
  return `${TWO.format(value / step[0])}${step[1]}`;
}

/** A size as its number and unit: `["1.8", "GiB"]`; null for unknown. */
export function bytesParts(value) {
  if (isUnknown(value)) return null;
  let size = Number(value);
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return [(unit && size < 100 ? ONE : GROUPS).format(size), BYTE_UNITS[unit]];
}

/** `4.5 KiB`. */
export function bytes(value) {
  const parts = bytesParts(value);
  return parts ? parts.join(" ") : unknown();
}

/** `0.9 ms`, `12 s`, `3 min 41 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(seconds) {
  if (isUnknown(seconds)) return unknown();
  if (seconds > 0 && seconds < 1) return milliseconds(seconds * 1000);
  if (seconds < 10 && seconds % 1 !== 0) return `${ONE.format(seconds)} s`;
  const whole = Math.round(seconds);
  const steps = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = steps.findIndex(([size]) => whole >= size);
  if (at === -1) return "0 s";
  const [size, unit] = steps[at];
  const rest = Math.floor((whole % size) / (steps[at + 1]?.[0] ?? size));
  return rest ? `${GROUPS.format(Math.floor(whole / size))} ${unit} ${rest} ${steps[at + 1][1]}` : `${GROUPS.format(Math.floor(whole / size))} ${unit}`;
}

/** `7.4 ms`. */
export function milliseconds(value) {
  if (isUnknown(value)) return unknown();
  return `${(value < 100 ? ONE : GROUPS).format(value)} ms`;
}

/** `41 %` of a fraction. */
export const percent = (fraction) => (isUnknown(fraction) ? unknown() : `${ONE.format(fraction * 100)} %`);

/** The time of day in UTC: `20:41:20`.  Takes RFC 3339, a Date, or epoch milliseconds. */
export const clock = (value) => new Date(value).toISOString().slice(11, 19);

/** A time as short as it is clear: `20:41:20` today, `21 Nov 20:41` this year, `2025-11-21 20:41` else; all in UTC. */
export function time(value, now = Date.now()) {
  if (isUnknown(value)) return unknown();
  const when = new Date(value);
  const today = new Date(now);
  const iso = when.toISOString();
  if (iso.slice(0, 10) === today.toISOString().slice(0, 10)) return iso.slice(11, 19);
  if (Math.abs(now - when) < 300 * DAY_MS) return `${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]} ${iso.slice(11, 16)}`;
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
}

/** A time in full, for `title` and facts: `2026-11-22 20:41:20.123 UTC`. */
export const fullTime = (value) => `${new Date(value).toISOString().replace("T", " ").replace("Z", "")} UTC`;

/** `1 message`, `3 messages`. */
export const count = (amount, one, many = `${one}s`) => `${number(amount)} ${String(amount) === "1" ? one : many}`;
