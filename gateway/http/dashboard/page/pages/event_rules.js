// Event rules: what topics ask of their events.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, duration } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { putEventRule } from "../parts/event_rule_form.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";

export async function show(place, { query }, signal) {
  const told = results();
  let namespace = query.get("namespace") ?? "";
  const create = async () => {
    const made = await putEventRule(null, namespace);
    if (!made) return;
    told.tell(
      "info",
      ["The topic ", name(made.done.topic), " has its rule."],
      "It holds at every door from now on. The audit has an entry.",
    );
    await list.reload();
  };
  const list = table({
    label: "Event rules",
    signal,
    key: (row) => row.topic,
    columns: columns(() => namespace),
    filters: [{ name: "q", label: "Topic contains" }, NAMESPACE_FILTER],
    load: ({ after, limit, filter, signal: asked }) => {
      namespace = filter.namespace;
      return get(pathOf("listEventRules", { namespace }), { query: { after, limit, name: filter.q }, signal: asked });
    },
    empty: {
      title: "No event rules",
      text: "A rule refuses data that does not fit a schema, and drops repeated events. You see those of topics that you may get.",
      action: { label: "Create an event rule", act: create },
    },
  });
  const top = head("Event rules", {
    acts: h("button.primary", { type: "button", onclick: create }, "Create an event rule"),
    sub: ["what topics ask of their events, at every door"],
  });
  place.append(top.element, told.element, panel("Event rules", { flush: list.element }));
}

function columns(namespace) {
  return [
    {
      id: "topic",
      label: "Topic",
      isHead: true,
      cell: (row) => h("a", { href: link(path("event-rules", row.topic), { namespace: namespace() }) }, name(row.topic)),
    },
    {
      id: "dedup",
      label: "Known events dropped for",
      align: "n",
      cell: (row) => (row.dedupSeconds ? duration(row.dedupSeconds) : h("span.q", "never")),
    },
    { id: "schema", label: "Schema", align: "n", cell: (row) => (row.schemaBytes ? bytes(row.schemaBytes) : h("span.q", "none")) },
    {
      id: "dataschema",
      label: "Its address",
      optional: 1,
      cell: (row) => (row.dataschema ? h("span.mono.xs.brk", name(row.dataschema)) : none()),
    },
    {
      id: "invalid",
      label: "What does not conform",
      optional: 1,
      cell: (row) => (row.onInvalid === "divert" ? ["goes to ", name(row.divertTo)] : "is refused"),
    },
  ];
}
