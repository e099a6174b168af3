// The event rule of one topic.

import { get, parsed } from "../api.js";
import { h, name } from "../dom.js";
import { duration } from "../format.js";
import { link } from "../links.js";
import { ask } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { deleteEventRule, inLines, memberText, putEventRule } from "../parts/event_rule_form.js";
import { head } from "../parts/head.js";
import { pathOf } from "../parts/operations.js";
import { facts, panel } from "../parts/panel.js";
import { none } from "../parts/states.js";

export async function show(place, { topic, query }, signal) {
  const namespace = query.get("namespace") ?? "";
  const top = head(topic, {
    shown: name(topic),
    crumbs: [["Event rules", link("event-rules", { namespace })]],
    sub: ["event rule", namespace && ["namespace ", name(namespace)]].filter(Boolean),
  });
  const told = results();
  const body = h("div.stack.wide-gaps");
  place.append(top.element, told.element, body);
  const load = async (asked) => {
    const text = await (await get(pathOf("getEventRules", { name: topic, namespace }), { signal: asked, raw: true })).text();
    const schema = memberText(text, "schema");
    return { ...parsed(text), topic, namespace, schemaText: schema === null ? null : inLines(schema) };
  };
  const reload = () => ask(body, load, draw, { fact: "The event rule was not loaded", signal });
  const draw = (rule) => {
    top.acts(actions(rule, told, reload));
    return [aboutPanel(rule), schemaPanel(rule)];
  };
  await reload();
}

function actions(rule, told, reload) {
  const change = async () => {
    if (!(await putEventRule(rule))) return;
    told.tell("info", "The rule was changed.", "It holds at every door from now on. The audit has an entry.");
    await reload();
  };
  const remove = async () => {
    if (await deleteEventRule(rule.namespace, rule.topic)) location.hash = link("event-rules", { namespace: rule.namespace });
  };
  return [h("button", { type: "button", onclick: change }, "Change"), h("button.danger", { type: "button", onclick: remove }, "Delete")];
}

function aboutPanel(rule) {
  const pairs = [
    ["Events with a known source and id", rule.dedupSeconds ? `are dropped for ${duration(rule.dedupSeconds)}` : "are stored again"],
    ["What does not conform", rule.onInvalid === "divert" ? ["goes to the topic ", name(rule.divertTo)] : "is refused"],
    ["Address of the schema", rule.dataschema ? h("span.mono.brk", name(rule.dataschema)) : none()],
  ];
  return panel("Rule", { body: facts(pairs) });
}

function schemaPanel({ schemaText }) {
  const body =
    schemaText === null
      ? h("p.s.q", "Any data conforms.")
      : h("pre.code.wrap", { tabindex: "0", role: "group", "aria-label": "JSON Schema" }, schemaText);
  return panel("Schema", { body });
}
