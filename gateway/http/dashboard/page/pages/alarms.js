// Alarms: all that somebody should look at now.

import { get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { count, duration, fullTime, time } from "../format.js";
import { ask, empty } from "../parts/answers.js";
import { partial } from "../parts/banner.js";
import { head } from "../parts/head.js";
import { panel, scrolling } from "../parts/panel.js";
import { state } from "../parts/states.js";
import { overviewStream } from "../stream.js";

const SEVERITIES = { critical: ["bad", "critical"], warning: ["warn", "warning"] };

export async function show(place, parameters, signal) {
  const top = head("Alarms");
  const content = h("div.stack.wide-gaps", { "aria-live": "polite" });
  place.append(top.element, content);
  let before = "";
  const draw = (overview) => {
    top.sub(sums(overview));
    return [partial(overview.answered, { means: "What it would tell is missing.", again: null }), list(overview.alarms)];
  };
  const load = (asked) => get("overview", { signal: asked });
  const found = await ask(content, load, draw, { what: "all gateways", fact: "The alarms were not loaded", signal });
  if (!found) return;
  overviewStream.watch((overview) => {
    const now = overview && JSON.stringify([overview.alarms, overview.answered]);
    if (!now || now === before || content.contains(document.activeElement)) return;
    before = now;
    fill(content, draw(overview));
  }, signal);
}

function sums({ alarms }) {
  const critical = alarms.filter((each) => each.severity === "critical").length;
  return [count(critical, "critical one", "critical ones"), count(alarms.length - critical, "warning"), "times in UTC"];
}

function list(alarms) {
  if (alarms.length === 0) return empty("No alarms", "Parts that do not answer, full disks, and groups that fall behind come here.");
  const titles = [["Severity"], ["What"], ["Why", "opt"], ["Since", "n"], ["For", "n opt"]];
  const heads = titles.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
  const rows = alarms.map((each) => {
    const [kind, word] = SEVERITIES[each.severity] ?? ["unknown", each.severity];
    const what = h("a", { href: each.link }, name(each.subject));
    const seconds = Math.max(0, (Date.now() - new Date(each.since)) / 1000);
    return h(
      "tr",
      h("td", state(kind, word)),
      h("th.brk", { scope: "row" }, each.link ? what : name(each.subject)),
      h("td.opt.brk", name(each.text)),
      h("td.n.nw", { title: fullTime(each.since) }, time(each.since)),
      h("td.n.opt", duration(seconds)),
    );
  });
  return panel("Now", { flush: scrolling("Alarms", h("table", h("thead", h("tr", heads)), h("tbody", rows))) });
}
