// One AMQP connection with its channels and consumers.

import { get, segment } from "../api.js";
import { fill, h, name } from "../dom.js";
import { bytes, count, duration, fullTime, number } from "../format.js";
import { link } from "../links.js";
import { every } from "../live.js";
import { ask, empty } from "../parts/answers.js";
import { banner, partial, results } from "../parts/banner.js";
import { closeAmqp } from "../parts/client_actions.js";
import { lackingRight, nameOrNone, REFRESH_SECONDS, TO_DISCONNECT, unlessGone } from "../parts/client_lists.js";
import { head } from "../parts/head.js";
import { columns, facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { none, state } from "../parts/states.js";
import { may } from "../session.js";

export async function show(place, { name: wanted }, signal) {
  const top = head(wanted, { shown: name(wanted), crumbs: [["AMQP connections", link("amqp-connections")]] });
  const told = results();
  const content = h("div.stack.wide-gaps");
  place.append(top.element, told.element, content);
  let channels = null;
  const close = h(
    "button.danger",
    {
      type: "button",
      onclick: async () =>
        (await closeAmqp([wanted], [number(channels), channels === 1 ? " channel ends." : " channels end."], told.tell)) && load(),
    },
    "Close",
  );
  const draw = (found) => {
    channels = found.whole?.channels.length ?? null;
    top.acts(found.whole && may(TO_DISCONNECT) ? close : []);
    top.sub(found.whole ? about(found.whole) : []);
    return found.whole ? sections(found.whole, load) : gone(found.answered, load);
  };
  const load = () =>
    ask(content, (asked) => find(wanted, asked), draw, { what: "all gateways", fact: "The connection was not loaded", signal });
  await load();
  every(REFRESH_SECONDS, () => refresh(wanted, content, draw, signal), signal);
}

/** The list is asked first: to ask for a connection that has ended is an error. */
async function find(wanted, signal) {
  const { value, answered } = await get("amqp/connections", { query: { contains: wanted, limit: 2 }, signal });
  const isThere = value.some((each) => each.name === wanted);
  return { answered, whole: isThere ? await unlessGone(get(`amqp/connections/${segment(wanted)}`, { signal })) : null };
}

async function refresh(wanted, content, draw, signal) {
  if (content.contains(document.activeElement) || document.querySelector("dialog[open]")) return;
  try {
    const found = await find(wanted, signal);
    if (!signal.aborted && !content.contains(document.activeElement)) fill(content, draw(found));
  } catch (error) {
    // the bar tells that nothing answers; what is shown stays
  }
}

function gone(answered, again) {
  const isKnown = answered.missing.length === 0;
  const means = isKnown
    ? "It has ended, or never was. A client that comes back has a connection of another name."
    : "A gateway that gave no answer may have it.";
  return [
    partial(answered, { means: "It may be open there.", again }),
    banner("info", isKnown ? "No gateway has this connection." : "No gateway that answered has this connection.", means),
  ];
}

function about({ connection, gateway }) {
  const since = (Date.now() - connection.connected_at) / 1000;
  return [
    state("ok", [
      "open at ",
      name(gateway),
      " for ",
      h("span", { title: fullTime(connection.connected_at) }, duration(Math.max(0, since))),
    ]),
    connection.protocol,
    connection.ssl ? "over TLS" : "without TLS",
    ["user ", nameOrNone(connection.user || null)],
    ["virtual host ", name(connection.vhost)],
    lackingRight("Closing"),
  ];
}

function sections({ connection, channels, answered }, again) {
  const consumers = channels.flatMap((each) => each.consumer_details);
  const unacknowledged = channels.reduce((sum, each) => sum + each.messages_unacknowledged, 0);
  return [
    partial(answered, { means: "This connection is not there: it is whole here.", again }),
    keyNumbers([
      {
        label: "Channels",
        value: number(channels.length),
        unit: ["of ", connection.channel_max ? number(connection.channel_max) : "no limit"],
      },
      { label: "Consumers", value: number(consumers.length) },
      { label: "Unacknowledged", value: number(unacknowledged), unit: "messages", more: "they go back to their queues at the end" },
      { label: "Heartbeat", value: connection.timeout ? number(connection.timeout) : "off", unit: connection.timeout ? "s" : null },
    ]),
    columns(channelPanel(channels), connectionPanel(connection)),
    consumerPanel(channels),
  ];
}

const tableOf = (label, heads, rows) =>
  scrolling(
    label,
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          heads.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title)),
        ),
      ),
      h("tbody", rows),
    ),
  );

function channelPanel(channels) {
  const rows = channels.map((each) =>
    h(
      "tr",
      h("th.n", { scope: "row" }, number(each.number)),
      h("td", modeOf(each)),
      h("td.n", number(each.consumer_count)),
      h("td.n", number(each.messages_unacknowledged)),
      h("td.n.opt", prefetch(each.prefetch_count)),
      h("td.n.opt", prefetch(each.global_prefetch_count)),
      h("td.n.opt", each.transactional ? [number(each.messages_uncommitted), " and ", count(each.acks_uncommitted, "ack")] : none()),
    ),
  );
  const heads = [
    ["Channel", "n"],
    ["Mode"],
    ["Consumers", "n"],
    ["Unacknowledged", "n"],
    ["Prefetch", "n opt"],
    ["Prefetch of all", "n opt"],
    ["Uncommitted", "n opt"],
  ];
  const nothing = h("div.pad", empty("No channel is open", "A client publishes and consumes by channels."));
  return panel("Channels", { span: 8, unit: number(channels.length), flush: rows.length ? tableOf("Channels", heads, rows) : nothing });
}

const modeOf = (channel) => (channel.transactional ? "transactions" : channel.confirm ? "publisher confirms" : "no confirms");
const prefetch = (value) => (value ? number(value) : "no limit");

function connectionPanel(connection) {
  const said = connection.client_properties ?? {};
  const text = (value) => (typeof value === "string" && value ? name(value) : null);
  return panel("Client", {
    span: 4,
    unit: "as it describes itself",
    body: facts([
      ["Calls itself", text(connection.user_provided_name)],
      ["Product", text(said.product)],
      ["Version", text(said.version)],
      ["Platform", text(said.platform)],
      ["From", h("span.mono", name(connection.peer_host), `:${connection.peer_port}`)],
      ["To", h("span.mono", name(connection.host), `:${connection.port}`)],
      ["Largest frame", connection.frame_max ? bytes(connection.frame_max) : "no limit"],
    ]),
  });
}

function consumerPanel(channels) {
  const rows = channels.flatMap((channel) =>
    channel.consumer_details.map((each) =>
      h(
        "tr",
        h("th.brk", { scope: "row" }, name(each.consumer_tag)),
        h("td.brk", name(each.queue.name)),
        h("td.n", number(channel.number)),
        h("td.opt", each.ack_required ? "yes" : "no"),
        h("td.opt", each.exclusive ? "yes" : "no"),
        h("td.n", prefetch(each.prefetch_count)),
      ),
    ),
  );
  const heads = [["Consumer tag"], ["Queue"], ["Channel", "n"], ["Acknowledges", "opt"], ["Exclusive", "opt"], ["Prefetch", "n"]];
  const nothing = h("div.pad", empty("No consumer", "This connection gets no messages but by basic.get."));
  return panel("Consumers", { unit: number(rows.length), flush: rows.length ? tableOf("Consumers", heads, rows) : nothing });
}
