// Where exchanges and queues stand in a drawing of bindings: in layers from left to right, with passages for lines that
// cross a layer.

const MOST_LAYERS = 5; // of exchanges; exchanges that feed each other in a circle end in the last
const MOST_PORTS = 12; // bindings of one node with a point and a key of their own; above it, they meet in one point
const HEIGHT = 30;
const GAP = 12;
const PORT = 17; // height of one binding at its destination
const PASSAGE = 6;
const EDGE = 8;
export const WIDTH = 190; // of a node
const BETWEEN = 250; // from layer to layer

/** The exchanges and queues of bindings, by key.  `types`: kinds of exchanges by name. */
export function nodesOf(bindings, types = new Map()) {
  const nodes = new Map();
  const node = (kind, name) => {
    const key = `${kind} ${name}`;
    if (!nodes.has(key))
      nodes.set(key, { key, kind, name, type: kind === "exchange" ? types.get(name) : null, in: [], out: [], column: 0 });
    return nodes.get(key);
  };
  for (const binding of bindings) {
    const edge = { from: node("exchange", binding.source), to: node(binding.destination_type, binding.destination), binding, via: [] };
    edge.from.out.push(edge);
    edge.to.in.push(edge);
  }
  return nodes;
}

/** Place nodes: each gets x, y, height; each edge the y of its end, and the passages on its way as `via`.
 * Returns {nodes, edges, width, height}, nodes in reading order. */
export function laidOut(nodes) {
  const columns = inColumns(nodes);
  const edges = nodes.flatMap((node) => node.out);
  for (const edge of edges) addPassages(edge, columns);
  columns.forEach(ordered);
  const height = Math.max(...columns.map(placed));
  const width = 2 * EDGE + columns.length * WIDTH + (columns.length - 1) * BETWEEN;
  return { nodes: columns.flat().filter((each) => !each.isPassage), edges, width, height };
}

function inColumns(nodes) {
  const exchanges = nodes.filter((node) => node.kind === "exchange");
  const queues = nodes.filter((node) => node.kind === "queue");
  for (let round = 1; round < MOST_LAYERS; round += 1) {
    for (const { from, to } of exchanges.flatMap((node) => node.out)) {
      const isBehind = to.kind === "exchange" && to !== from;
      if (isBehind) to.column = Math.max(to.column, Math.min(from.column + 1, MOST_LAYERS - 1));
    }
  }
  const used = [...new Set(exchanges.map((node) => node.column))].sort((one, other) => one - other);
  for (const node of exchanges) node.column = used.indexOf(node.column);
  for (const node of queues) node.column = used.length;
  const columns = used.map((_, at) => exchanges.filter((node) => node.column === at));
  return queues.length ? [...columns, queues] : columns;
}

/** All lines of one node take one passage through a layer. */
function addPassages(edge, columns) {
  const { from, to } = edge;
  for (let column = from.column + 1; column < to.column; column += 1) {
    let passage = columns[column].find((each) => each.isPassage && each.from === from);
    if (!passage) {
      passage = { isPassage: true, from, before: edge.via.at(-1) ?? from, name: from.name, column };
      columns[column].push(passage);
    }
    edge.via.push(passage);
  }
}

/** By the places of what leads there, then by name: near them, fewer lines cross. */
function ordered(column) {
  for (const each of column) each.centre = centre(each);
  column.sort((one, other) => one.centre - other.centre || (one.name < other.name ? -1 : 1));
  column.forEach((each, at) => (each.at = at));
}

function centre(each) {
  const before = each.isPassage ? [each.before] : each.in.map((edge) => edge.via.at(-1) ?? edge.from);
  const places = before.filter((one) => one.column < each.column).map((one) => one.at);
  return places.length ? places.reduce((one, other) => one + other, 0) / places.length : 0;
}

/** Give a column its places; its lowest point. */
function placed(column) {
  let y = EDGE;
  for (const each of column) {
    const ends = each.in ?? [];
    const hasPorts = ends.length <= MOST_PORTS;
    const height = each.isPassage ? PASSAGE : Math.max(HEIGHT, hasPorts ? ends.length * PORT + 6 : 0);
    Object.assign(each, { x: EDGE + each.column * (WIDTH + BETWEEN), y, height, middle: y + height / 2, hasPorts });
    ends.sort((one, other) => (one.via.at(-1) ?? one.from).at - (other.via.at(-1) ?? other.from).at);
    ends.forEach((edge, port) => (edge.y = hasPorts ? each.y + (height * (port + 0.5)) / ends.length : each.middle));
    y += height + GAP;
  }
  return y - GAP + EDGE;
}
