// The same done to several rows: what is refused does not stop the rest.

import { h, name } from "../dom.js";
import { count } from "../format.js";
import { ApiError } from "../api.js";

const MOST_NAMED = 10; // in a question
const MOST_REFUSALS = 3; // in a result

/** Do `work(row)` for one row after the other: {done, failed: [[row, error]]}. */
export async function inTurn(rows, work) {
  const failed = [];
  for (const row of rows) {
    try {
      await work(row);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      failed.push([row, error]);
    }
  }
  return { done: rows.length - failed.length, failed };
}

/** Tell how it went: "2 queues of 3 were deleted." `called(row)`: its name. */
export function tellInTurn(told, { done, failed }, what, verb, called) {
  const refusals = failed.slice(0, MOST_REFUSALS).map(([row, error]) => [" ", name(called(row)), ": ", error.message, "."]);
  const all = done + failed.length;
  const fact = `${count(done, ...what)}${failed.length ? ` of ${all}` : ""} ${done === 1 ? "was" : "were"} ${verb}.`;
  told.tell(failed.length ? "warn" : "info", fact, failed.length ? h("span", refusals) : "The audit has an entry of each.");
}

/** The rows of a question as a list; their commands, and the request of the first.  `outside(row, how)`: {cli, rest} of one;
 * `how.isSure`: among several lines, no command may take the next one for an answer. */
export function namedInTurn(rows, line, outside) {
  const shown = rows.slice(0, MOST_NAMED);
  const more = rows.length - shown.length;
  const body = h(
    "ul",
    shown.map((row) => h("li", line(row))),
    more > 0 && h("li", `and ${more} more`),
  );
  const said = shown.map((row) => outside(row, { isSure: rows.length > 1 }));
  return { body, cli: said.map(({ cli }) => cli).join("\n"), rest: said[0].rest };
}
