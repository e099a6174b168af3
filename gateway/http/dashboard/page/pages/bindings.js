// Bindings of a virtual host: as a drawing, and as a list.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { count, number } from "../format.js";
import { keepInAddress, link } from "../links.js";
import { ask, empty } from "../parts/answers.js";
import { banner, results } from "../parts/banner.js";
import { bindingGraph, MOST_NODES } from "../parts/binding_graph.js";
import { nodesOf } from "../parts/binding_layout.js";
import { bindingList, BINDING_COLUMNS } from "../parts/binding_list.js";
import { head } from "../parts/head.js";
import { panel } from "../parts/panel.js";
import { api, queueTabs, vhostNames } from "../parts/rabbitmq.js";
import { choice } from "../parts/tabs.js";

const PAGE = 500; // the most of RabbitMQ's API
const MOST_PAGES = 8; // 4,000 bindings: more are not drawn

export async function show(place, { query }, signal) {
  const names = await vhostNames(signal);
  const vhost = query.get("vhost") || (names?.includes("/") === false ? names[0] : "/");
  const view = query.get("view") === "table" ? "table" : "graph";
  const told = results();
  const body = h("div.stack");
  const shown = { graph: () => showGraph(body, vhost, signal), table: () => showTable(body, vhost, told, signal) };
  const turn = (wanted) => {
    keepInAddress({ view: wanted === "graph" ? null : wanted, after: null, sort: null });
    return shown[wanted]();
  };
  const views = choice(
    "View",
    [
      { label: "Drawing", value: "graph" },
      { label: "Table", value: "table" },
    ],
    view,
    turn,
  );
  const top = head("Queues and exchanges", { sub: ["AMQP 0-9-1"] });
  place.append(
    top.element,
    queueTabs("bindings", query.get("vhost") ?? ""),
    told.element,
    h("div.row.low", vhostChoice(names, vhost), views.element),
    body,
  );
  await shown[view]();
}

function vhostChoice(names, vhost) {
  const go = (value) => (location.hash = link("bindings", { vhost: value }));
  const field =
    names === null
      ? h("input", { id: "vhost", value: vhost, onchange: (event) => go(event.target.value) })
      : h(
          "select",
          { id: "vhost", onchange: (event) => go(event.target.value) },
          [...new Set([vhost, ...names])].map((each) => h("option", { value: each, selected: each === vhost }, each)),
        );
  return h("p.field", h("label", { for: "vhost" }, "Virtual host"), field);
}

// -- the drawing -----------------------------------------------------------------------------------------------------

async function showGraph(body, vhost, signal) {
  await ask(
    body,
    (asked) => collected(vhost, asked),
    (found) => drawn(vhost, found),
    { what: "all bindings", fact: "The bindings were not loaded", signal },
  );
}

/** The bindings of exchanges with a name, as long as they can be drawn: {bindings, types, total, queues, isWhole}. */
async function collected(vhost, signal) {
  const bindings = [];
  const size = { columns: "name", page: 1, page_size: 1 };
  const [queues, exchanges] = await Promise.all([
    get(api("queues", vhost), { query: size, signal }),
    get(api("exchanges", vhost), { query: { page: 1, page_size: PAGE, columns: "name,type" }, signal }),
  ]);
  const types = new Map(exchanges.items.map((each) => [each.name, each.type]));
  for (let page = 1; ; page += 1) {
    const query = { page, page_size: PAGE, sort: "source", sort_reverse: "true", columns: BINDING_COLUMNS.join(",") };
    const found = await get(api("bindings", vhost), { query, signal });
    const named = found.items.filter((each) => each.source !== "");
    bindings.push(...named);
    const isWhole = named.length < found.items.length || page >= found.page_count;
    const total = Math.max(found.total_count - queues.total_count, 0);
    if (isWhole || page >= MOST_PAGES || nodesOf(bindings).size > MOST_NODES)
      return { bindings, types, total, queues: queues.total_count, isWhole };
  }
}

function drawn(vhost, { bindings, types, total, queues, isWhole }) {
  const alike = `All ${count(queues, "queue")} are bound to the default exchange by their names, too.`;
  const facts = `${count(total, "binding")} of exchanges with a name. ${alike}`;
  const seen = nodesOf(bindings).size;
  if (!isWhole || seen > MOST_NODES) {
    const many = seen > MOST_NODES ? `More than ${MOST_NODES} exchanges and queues have bindings` : `There are ${number(total)} bindings`;
    return banner("info", `${many}: too many to draw.`, facts, {
      label: `List ${number(total)} bindings`,
      href: link("bindings", { vhost, view: "table" }),
    });
  }
  if (bindings.length === 0)
    return empty("No exchange with a name has a binding", `Messages reach queues by their names only. ${facts}`, {
      label: "Show the exchanges",
      href: link("exchanges", { vhost }),
    });
  return panel("Bindings", {
    unit: facts,
    flush: bindingGraph(vhost, bindings, types),
    footer: ["Round: exchanges. With corners: queues.", "The table has whole names, keys and arguments."],
  });
}

// -- the list --------------------------------------------------------------------------------------------------------

function showTable(body, vhost, told, signal) {
  const list = bindingList({
    address: api("bindings", vhost),
    label: "Bindings",
    end: "both",
    sort: "-source",
    inAddress: true,
    told,
    signal,
  });
  fill(body, panel("Bindings", { flush: list.element }));
}
