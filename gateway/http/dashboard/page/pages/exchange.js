// One exchange of AMQP: where its messages go, and where they come from.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { link } from "../links.js";
import { bind, deleteExchange } from "../parts/amqp_dialogs.js";
import { ask } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { bindingList } from "../parts/binding_list.js";
import { head } from "../parts/head.js";
import { facts, panel } from "../parts/panel.js";
import { api, exchangeName, inPath, valueText } from "../parts/rabbitmq.js";
import { chip, none } from "../parts/states.js";

export async function show(place, { vhost, name: given }, signal) {
  const exchange = given === inPath("") ? "" : given;
  const top = head(exchange || "Default exchange", {
    shown: exchange ? name(exchange) : null,
    crumbs: [["Exchanges", link("exchanges", { vhost })]],
  });
  const told = results();
  const body = h("div.stack.wide-gaps");
  place.append(top.element, told.element, body);
  const draw = (found) => {
    top.sub(
      [
        ["virtual host ", name(found.vhost)],
        found.type,
        found.durable ? "durable" : chip("transient"),
        found.auto_delete && "deleted after its last binding",
        found.internal && chip("internal"),
      ].filter(Boolean),
    );
    top.acts(canDelete(found) ? deletion(found) : []);
    return [outward(vhost, exchange, told, signal), inward(vhost, exchange, told, signal), about(found)];
  };
  await ask(body, (asked) => get(api("exchanges", vhost, given), { signal: asked }), draw, {
    what: "the gateway",
    fact: "The exchange was not loaded",
    signal,
  });
}

/** Those of the protocol stay. */
const canDelete = (found) => found.name !== "" && !found.name.startsWith("amq.");

function deletion(found) {
  const remove = async () => {
    const query = { page: 1, page_size: 1, columns: "source" };
    const ends = await Promise.all(
      ["source", "destination"].map((end) => get(api("exchanges", found.vhost, found.name, "bindings", end), { query })),
    ).catch(() => null);
    const bindings = ends ? ends[0].total_count + ends[1].total_count : null;
    if (await deleteExchange(found, bindings)) location.hash = link("exchanges", { vhost: found.vhost });
  };
  return h("button.danger", { type: "button", onclick: remove }, "Delete");
}

function outward(vhost, exchange, told, signal) {
  const create = async () => {
    if (!(await bind({ vhost, source: exchange }))) return;
    told.tell("info", [exchangeName(exchange), " was bound."], "The audit has an entry.");
    await list.reload();
  };
  const list = bindingList({
    address: api("exchanges", vhost, inPath(exchange), "bindings", "source"),
    label: "Bindings from it",
    end: "destination",
    told,
    signal,
  });
  const acts = exchange ? h("button.small", { type: "button", onclick: create }, "Bind") : [];
  return panel("Gives messages to", { acts, flush: list.element });
}

function inward(vhost, exchange, told, signal) {
  if (exchange === "") return null;
  const list = bindingList({
    address: api("exchanges", vhost, exchange, "bindings", "destination"),
    label: "Bindings to it",
    end: "source",
    told,
    signal,
  });
  return panel("Gets messages of exchanges", { flush: list.element });
}

function about(found) {
  const given = Object.entries(found.arguments ?? {}).map(([key, value]) => [name(key), valueText(value)]);
  return panel("Policy and arguments", {
    body: facts([
      ["Policy", found.policy ? h("a", { href: link("queue-policies", { vhost: found.vhost }) }, name(found.policy)) : none()],
      ...given,
    ]),
  });
}
