// Settings of this gateway: value, default, where the value is from, and the gateways that have another one.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count } from "../format.js";
import { quoted, sameFromOutside } from "../parts/copying.js";
import { head } from "../parts/head.js";
import { rest } from "../parts/operations.js";
import { panel } from "../parts/panel.js";
import { chip, none, state } from "../parts/states.js";
import { table } from "../parts/table.js";

const ONLY = [["", "all"], ["set", "not left to the default"], ["different", "not the same at all gateways"]];

export function show(place, parameters, signal) {
  const top = head("Settings");
  const outside = h("section.panel.pad");
  const load = async ({ filter, signal: asked }) => {
    const page = await get("settings", { query: filter, signal: asked });
    top.sub([
      ["of ", name(page.gateway)],
      count(page.value.length, "setting"),
      `${page.value.filter((each) => each.isSet).length} set`,
      differing(page),
      "changed by file, environment or flag, and a restart",
    ]);
    const flags = ["find", "only"].map((each) => (filter[each] ? ` --${each} ${quoted(filter[each])}` : "")).join("");
    fill(outside, sameFromOutside({ cli: `entrepot config running${flags}`, rest: rest("listSettings", {}, undefined, filter) }));
    return page;
  };
  const list = table({
    label: "Settings",
    signal,
    what: "all gateways",
    key: (row) => row.key,
    columns: COLUMNS,
    filters: [{ name: "find", label: "Key or description contains" }, { name: "only", label: "Only", type: "select", options: ONLY }],
    load,
  });
  place.append(top.element, panel("Settings", { unit: "secrets are masked", flush: list.element }), outside);
}

function differing({ value, answered }) {
  const amount = value.filter((each) => each.different.length).length;
  if (answered.asked === 1) return "the only gateway";
  if (amount) return state("warn", `${amount} not the same at all gateways`);
  return answered.answered < answered.asked ? "the same at all that answered" : "the same at all gateways";
}

function valueNode(value) {
  if (value === null) return none();
  if (value === "" || (Array.isArray(value) && value.length === 0)) return h("span.q", "(empty)");
  return h("div.roomy-cell.mono.xs", name(typeof value === "string" ? value : JSON.stringify(value)));
}

const COLUMNS = [
  {
    id: "key",
    label: "Setting",
    isHead: true,
    cell: (row) => h(
      "div.roomy-cell",
      h("span.mono.xs", row.key),
      row.isSecret && [" ", chip("secret")],
      h("p.q2.xs.said", row.description),
    ),
  },
  { id: "value", label: "Value", cell: (row) => (row.isSet ? h("div.b", valueNode(row.value)) : valueNode(row.value)) },
  { id: "default", label: "Default", optional: 1, cell: (row) => h("div.q2", valueNode(row.default)) },
  { id: "origin", label: "From", optional: 1, cell: (row) => h("span.brk", { class: row.isSet ? "" : "q" }, name(row.origin)) },
  { id: "different", label: "Other gateways", cell: (row) => others(row.different) },
];

function others(different) {
  if (different.length === 0) return h("span.q", "same");
  return h(
    "ul.lines.s",
    different.map((each) => h(
      "li",
      state("warn", [name(each.gateway), each.origin === null ? ": does not know it" : [": ", valueNode(each.value)]]),
    )),
  );
}
