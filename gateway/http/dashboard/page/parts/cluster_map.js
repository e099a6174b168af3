// The map of the cluster: who is what now.  Filled: leads.  Square: replica, house: gateway, diamond: controller.

import { h, name, s } from "../dom.js";
import { bytes, count, number, percent } from "../format.js";
import { gatewayRows } from "./gateway_rows.js";
import { masterOf, quorumOf, stateOfReplica } from "./replicas.js";
import { unknown } from "./states.js";

const MOST_NODES = 24; // above it, only groups that need an eye are drawn
const SHAPES = {
  gateway: () => s("path", { d: "M1.5 10V4l4-3 4 3v6z" }),
  replica: () => s("path", { d: "M1 1h9v9H1z" }),
  controller: () => s("path", { d: "M5.5.8 10.2 5.5 5.5 10.2.8 5.5z" }),
  nameServer: () => s("circle", { cx: 5.5, cy: 5.5, r: 4.3 }),
  bridge: () => s("path", { d: "M1 8.5c0-6 9-6 9 0M1 8.5h9" }),
};

/** The map of an overview. */
export function clusterMap({ gateways = [], brokers = [], controllers = [], nameServers = [], bridges = [], answered }) {
  const groups = h("div", h("h3", groupsTitle(brokers)), brokerGroups(brokers));
  return h("div.map", h("div", h("h3", "Gateways"), gatewayNodes(gatewayRows({ gateways, answered }))), wire("M1 8h20M16 3l5 5-5 5"), groups, wire("M1 8h20M16 3l5 5-5 5M6 3 1 8l5 5"), h("div", h("h3", "Beside them"), besideNodes(controllers, nameServers, bridges)));
}

const wire = (d) => s("svg.wire", { viewBox: "0 0 22 16", "aria-hidden": "true" }, s("path", { d }));

function node(shape, title, value, text, { kind = "", isOn = false } = {}) {
  return h("li.node", { class: kind }, s("svg.role", { class: isOn ? "on" : "", viewBox: "0 0 11 11", "aria-hidden": "true" }, SHAPES[shape]()), h("span.b", title), h("span.xs.q", value), h("small", text));
}

function gatewayNodes(gateways) {
  const nodes = gateways.map((each) =>
    each.reason === null
      ? node("gateway", name(each.name), number(each.connections), ["connections · cpu ", percent(each.cpu), each.isThis && " · this one"])
      : node("gateway", name(each.name), unknown(), h("b", each.reason), { kind: "bad" }),
  );
  const hidden = nodes.length - MOST_NODES;
  return [h("ul.nodes", nodes.slice(0, MOST_NODES)), hidden > 0 && h("p.note", `and ${hidden} more`)];
}

function groupsTitle(brokers) {
  if (brokers.length === 0) return "Store";
  return brokers.some((broker) => broker.replicas.length) ? "Broker groups. Filled: master" : "Brokers";
}

function brokerGroups(brokers) {
  if (brokers.length === 0) return h("ul.nodes", node("replica", "Store in this process", "", "one copy, no replicas", { isOn: true }));
  const size = brokers.reduce((sum, broker) => sum + Math.max(1, broker.replicas.length), 0);
  const shown = size > MOST_NODES ? brokers.filter(needsEye) : brokers;
  const quiet = brokers.length - shown.length;
  return [shown.map(brokerGroup), quiet > 0 && h("p.note", `${count(quiet, "group")} with nothing to say`)];
}

const needsEye = (broker) => !broker.isAvailable || broker.isDraining || broker.replicas.some((each) => stateOfReplica(each).kind !== "ok");

function brokerGroup(broker) {
  const inSet = broker.replicas.filter((each) => each.isInSync).length;
  const counting = broker.replicas.filter((each) => !each.isObserver).length;
  const words = [broker.epoch && `epoch ${number(broker.epoch)}`, counting && (inSet === counting ? "all in the set" : `${inSet} of ${counting} in the set`), broker.isDraining && "draining", broker.zone && ["zone ", name(broker.zone)]].filter(Boolean);
  const head = h("p", h("b", name(broker.name)), h("span.q.xs", words.map((word, at) => [at > 0 && " · ", word])));
  if (broker.replicas.length === 0) {
    const isThere = broker.isAvailable;
    return h("div.bgroup", head, h("ul.nodes", node("replica", name(broker.address), "", isThere ? `${number(broker.unsettled)} messages to settle` : h("b", `away: ${broker.problem ?? "no answer"}`), { kind: isThere ? "" : "bad", isOn: isThere })));
  }
  return h("div.bgroup", head, h("ul.nodes.three", broker.replicas.map((each) => replicaNode(each, masterOf(broker)))));
}

function replicaNode(replica, master) {
  const { kind, word } = stateOfReplica(replica);
  const behind = replica !== master && replica.behind ? [", ", bytes(replica.behind), " behind"] : "";
  const text = kind === "ok" ? [word, behind] : [h("b", word), behind];
  return node("replica", `r${replica.replica}`, "", text, { kind: kind === "warn" || kind === "bad" ? kind : "", isOn: replica === master });
}

function besideNodes(controllers, nameServers, bridges) {
  const { size, there, leader } = quorumOf(controllers);
  const up = nameServers.filter((each) => each.isAvailable).length;
  const running = bridges.filter((each) => /connected|running/i.test(each.state)).length;
  const nodes = [
    controllers.length > 0 && node("controller", "Controllers", `${there} of ${size}`, leader ? `controller ${leader.controller} leads` : h("b", "none of them leads"), { kind: leader ? (there < size ? "warn" : "") : "bad", isOn: Boolean(leader) }),
    nameServers.length > 0 && node("nameServer", "Name servers", `${up} of ${nameServers.length}`, nameServers.map((each, at) => [at > 0 && ", ", name(each.address)]), { kind: up === nameServers.length ? "" : up ? "warn" : "bad" }),
    bridges.length > 0 && node("bridge", "Bridges", `${running} of ${bridges.length}`, bridges.slice(0, 3).map((each, at) => [at > 0 && ", ", name(each.name), " ", each.state]), { kind: running === bridges.length ? "" : "warn" }),
  ].filter(Boolean);
  return nodes.length ? h("ul.nodes", nodes) : h("p.note", "No controllers, name servers or bridges.");
}
