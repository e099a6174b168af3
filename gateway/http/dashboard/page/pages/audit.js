// Audit: failed logins, denials and administrative changes of all gateways, the newest first.  For super users.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { fullTime, number, time } from "../format.js";
import { link } from "../links.js";
import { banner } from "../parts/banner.js";
import { sameFromOutside } from "../parts/copying.js";
import { head } from "../parts/head.js";
import { rest } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { none, state } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 5;
const KINDS = [["", "all"], ["refusals", "failed logins and denials"], ["changes", "changes"]];

/** What `datetime-local` gives, taken as UTC. */
const inUtc = (text) => (text ? `${text}${text.length === 16 ? ":00" : ""}Z` : "");
const maybe = (text) => (text === "" ? none() : name(text));

export function show(place, parameters, signal) {
  const top = head(
    "Audit",
    { sub: ["failed logins, denials and administrative changes", "of all gateways, the newest first", "times in UTC"] },
  );
  const lost = h("div.results");
  const load = async ({ after, limit, filter, signal: asked }) => {
    const { from, until, ...rest } = filter;
    const page = await get("audit", { query: { cursor: after, limit, ...rest, from: inUtc(from), until: inUtc(until) }, signal: asked });
    fill(
      lost,
      page.suppressed > 0 && banner(
        "warn",
        [number(page.suppressed), " refusals have no entry."],
        "More came in a second than security.audit_per_second.",
      ),
    );
    return page;
  };
  const list = table({
    label: "Entries",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => `${row.gateway}/${row.number}`,
    columns: COLUMNS,
    filters: [
      { name: "kind", label: "Kind", type: "select", options: KINDS },
      { name: "event", label: "Event contains" },
      { name: "subject", label: "By: name contains" },
      { name: "resource", label: "Resource contains" },
      { name: "from", label: "From, UTC", type: "datetime-local" },
      { name: "until", label: "Until, UTC", type: "datetime-local" },
    ],
    load,
    empty: {
      title: "No entries",
      text: "Each gateway keeps its newest ones; its log has all. Reading, publishing and consuming have none.",
    },
  });
  const same = sameFromOutside({ cli: "entrepot user audit --limit 50", rest: rest("listAuditEntries", {}, undefined, { limit: 50 }) });
  place.append(top.element, lost, panel("Entries", { flush: list.element }), h("section.panel.pad", same));
}

const COLUMNS = [
  { id: "time", label: "Time", isHead: true, cell: (row) => h("span.nw", { title: fullTime(row.time) }, time(row.time)) },
  { id: "event", label: "Event", cell: (row) => (row.isRefusal ? state("warn", name(row.event)) : name(row.event)) },
  {
    id: "subject",
    label: "By",
    cell: (row) => (row.subject === "" ? none() : h("a", { href: link("audit", { subject: row.subject }) }, name(row.subject))),
  },
  { id: "source", label: "From", optional: 1, cell: (row) => h("span.mono.xs", maybe(row.source)) },
  {
    id: "action",
    label: "Action",
    optional: 1,
    cell: (row) => [maybe(row.action), row.protocol !== "" && h("span.q.xs", " ", row.protocol)],
  },
  { id: "resource", label: "Resource", cell: (row) => h("div.roomy-cell", maybe(row.resource)) },
  { id: "detail", label: "Detail", optional: 1, cell: (row) => h("div.roomy-cell.q2", maybe(row.detail)) },
  { id: "gateway", label: "Gateway", optional: 2, cell: (row) => h("span.q.xs.nw", name(row.gateway)) },
];
