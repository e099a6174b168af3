// Webhooks: subscriptions whose events go to a sink, with how their delivery goes.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { number } from "../format.js";
import { link, path } from "../links.js";
import { results } from "../parts/banner.js";
import { head } from "../parts/head.js";
import { NAMESPACE_FILTER } from "../parts/namespaces.js";
import { pathOf } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { table } from "../parts/table.js";
import { putWebhook } from "../parts/webhook_form.js";
import { answersOf, answerWord, subscriptionState, worstCircuit } from "../parts/webhook_state.js";

const REFRESH_SECONDS = 5;
const STATES = [
  ["", "any"],
  ["active", "active"],
  ["unverified", "waits for consent"],
  ["suspended", "suspended"],
];

export async function show(place, { query }, signal) {
  const told = results();
  let namespace = query.get("namespace") ?? "";
  const create = async () => {
    const made = await putWebhook(null, namespace);
    if (!made) return;
    told.tell("info", ["The webhook ", name(made.done.id), " was created."], "The audit has an entry.", {
      label: "Show it",
      href: link(path("webhooks", made.done.id), { namespace }),
    });
    await list.reload();
  };
  const list = table({
    label: "Webhooks",
    signal,
    seconds: REFRESH_SECONDS,
    what: "all gateways",
    key: (row) => row.id,
    columns: columns(),
    filters: [
      NAMESPACE_FILTER,
      { name: "source", label: "Topic, whole name" },
      { name: "state", label: "State", type: "select", options: STATES },
    ],
    load: ({ after, limit, filter, signal: asked }) => {
      namespace = filter.namespace;
      return get(pathOf("listWebhooks", { namespace }), {
        query: { after, limit, source: filter.source, state: filter.state },
        signal: asked,
      });
    },
    empty: {
      title: "No webhooks",
      text: "A webhook sends the events of a topic to an address. You see those whose topic you may consume.",
      action: { label: "Create a webhook", act: create },
    },
  });
  const top = head("Webhooks", {
    acts: h("button.primary", { type: "button", onclick: create }, "Create a webhook"),
    sub: ["CloudEvents subscriptions, by id"],
  });
  place.append(top.element, told.element, panel("Webhooks", { flush: list.element }));
}

function columns() {
  return [
    {
      id: "id",
      label: "Id",
      isHead: true,
      cell: (row) => h("a.mono", { href: link(path("webhooks", row.id), { namespace: row.namespace }) }, name(row.id)),
    },
    { id: "topic", label: "Topic", cell: (row) => name(row.topic) },
    { id: "sink", label: "Sink", optional: 1, cell: (row) => h("span.mono.xs.brk", name(row.sink)) },
    { id: "state", label: "State", cell: subscriptionState },
    { id: "waiting", label: "Waiting", align: "n", cell: (row) => number(row.waiting) },
    { id: "circuit", label: "Circuit", optional: 1, cell: worstCircuit },
    { id: "last", label: "Last answer", optional: 1, cell: (row) => answerWord(answersOf(row)[0]) },
  ];
}
