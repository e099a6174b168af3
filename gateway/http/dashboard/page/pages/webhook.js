// One webhook: what waits, the circuit at each gateway, the last answers, when it is tried again, and its definition.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count, duration, isUnknown, number } from "../format.js";
import { every } from "../live.js";
import { link } from "../links.js";
import { ask } from "../parts/answers.js";
import { partial, results } from "../parts/banner.js";
import { confirm } from "../parts/dialog.js";
import { head } from "../parts/head.js";
import { pathOf, perform, rest } from "../parts/operations.js";
import { columns, facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { unknown } from "../parts/states.js";
import { putWebhook } from "../parts/webhook_form.js";
import { answerRow, answersOf, answerWord, circuitState, scheduleWords, subscriptionState, timeOrNone } from "../parts/webhook_state.js";

const REFRESH_SECONDS = 5;

export async function show(place, { id, query }, signal) {
  const namespace = query.get("namespace") ?? "";
  const top = head(`Webhook ${id}`, { shown: h("span", "Webhook ", name(id)), crumbs: [["Webhooks", link("webhooks", { namespace })]] });
  const told = results();
  const body = h("div.stack.wide-gaps");
  place.append(top.element, told.element, body);
  const load = (asked) => get(pathOf("getWebhook", { id, namespace }), { signal: asked });
  let now = null;
  const draw = (found) => {
    now = found;
    top.sub([["topic ", name(found.topic)], ["namespace ", name(found.namespace)], subscriptionState(found)]);
    return [
      partial(found.answered, { means: "Its answers and circuit are missing." }),
      keyNumbers(numbers(found)),
      gatewayPanel(found),
      answerPanel(found),
      columns(deliveryPanel(found), definitionPanel(found)),
    ];
  };
  const again = async () => {
    const found = await load(signal);
    if (!signal.aborted) fill(body, draw(found));
  };
  const found = await ask(body, load, draw, { what: "all gateways", fact: "The webhook was not loaded", signal });
  if (!found) return;
  top.acts(actions(() => now, namespace, told, again));
  const isHeld = () => body.contains(document.activeElement) || document.querySelector("dialog[open]");
  every(REFRESH_SECONDS, () => isHeld() || again().catch(() => undefined), signal); // the bar tells that nothing answers
}

function actions(now, namespace, told, again) {
  const change = async () => {
    if (!(await putWebhook(now()))) return;
    told.tell("info", ["The webhook ", name(now().id), " was changed."], "The audit has an entry.");
    await again();
  };
  const remove = async () => {
    const { id, waiting } = now();
    const result = await confirm({
      title: `Delete the webhook ${id}?`,
      loss: [h("b", number(waiting)), " waiting events are not sent. The topic keeps its messages. This cannot be undone."],
      rest: rest("deleteSubscription", now()),
      verb: "Delete webhook",
      isDanger: true,
      typed: waiting === 0 ? null : id,
      run: () => perform("deleteSubscription", now()),
    });
    if (result) location.hash = link("webhooks", { namespace });
  };
  return [h("button", { type: "button", onclick: change }, "Change"), h("button.danger", { type: "button", onclick: remove }, "Delete")];
}

function numbers({ waiting, waitingLimit, inFlight, undispatched, deliveries, answered }) {
  const atLeast = answered.answered < answered.asked;
  const requests = deliveries.reduce((sum, each) => sum + each.requests, 0);
  const isOpen = deliveries.some((each) => each.circuit.state === "open");
  return [
    { label: "Waiting", value: number(waiting), unit: "events", kind: isOpen && waiting ? "warn" : "", more: waitingWords(waitingLimit) },
    { label: "On their way", value: number(inFlight), unit: "events" },
    { label: "Not yet looked at", value: number(undispatched), unit: "messages", more: "of the topic, for any webhook" },
    { label: "Requests now", value: deliveries.length || !atLeast ? number(requests, { atLeast }) : unknown() },
  ];
}

/** What becomes of the events that wait: while nothing may be sent there is a limit. */
const waitingWords = (limit) =>
  isUnknown(limit) ? "for the sink" : `kept, at most ${number(limit)}: above, the oldest become dead letters`;

function tableOf(label, titles, rows) {
  const heads = titles.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
  return scrolling(label, h("table", h("thead", h("tr", heads)), h("tbody", rows)));
}

function gatewayPanel({ deliveries, answered }) {
  const rows = deliveries.map((each) =>
    h(
      "tr",
      h("th", { scope: "row" }, name(each.gateway)),
      h("td", circuitState(each.circuit)),
      h("td.n", number(each.circuit.failures)),
      h("td.n", each.circuit.openSeconds ? duration(each.circuit.openSeconds) : h("span.q", "–")),
      h("td", timeOrNone(each.retryAt)),
      h("td.n.opt", number(each.requests)),
      h("td.opt", answerWord(each.answers[0])),
    ),
  );
  const away = answered.missing.map((each) =>
    h("tr", h("th", { scope: "row" }, name(each.name)), h("td", { colspan: 6 }, unknown(each.reason))),
  );
  const titles = [
    ["Gateway"],
    ["Circuit"],
    ["Failures in a row", "n"],
    ["Pauses", "n"],
    ["Next try"],
    ["Requests", "n opt"],
    ["Last answer", "opt"],
  ];
  const nobody = h("p.pad.s.q", "No gateway delivers now: nothing was to be sent, or the receiver has not consented.");
  return panel("Gateways", { flush: rows.length + away.length ? tableOf("Circuit by gateway", titles, [...rows, ...away]) : nobody });
}

function answerPanel(found) {
  const rows = answersOf(found).map(answerRow);
  const titles = [["Time, UTC"], ["Answer"], ["Outcome"], ["Took", "n"], ["Events", "n opt"], ["Attempt", "n"], ["Gateway", "opt"]];
  const none = h("p.pad.s.q", "The sink has not answered since these gateways began.");
  return panel("Last answers", { unit: "the last 20 of each gateway", flush: rows.length ? tableOf("Last answers", titles, rows) : none });
}

function deliveryPanel(found) {
  const { config, status, handshake } = found;
  const pairs = [
    ["Sink", h("span.mono.xs.brk", name(found.sink))],
    ["Retries after", scheduleWords(found)],
    ["Oldest event", config.maxageseconds ? duration(config.maxageseconds) : "any"],
    [
      "Consent",
      [
        config.handshake,
        status.consent ? [", ", status.consent] : ", not asked yet",
        status.allowedrate ? `, ${status.allowedrate} a minute` : "",
      ],
    ],
    [
      "Asked for it",
      [
        handshake.tries ? [count(handshake.tries, "time"), ", last "] : "",
        timeOrNone(handshake.askedAt, "never"),
        handshake.nextAt && [", next ", timeOrNone(handshake.nextAt)],
      ],
    ],
    ["Quiet until", timeOrNone(found.quietUntil, "the sink did not ask for it")],
    ["Limit", config.ratelimit ? `${number(config.ratelimit)} requests a minute` : "none"],
    ["Signed", config.signingsecret ? "yes" : "no"],
    ["Login", found.sinkcredential?.credentialtype ?? "none"],
  ];
  return panel("Delivery", { span: 6, body: facts(pairs) });
}

function definitionPanel(found) {
  const { config } = found;
  const code = (value) => h("pre.code.wrap", { tabindex: "0", role: "group", "aria-label": "Filters" }, JSON.stringify(value, null, 2));
  const pairs = [
    ["Form", `${config.mode}${config.ordered ? ", in order of the partition key" : ""}`],
    ["Began at", name(config.start)],
    ["Types", found.types.length ? found.types.map((each, at) => [at > 0 && ", ", name(each)]) : "all"],
    ["Filters", found.filters.length ? code(found.filters) : "none: all events"],
    ["Created", timeOrNone(found.status.created)],
    ["Changed", timeOrNone(found.status.updated)],
  ];
  return panel("Definition", { span: 6, body: facts(pairs) });
}
