// A small line beside the number that it belongs to: from 0, without axes.

import { s } from "../dom.js";

const WIDTH = 92;
const HEIGHT = 22;

/** A line of values, where null is a gap.  `kind`: a colour's class, such as mqtt, log or trouble. */
export function sparkline(values, kind = "log") {
  const greatest = Math.max(...values.filter((value) => value !== null), 0) || 1;
  const x = (at) => (values.length > 1 ? (at * WIDTH) / (values.length - 1) : 0);
  const y = (value) => HEIGHT - 1 - (value / greatest) * (HEIGHT - 2);
  return s("svg.spark", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, s("path.ln", { class: kind, d: linePath(values, x, y) }));
}

/** The path of a line that is broken where values are null.  A value alone between gaps is a short stroke. */
export function linePath(values, x, y) {
  let path = "";
  values.forEach((value, at) => {
    if (value === null || value === undefined) return;
    const isFirst = at === 0 || values[at - 1] === null || values[at - 1] === undefined;
    path += `${isFirst ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    const isLast = at === values.length - 1 || values[at + 1] === null || values[at + 1] === undefined;
    if (isFirst && isLast) path += "h1";
  });
  return path;
}
