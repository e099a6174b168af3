// Spark jobs that keep tables of topics, by their own last reports.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { count, duration, isUnknown, number, time } from "../format.js";
import { results } from "../parts/banner.js";
import { lackingRight } from "../parts/client_lists.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { inTurn, namedInTurn, tellInTurn } from "../parts/in_turn.js";
import { perform, same } from "../parts/operations.js";
import { panel, scrolling } from "../parts/panel.js";
import { none, state } from "../parts/states.js";
import { table } from "../parts/table.js";
import { may } from "../session.js";

const REFRESH_SECONDS = 5;
const STATES = { running: ["ok", "runs"], ended: ["idle", "ended"], failed: ["bad", "failed"], silent: ["warn", "silent"] };

export async function show(place, parameters, signal) {
  const told = results();
  const list = table({
    label: "Spark jobs",
    signal,
    seconds: REFRESH_SECONDS,
    key: (row) => row.id,
    columns: columns(),
    load: ({ after, limit, signal: asked }) => get("ingest-jobs", { query: { after, limit }, signal: asked }),
    actions: may("Cluster:UPDATE")
      ? [{ label: (rows) => `Forget ${count(rows.length, "job")}`, isDanger: true, act: (rows) => forget(rows, told) }]
      : [],
    empty: { title: "No Spark jobs", text: "A job of entrepot ingest is here from its first batch on, until it is forgotten." },
  });
  place.append(
    head("Spark jobs", { sub: ["by their last reports, with the lag of now", lackingRight("Forgetting")] }).element,
    told.element,
    panel("Spark jobs", { flush: list.element }),
  );
}

function columns() {
  return [
    {
      id: "table",
      label: "Table",
      isHead: true,
      cell: (row) => [h("span.brk", row.table ? name(row.table) : unreadable(row)), " ", h("span.q.xs", row.format)],
    },
    { id: "state", label: "State", cell: (row) => state(...(STATES[row.state] ?? ["unknown", row.state])) },
    { id: "lag", label: "Lag", align: "n", cell: lag },
    {
      id: "batch",
      label: "Last batch",
      align: "n",
      optional: 1,
      cell: (row) => (isUnknown(row.batch) ? none() : [number(row.batch), h("span.q", " at ", time(row.batchAt))]),
    },
    { id: "rows", label: "Rows", align: "n", optional: 1, cell: (row) => (isUnknown(row.batch) ? none() : number(row.batchRows)) },
    { id: "seconds", label: "Took", align: "n", optional: 2, cell: (row) => (isUnknown(row.batch) ? none() : duration(row.batchSeconds)) },
    { id: "reported", label: "Reported, UTC", align: "n", optional: 1, cell: (row) => time(row.reportedAt) },
    {
      id: "do",
      label: "",
      cell: (row) =>
        h("button.small", { type: "button", "aria-label": `Details of ${row.table || row.id}`, onclick: () => details(row) }, "Details"),
    },
  ];
}

const unreadable = (row) => `report ${row.id}, which cannot be read`;

/** Messages of all its topics that it has not taken; unknown where one of them is. */
function lag({ topics }) {
  const lags = topics.map((topic) => topic.lag);
  const isKnown = lags.length > 0 && !lags.some(isUnknown);
  return number(isKnown ? lags.reduce((sum, each) => sum + BigInt(each), 0n) : null);
}

function details(row) {
  const lines = row.topics.flatMap((topic) =>
    topic.offsets.map((each, at) =>
      h(
        "tr",
        h("th", { scope: "row" }, at === 0 && name(topic.name)),
        h("td.n", number(each.queueId)),
        h("td.n.mono.xs", number(each.offset)),
        h("td.n", at === 0 && number(topic.lag)),
      ),
    ),
  );
  const heads = [["Topic"], ["Queue", "n"], ["Offset", "n"], ["Lag", "n"]].map(([title, classes = ""]) =>
    h("th", { scope: "col", class: classes }, title),
  );
  const offsets = lines.length
    ? scrolling("Offsets by queue", h("table", h("thead", h("tr", heads)), h("tbody", lines)))
    : h("p.q", "It has not told any offset.");
  const pairs = [
    ["Id", h("span.mono", name(row.id))],
    ["Host", name(row.host)],
    ["Version", row.version ?? none()],
    ["Reason", row.reason ? name(row.reason) : none()],
  ];
  const close = h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close");
  const dialog = openDialog(
    `Job of ${row.table || row.id}`,
    h(
      "dl.facts",
      pairs.map(([label, value]) => [h("dt", label), h("dd", value)]),
    ),
    offsets,
    h("p.acts", close),
  );
}

async function forget(rows, told) {
  const runs = rows.filter((row) => row.state === "running").length;
  const result = await confirm({
    title: `Forget ${count(rows.length, "job")}?`,
    loss: `Their reports are deleted. Jobs and tables are not touched: ${runs} of them run, and report again with their next batch.`,
    ...namedInTurn(
      rows,
      (row) => name(row.table || row.id),
      (row, how) => same("forgetIngestJob", row, undefined, how),
    ),
    verb: `Forget ${count(rows.length, "job")}`,
    isDanger: true,
    run: () => inTurn(rows, (row) => perform("forgetIngestJob", row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["job"], "forgotten", (row) => row.table || row.id);
  return true;
}
