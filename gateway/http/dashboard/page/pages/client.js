// One MQTT client: why it does not send or get, what it subscribes to, what is on its way, its past and its packets.

import { get, segment } from "../api.js";
import { fill, h, name } from "../dom.js";
import { duration, fullTime, isUnknown, number, time } from "../format.js";
import { link } from "../links.js";
import { every } from "../live.js";
import { ask } from "../parts/answers.js";
import { banner, partial, results } from "../parts/banner.js";
import { disconnectMqtt, endSessions } from "../parts/client_actions.js";
import { connectedClient, lackingRight, REFRESH_SECONDS, sessionHead, TO_DISCONNECT, unlessGone } from "../parts/client_lists.js";
import {
  clientNumbers,
  expiryWords,
  factPanel,
  historyPanel,
  inFlightPanel,
  outputPanel,
  sessionPanel,
  subscriptionPanel,
} from "../parts/client_panels.js";
import { head } from "../parts/head.js";
import { packetTrace } from "../parts/packet_trace.js";
import { columns, facts, panel } from "../parts/panel.js";
import { state, unknown } from "../parts/states.js";
import { may } from "../session.js";

const ASKED = { what: "all gateways" };

export async function show(place, { id }, signal) {
  const page = new ClientPage(id, signal);
  place.append(page.top.element, page.told.element, page.content, columns(page.trace.element, page.past));
  await Promise.all([page.load(), page.loadPast()]);
  every(REFRESH_SECONDS, () => page.refresh(), signal);
}

class ClientPage {
  constructor(id, signal) {
    Object.assign(this, { id, signal, last: null, buttons: "" });
    this.top = head(id, { shown: name(id), crumbs: [["MQTT clients", link("clients")]] });
    this.told = results();
    this.content = h("div.stack.wide-gaps");
    this.past = h("div.c4");
    this.trace = packetTrace(id, this.told.tell, signal);
  }

  load = () =>
    ask(
      this.content,
      (asked) => this.find(asked),
      (found) => this.draw(found),
      { ...ASKED, fact: "The client was not loaded", signal: this.signal },
    );

  loadPast = () =>
    ask(
      this.past,
      (asked) => this.findPast(asked),
      (found) => historyPanel(found),
      { ...ASKED, fact: "Its history was not loaded", signal: this.signal },
    );

  findPast(signal) {
    return get(`clients/${segment(this.id)}/events`, { query: { limit: 50 }, signal });
  }

  /** {client} of a connected one; else {session, answered}, of which both may be missing. */
  async find(signal) {
    const { row, answered } = await connectedClient(this.id, signal);
    const client = row ? await unlessGone(get(`clients/${segment(this.id)}`, { signal })) : null;
    if (client) return { client };
    const known = await sessionHead(this.id, signal);
    return { session: known ? await unlessGone(get(`sessions/${segment(this.id)}`, { signal })) : null, answered };
  }

  async refresh() {
    if (document.querySelector("dialog[open]")) return;
    try {
      const [found, past] = await Promise.all([this.find(this.signal), this.findPast(this.signal)]);
      if (this.signal.aborted) return;
      if (!isHeld(this.content)) fill(this.content, this.draw(found));
      if (!isHeld(this.past)) fill(this.past, historyPanel(past));
    } catch (error) {
      // the bar tells that nothing answers; what is shown stays
    }
  }

  draw({ client, session, answered }) {
    this.setActions(client, session);
    if (client) return this.drawConnected(client);
    this.last = null;
    return this.drawAway(session, answered);
  }

  drawConnected(client) {
    this.top.sub(connectedWords(client));
    const lacking = partial(client.answered, { means: "It may have another connection there.", again: this.load });
    return [
      lacking,
      clientNumbers(client, this.rates(client)),
      factPanel(client.facts),
      columns(subscriptionPanel(client.subscribedTo, client.subscriptions, this.id), sessionPanel(client)),
      columns(inFlightPanel(client), outputPanel(client)),
    ];
  }

  drawAway(session, answered) {
    const isKnown = answered.missing.length === 0;
    const lacking = partial(answered, { means: "It may be connected there.", again: this.load });
    const words = isKnown ? state("idle", "not connected") : state("unknown", "not known if it is connected");
    this.top.sub([
      words,
      session && (session.user === null ? "anonymous" : h("span", "user ", name(session.user))),
      lackingRight("Disconnecting"),
    ]);
    if (session)
      return [
        lacking,
        ownerBanner(session, isKnown),
        awaySession(session),
        subscriptionPanel(session.subscriptions, session.subscriptionCount, this.id, null),
      ];
    const nothing = isKnown
      ? "No gateway has this client, and it has no session."
      : "No gateway that answered has this client, and it has no session in the store.";
    return [
      lacking,
      banner("info", nothing, "Ids are compared whole, with upper and lower case. Its past is below, as far as gateways remember it."),
    ];
  }

  rates(client) {
    const now = {
      at: performance.now() / 1000,
      since: client.connectedSince,
      gateway: client.gateway,
      in: client.messagesIn,
      out: client.messagesOut,
    };
    const before = this.last;
    this.last = now;
    if (!before || before.since !== now.since || before.gateway !== now.gateway || now.at - before.at < 1) return null;
    return { in: (now.in - before.in) / (now.at - before.at), out: (now.out - before.out) / (now.at - before.at) };
  }

  /** Buttons are made anew only where they change: they keep the focus. */
  setActions(client, session) {
    const kinds = may(TO_DISCONNECT)
      ? [(client || session) && "end", (client || session?.connected) && "disconnect"].filter(Boolean).join(" ")
      : "";
    if (kinds === this.buttons) return;
    this.buttons = kinds;
    const button = (label, act) => h("button.danger", { type: "button", onclick: act }, label);
    this.top.acts([
      kinds.includes("end") && button("End session", () => this.end()),
      kinds.includes("disconnect") && button("Disconnect", () => this.disconnect()),
    ]);
  }

  async disconnect() {
    if (await disconnectMqtt([this.id], this.told.tell)) await this.lookAgain();
  }

  async end() {
    const amount = await this.find(this.signal).then(
      ({ client, session }) => client?.subscriptions ?? session?.subscriptionCount ?? null,
      () => null,
    );
    if (
      await endSessions(
        [this.id],
        ["Its ", number(amount), amount === 1 ? " subscription is" : " subscriptions are", " gone, and its client is disconnected."],
        this.told.tell,
      )
    )
      await this.lookAgain();
  }

  async lookAgain() {
    await Promise.all([this.load(), this.loadPast(), this.trace.isRunning() && this.trace.look()]);
  }
}

const isHeld = (element) => element.contains(document.activeElement);

function connectedWords(client) {
  const since = isUnknown(client.connectedSince)
    ? unknown()
    : h("span", { title: fullTime(client.connectedSince) }, duration(Math.max(0, (Date.now() - Date.parse(client.connectedSince)) / 1000)));
  const how = [
    `MQTT ${client.version} `,
    client.tls === null ? "" : client.tls ? "over TLS " : "without TLS ",
    "from ",
    h("span.mono", name(client.address)),
  ];
  return [
    state("ok", ["connected to ", name(client.gateway), " for ", since]),
    how,
    client.user === null ? "anonymous" : ["user ", name(client.user)],
    client.keepAlive
      ? [`keep alive ${client.keepAlive} s, last packet `, duration(client.lastPacketSeconds), " ago"]
      : ["no keep alive, last packet ", duration(client.lastPacketSeconds), " ago"],
    lackingRight("Disconnecting"),
  ];
}

/** The store names a gateway by an id that nobody knows: it is not shown. */
function ownerBanner(session, isKnown) {
  if (!session.connected) return null;
  const means = isKnown
    ? "Its gateway has gone, or the client has just left: the session is away in a moment."
    : "A gateway that gave no answer may have the connection.";
  return banner("warn", "Its session counts as connected.", means);
}

function awaySession(session) {
  const isAway = !session.connected;
  return panel("Session", {
    unit: "as the store has it",
    body: facts([
      ["Away since", isAway ? [time(session.disconnectedSince), " UTC"] : null],
      ["Ends", isAway ? (isUnknown(session.expiresAt) ? "never" : [time(session.expiresAt), " UTC"]) : expiryWords(session.sessionExpiry)],
      ["Was at", session.address ? h("span.mono", name(session.address)) : null],
      ["Protocol", `MQTT ${session.version}`],
      ["In flight to it", [number(session.inFlight), " messages without its last answer"]],
      ["Half received from it", [number(session.halfReceived), " messages of QoS 2"]],
      [
        "Will",
        session.will ? [h("span.mono", name(session.will)), session.willAt ? [", sent at ", time(session.willAt), " UTC"] : ""] : null,
      ],
    ]),
  });
}
