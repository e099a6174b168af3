// Message journey: where one message went, attempt by attempt, and what is not known of it.

import { ApiError, address, get } from "../api.js";
import { fill, h, name } from "../dom.js";
import { bytes, count, fullTime, number, time } from "../format.js";
import { link } from "../links.js";
import { ask, empty } from "../parts/answers.js";
import { banner } from "../parts/banner.js";
import { commandText, copyable, quoted } from "../parts/copying.js";
import { form } from "../parts/form.js";
import { head } from "../parts/head.js";
import { hopList } from "../parts/journey_hops.js";
import { lanesOf } from "../parts/journey_lanes.js";
import { offset } from "../parts/journey_scale.js";
import { receiver, topicOf } from "../parts/journey_words.js";
import { pathOf, rest } from "../parts/operations.js";
import { columns, facts, keyNumbers, panel, scrolling } from "../parts/panel.js";
import { chip, state, unknown } from "../parts/states.js";

const KINDS = [
  ["messageId", "Message id"],
  ["event", "CloudEvents source and id"],
  ["key", "Key"],
  ["correlationData", "MQTT correlation data"],
  ["amqpMessageId", "AMQP message-id"],
];
const WITHOUT_INDEX = new Set(["correlationData", "amqpMessageId"]);
const ASKED = ["id", "by", "source", "topic", "from", "to", "at"];
const DEFAULT = "default"; // namespace
const UNSEEN = new Set(["delivered", "stored"]); // kinds of unknown hops that may stand for attempts

export async function show(place, parameters, signal) {
  const wanted = wantedOf(parameters);
  const top = head("Message journey", { sub: ["Every hop of one message that is known, and what is not"] });
  const content = h("div.stack.wide-gaps");
  const load = () =>
    wanted.id &&
    ask(content, (asked) => journeyOf(wanted, asked), draw, {
      what: "the log and all brokers",
      fact: "The journey was not loaded",
      signal,
    });
  const draw = (journey) => {
    top.acts(journey.hops ? actions(wanted) : []);
    if (journey.message) top.sub(about(journey));
    return journey.hops ? sections(journey, wanted, parameters.query, load) : nothing(journey.problem, wanted);
  };
  place.append(top.element, panel("Look up", { body: lookUp(wanted, load) }), content);
  if (!wanted.id)
    fill(
      content,
      empty(
        "No message is chosen",
        "Type one of its names. Looking at a message changes nothing: no group receives it, and its body is not shown.",
      ),
    );
  await load();
}

function wantedOf({ id, query }) {
  const found = Object.fromEntries([...ASKED, "namespace"].map((key) => [key, query.get(key) ?? ""]));
  const by = KINDS.some(([kind]) => kind === found.by) ? found.by : "messageId";
  return { ...found, id: id ?? found.id, by, namespace: found.namespace || DEFAULT };
}

const queryOf = (wanted) => Object.fromEntries(ASKED.map((key) => [key, key === "by" && wanted.by === "messageId" ? "" : wanted[key]]));
const linkTo = (wanted) => link("journey", { ...queryOf(wanted), namespace: wanted.namespace === DEFAULT ? "" : wanted.namespace });

/** The journey, or {problem} where there is no such message. */
async function journeyOf(wanted, signal) {
  try {
    return await get(pathOf("getJourney", wanted), { query: queryOf(wanted), signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { problem: error };
    throw error;
  }
}

// -- the form ---------------------------------------------------------------------------------------------------------

function lookUp(wanted, load) {
  const shown = form({
    fields: [
      { name: "id", label: "Id", value: wanted.id, required: true, maxlength: 1024, class: "mono", wide: true },
      { name: "by", label: "Look by", type: "select", options: KINDS, value: wanted.by },
      { name: "source", label: "Source", value: wanted.source, placeholder: "any", maxlength: 4096 },
      { name: "topic", label: "Topic", value: wanted.topic, placeholder: "any" },
      { name: "from", label: "Stored at or after", value: wanted.from, placeholder: "2026-01-31T12:00:00Z" },
      { name: "to", label: "Stored before", value: wanted.to, placeholder: "2026-01-31T12:00:00Z" },
      { name: "namespace", label: "Namespace", value: wanted.namespace },
    ],
    submit: "Show journey",
    send: async (values) => {
      const target = linkTo({ ...Object.fromEntries(ASKED.map((key) => [key, ""])), namespace: DEFAULT, ...values });
      if (target === location.hash) await load();
      else location.hash = target;
    },
  });
  const [by, topic, source] = ["by", "topic", "source"].map((each) => shown.field(each));
  const follow = () => {
    const isNeeded = WITHOUT_INDEX.has(by.input.value);
    const isEvent = by.input.value === "event";
    topic.input.required = isNeeded;
    topic.input.placeholder = isNeeded ? "needed" : "any";
    source.element.hidden = !isEvent;
    source.input.disabled = !isEvent;
    if (!isEvent) source.input.value = "";
  };
  by.input.addEventListener("change", follow);
  follow();
  return shown.element;
}

// -- the answer -------------------------------------------------------------------------------------------------------

function about({ message, by }) {
  const label = KINDS.find(([kind]) => kind === by)[1];
  const subTopic = message.subTopic && message.subTopic !== message.place.topic ? name(message.subTopic) : null;
  return [
    h("span.mono", name(message.id)),
    topicOf(message.place),
    subTopic,
    bytes(message.size),
    `stored ${fullTime(message.storeTime)}`,
    `found by: ${label}`,
  ];
}

function actions(wanted) {
  const copy = h("button", { type: "button" }, "Copy link");
  copy.addEventListener("click", async () => {
    const text = new URL(linkTo(wanted), location.href).href;
    try {
      await navigator.clipboard.writeText(text);
      fill(copy, "Copied");
    } catch (error) {
      fill(copy, "Copy it from the address bar"); // pages over plain HTTP have no clipboard
    }
  });
  return [
    copy,
    h("a.btn", { href: address(pathOf("getJourney", wanted), queryOf(wanted)), download: `journey-${wanted.id.slice(0, 64)}.json` }, "Download JSON"),
  ];
}

function nothing(problem, wanted) {
  const hints = {
    messageId: "It may have left the log, or you may not read its topic. A key or the id of an event is found by another “Look by”.",
    key: "Only topics that you may read are looked in.",
    event: "Source and id are compared whole. Only topics that you may read are looked in.",
  };
  return empty("No message has this name", [
    name(problem.message),
    ". ",
    hints[wanted.by] ?? "Its newest messages were read: a time from and to looks at others.",
  ]);
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

function sections(journey, wanted, query, again) {
  const drawing = lanesOf(journey);
  const key = h(
    "ul.legend.push.auto",
    h("li", state("bad", "failed")),
    h("li", state("idle", "time not kept")),
    h("li", unknown("not known")),
  );
  const side = [
    journey.candidates.length > 0 && candidates(journey, wanted),
    journey.storage.length > 0 && panel("Where it is now", { body: journey.storage.map(storage) }),
    journey.groups.length > 0 && panel("Groups", { flush: groups(journey) }),
    journey.names && panel("Names of it", { body: facts(names(journey)) }),
    journey.unsaid.length > 0 && panel("Said otherwise", { body: facts(unsaid(journey)) }),
    panel("The same from outside", { body: outside(wanted) }),
  ];
  return [
    ...remarks(journey, again),
    keyNumbers(numbers(journey)),
    panel("Where it went", {
      unit: drawing.unit,
      acts: key,
      flush: h("div.tw.pad", { tabindex: "0", role: "group", "aria-label": "Journey over time" }, drawing.element),
    }),
    columns(hopList(journey, query, { span: 9, again }), h("div.c3.stack", side)),
  ];
}

function remarks({ missing, searched, cutCopies, message }, again) {
  const found = [];
  if (missing.length) {
    const reasons = missing.slice(0, 3).map((each) => [" ", name(each.name), ": ", name(each.reason), "."]);
    const more = missing.length > 3 ? ` And ${missing.length - 3} more.` : "";
    const fact = missing.length === 1 ? "1 part gave no answer." : `${number(missing.length)} parts gave no answer.`;
    found.push(banner("warn", fact, h("span", reasons, more, " Hops may be missing."), { label: "Ask again", act: again }));
  }
  if (message === null) found.push(banner("info", "The message itself is gone.", "Its record has left the log: only a trace tells of it."));
  if (searched && !searched.isComplete) {
    const until = searched.until ? `, down to ${fullTime(searched.until)}` : "";
    found.push(
      banner(
        "info",
        `Only the newest ${count(searched.messages, "message")} were looked at${until}.`,
        "Older ones may have this name, too: name a time from and to.",
      ),
    );
  }
  if (cutCopies) found.push(banner("info", `${count(cutCopies, "more copy", "more copies")} of it were not asked about.`));
  return found;
}

function numbers({ hops, groups: states, hidden, storage: records }) {
  const timed = hops.filter((hop) => hop.time !== null).map((hop) => Date.parse(hop.time));
  const all = new Set(states.map(({ group }) => group));
  const have = new Set(states.filter((each) => each.state === "consumed").map(({ group }) => group));
  const [failed, dead, resent] = ["failed", "deadLettered", "resent"].map((kind) => hops.filter((hop) => hop.kind === kind && hop.isKnown));
  const last = dead.filter((letter) => !failed.some((hop) => hop.lane === letter.lane && hop.attempt === letter.attempt));
  const tables = [...new Set(records.map(({ table }) => table).filter(Boolean))];
  const ingested = hops.filter((hop) => hop.kind === "ingested").length;
  const isCut = hidden.hops > 0;
  const atLeast = isCut || hops.some((hop) => !hop.isKnown && UNSEEN.has(hop.kind));
  const attempts = failed.length + last.length;
  return [
    {
      label: "From first to last hop",
      value: timed.length ? offset(Math.max(...timed) - Math.min(...timed)) : unknown(),
      more: count(timed.length, "hop with a time", "hops with a time"),
    },
    {
      label: "Groups that have it",
      value: number(have.size),
      unit: `of ${number(all.size)}`,
      more: isCut ? "as far as you may know" : null,
    },
    {
      label: "Failed attempts",
      value: number(attempts, { atLeast }),
      more: atLeast ? "of some attempts nothing is kept" : null,
      kind: attempts ? "warn" : null,
    },
    {
      label: "Dead letters",
      value: number(dead.length, { atLeast: isCut }),
      more: resent.length ? `sent again ${count(resent.length, "time")}` : null,
      kind: dead.length > resent.length ? "bad" : null,
    },
    { label: "Tables", value: number(tables.length + ingested, { atLeast: isCut }), more: tables.length ? name(tables[0]) : null },
  ];
}

function storage(record) {
  return facts([
    ["Place", [topicOf(record.place), " queue ", number(record.place.queueId), ", offset ", number(record.place.offset)]],
    ["In the log at", h("span.mono.xs", number(record.logOffset))],
    ["Broker", record.broker && [name(record.broker), record.epoch && `, epoch ${number(record.epoch)}`]],
    ["On", record.replicas.length ? record.replicas.join(", ") : null],
    ["Not on", record.lacking.length ? state("warn", record.lacking.join(", ")) : null],
    ["Table", record.table && name(record.table)],
    ["Not known", record.problem && unknown(record.problem)],
  ]);
}

const RETRY = "%RETRY%";
const STATES = {
  notYet: ["idle", "not yet"],
  inFlight: ["idle", "in flight"],
  consumed: ["ok", "consumed"],
  filtered: ["idle", "filtered"],
  deadLettered: ["bad", "dead letter"],
};

function groups({ groups: states, lanes }) {
  const retried = new Set(states.filter(({ place }) => place.topic.startsWith(RETRY)).map(({ group }) => group));
  const latest = states.filter((each) => each.state !== "deadLettered" || !retried.has(each.group)); // a resent one lives on
  const rows = latest.map((each) => {
    const lane = lanes.find(({ id }) => id === `group/${each.group}` || (id.startsWith("group/") && id.endsWith(`/${each.group}`)));
    const [kind, word] = STATES[each.state] ?? ["unknown", each.state];
    const shown = lane ? receiver(lane) : name(each.group);
    return h("tr", h("th", { scope: "row", title: each.group }, shown), h("td", state(kind, word)));
  });
  return scrolling("State of the message in each group", tableOf([["Group"], ["State"]], rows));
}

function tableOf(titles, rows) {
  const heads = titles.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
  return h("table", h("thead", h("tr", heads)), h("tbody", rows));
}

function names({ names: found, message }) {
  const correlation = found.correlationData && (found.correlationData.value ?? `${found.correlationData.base64} (base64)`);
  const given = (value) => (value === null || value === undefined ? h("span.q", "none given") : name(value));
  return [
    ["Message id", h("span.mono.xs.brk", name(message.id))],
    ["CloudEvents source", given(found.event.source)],
    ["CloudEvents id", given(found.event.id)],
    ["CloudEvents type", given(found.event.type)],
    ["Keys", found.keys.length ? found.keys.map((key, index) => [index > 0 && ", ", name(key)]) : given(null)],
    ["Correlation", given(correlation)],
    ["AMQP message-id", given(found.amqpMessageId)],
    ["Trace", given(found.traceparent)],
  ];
}

// Values that a protocol cannot say as they are stored.
function unsaid({ unsaid: found }) {
  return found.map((each) => [each.protocol, [each.kind, each.name ? [" ", name(each.name)] : "", `: ${each.fate}`]]);
}

function candidates({ candidates: found, message }, wanted) {
  const rows = found.map((each) => {
    const isShown = each.at === message?.at;
    const when = h(
      "a",
      { href: linkTo({ ...wanted, at: each.at }), "aria-current": isShown && "true", title: fullTime(each.storeTime) },
      time(each.storeTime),
    );
    return h(
      "tr",
      h("th", { scope: "row" }, when, isShown && [" ", chip("shown")]),
      h("td.brk", topicOf(each.place)),
      h("td.n", number(each.place.offset)),
    );
  });
  return panel("Same name", {
    unit: count(found.length, "message has it", "messages have it"),
    flush: scrolling("Messages with this name", tableOf([["Stored, UTC"], ["Topic"], ["Offset", "n"]], rows)),
  });
}

function outside(wanted) {
  const options = Object.entries({ ...queryOf(wanted), namespace: wanted.namespace === DEFAULT ? "" : wanted.namespace, id: "" });
  const words = options.filter(([, value]) => value !== "").flatMap(([key, value]) => [`--${key}`, quoted(value)]);
  const { method, path } = rest("getJourney", wanted, undefined, queryOf(wanted));
  return [
    copyable("CLI", commandText(["entrepot message journey", ...words].join(" "), [wanted.id])),
    copyable("REST", `${method} ${path}`),
  ];
}
