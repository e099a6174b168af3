// Lists: one line a row, sorted and filtered by the server, paged by the last key.  Rows do not move while one of them has
// the focus, is selected, or is pointed at.

import { fill, h, plain } from "../dom.js";
import { here, keepInAddress } from "../links.js";
import { every } from "../live.js";
import { empty as emptyAnswer, failure, isTemporary, loading, RETRY_SECONDS } from "./answers.js";
import { partial } from "./banner.js";
import { filterFields } from "./filters.js";

const PAGE = 50;

/** A list.
 *
 * `label`: what the list is of, such as "Topics".
 * `columns`: [{id, label, cell(row), align, sort, optional, isHead}].  `cell` gives text or nodes; `align`: "n" for numbers,
 *   "c" centred; `sort`: the server's word; `optional`: 1 leaves narrow screens, 2 middle ones too; `isHead`: names the row.
 * `load({after, limit, sort, filter, signal})`: asks for one page: {value, next, answered}.  `sort`: a word, "-" before it
 *   for descending, or null.  `filter`: values by name.
 * `key(row)`: the row's identity, a text.  `called(row)`: what the row is called, where that is not its key.
 * `sort`: the first order.  `filters`: [{name, label, type, options, value}], with the first `value`.
 * `actions`: [{label(rows), act(rows), isDanger}] for selected rows; each resolves when it is done.
 * `empty`: {title, text, action}.  `what`: who is asked.  `seconds`: between refreshes; 0: none.  `foot(rows)`: a last row.
 * `inAddress`: keep order, filter and place in the page's address.
 * Returns {element, reload(), rows()}. */
export function table(options) {
  return new List({ limit: PAGE, sort: null, filters: [], actions: [], what: "the gateway", seconds: 0, foot: null, inAddress: true, ...options }).api();
}

class List {
  constructor(options) {
    Object.assign(this, options);
    const [, query] = this.inAddress ? here() : ["", new URLSearchParams()];
    this.order = query.get("sort") ?? this.sort;
    this.after = query.get("after");
    this.filter = Object.fromEntries(this.filters.map(({ name, value = "" }) => [name, query.get(name) ?? value]));
    this.found = [];
    this.failed = null; // the error that is shown
    this.lines = new Map();
    this.selected = new Map();
    this.body = h("tbody");
    this.tableFoot = h("tfoot");
    this.headRow = h("tr");
    this.notes = h("div.notes");
    this.bulk = h("div.bulk", { hidden: true });
    this.fresh = h("div.bulk", { hidden: true, role: "status" });
    this.instead = h("div.pad", { hidden: true });
    this.ways = h("div.ways");
    const inner = h("table", h("thead", this.headRow), this.body, this.tableFoot);
    this.region = h("div.tw", { tabindex: "0", role: "group", "aria-label": this.label }, inner);
    const fields = filterFields(this.filters, this.filter, () => this.restart());
    this.element = h("div.list", fields, this.notes, this.bulk, this.fresh, this.region, this.instead, this.ways);
    this.#drawHead();
    if (this.seconds) every(this.seconds, () => this.#ask({ isQuiet: true }), this.signal);
    else every(RETRY_SECONDS, () => isTemporary(this.failed) && this.#ask({ isQuiet: true }), this.signal);
  }

  api() {
    this.reload();
    return { element: this.element, reload: () => this.reload(), rows: () => this.found };
  }

  reload() {
    return this.#ask({ isQuiet: false });
  }

  /** From the first page, with the order and filter now. */
  restart() {
    this.after = null;
    this.#keep();
    return this.reload();
  }

  #keep() {
    if (!this.inAddress) return;
    const changed = this.filters.map(({ name, value = "" }) => [name, this.filter[name] === value ? null : this.filter[name]]);
    keepInAddress({ sort: this.order === this.sort ? null : this.order, after: this.after, ...Object.fromEntries(changed) });
  }

  async #ask({ isQuiet }) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const signal = AbortSignal.any([asking.signal, this.signal]);
    const wait = isQuiet ? null : loading(this.what);
    if (wait) {
      this.#waits(wait.element);
      this.failed = null;
    }
    try {
      const page = await this.load({ after: this.after, limit: this.limit, sort: this.order, filter: this.filter, signal });
      if (!signal.aborted) this.#show(page, isQuiet);
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    } finally {
      wait?.stop();
      this.element.removeAttribute("aria-busy");
    }
  }

  #waits(element) {
    this.element.setAttribute("aria-busy", "true");
    if (this.found.length) fill(this.notes, h("div.pad", element));
    else {
      this.instead.hidden = false;
      this.region.hidden = true;
      fill(this.instead, element);
    }
  }

  #failed(error) {
    if (this.failed?.message === error.message) return;
    this.failed = error;
    const shown = failure(`${this.label}: not loaded`, error, { again: () => this.reload() });
    if (this.found.length) fill(this.notes, h("div.pad", shown));
    else {
      this.instead.hidden = false;
      this.region.hidden = true;
      fill(this.instead, shown);
    }
  }

  #show(page, isQuiet) {
    this.failed = null;
    const what = /brokers/.test(this.what) ? "brokers" : "gateways";
    const lacking = partial(page.answered, { what, means: "Rows of what did not answer are missing.", again: () => this.reload() });
    this.isPartial = lacking !== null;
    fill(this.notes, lacking && h("div.pad", lacking));
    this.next = page.next ?? null;
    if (isQuiet && this.#isHeld()) {
      this.#updateInPlace(page.value);
      const known = new Set(this.found.map(this.key));
      const amount = page.value.filter((row) => !known.has(this.key(row))).length;
      this.fresh.hidden = amount === 0;
      if (amount) fill(this.fresh, h("button.small", { type: "button", onclick: () => this.#draw(page.value) }, `Show ${amount} new`));
      return;
    }
    this.#draw(page.value);
  }

  #isHeld() {
    return this.selected.size > 0 || this.body.contains(document.activeElement) || this.body.matches(":hover");
  }

  #updateInPlace(rows) {
    const found = new Map(rows.map((row) => [this.key(row), row]));
    this.found = this.found.map((row) => found.get(this.key(row)) ?? row);
    for (const row of this.found) this.#redraw(this.lines.get(this.key(row)), row);
    this.#drawFoot();
  }

  #redraw(line, row) {
    const now = [...this.#cells(row)];
    [...line.children].forEach((cell, at) => {
      const isSame = cell.isEqualNode(now[at]) && !cell.querySelector("button");
      if (!isSame && !cell.contains(document.activeElement) && !cell.querySelector("input")) cell.replaceWith(now[at]);
    });
  }

  #draw(rows) {
    this.fresh.hidden = true;
    this.found = rows;
    const isEmpty = rows.length === 0;
    this.region.hidden = isEmpty;
    this.instead.hidden = !isEmpty;
    if (isEmpty) fill(this.instead, this.#emptyWords());
    const before = this.lines;
    this.lines = new Map();
    for (const row of rows) {
      const key = this.key(row);
      const line = before.get(key) ?? h("tr", this.#cells(row));
      if (before.has(key)) this.#redraw(line, row);
      this.lines.set(key, line);
    }
    this.body.replaceChildren(...this.lines.values());
    for (const key of [...this.selected.keys()]) if (!this.lines.has(key)) this.selected.delete(key);
    this.#drawFoot();
    this.#drawBulk();
    this.#drawWays();
  }

  #emptyWords() {
    const isFiltered = this.filters.some(({ name, value = "" }) => this.filter[name] !== value);
    if (isFiltered) {
      const clear = () => {
        for (const { name, value = "" } of this.filters) {
          this.filter[name] = value;
          const input = this.element.querySelector(`#filter-${name}`);
          if (input) input.value = value;
        }
        this.restart();
      };
      return emptyAnswer(`No ${this.label.toLowerCase()} fit the filter`, "Names and numbers are compared at the server.", { label: "Clear the filter", act: clear });
    }
    if (this.isPartial) return emptyAnswer("None in what answered", "Those that gave no answer may have some.");
    return emptyAnswer(this.empty?.title ?? `No ${this.label.toLowerCase()}`, this.empty?.text ?? "", this.empty?.action);
  }

  #cells(row) {
    const key = this.key(row);
    const cells = this.columns.map((column) => {
      const classes = [column.align, ...optional(column)].filter(Boolean).join(" ");
      return column.isHead ? h("th", { scope: "row", class: classes }, column.cell(row)) : h("td", { class: classes }, column.cell(row));
    });
    if (this.actions.length === 0) return cells;
    const box = h("input", { type: "checkbox", "aria-label": `Select ${plain(this.called?.(row) ?? key)}`, checked: this.selected.has(key), onchange: () => this.#select(key, row, box.checked) });
    return [h("td.pick", box), ...cells];
  }

  #select(key, row, isOn) {
    if (isOn) this.selected.set(key, row);
    else this.selected.delete(key);
    this.lines.get(key)?.classList.toggle("sel", isOn);
    this.#drawBulk();
  }

  #selectAll(isOn) {
    this.selected = new Map(isOn ? this.found.map((row) => [this.key(row), row]) : []);
    for (const [key, line] of this.lines) {
      line.classList.toggle("sel", this.selected.has(key));
      line.querySelector("input").checked = isOn;
    }
    this.#drawBulk();
  }

  #drawBulk() {
    if (this.actions.length === 0) return;
    const rows = [...this.selected.values()];
    this.bulk.hidden = rows.length === 0;
    this.all.checked = rows.length > 0 && rows.length === this.found.length;
    this.all.indeterminate = rows.length > 0 && rows.length < this.found.length;
    const buttons = this.actions.map((action) => h("button.small", { type: "button", class: action.isDanger ? "danger" : "", onclick: () => this.#act(action, rows) }, action.label(rows)));
    fill(this.bulk, h("span", `${rows.length} selected`), buttons, h("button.small.bare", { type: "button", onclick: () => this.#selectAll(false) }, "Clear"));
  }

  async #act(action, rows) {
    const isDone = await action.act(rows);
    if (isDone === false || isDone === undefined) return;
    this.#selectAll(false);
    await this.reload();
  }

  #drawHead() {
    const heads = this.columns.map((column) => {
      const classes = [column.align, ...optional(column)].filter(Boolean).join(" ");
      if (!column.sort) return h("th", { scope: "col", class: classes }, column.label || h("span.vh", column.id));
      const isDown = this.order === `-${column.sort}`;
      const isSorted = isDown || this.order === column.sort;
      const turn = () => {
        this.order = isSorted ? (isDown ? column.sort : `-${column.sort}`) : column.align === "n" ? `-${column.sort}` : column.sort;
        this.#drawHead();
        this.headRow.querySelector(`[data-sort="${column.id}"]`)?.focus();
        this.restart();
      };
      const button = h("button.sort", { type: "button", "data-sort": column.id, onclick: turn }, column.label);
      return h("th", { scope: "col", class: classes, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : null }, button);
    });
    if (this.actions.length) {
      this.all = h("input", { type: "checkbox", "aria-label": "Select all rows shown", onchange: () => this.#selectAll(this.all.checked) });
      heads.unshift(h("td.pick", this.all));
    }
    fill(this.headRow, heads);
  }

  #drawFoot() {
    if (this.foot && this.found.length) fill(this.tableFoot, this.foot(this.found));
    else fill(this.tableFoot);
  }

  #drawWays() {
    const isFirst = this.after === null;
    if (isFirst && !this.next) {
      fill(this.ways);
      return;
    }
    const go = (after) => {
      this.after = after;
      this.#keep();
      this.#selectAllIfAny();
      this.region.scrollIntoView({ block: "nearest" });
      this.reload();
    };
    const back = h("button.small", { type: "button", disabled: isFirst, onclick: () => go(null) }, "Back to start");
    const on = h("button.small", { type: "button", disabled: !this.next, onclick: () => go(this.next) }, "Next");
    fill(this.ways, h("footer.pages", h("span", isFirst ? `First ${this.found.length}` : `${this.found.length} more`), back, on));
  }

  #selectAllIfAny() {
    if (this.selected.size) this.#selectAll(false);
  }
}

const optional = (column) => (column.optional === 2 ? ["opt", "opt2"] : column.optional ? ["opt"] : []);
