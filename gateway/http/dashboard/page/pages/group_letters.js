// Dead letters of one group: why they died, the letters, and resending or deleting them.

import { address, get } from "../api.js";
import { fill, h, name, s } from "../dom.js";
import { fullTime, number, time } from "../format.js";
import { keepInAddress, link } from "../links.js";
import { ask } from "../parts/answers.js";
import { results } from "../parts/banner.js";
import { head } from "../parts/head.js";
import { letterActions } from "../parts/letter_actions.js";
import { letterPanel } from "../parts/letter_view.js";
import { pathOf } from "../parts/operations.js";
import { panel, scrolling } from "../parts/panel.js";
import { groupLink, messageLink, namespaceQuery, topicLink } from "../parts/place_links.js";
import { none, state, unknown } from "../parts/states.js";
import { table } from "../parts/table.js";

const FULL = 100; // width of a bar
const NOTHING = { value: [], next: null, lookedAt: 0, total: 0, isComplete: true };

export async function show(place, { name: group, query }, signal) {
  const namespace = query.get("namespace") ?? "";
  const told = results();
  const page = new GroupLetters(group, namespace, query.get("reason"), told, signal);
  place.append(page.top.element, told.element, page.why, page.list, page.detail);
  page.drawList();
  await page.loadReasons();
}

class GroupLetters {
  constructor(group, namespace, reason, told, signal) {
    Object.assign(this, { group, namespace, reason, told, signal });
    this.reasons = NOTHING;
    this.actions = letterActions(group, namespace, told);
    this.top = head(`Dead letters of ${group}`, {
      shown: h("span", "Dead letters of ", name(group)),
      crumbs: [["Dead letters", link("dead-letters", namespaceQuery(namespace))]],
    });
    this.why = h("div.stack");
    this.list = h("div.stack");
    this.detail = h("div.stack");
  }

  /** The path of an operation on them. */
  path(id) {
    return pathOf(id, { name: this.group, namespace: this.namespace });
  }

  /** Count by reason, and draw it; all of the counted pages are added up. */
  loadReasons() {
    const work = (signal) => get(this.path("countDeadLetters"), { signal });
    return ask(this.why, work, (found) => this.drawReasons(found), {
      what: "all brokers",
      fact: "Dead letters were not counted",
      signal: this.signal,
    });
  }

  async reload() {
    await Promise.all([this.loadReasons(), this.letters.reload()]);
  }

  async after(done) {
    if (await done) await this.reload();
  }

  drawReasons(found) {
    this.reasons = found;
    const { value, total, lookedAt, isComplete } = found;
    const counted = value.reduce((sum, each) => sum + each.count, 0);
    const oldest = value.map((each) => each.oldest).sort()[0];
    this.top.sub([
      isComplete ? `${number(counted)} dead letters` : `${number(lookedAt)} of ${number(total)} counted`,
      oldest ? `oldest ${time(oldest)} UTC` : null,
      ["of ", groupLink(this.group, this.namespace)],
    ]);
    const exported = h("a.btn", { href: address(this.path("exportDeadLetters")).href, download: `${this.group}.ndjson` }, "Export as NDJSON");
    const all = isComplete ? counted : total;
    this.top.acts(
      total === 0
        ? []
        : [
            exported,
            this.button("Resend all", "all dead letters", () => this.actions.all("resend", all)),
            this.button("Delete all", "all dead letters", () => this.actions.all("delete", all), { isDanger: true }),
          ],
    );
    const more = isComplete
      ? null
      : h(
          "p.row",
          state("warn", `Counted: the first ${number(lookedAt)} of ${number(total)}.`),
          h("button.small", { type: "button", onclick: () => this.countOn() }, "Count on"),
        );
    return panel("Why", {
      unit: "by reason",
      flush: value.length ? this.reasonTable(value, isComplete) : h("p.pad.q", "No dead letters."),
      footer: more,
    });
  }

  /** Count the next ones, and add them. */
  async countOn() {
    const before = this.reasons;
    const work = async (signal) => added(before, await get(this.path("countDeadLetters"), { query: { from_offset: before.next }, signal }));
    await ask(this.why, work, (found) => this.drawReasons(found), {
      what: "all brokers",
      fact: "Dead letters were not counted",
      signal: this.signal,
    });
  }

  reasonTable(value, isComplete) {
    const most = Math.max(...value.map((each) => each.count));
    const titles = [["Reason"], ["Share", "opt"], ["Dead letters", "n"], ["Oldest", "n opt"], ["Newest", "n opt"]];
    const heads = titles.map(([title, classes = ""]) => h("th", { scope: "col", class: classes }, title));
    const rows = value.map((each) => {
      const words = each.reason === "" ? "no reason given" : each.reason;
      const bar = s(
        "svg.bar.log",
        { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect.track", { y: 2, width: FULL, height: 6 }),
        s("rect.fill", { y: 2, width: (FULL * each.count) / most, height: 6 }),
      );
      const isShown = this.reason === each.reason;
      const chosen = { ...each, isWhole: isComplete, total: this.reasons.total };
      const show = h(
        "button.plain",
        { type: "button", "aria-pressed": String(isShown), onclick: () => this.choose(isShown ? null : each.reason) },
        each.reason === "" ? words : name(each.reason),
      );
      const acts = this.button("Resend all", `all: ${words}`, () => this.actions.ofReason("resend", chosen), { isSmall: true });
      return h(
        "tr",
        { class: isShown ? "sel" : "" },
        h("th.brk", { scope: "row" }, show),
        h("td.opt", bar),
        h("td.n.b", number(each.count, { atLeast: !isComplete })),
        h("td.n.opt.q2", timeOf(each.oldest)),
        h("td.n.opt.q2", timeOf(each.newest)),
        h("td.n.nw", acts),
      );
    });
    return scrolling(
      "Dead letters by reason",
      h("table", h("thead", h("tr", heads, h("th", { scope: "col" }, h("span.vh", "Do")))), h("tbody", rows)),
    );
  }

  button(label, what, act, { isDanger = false, isSmall = false } = {}) {
    const classes = [isSmall && "small", isDanger && "danger"].filter(Boolean).join(" ");
    return h(
      "button",
      { type: "button", class: classes, "aria-label": label.replace(/ all$/, ` ${what}`), onclick: () => this.after(act()) },
      label,
    );
  }

  /** Show letters of one reason only; null: of all. */
  choose(reason) {
    this.reason = reason;
    keepInAddress({ reason, after: null });
    fill(this.why, this.drawReasons(this.reasons));
    this.drawList();
    [...this.why.querySelectorAll("button.plain")].find((each) => each.getAttribute("aria-pressed") === "true")?.focus();
  }

  drawList() {
    this.stop?.abort();
    this.stop = new AbortController();
    const signal = AbortSignal.any([this.stop.signal, this.signal]);
    this.letters = table({
      label: "Dead letters",
      signal,
      what: "all brokers",
      key: (row) => String(row.offset),
      columns: this.columns(),
      load: (asked) => this.page(asked),
      actions: [
        { label: (rows) => `Resend ${rows.length}`, act: (rows) => this.someThen("resend", rows) },
        { label: (rows) => `Delete ${rows.length}`, isDanger: true, act: (rows) => this.someThen("delete", rows) },
      ],
      empty: {
        title: "No dead letters",
        text: "The group gives a message up after its last attempt; it comes here with reason and attempts.",
      },
    });
    const title =
      this.reason === null ? "The letters" : h("span", "The letters: ", this.reason === "" ? "no reason given" : name(this.reason));
    const acts = this.reason === null ? [] : this.reasonButtons();
    fill(this.list, panel(title, { unit: "oldest first; resent ones stay, until you delete them", acts, flush: this.letters.element }));
  }

  reasonButtons() {
    const words = this.reason === "" ? "no reason given" : this.reason;
    const chosen = () => {
      const found = this.reasons.value.find((each) => each.reason === this.reason) ?? { reason: this.reason, count: 0 };
      return { ...found, isWhole: this.reasons.isComplete, total: this.reasons.total };
    };
    const remove = this.button("Delete all", `all: ${words}`, () => this.actions.ofReason("delete", chosen()), {
      isDanger: true,
      isSmall: true,
    });
    return [remove, h("button.small", { type: "button", onclick: () => this.choose(null) }, "Show all reasons")];
  }

  async someThen(verb, rows) {
    const isDone = await this.actions.some(verb, rows);
    if (isDone) await this.loadReasons();
    return isDone;
  }

  /** A page of letters.  A call looks at a bounded number: where none of them fits, it goes on. */
  async page({ after, limit, signal }) {
    const path = this.path("listDeadLetters") + (this.reason === "" ? "?reason=" : ""); // an empty one is a reason, too
    let from = after;
    for (;;) {
      const found = await get(path, { query: { from_offset: from, limit, reason: this.reason }, signal });
      if (found.value.length || found.next === null) return { value: found.value, next: found.next === null ? null : String(found.next) };
      from = found.next;
    }
  }

  columns() {
    const show = (row) =>
      h("button.plain", { type: "button", "aria-label": `Show ${number(row.offset)}`, onclick: () => this.look(row) }, number(row.offset));
    return [
      { id: "offset", label: "Offset", isHead: true, cell: show },
      { id: "time", label: "Dead since, UTC", cell: (row) => h("span.nw", timeOf(row.time)) },
      {
        id: "origin",
        label: "Topic, queue, offset",
        optional: 1,
        cell: ({ origin }) =>
          origin ? [topicLink(origin.topic, origin.namespace), `, ${number(origin.queueId)}, ${number(origin.queueOffset)}`] : none(),
      },
      {
        id: "keys",
        label: "Keys",
        optional: 1,
        cell: (row) => (row.keys.length ? row.keys.map((key, at) => [at > 0 && ", ", name(key)]) : none()),
      },
      { id: "attempts", label: "Attempts", align: "n", optional: 1, cell: (row) => number(row.attempts) },
      { id: "reason", label: "Reason", cell: (row) => (row.reason ? h("span.brk", name(row.reason)) : none()) },
      { id: "message", label: "Message", optional: 2, cell: (row) => messageLink(row.origin?.id ?? row.id) },
    ];
  }

  async look(row) {
    const before = document.activeElement;
    const close = () => {
      fill(this.detail);
      if (before?.isConnected) before.focus();
    };
    const shown = await letterPanel(row, close, this.signal);
    fill(this.detail, shown);
    shown.querySelector("button").focus({ preventScroll: true });
    shown.scrollIntoView({ block: "nearest" });
  }
}

const timeOf = (value) => (value ? h("span", { title: fullTime(value) }, time(value)) : unknown());

/** Counts of two parts of a walk together. */
function added(first, second) {
  const sums = new Map(first.value.map((each) => [each.reason, { ...each }]));
  for (const each of second.value) {
    const known = sums.get(each.reason);
    if (known) Object.assign(known, { count: known.count + each.count, newest: each.newest });
    else sums.set(each.reason, each);
  }
  const value = [...sums.values()].sort((one, other) => other.count - one.count);
  return { ...second, value, total: first.total, lookedAt: first.lookedAt + second.lookedAt };
}
