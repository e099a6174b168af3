// One queue of AMQP: its messages in numbers, consumers, bindings, policy and arguments.

import { get, parsed } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count, number } from "../format.js";
import { every } from "../live.js";
import { link } from "../links.js";
import { bind, deleteQueue, purge } from "../parts/amqp_dialogs.js";
import { ask } from "../parts/answers.js";
import { banner, results } from "../parts/banner.js";
import { bindingList } from "../parts/binding_list.js";
import { head } from "../parts/head.js";
import { columns, facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { api, valueText } from "../parts/rabbitmq.js";
import { chip, none } from "../parts/states.js";

const REFRESH_SECONDS = 5;
const MOST_CONSUMERS = 100; // shown
const MISSING = "entrepot-gateways-missing";

export async function show(place, { vhost, name: queue }, signal) {
  const top = head(queue, { shown: name(queue), crumbs: [["Queues", link("queues", { vhost })]] });
  const told = results();
  const body = h("div.stack.wide-gaps");
  place.append(top.element, told.element, body);
  const live = { numbers: h("div.slim"), consumers: h("div.slim") };
  let now = null;
  const update = (found) => {
    now = found;
    fill(
      live.numbers,
      found.missing && banner("warn", `No answer of ${found.missing}.`, "Its consumers are missing below."),
      keyNumbers(numbers(found)),
    );
    if (!live.consumers.contains(document.activeElement)) fill(live.consumers, consumersPanel(found));
  };
  const draw = (found) => {
    top.sub(
      [
        ["virtual host ", name(found.vhost)],
        found.type,
        found.durable ? "durable" : chip("transient"),
        found.auto_delete && "deleted after its last consumer",
        found.exclusive && chip("exclusive"),
      ].filter(Boolean),
    );
    update(found);
    return [live.numbers, live.consumers, bindings(vhost, queue, told, signal), columns(policyPanel(found), argumentsPanel(found))];
  };
  const found = await ask(body, (asked) => load(vhost, queue, asked), draw, {
    what: "all gateways",
    fact: "The queue was not loaded",
    signal,
  });
  if (!found) return;
  const again = async () => update(await load(vhost, queue, signal));
  top.acts(actions(() => now, told, again));
  every(REFRESH_SECONDS, () => again().catch(() => undefined), signal); // the bar tells that nothing answers
}

/** The queue, with the names of gateways that did not answer as `missing`. */
async function load(vhost, queue, signal) {
  const answer = await get(api("queues", vhost, queue), { signal, raw: true });
  return { ...parsed(await answer.text()), missing: answer.headers.get(MISSING) };
}

function actions(now, told, again) {
  const purgeIt = async () => {
    if (!(await purge(now()))) return;
    told.tell("info", ["The queue ", name(now().name), " was purged."], "The audit has an entry.");
    await again();
  };
  const deleteIt = async () => {
    const { vhost } = now();
    if (await deleteQueue(now())) location.hash = link("queues", { vhost });
  };
  const button = (label, onclick) => h("button.danger", { type: "button", onclick }, label);
  return [now().type === "stream" ? null : button("Purge", purgeIt), button("Delete", deleteIt)];
}

function numbers({ messages_ready: ready, messages_unacknowledged: held, messages, consumers }) {
  return [
    { label: "Ready", value: number(ready), unit: "messages" },
    { label: "Unacked", value: number(held), unit: "messages", more: "a consumer has them" },
    { label: "All", value: number(messages), unit: "messages" },
    {
      label: "Consumers",
      value: number(consumers),
      kind: consumers === 0 && Number(ready) > 0 ? "warn" : "",
      more: consumers === 0 && Number(ready) > 0 ? "nobody takes the messages" : null,
    },
  ];
}

function consumersPanel({ consumer_details: details, missing }) {
  const shown = details.slice(0, MOST_CONSUMERS);
  const heads = [["Consumer"], ["Connection"], ["User", "opt"], ["Prefetch", "n"], ["Settles", "opt"]];
  const rows = shown.map((each) => {
    const channel = each.channel_details;
    const settles = each.ack_required ? "acknowledges" : chip("no acknowledgement");
    return h(
      "tr",
      h("th.brk", { scope: "row" }, name(each.consumer_tag), each.exclusive && [" ", chip("exclusive")]),
      h("td.mono.xs", name(channel.connection_name)),
      h("td.opt", channel.user ? name(channel.user) : none()),
      h("td.n", each.prefetch_count ? number(each.prefetch_count) : "no limit"),
      h("td.opt", settles),
    );
  });
  const body = h(
    "table",
    h(
      "thead",
      h(
        "tr",
        heads.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title)),
      ),
    ),
    h("tbody", rows),
  );
  const more = details.length > shown.length ? `and ${number(details.length - shown.length)} more` : null;
  const nobody = h("p.pad.s.q", missing ? "No consumer at the gateways that answered." : "No consumer.");
  return panel("Consumers", {
    unit: details.length ? count(details.length, "consumer") : null,
    flush: rows.length ? scrolling("Consumers", body) : nobody,
    footer: more,
  });
}

function bindings(vhost, queue, told, signal) {
  const create = async () => {
    if (!(await bind({ vhost, queue }))) return;
    told.tell("info", ["The queue ", name(queue), " was bound."], "The audit has an entry.");
    await list.reload();
  };
  const list = bindingList({ address: api("queues", vhost, queue, "bindings"), label: "Bindings", end: "source", told, signal });
  return panel("Bindings", { acts: h("button.small", { type: "button", onclick: create }, "Bind"), flush: list.element });
}

function policyPanel(found) {
  const named = (policy) => (policy ? h("a", { href: link("queue-policies", { vhost: found.vhost }) }, name(policy)) : none());
  const effective = Object.entries(found.effective_policy_definition ?? {});
  const pairs = [
    ["Policy", named(found.policy)],
    ["Operators' policy", named(found.operator_policy)],
    ...effective.map(([key, value]) => [name(key), valueText(value)]),
  ];
  return panel("Policy", { span: 6, body: facts(pairs) });
}

function argumentsPanel(found) {
  const given = Object.entries(found.arguments ?? {});
  const body = given.length
    ? facts(given.map(([key, value]) => [name(key), valueText(value)]))
    : h("p.s.q", "It was declared without arguments.");
  return panel("Arguments", { span: 6, body });
}
