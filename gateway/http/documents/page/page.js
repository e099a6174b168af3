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
    element("div", {}, element("code", {}, type), element("pre", {}, json(one.example ?? "")),
      element("details", {}, element("summary", {}, "Schema"), element("pre", {}, json(written(one.schema))))));
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

async function send(method, path, inputs, body, type, shown) {
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (parameter.in === "header" && input.value) headers[parameter.name] = input.value;
  }
  const user = document.getElementById("user").value;
  if (user) {
    const pair = new TextEncoder().encode(`${user}:${document.getElementById("password").value}`);
    headers.Authorization = `Basic ${btoa(String.fromCharCode(...pair))}`;
  }
  if (body) headers["Content-Type"] = type;
  shown.textContent = "…";
  try {
    const answer = await fetch(targetOf(path, inputs), { method, headers, body: body || undefined });
    const text = await answer.text();
    let found = text;
    try { found = json(JSON.parse(text)); } catch { /* it is no JSON */ }
    shown.textContent = `${answer.status} ${answer.statusText}\n${found}`;
  } catch (error) {
    shown.textContent = String(error);
  }
}

function trial(method, path, operation, parameters) {
  const { fields, inputs } = fieldsOf(parameters);
  const request = resolved(operation.requestBody);
  const [type, content] = Object.entries(request?.content ?? {})[0] ?? ["", null];
  const body = content && element("textarea", { value: json(content.example ?? {}), spellcheck: false });
  const shown = element("pre", {});
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
  one.dataset.words = `${operation.operationId} ${path} ${operation.summary}`.toLowerCase();
  one.addEventListener("toggle", () => {
    if (one.open && one.childElementCount === 1) one.append(detailsOf(name, path, operation));
    if (one.open) history.replaceState(null, "", `#${one.id}`);
  });
  return one;
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of document.querySelectorAll("section")) {
    let some = false;
    for (const one of section.querySelectorAll(":scope > details")) {
      one.hidden = !words.every((word) => one.dataset.words.includes(word));
      some ||= !one.hidden;
    }
    section.hidden = !some;
  }
}

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
show();
