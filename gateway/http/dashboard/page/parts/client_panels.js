// Panels of one MQTT client: key numbers, facts, subscriptions, session, messages in flight, output, history.

import { h, name, s } from "../dom.js";
import { bytes, count, duration, fullTime, isUnknown, number, quantity, time } from "../format.js";
import { link } from "../links.js";
import { empty } from "./answers.js";
import { nameOrNone } from "./client_lists.js";
import { facts, keyNumbers, panel, scrolling } from "./panel.js";
import { none, state, unknown } from "./states.js";

const MOST_BOXES = 16; // of a window that is drawn
const MOST_SUBSCRIPTIONS = 1000; // that the server tells with a client
const MOST_IN_FLIGHT = 50; // that the server tells with a client
const NEVER = 0xffffffff; // session expiry

const headCell = ([title, classes = ""]) => h("th", { scope: "col", class: classes }, title);
const tableOf = (label, heads, rows) => scrolling(label, h("table", h("thead", h("tr", heads.map(headCell))), h("tbody", rows)));

/** Key numbers of a connected client.  `rates`: {in, out} in messages/s since the last look, or null. */
export function clientNumbers(client, rates) {
  const { session } = client;
  const rate = (value) => (rates ? h("span", quantity(value), " msg/s now") : h("span", "its rate is known in a moment"));
  return keyNumbers([
    { label: "From the client", value: number(client.messagesIn), unit: "messages", more: [rate(rates?.in), ", ", bytes(client.bytesIn)] },
    { label: "To the client", value: number(client.messagesOut), unit: "messages", more: [rate(rates?.out), ", ", bytes(client.bytesOut)] },
    {
      label: "In flight to it",
      value: number(client.inFlight),
      unit: ["of ", number(session.receiveMaximum)],
      kind: client.inFlight >= session.receiveMaximum ? "warn" : "",
      more: windowOf(client.inFlight, session.receiveMaximum),
    },
    {
      label: "Half received from it",
      value: number(client.halfReceived.length, { atLeast: client.halfReceived.length >= MOST_IN_FLIGHT }),
      unit: ["of ", number(session.receiveMaximumFromClient)],
      more: "QoS 2, PUBREL is due",
    },
    {
      label: "Waits in memory",
      value: number(client.queued),
      unit: ["of ", number(session.maxQueued)],
      kind: client.queued >= session.maxQueued ? "warn" : "",
      more: client.lagging ? [count(client.lagging, "queue"), " read from the log"] : "the rest would wait in the log",
    },
    {
      label: "Dropped",
      value: number(client.dropped),
      unit: "messages",
      kind: client.dropped ? "warn" : "",
      more: "QoS 0, read too slowly",
    },
    {
      label: "Refused",
      value: number(client.refused),
      unit: "requests",
      kind: client.refused ? "warn" : "",
      more: client.lastRefusal
        ? h("span.brk", { title: fullTime(client.lastRefusal.time) }, ["the last one: ", name(client.lastRefusal.text)])
        : "none on this connection",
    },
  ]);
}

function windowOf(held, maximum) {
  const boxes = Math.min(maximum, MOST_BOXES);
  const full = held === 0 ? 0 : Math.max(1, Math.floor((held / maximum) * boxes));
  return s(
    "svg.win",
    { viewBox: "0 0 112 12", "aria-hidden": "true" },
    Array.from({ length: boxes }, (_, at) => s("rect", { class: at < full ? "on mqtt" : "off", x: at * 7, width: 6, height: 12, rx: 1 })),
  );
}

/** Why the client does not send or get, in the gateway's sentences. */
export function factPanel(found) {
  const troubles = found.filter((each) => each.isTrouble).length;
  const lines = found.map((each) => h("li", state(each.isTrouble ? "warn" : "idle", h("span.brk", name(each.text)))));
  const body = lines.length
    ? h("ul.stack.s.sentences", lines)
    : h("p.sentences", state("ok", "Nothing keeps messages from passing in either direction."));
  return panel("Why it does not send or get", { unit: troubles ? `${count(troubles, "reason")} now` : "no reason now", body });
}

/** Options of a subscription in words. */
export function subscriptionOptions(each) {
  const share = /^\$share\/([^/]+)\//.exec(each.filter);
  const parts = [
    share && ["shared by ", name(share[1])],
    each.noLocal && "not its own (no local)",
    each.retainAsPublished && "retain as published",
    each.retainHandling === 1 && "retained: once",
    each.retainHandling === 2 && "no retained",
    !isUnknown(each.identifier) && ["identifier ", number(each.identifier)],
  ].filter(Boolean);
  return parts.length ? parts.map((part, at) => [at > 0 && ", ", part]) : none();
}

/** Subscriptions of a client or of a session. */
export function subscriptionPanel(subscribed, total, id, span = 8) {
  const rows = subscribed.map((each) =>
    h("tr", h("th.mono.brk", { scope: "row" }, name(each.filter)), h("td.n", number(each.qos)), h("td.opt.q2", subscriptionOptions(each))),
  );
  const all = total > MOST_SUBSCRIPTIONS ? h("a", { href: link("subscriptions", { client: id }) }, "All subscriptions") : null;
  const nothing = h("div.pad", empty("No subscription", "It gets no message, whatever is published."));
  return panel("Subscriptions", {
    span,
    unit: number(total),
    flush: rows.length ? tableOf("Subscriptions", [["Filter"], ["QoS", "n"], ["Options", "opt"]], rows) : nothing,
    footer: all,
  });
}

/** When a session ends after its connection. */
export function expiryWords(seconds) {
  if (seconds === 0) return "with the connection";
  return seconds >= NEVER ? "never" : h("span", duration(seconds), " after the connection ends");
}

/** The session of a connected client, with its will. */
export function sessionPanel(client) {
  const { session, will } = client;
  return panel("Session", {
    span: 4,
    body: facts([
      ["Began", session.continued ? "it goes on from an earlier connection" : "new with this connection"],
      ["Ends", expiryWords(client.sessionExpiry)],
      ["Kept in the store", session.isDurable ? "yes, so any gateway can go on with it" : "no, it is in the gateway's memory"],
      ["Clean start", client.cleanStart ? "on" : "off"],
      ["Largest packet to it", session.maxPacketSize === null ? "no limit" : bytes(session.maxPacketSize)],
      [
        "Will",
        will
          ? [
              h("span.mono", name(will.topic)),
              `, QoS ${will.qos}, `,
              bytes(will.size),
              will.retain ? ", retained" : "",
              will.delaySeconds ? [", after ", duration(will.delaySeconds)] : "",
            ]
          : none(),
      ],
    ]),
  });
}

/** Messages that wait for the client's answer. */
export function inFlightPanel(client) {
  const rows = client.inFlightMessages.map((each) =>
    h(
      "tr",
      h("td.n", number(each.packetId)),
      h("td.n", number(each.qos)),
      h("td", each.waitsFor),
      h("td.mono.brk", isUnknown(each.name) ? unknown("not kept") : name(each.name), each.isRetained ? " (retained)" : ""),
      h(
        "td.opt",
        isUnknown(each.queueId)
          ? none()
          : [name(each.topic), ", queue ", String(each.queueId), ", offset ", h("span.mono", number(each.offset))],
      ),
      h("td.n", isUnknown(each.ageSeconds) ? none() : duration(each.ageSeconds)),
    ),
  );
  const heads = [["Packet id", "n"], ["QoS", "n"], ["Waits for"], ["Name"], ["Place", "opt"], ["Stored", "n"]];
  const nothing = h(
    "div.pad",
    empty("Nothing is in flight", "Messages of QoS 1 and 2 are here from their sending to the client's last answer."),
  );
  const footer = client.inFlight > MOST_IN_FLIGHT ? `The first ${MOST_IN_FLIGHT} of ${client.inFlight} in the order of sending` : null;
  return panel("In flight to it", {
    span: 8,
    unit: number(client.inFlight),
    flush: rows.length ? tableOf("In flight", heads, rows) : nothing,
    footer,
  });
}

/** What waits between the gateway and the client's socket. */
export function outputPanel({ output }) {
  return panel("Output", {
    span: 4,
    state: output.isCongested ? state("warn", "its socket is full") : output.isReadingPaused ? state("warn", "not read from now") : null,
    body: facts([
      ["Waits in memory", bytes(output.queuedBytes)],
      ["Waits for its record", bytes(output.unrecordedBytes)],
      ["Waits for its socket", bytes(output.socketBytes)],
      ["Reads its socket", output.isCongested ? "too slowly" : "in time"],
      ["Gateway reads from it", output.isReadingPaused ? "not now" : "yes"],
    ]),
  });
}

const EVENTS = {
  connected: ["idle", "Connected to "],
  refused: ["bad", "Refused by "],
  denied: ["warn", "Denied by "],
  disconnected: ["idle", "Disconnected from "],
  lost: ["warn", "Lost by "],
  closed: ["warn", "Closed by "],
  "taken-over": ["warn", "Taken over at "],
};

/** Recent events of a client id at all gateways. */
export function historyPanel({ value, since, answered }) {
  const lines = value.map((each) => {
    const [kind, words] = EVENTS[each.event] ?? ["idle", `${each.event} at `];
    const repeated = each.count > 1 ? [`, ${count(each.count, "time")}, the last one at `, time(each.lastTime)] : "";
    return h(
      "li",
      h("span.mono.xs.q2", { title: fullTime(each.time) }, time(each.time)),
      h("span.b", state(kind, [words, name(each.gateway)])),
      h(
        "span.q2.s.brk",
        name(each.text),
        each.reason ? ` (${each.reason})` : "",
        repeated,
        ", from ",
        h("span.mono", nameOrNone(each.address)),
      ),
    );
  });
  const starts = Object.values(since).filter(Boolean).sort();
  const footer = [
    starts.length ? ["Complete since ", time(starts.at(-1)), " UTC"] : null,
    ...answered.missing.map((each) => [name(each.name), ` ${each.reason}: its events are not here`]),
  ].filter(Boolean);
  const nothing = h(
    "div.pad",
    empty("Nothing is remembered", "Connects, refusals, denials and ends of this client id are here. Gateways forget them at a restart."),
  );
  return panel("History", {
    span: 4,
    unit: "all gateways, UTC",
    flush: lines.length ? h("ol.hist", lines) : nothing,
    footer: footer.length ? footer : null,
  });
}
