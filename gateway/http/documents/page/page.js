// Lists the operations of openapi.json and tries them.  Whatever the document says becomes text, never markup.
"use strict";

const METHODS = ["get", "put", "post", "delete", "options"];
const DEEPEST = 6;
let api;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function resolved(node) {
  return node && node.$ref ? node.$ref.slice(2).split("/").reduce((at, step) => at[step], api) : node;
}

// A schema with what it refers to in place, as deep as anybody reads.
function written(node, depth = 0) {
  if (Array.isArray(node)) return node.map((each) => written(each, depth + 1));
  if (!node || typeof node !== "object") return node;
  if (node.$ref) return depth > DEEPEST ? { $ref: node.$ref } : written(resolved(node), depth + 1);
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, written(value, depth + 1)]));
}

function json(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function contentsOf(content) {
  return Object.entries(content || {}).map(([type, one]) =>
    element("div", {}, element("code", {}, type), element("pre", { tabIndex: 0 }, json(one.example ?? "")),
      element("details", {}, element("summary", {}, "Schema"), element("pre", { tabIndex: 0 }, json(written(one.schema))))));
}

function fieldsOf(parameters) {
  const fields = element("div", { className: "fields" });
  const inputs = parameters.map((parameter) => {
    const value = parameter.in === "path" ? parameter.example ?? "" : "";
    const input = element("input", { value, placeholder: String(parameter.example ?? parameter.schema?.default ?? "") });
    const hint = element("small", {}, `${parameter.in}: ${parameter.description ?? json(parameter.schema)}`);
    fields.append(element("label", {}, `${parameter.name} `, input, hint));
    return { parameter, input };
  });
  return { fields, inputs };
}

function targetOf(path, inputs) {
  const query = new URLSearchParams();
  for (const { parameter, input } of inputs) {
    if (parameter.in === "path") {
      const value = input.value.includes("%") ? input.value : encodeURIComponent(input.value);
      path = path.replace(`{${parameter.name}}`, value);
    } else if (parameter.in === "query" && input.value) query.set(parameter.name, input.value);
  }
  return path.slice(1) + (query.size ? `?${query}` : "");
}

// The header goes with the cookie of a login, so that a page of another origin cannot use it.
const OWN = { "X-Entrepot-Dashboard": "1" };

// The request as a command; whoever runs it shows credentials of their own.
function command(method, target, headers, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ["curl", ...(method === "GET" ? [] : ["-X", method]), quoted(new URL(target, location.href).href)];
  for (const [name, value] of Object.entries(headers)) parts.push("-H", quoted(`${name}: ${value}`));
  if (body) parts.push("--data-binary", quoted(body));
  return parts.join(" ");
}

async function send(method, path, inputs, body, type, shown) {
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (parameter.in === "header" && input.value) headers[parameter.name] = input.value;
  }
  if (body) headers["Content-Type"] = type;
  const target = targetOf(path, inputs);
  const told = command(method, target, headers, body);
  const user = document.getElementById("user").value;
  if (user) {
    const pair = new TextEncoder().encode(`${user}:${document.getElementById("password").value}`);
    headers.Authorization = `Basic ${btoa(String.fromCharCode(...pair))}`;
  }
  shown.textContent = `${told}\n…`;
  try {
    const answer = await fetch(target, { method, headers: { ...OWN, ...headers }, body: body || undefined });
    const text = await answer.text();
    let found = text;
    try { found = json(JSON.parse(text)); } catch { /* it is no JSON */ }
    shown.textContent = `${told}\n\n${answer.status} ${answer.statusText}\n${found}`;
  } catch (error) {
    shown.textContent = `${told}\n\n${error}`;
  }
}

function trial(method, path, operation, parameters) {
  const { fields, inputs } = fieldsOf(parameters);
  const request = resolved(operation.requestBody);
  const [type, content] = Object.entries(request?.content ?? {})[0] ?? ["", null];
  const body = content && element("textarea", { value: json(content.example ?? {}), spellcheck: false, ariaLabel: "Body" });
  const shown = element("pre", { role: "status", tabIndex: 0 });
  const button = element("button", { type: "button" }, "Send");
  button.addEventListener("click", () => send(method, path, inputs, body?.value, type, shown));
  const streams = Object.values(operation.responses).some((each) => resolved(each).content?.["text/event-stream"]);
  return [fields, ...(body ? [element("h3", {}, `Body: ${type}`), body] : []), ...(streams ? [] : [button, shown])];
}

function detailsOf(method, path, operation) {
  const parameters = (operation.parameters ?? []).map(resolved);
  const box = element("div", {}, element("p", {}, operation.description ?? ""));
  box.append(...trial(method, path, operation, parameters));
  const bodies = Object.entries(resolved(operation.requestBody)?.content ?? {});
  if (bodies.length) box.append(element("h3", {}, "What it takes"), ...contentsOf(Object.fromEntries(bodies)));
  for (const [status, answer] of Object.entries(operation.responses)) {
    const told = resolved(answer);
    box.append(element("h3", {}, `${status}: ${told.description}`), ...contentsOf(told.content));
  }
  return box;
}

function operationOf(method, path, operation) {
  const name = method.toUpperCase();
  const summary = element("summary", {}, element("span", { className: `method ${name}` }, name),
    element("code", {}, path), " ", element("span", {}, operation.summary ?? ""));
  const one = element("details", { id: operation.operationId }, summary);
  const parameters = (operation.parameters ?? []).map((each) => resolved(each).name).join(" ");
  one.dataset.words = `${operation.operationId} ${name} ${path} ${operation.summary} ${parameters}`.toLowerCase();
  one.addEventListener("toggle", () => {
    if (one.open && one.childElementCount === 1) one.append(detailsOf(name, path, operation));
    if (one.open) history.replaceState(null, "", `#${one.id}`);
  });
  return one;
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const section of document.querySelectorAll("section")) {
    let some = false;
    for (const one of section.querySelectorAll(":scope > details")) {
      one.hidden = !words.every((word) => one.dataset.words.includes(word));
      some ||= !one.hidden;
      count += one.hidden ? 0 : 1;
    }
    section.hidden = !some;
  }
  document.getElementById("found").textContent = words.length ? `${count} operations` : "";
}

// Says whose cookie goes with the requests, where there is one.
async function showLogin() {
  const answer = await fetch("api/v1/session", { headers: OWN });
  if (!answer.ok) return;
  const login = await answer.json();
  if (!login.user || login.isAnonymous) return;
  document.getElementById("login").textContent = `Logged in as ${login.user}: requests without another user are sent as this one.`;
}

// `/` goes to the search, unless something is being typed.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea")) return;
  event.preventDefault();
  document.getElementById("find").focus();
});

async function show() {
  api = await (await fetch("openapi.json")).json();
  document.getElementById("about").textContent = `${api.info.version}. ${api.info.description}`;
  const main = document.getElementById("operations");
  const sections = new Map();
  for (const tag of api.tags) {
    const section = element("section", {}, element("h2", {}, `${tag.name}: ${tag.description}`));
    sections.set(tag.name, section);
    main.append(section);
  }
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS) {
      if (item[method]) sections.get(item[method].tags[0]).append(operationOf(method, path, item[method]));
    }
  }
  document.getElementById("find").addEventListener("input", (event) => find(event.target.value));
  document.getElementById("who").addEventListener("submit", (event) => event.preventDefault());
  openLinked();
  document.body.dataset.state = "shown";
}

// `/docs#listTopics` leads to an operation.
function openLinked() {
  const linked = document.getElementById(location.hash.slice(1));
  if (!linked) return;
  linked.open = true;
  linked.scrollIntoView();
}

addEventListener("hashchange", openLinked);
show().catch((error) => {
  document.getElementById("about").textContent = `The operations cannot be read: ${error}`;
});
showLogin().catch(() => {});
