// Cluster: who leads in which epoch, who is in the set, what loss it can stand; and what can be done about it.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { bytes, count, duration, isUnknown, number, percent, time } from "../format.js";
import { every } from "../live.js";
import { ask } from "../parts/answers.js";
import { partial, results } from "../parts/banner.js";
import { clusterActions } from "../parts/cluster_actions.js";
import { gatewayRows } from "../parts/gateway_rows.js";
import { head } from "../parts/head.js";
import { columns, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { logProblems, lossesToStand, masterOf, quorumOf, stateOfReplica } from "../parts/replicas.js";
import { none, state, unknown } from "../parts/states.js";
import { session } from "../session.js";

const REFRESH_SECONDS = 5;

export async function show(place, parameters, signal) {
  const top = head("Cluster");
  const told = results();
  const content = h("div.stack.wide-gaps");
  place.append(top.element, told.element, content);
  const load = () => ask(content, (asked) => get("overview", { signal: asked }), draw, { what: "all gateways", fact: "The cluster was not loaded", signal });
  const actions = clusterActions(told.tell, load);
  const draw = (overview) => {
    top.sub(about(overview));
    return sections(overview, actions, load);
  };
  await load();
  every(REFRESH_SECONDS, () => refresh(content, draw, signal), signal);
}

async function refresh(content, draw, signal) {
  if (content.contains(document.activeElement) || document.querySelector("dialog[open]")) return;
  try {
    const found = await get("overview", { signal });
    if (!signal.aborted && !content.contains(document.activeElement)) fill(content, draw(found));
  } catch (error) {
    // the bar tells that nothing answers; what is shown stays
  }
}

function about({ brokers, gateways }) {
  const rules = [...new Set(brokers.map((broker) => broker.rule).filter(Boolean))];
  const versions = [...new Set(gateways.map((each) => each.version).filter(Boolean))];
  return [name(session().cluster), rules.length ? `confirm rule ${rules.join(", ")}` : null, versions.length === 1 ? `all gateways ${versions[0]}` : `gateways of ${count(versions.length, "version")}: ${versions.join(", ")}`];
}

function sections(overview, actions, again) {
  const { brokers, controllers, nameServers, answered } = overview;
  const beside = controllers.length || nameServers.length;
  const gateways = gatewayPanel(overview, beside ? 8 : 12);
  return [
    partial(answered, { means: "Clients may still be connected to it.", again }),
    keyNumbers(numbers(overview)),
    brokers.map((broker) => brokerPanel(broker, actions)),
    columns(gateways, beside ? controllerPanel(controllers, nameServers, actions) : null),
  ];
}

function numbers({ brokers, controllers, answered }) {
  const replicas = brokers.flatMap((broker) => broker.replicas.filter((each) => !each.isObserver));
  const inSet = replicas.filter((each) => each.isInSync).length;
  const losses = brokers.map((broker) => [broker, lossesToStand(broker)]).filter(([, amount]) => amount !== null);
  const least = losses.length ? losses.reduce((one, other) => (one[1] <= other[1] ? one : other)) : null;
  const { size, there, leader } = quorumOf(controllers);
  const away = answered.asked - answered.answered;
  const last = brokers.map((broker) => broker.election).filter((each) => each?.time).sort((one, other) => (one.time < other.time ? 1 : -1))[0];
  return [
    { label: "Gateways", value: answered.answered, unit: `of ${answered.asked}`, kind: away ? "warn" : "", more: away ? [answered.missing.slice(0, 3).map((each, at) => [at > 0 && ", ", name(each.name)]), " not known"] : "all answered" },
    replicas.length ? { label: "Replicas in their set", value: inSet, unit: `of ${replicas.length}`, kind: inSet < replicas.length ? "warn" : "" } : null,
    least && { label: "Losses it can stand", value: least[1], unit: ["on ", name(least[0].name)], kind: least[1] === 0 ? "warn" : "", more: least[1] === 0 ? "one more stops publishing there" : "replicas, before publishing stops" },
    controllers.length ? { label: "Controllers", value: there, unit: `of ${size}`, kind: there < size || !leader ? "warn" : "", more: leader ? `controller ${leader.controller} leads` : "none of them leads" } : null,
    last ? { label: "Last election", value: time(last.time), more: last.reason } : null,
    brokers.length === 0 ? { label: "Store", value: "1", unit: "copy", more: "in the gateway's process, without replicas" } : null,
  ].filter(Boolean);
}

function brokerPanel(broker, actions) {
  const counting = broker.replicas.filter((each) => !each.isObserver);
  const inSet = counting.filter((each) => each.isInSync).length;
  const master = masterOf(broker);
  const facts = [broker.epoch && `epoch ${number(broker.epoch)}`, master && `master r${master.replica}`, `number ${broker.number}`, broker.zone && ["zone ", name(broker.zone)]].filter(Boolean);
  return panel(broker.name, {
    state: brokerState(broker, inSet, counting.length),
    unit: facts.map((fact, at) => [at > 0 && ", ", fact]),
    acts: actions.ofBroker(broker),
    body: election(broker),
    flush: broker.replicas.length ? replicaTable(broker, actions) : null,
    footer: held(broker, counting.filter((each) => each.isInSync)),
  });
}

function brokerState(broker, inSet, counting) {
  if (!broker.isAvailable) return state("bad", ["away: ", broker.problem ?? "no answer"]);
  if (broker.isDraining) return state("idle", "draining");
  if (broker.problem) return state("warn", broker.problem);
  if (counting === 0) return state("ok", "there");
  return state(inSet === counting ? "ok" : "warn", `${inSet} of ${counting} in the SyncStateSet`);
}

function election({ election: found }) {
  if (!found) return null;
  const words = [found.isUnderWay ? "An election is under way: " : `Epoch ${number(found.epoch)}: `, found.reason];
  return h("div.stack.s", h("p", words, found.time && [" (", time(found.time), " UTC)"], "."), found.problem && h("p", state("warn", found.problem)));
}

function held(broker, inSet) {
  if (!broker.isAvailable) return ["What it holds is not known"];
  const words = [h("span", number(broker.unsettled), " messages to settle"), h("span", number(broker.waiting), " that wait for their time or transaction"), h("span", number(broker.unread), " in queues that no group reads")];
  if (broker.keepsKeyValues) words.push(h("span", number(broker.keyValues), " key-values"));
  if (inSet.length) words.push(`SyncStateSet {${inSet.map((each) => `r${each.replica}`).join(", ")}}`);
  return words;
}

function replicaTable(broker, actions) {
  const titles = [["Replica"], ["Role"], ["Address", "opt"], ["On its disk up to", "n"], ["Behind", "n"], ["Behind, time", "n opt"], ["Log", "opt opt2"]];
  const heads = titles.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
  const rows = broker.replicas.map((each) => {
    const { kind, word } = stateOfReplica(each);
    const isMaster = each.role === "master";
    const role = kind === "ok" ? (isMaster ? h("b", word) : word) : state(kind, word);
    const problems = [logProblems(each.log), each.controlProblem].filter(Boolean).join("; ");
    return h(
      "tr",
      h("th", { scope: "row" }, `r${each.replica}`),
      h("td", role),
      h("td.opt.q2.mono.xs", name(each.address)),
      h("td.n.mono.xs", number(each.synced)),
      h("td.n", isMaster ? none() : h("span", { class: kind === "warn" ? "warn-t" : "" }, bytes(each.behind))),
      h("td.n.opt", isMaster ? none() : duration(each.behindSeconds)),
      h("td.opt.opt2", problems ? state("warn", problems) : each.log ? "whole" : unknown("not asked")),
      h("td.n", actions.ofReplica(broker, each)),
    );
  });
  const table = h("table", h("thead", h("tr", heads, h("th", { scope: "col" }, h("span.vh", "Do")))), h("tbody", rows));
  return scrolling(`Replicas of ${broker.name}`, table);
}

function gatewayPanel({ gateways, answered }, span) {
  const all = gatewayRows({ gateways, answered });
  const rows = all.map((each) =>
    h(
      "tr",
      h("th", { scope: "row" }, name(each.name), each.isThis && [" ", h("span.chip", "this one")]),
      h("td", each.reason === null ? state("ok", "answers") : state("bad", each.reason)),
      h("td.n", number(each.connections)),
      h("td.n.opt", openFiles(each.openFiles)),
      h("td.n.opt", percent(each.cpu)),
      h("td.opt", each.version ?? unknown()),
      h("td.n.opt", { title: each.startedAt }, isUnknown(each.startedAt) ? unknown() : time(each.startedAt)),
    ),
  );
  const known = all.map((each) => each.connections).filter((value) => !isUnknown(value));
  const atLeast = answered.answered < answered.asked || known.length < all.length;
  const sum = known.length ? number(known.reduce((one, other) => one + other, 0), { atLeast }) : unknown();
  const foot = h("tr", h("th", { scope: "row" }, "All"), h("td", `${answered.answered} of ${answered.asked}`), h("td.n", sum), h("td.opt"), h("td.opt"), h("td.opt"), h("td.opt"));
  const heads = [["Gateway"], ["State"], ["Connections", "n"], ["Open files", "n opt"], ["CPU", "n opt"], ["Version", "opt"], ["Started, UTC", "n opt"]].map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
  const table = h("table", h("thead", h("tr", heads)), h("tbody", rows), h("tfoot", foot));
  return panel("Gateways", { span, flush: scrolling("Gateways", table) });
}

/** Open files of a process and their limit; new connections are refused a little before it. */
function openFiles(files) {
  if (isUnknown(files)) return unknown();
  const words = [number(files.used), " of ", number(files.limit)];
  return files.used < files.refusedFrom ? words : h("span.warn-t", { title: "New connections are refused" }, words);
}

const CONTROLLER_STATES = { leads: "leader", follows: "follower", waits: "waits for a leader", away: "away", outside: "no member" };

function controllerPanel(controllers, nameServers, actions) {
  const rows = controllers.map((each) => {
    const word = CONTROLLER_STATES[each.state] ?? each.state;
    const role = each.state === "leads" ? h("b", word) : each.state === "follows" ? word : state({ away: "bad", outside: "idle" }[each.state] ?? "warn", each.problem ?? word);
    return h("tr", h("th", { scope: "row" }, each.controller ?? unknown()), h("td", role), h("td.opt.q2.mono.xs", name(each.address)), h("td.n", actions.ofController(each)));
  });
  const table = rows.length ? scrolling("Controllers", h("table", h("thead", h("tr", h("th", { scope: "col" }, "Controller"), h("th", { scope: "col" }, "Role"), h("th.opt", { scope: "col" }, "Address"), h("th", { scope: "col" }, h("span.vh", "Do")))), h("tbody", rows))) : h("p.pad.s.q", "Masters are not elected: no controllers.");
  const servers = nameServers.map((each) => state(each.isAvailable ? "ok" : "bad", [name(each.address), each.isAvailable ? "" : " is away"]));
  return panel("Controllers", { span: 4, acts: rows.length ? actions.addController() : [], flush: table, footer: servers.length ? ["Name servers:", ...servers] : null });
}
