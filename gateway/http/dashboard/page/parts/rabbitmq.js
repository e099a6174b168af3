// RabbitMQ's API as the pages of queues use it: paths, pages of lists, virtual hosts, and the same by rabbitmqadmin.

import { ApiError, address, get, segment } from "../api.js";
import { h, name } from "../dom.js";
import { link } from "../links.js";
import { quoted } from "./copying.js";
import { tabs } from "./tabs.js";

const MOST_VHOSTS = 500; // in a choice; above it, the name is typed

/** A path of RabbitMQ's API: `api("queues", vhost, queue)`. */
export const api = (...segments) => `/api/${segments.map(segment).join("/")}`;

/** An exchange as paths name it: that without a name has one there. */
export const inPath = (exchange) => exchange || "amq.default";

/** An exchange's name, also of that without one. */
export const exchangeName = (exchange) => (exchange ? name(exchange) : h("span.q2", "(default exchange)"));

/** The tabs of these pages, for one virtual host or all. */
export function queueTabs(current, vhost = "") {
  const items = [
    ["queues", "Queues"],
    ["exchanges", "Exchanges"],
    ["bindings", "Bindings"],
    ["queue-policies", "Policies"],
  ];
  return tabs(
    "Queues and exchanges",
    items.map(([route, label]) => ({ label, href: link(route, { vhost }), isCurrent: route === current })),
  );
}

/** One page of a list of one virtual host or of all, as `table` wants it. */
export function pageOf(kind, asked, columns) {
  return pageOfPath(asked.filter.vhost ? api(kind, asked.filter.vhost) : api(kind), asked, columns);
}

/** The same of any path: the cursor is the number of the next page. */
export async function pageOfPath(path, { after, limit, sort, filter, signal }, columns) {
  const page = Number(after ?? 1);
  const query = { page, page_size: limit, columns: columns.join(","), name: filter.q, ...sorting(sort) };
  try {
    const found = await get(path, { query, signal });
    return { value: found.items, next: found.page < found.page_count ? String(found.page + 1) : null };
  } catch (error) {
    const isPast = error instanceof ApiError && error.status === 400 && page > 1; // its last row was deleted meanwhile
    if (!isPast) throw error;
    return pageOfPath(path, { after: null, limit, sort, filter, signal }, columns);
  }
}

function sorting(sort) {
  if (!sort) return {};
  const isDown = sort.startsWith("-");
  return { sort: isDown ? sort.slice(1) : sort, sort_reverse: isDown ? "true" : null };
}

/** The names of all virtual hosts; null where they are too many, or the user may not list them. */
export async function vhostNames(signal) {
  try {
    const found = await get(api("vhosts"), { query: { page: 1, page_size: MOST_VHOSTS, sort: "name", columns: "name" }, signal });
    return found.page_count > 1 ? null : found.items.map((each) => each.name);
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return null;
    throw error;
  }
}

/** The filter of a list by virtual host. */
export function vhostFilter(names) {
  if (names === null) return { name: "vhost", label: "Virtual host, whole name" };
  return { name: "vhost", label: "Virtual host", type: "select", options: [["", "all"], ...names.map((each) => [each, each])] };
}

/** The field of a form for a virtual host. */
export function vhostField(names, value) {
  const field = { name: "vhost", label: "Virtual host", required: true, value: value || (names?.includes("/") === false ? names[0] : "/") };
  return names === null ? field : { ...field, type: "select", options: names.map((each) => [each, each]) };
}

/** A command of rabbitmqadmin at this server: `admin("/", "delete queue", {name: "orders"})`. */
export function admin(vhost, command, values = {}) {
  const root = address("/");
  const isSecure = root.protocol === "https:";
  const prefix = root.pathname.replace(/\/$/, "");
  const options = [
    "-H",
    root.hostname,
    "-P",
    root.port || (isSecure ? "443" : "80"),
    isSecure && "-s",
    prefix && `--path-prefix=${prefix}`,
    "-V",
    vhost,
  ];
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const words = given.map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`);
  return ["rabbitmqadmin", ...options.filter(Boolean).map(quoted), command, ...words.map(quoted)].join(" ");
}

/** The object that a field of arguments has.  Raises ApiError. */
export function objectOf(field, text) {
  if (!text?.trim()) return {};
  let found = null;
  try {
    found = JSON.parse(text);
  } catch (error) {
    found = null;
  }
  if (found === null || typeof found !== "object" || Array.isArray(found))
    throw new ApiError(400, "NOT_JSON", `${field}: a JSON object such as {"key": 1}`);
  return found;
}

/** The same while it is typed: a text that is not yet an object is left out. */
export function objectSoFar(text) {
  try {
    return objectOf("arguments", text);
  } catch (error) {
    return {};
  }
}

/** Arguments as text: nothing for none. */
export function argumentsText(values) {
  const entries = Object.entries(values ?? {});
  return entries.length
    ? h(
        "span.mono.xs",
        entries.map(([key, value], at) => [at > 0 && ", ", name(key), " = ", valueText(value)]),
      )
    : h("span.q", "–");
}

/** One value of a table of arguments. */
export const valueText = (value) => (typeof value === "string" ? name(value) : name(JSON.stringify(value)));
