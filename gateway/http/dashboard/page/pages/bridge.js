// One bridge: its connection, and what it carried at each gateway.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { fullTime, isUnknown, number } from "../format.js";
import { every } from "../live.js";
import { link } from "../links.js";
import { ask, empty } from "../parts/answers.js";
import { partial } from "../parts/banner.js";
import { bridgeState, refused } from "../parts/bridge_state.js";
import { head } from "../parts/head.js";
import { facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { unknown } from "../parts/states.js";

const REFRESH_SECONDS = 5;
const COUNTS = [
  ["received", "In"],
  ["sent", "Out"],
  ["refusedIn", "Refused here"],
  ["refusedOut", "Refused there"],
  ["ignored", "Ignored"],
  ["connects", "Connects"],
];

export async function show(place, { name: bridge }, signal) {
  const top = head(bridge, { shown: name(bridge), crumbs: [["Bridges", link("bridges")]] });
  const body = h("div.stack.wide-gaps");
  place.append(top.element, body);
  const load = (asked) => get("bridges", { signal: asked });
  const draw = ({ value, answered }) => {
    const found = value.find((each) => each.name === bridge);
    const lacking = partial(answered, { means: "Counts are lower bounds." });
    if (!found)
      return [
        lacking,
        empty("There is no such bridge", "The setting bridge.remotes names all bridges.", { label: "Show all", href: link("bridges") }),
      ];
    top.sub([bridgeState(found), ["remote ", h("span.mono", name(found.url))], `MQTT ${found.version === 5 ? "5" : "3.1.1"}`]);
    return [
      lacking,
      keyNumbers(numbers({ ...found, atLeast: answered.answered < answered.asked })),
      about(found),
      gateways(found, answered),
    ];
  };
  const done = await ask(body, load, draw, { what: "all gateways", fact: "The bridge was not loaded", signal });
  if (!done) return;
  const again = async () => {
    const found = await load(signal);
    if (!signal.aborted && !body.contains(document.activeElement)) fill(body, draw(found));
  };
  every(REFRESH_SECONDS, () => again().catch(() => undefined), signal); // the bar tells that nothing answers
}

function numbers(row) {
  return [
    { label: "In", value: number(row.received, row), unit: "messages", more: "stored here" },
    { label: "Out", value: number(row.sent, row), unit: "messages", more: "acknowledged there" },
    { label: "Refused", value: refused(row), unit: "messages", more: "dropped, or dead letters" },
    { label: "Connects", value: number(row.connects, row) },
  ];
}

function about(row) {
  const runs = row.gateway ?? row.owner;
  const pairs = [
    ["Runs at", runs ? name(runs) : unknown()],
    ["In this state since", isUnknown(row.since) ? unknown() : fullTime(row.since)],
    ["Last error", row.lastError ? name(row.lastError) : "none"],
  ];
  return panel("Connection", {
    body: facts(pairs),
    footer: h("span", "Its rules out are consumer groups: ", name(`bridge-${row.name}-1`), ", and so on"),
  });
}

function gateways({ byGateway }, { missing }) {
  const heads = [["Gateway"], ["State"], ...COUNTS.map(([, title], at) => [title, at > 1 ? "n opt" : "n"])];
  const rows = byGateway.map((each) =>
    h(
      "tr",
      h("th", { scope: "row" }, name(each.gateway)),
      h("td", bridgeState(each)),
      COUNTS.map(([key], at) => h("td.n", { class: at > 1 ? "opt" : "" }, number(each[key]))),
    ),
  );
  const away = missing.map((each) =>
    h("tr", h("th", { scope: "row" }, name(each.name)), h("td", { colspan: COUNTS.length + 1 }, unknown(each.reason))),
  );
  const table = h(
    "table",
    h(
      "thead",
      h(
        "tr",
        heads.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title)),
      ),
    ),
    h("tbody", rows, away),
  );
  return panel("By gateway", { unit: "since each began", flush: scrolling("Counts by gateway", table) });
}
