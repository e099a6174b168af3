// The hops of a journey as a list in order of time: what is not known stands at its end, with the reason.

import { fill, h } from "../dom.js";
import { count, fullTime } from "../format.js";
import { keepInAddress } from "../links.js";
import { empty } from "./answers.js";
import { clockMs, offset } from "./journey_scale.js";
import { isTrouble, sentences, title } from "./journey_words.js";
import { panel } from "./panel.js";
import { doorClass } from "./states.js";
import { choice } from "./tabs.js";

const SHOWN = [
  { label: "All", value: "" },
  { label: "Failed", value: "failed" },
  { label: "Not known", value: "unknown" },
];
const MOST = 1000; // hops in the list
const WANTED = { "": () => true, failed: isTrouble, unknown: (hop) => !hop.isKnown };
const KINDS = { amqp: "amqp", webhook: "http" };

/** The panel of a journey's hops.  `query`: the address's parameters, of which `show` and `lane` are kept.  `again`: asks anew. */
export function hopList(journey, query, { span, again }) {
  const lanes = new Map(journey.lanes.map((lane) => [lane.id, lane]));
  const wanted = {
    show: query.get("show") in WANTED ? query.get("show") : "",
    lane: lanes.has(query.get("lane")) ? query.get("lane") : "",
  };
  const list = h("ol.hops");
  const none = h("div");
  const draw = () => {
    const hops = journey.hops.filter((hop) => WANTED[wanted.show](hop) && (!wanted.lane || hop.lane === wanted.lane));
    fill(list, lines(hops, journey, lanes), wanted.show !== "failed" && !wanted.lane && hidden(journey.hidden));
    list.hidden = list.childElementCount === 0;
    fill(
      none,
      list.hidden &&
        empty(
          "No such hop",
          wanted.show === "failed" ? "No attempt of this message failed, as far as is known." : "Choose other hops or another receiver.",
        ),
    );
  };
  const choose = (key, value) => {
    wanted[key] = value;
    keepInAddress({ [key]: value });
    draw();
  };
  const kinds = choice("Which hops", SHOWN, wanted.show, (value) => choose("show", value));
  const options = [["", "All receivers"], ...journey.lanes.map((lane) => [lane.id, lane.name])];
  const select = h(
    "select",
    { "aria-label": "Receiver", onchange: () => choose("lane", select.value) },
    options.map(([value, label]) => h("option", { value, selected: value === wanted.lane }, label)),
  );
  draw();
  const words = `${journey.known} known, ${journey.unknown} not known${journey.hidden.hops ? `, ${journey.hidden.hops} hidden` : ""}`;
  const askAgain = journey.missing.length > 0 && h("button.small", { type: "button", onclick: again }, "Ask again");
  return panel("Hops", { span, unit: words, body: h("div.row", select, kinds.element, askAgain), flush: [list, none] });
}

function lines(hops, journey, lanes) {
  const first = journey.hops.find((hop) => hop.time !== null)?.time ?? null;
  let day = null;
  const found = hops.slice(0, MOST).flatMap((hop) => {
    const date = hop.time?.slice(0, 10) ?? day;
    const head = date === day ? null : h("li.day", h("span.when", `${date} UTC`));
    day = date;
    return [head, line(hop, lanes.get(hop.lane), first)];
  });
  if (hops.length > MOST) found.push(h("li.day", h("span.gapline", `And ${count(hops.length - MOST, "hop")} more: download the JSON.`)));
  return found;
}

function line(hop, lane, first) {
  const when = hop.time === null ? (hop.isKnown ? "time not kept" : "not known") : clockMs(Date.parse(hop.time));
  const after = hop.time === null || first === null ? "" : `+${offset(Date.parse(hop.time) - Date.parse(first))}`;
  const dot = !hop.isKnown ? "dunno" : isTrouble(hop) ? "no trouble" : hop.door ? doorClass(hop.door) : (KINDS[lane?.kind] ?? "log");
  return h(
    "li",
    h("span.when", { title: hop.time === null ? null : fullTime(hop.time) }, when),
    h("span.dot", { class: dot }),
    h("span.what", { class: isTrouble(hop) && hop.isKnown ? "bad-t" : "" }, title(hop)),
    h(
      "span.more",
      sentences(hop, lane).map((each, index) => [index > 0 && " ", each]),
    ),
    h("span.took", after),
  );
}

function hidden({ hops, reason }) {
  if (!hops) return null;
  return h(
    "li",
    h("span.when", "not shown"),
    h("span.dot.dunno"),
    h("span.what", `${count(hops, "hop")} hidden`),
    h("span.more", `No right to know: ${reason}.`),
    h("span.took"),
  );
}
