// Bindings as a graph: exchanges left, queues right, an exchange behind the ones that feed it.

import { h, plain, s } from "../dom.js";
import { count } from "../format.js";
import { link, path } from "../links.js";
import { laidOut, nodesOf, WIDTH } from "./binding_layout.js";
import { inPath } from "./rabbitmq.js";

/** Most exchanges and queues of a drawing. */
export const MOST_NODES = 200;
const BEND = 60; // of a line
const RUN = 130; // straight end of a line, below its key
const MOST_SIGNS = 22;
const MOST_KEY_SIGNS = 18;

/** Draw bindings of a virtual host.  `types`: kinds of exchanges by name. */
export function bindingGraph(vhost, bindings, types) {
  const { nodes, edges, width, height } = laidOut([...nodesOf(bindings, types).values()]);
  const lines = new Map(edges.map((edge) => [edge, drawEdge(edge)]));
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const drawing = s("svg.bindings", { ...size, role: "group", "aria-label": sentence(nodes, bindings) });
  drawing.append(...lines.values(), ...nodes.map((node) => drawNode(node, vhost, lines, drawing)));
  return h("div.tw.pad", { role: "group", tabindex: "0", "aria-label": "Drawing of bindings" }, drawing);
}

function sentence(nodes, bindings) {
  const exchanges = nodes.filter((node) => node.kind === "exchange").length;
  const ends = `${count(exchanges, "exchange")} to ${count(nodes.length - exchanges, "queue")}`;
  return `${count(bindings.length, "binding")} of ${ends}. Each is a link; the table names all keys.`;
}

function drawEdge({ from, to, via, binding, y }) {
  const key = shortened(keyOf(binding), MOST_KEY_SIGNS);
  return s(
    "g.edge",
    s("path", { d: wayOf(from, via, to, y) }),
    s("path.tip", { d: `M${to.x - 8} ${y - 4}l8 4-8 4z` }),
    to.hasPorts && key && s("text.key", { x: to.x - 12, y: y - 4 }, key),
  );
}

/** From the right of a node through passages to the left of another. */
function wayOf(from, via, to, y) {
  let [x, height] = [from.x + WIDTH, from.middle];
  let way = `M${x} ${height}`;
  const curve = (toX, toY) => {
    way += `C${x + BEND} ${height} ${toX - BEND} ${toY} ${toX} ${toY}`;
    [x, height] = [toX, toY];
  };
  for (const passage of via) {
    curve(passage.x, passage.middle);
    x += WIDTH;
    way += `H${x}`;
  }
  curve(to.x - RUN, y);
  return `${way}H${to.x - 7}`;
}

/** What a binding asks of a message: its key, or its arguments. */
export function keyOf({ routing_key: key, arguments: values }) {
  const asked = Object.entries(values ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [key, ...asked].filter(Boolean).join(" ");
}

const shortened = (text, most) => {
  const signs = [...plain(text)];
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : signs.join("");
};

function drawNode(node, vhost, edges, drawing) {
  const isExchange = node.kind === "exchange";
  const shown = node.name === "" ? "(default exchange)" : node.name;
  const href = isExchange ? link(path("exchanges", vhost, inPath(node.name))) : link(path("queues", vhost, node.name));
  const words = [`${node.kind} ${shown}`, node.type, node.in.length && `${node.in.length} in`, node.out.length && `${node.out.length} out`]
    .filter(Boolean)
    .join(", ");
  const around = [...node.in, ...node.out].map((edge) => edges.get(edge));
  const light = (isLit) => {
    drawing.classList.toggle("has-lit", isLit);
    for (const line of around) line.classList.toggle("lit", isLit);
  };
  const { middle } = node;
  const type = node.type && s("text.type", { x: node.x + WIDTH - 10, y: middle + 4 }, node.type);
  const room = MOST_SIGNS - (node.type ? node.type.length + 1 : 0);
  return s(
    "a",
    {
      href,
      class: node.kind,
      "aria-label": words,
      onfocus: () => light(true),
      onblur: () => light(false),
      onpointerenter: () => light(true),
      onpointerleave: () => light(false),
    },
    s("title", words),
    s("rect", { x: node.x, y: node.y, width: WIDTH, height: node.height, rx: isExchange ? 15 : 3 }),
    s(
      "svg",
      { x: node.x + 12, y: node.y, width: WIDTH - 18 - (node.type ? 52 : 0), height: node.height },
      s("text", { x: 0, y: middle - node.y + 4 }, shortened(shown, room)),
    ),
    type,
  );
}
