// Dead letters, by group: which groups gave messages up.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { count, number } from "../format.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { groupLink, lettersAddress } from "../parts/place_links.js";
import { form } from "../parts/form.js";
import { state } from "../parts/states.js";
import { table } from "../parts/table.js";

const PREFIX = "%DLQ%"; // of the topics of dead letters
const REFRESH_SECONDS = 10;

export async function show(place, { query }, signal) {
  const top = head("Dead letters");
  const list = table({
    label: "Groups with dead letters",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all brokers",
    key: (row) => row.name,
    sort: "-messages",
    columns: columns(),
    filters: [{ name: "contains", label: "Group contains" }, NAMESPACE_FILTER],
    load: async ({ after, limit, sort, filter, signal: asked }) => {
      const { namespace, contains } = filter;
      const page = await get(pathOf("listTopics", { namespace }), {
        query: { after, limit, sort, contains, kind: "deadLetter" },
        signal: asked,
      });
      top.sub([`${count(page.total, "group")} that you may see`, "resent ones stay, until you delete them"]);
      return page;
    },
    empty: { title: "No dead letters", text: "A group gives a message up after its last attempt; it comes here with reason and attempts." },
  });
  place.append(
    top.element,
    panel("By group", { unit: "as kept in the log, deleted ones included", flush: list.element }),
    panel("Another group", { unit: "whose dead letters you may read", body: chooser(query) }),
  );
}

function columns() {
  return [
    {
      id: "group",
      label: "Group",
      isHead: true,
      sort: "name",
      cell: (row) => h("a", { href: lettersAddress(groupOf(row), row.namespace) }, name(groupOf(row))),
    },
    {
      id: "messages",
      label: "Dead letters",
      align: "n",
      sort: "messages",
      cell: (row) => number(row.messages, { atLeast: row.isAvailable && !row.isComplete }),
    },
    {
      id: "state",
      label: "State",
      optional: 1,
      cell: (row) =>
        row.isAvailable
          ? state(row.messages === "0" ? "idle" : "warn", row.messages === "0" ? "none now" : "gave messages up")
          : state("unknown", "no broker tells"),
    },
    { id: "reads", label: "Group's page", optional: 1, cell: (row) => groupLink(groupOf(row), row.namespace) },
  ];
}

const groupOf = (row) => (row.name.startsWith(PREFIX) ? row.name.slice(PREFIX.length) : row.name);

/** Who may read a group, and may not list its topic of dead letters, names the group. */
function chooser(query) {
  return form({
    fields: [{ name: "group", label: "Group", required: true }],
    submit: "Show its dead letters",
    send: async ({ group }) => {
      location.hash = lettersAddress(group, query.get("namespace"));
    },
  }).element;
}
