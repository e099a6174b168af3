// Invented data for the sheet of parts.

/** A history of two lines with a gap, an event and a limit. */
export function exampleHistory(end) {
  const length = 120;
  const gap = (at) => at > 49 && at < 60;
  const line = (height, wave) => Array.from({ length }, (_, at) => (gap(at) ? null : height + wave * Math.sin(at / 7)));
  return { end, step: 30, values: { mqtt: line(55, 12), p99: line(30, 4) }, events: [{ at: end - 60 * 30, text: "what happened" }] };
}

/** A page of rows of a list that has 120 of them. */
export function exampleRows({ after, limit, sort, filter }) {
  const all = Array.from({ length: 120 }, (_, at) => ({ name: `till-${String(at).padStart(4, "0")}`, lag: at % 7 === 3 ? null : (at * 37) % 500, zone: "abc"[at % 3] }));
  const fitting = all.filter((row) => row.name.includes(filter.q) && (filter.zone === "" || row.zone === filter.zone));
  const by = (sort ?? "name").replace("-", "");
  fitting.sort((one, other) => ((one[by] ?? -1) < (other[by] ?? -1) ? -1 : 1) * (sort?.startsWith("-") ? -1 : 1));
  const from = after === null ? 0 : Number(after);
  return { value: fitting.slice(from, from + limit), next: from + limit < fitting.length ? String(from + limit) : null, answered: { asked: 2, answered: 2, missing: [] } };
}
