// Bindings as a graph: exchanges left, queues right, an exchange behind the ones that feed it.

import { h, plain, s } from "../dom.js";
import { count } from "../format.js";
import { link, path } from "../links.js";
import { inPath } from "./rabbitmq.js";

/** Most exchanges and queues of a drawing. */
export const MOST_NODES = 200;
const MOST_LAYERS = 5; // of exchanges; exchanges that feed each other in a circle end in the last
const MOST_PORTS = 12; // labelled bindings of one node; above it, they meet in one point
const NODE = { width: 190, height: 30, gap: 12 };
const PORT = 17; // height of one labelled binding
const BETWEEN = 250; // from layer to layer
const RUN = 130; // straight end of a line, below its key
const EDGE = 8;
const MOST_SIGNS = 24;
const MOST_KEY_SIGNS = 20;

/** The exchanges and queues of bindings, by key. */
export function nodesOf(bindings, types = new Map()) {
  const nodes = new Map();
  const node = (kind, name) => {
    const key = `${kind} ${name}`;
    if (!nodes.has(key)) nodes.set(key, { key, kind, name, type: kind === "exchange" ? types.get(name) : null, in: [], out: [], layer: 0 });
    return nodes.get(key);
  };
  for (const binding of bindings) {
    const from = node("exchange", binding.source);
    const to = node(binding.destination_type, binding.destination);
    const edge = { from, to, binding };
    from.out.push(edge);
    to.in.push(edge);
  }
  return nodes;
}

/** Draw bindings of a virtual host.  `types`: kinds of exchanges by name. */
export function bindingGraph(vhost, bindings, types) {
  const layers = layersOf([...nodesOf(bindings, types).values()]);
  const height = placed(layers);
  const width = (layers.length - 1) * (NODE.width + BETWEEN) + NODE.width + 2 * EDGE;
  const edges = new Map();
  const nodes = layers.flat();
  const paths = nodes.flatMap((node) => node.out.map((edge) => drawEdge(edge, edges)));
  const drawing = s("svg.bindings", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "group",
    "aria-label": sentence(nodes, bindings),
  });
  drawing.append(...paths, ...nodes.map((node) => drawNode(node, vhost, edges, drawing)));
  return h("div.tw.pad", { role: "group", tabindex: "0", "aria-label": "Drawing of bindings" }, drawing);
}

function sentence(nodes, bindings) {
  const exchanges = nodes.filter((node) => node.kind === "exchange").length;
  const ends = `${count(exchanges, "exchange")} to ${count(nodes.length - exchanges, "queue")}`;
  return `${count(bindings.length, "binding")} of ${ends}. Each is a link; the table names all keys.`;
}

function layersOf(nodes) {
  const exchanges = nodes.filter((node) => node.kind === "exchange");
  for (let round = 1; round < MOST_LAYERS; round += 1) {
    for (const node of exchanges) {
      for (const { to } of node.out)
        if (to.kind === "exchange" && to !== node) to.layer = Math.max(to.layer, Math.min(node.layer + 1, MOST_LAYERS - 1));
    }
  }
  const used = [...new Set(exchanges.map((node) => node.layer))].sort((one, other) => one - other);
  const layers = used.map((layer) => exchanges.filter((node) => node.layer === layer));
  layers.push(nodes.filter((node) => node.kind === "queue"));
  layers.forEach((layer) => layer.sort(byName));
  layers.forEach((layer, at) => at > 0 && layer.sort((one, other) => centre(one) - centre(other) || byName(one, other)) && numbered(layer));
  return layers.filter((layer) => layer.length);
}

const byName = (one, other) => (one.name < other.name ? -1 : 1);
const numbered = (layer) => layer.forEach((node, at) => (node.at = at));

/** Where the sources of a node stand on average: near them, fewer lines cross. */
function centre(node) {
  const from = node.in.map((edge) => edge.from.at ?? 0);
  return from.length ? from.reduce((one, other) => one + other, 0) / from.length : 0;
}

/** Give each node its place, and each binding its point at the destination; the height of all. */
function placed(layers) {
  let lowest = 0;
  layers.forEach((layer, at) => {
    numbered(layer);
    let y = EDGE;
    for (const node of layer) {
      const hasPorts = node.in.length <= MOST_PORTS;
      node.in.sort((one, other) => (one.from.at ?? 0) - (other.from.at ?? 0));
      const height = hasPorts ? Math.max(NODE.height, node.in.length * PORT + 6) : NODE.height;
      Object.assign(node, { x: EDGE + at * (NODE.width + BETWEEN), y, height, hasPorts });
      node.in.forEach((edge, port) => (edge.y = hasPorts ? y + (height * (port + 0.5)) / node.in.length : y + height / 2));
      y += height + NODE.gap;
    }
    lowest = Math.max(lowest, y);
  });
  return lowest - NODE.gap + EDGE;
}

function drawEdge(edge, edges) {
  const { from, to, binding, y } = edge;
  const x1 = from.x + NODE.width;
  const y1 = from.y + from.height / 2;
  const bend = (BETWEEN - RUN) / 2;
  const key = shortened(keyOf(binding), MOST_KEY_SIGNS);
  const label = to.hasPorts && key && s("text.key", { x: to.x - 12, y: y - 4 }, key);
  const line = s(
    "g.edge",
    s("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${to.x - RUN - bend} ${y} ${to.x - RUN} ${y}H${to.x - 7}` }),
    s("path.tip", { d: `M${to.x - 8} ${y - 4}l8 4-8 4z` }),
    label,
  );
  edges.set(edge, line);
  return line;
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
  const middle = node.y + node.height / 2;
  const type = node.type && s("text.type", { x: node.x + NODE.width - 10, y: middle + 4 }, node.type);
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
    s("rect", { x: node.x, y: node.y, width: NODE.width, height: node.height, rx: isExchange ? 15 : 3 }),
    s(
      "svg",
      { x: node.x + 12, y: node.y, width: NODE.width - 18 - (node.type ? 52 : 0), height: node.height },
      s("text", { x: 0, y: middle - node.y + 4 }, shortened(shown, room)),
    ),
    type,
  );
}
