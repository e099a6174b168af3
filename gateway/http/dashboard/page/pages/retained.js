// Retained messages of MQTT: what a new subscriber gets at once.

import { get } from "../api.js";
import { h, name } from "../dom.js";
import { bytes, count, fullTime, number, time } from "../format.js";
import { results } from "../parts/banner.js";
import { commandText, quoted } from "../parts/copying.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { failure } from "../parts/answers.js";
import { head } from "../parts/head.js";
import { inTurn, namedInTurn, tellInTurn } from "../parts/in_turn.js";
import { hexShown, textOf, textShown } from "../parts/message_body.js";
import { pathOf, perform, rest } from "../parts/operations.js";
import { facts, panel, scrolling } from "../parts/panel.js";
import { none } from "../parts/states.js";
import { table } from "../parts/table.js";

const REFRESH_SECONDS = 10;
const EVERYTHING = "#";
const SHOWN_BYTES = 2048;
const COUNTED = 1000; // names in one question of a count
const MOST_COUNTS = 5; // such questions before the number is "at least"

export async function show(place, parameters, signal) {
  const told = results();
  let wanted = EVERYTHING;
  const all = h(
    "button",
    { type: "button", class: "danger", onclick: () => deleteMatching(wanted, told, () => list.reload(), signal) },
    "Delete all that match",
  );
  const top = head("Retained messages", { acts: all, sub: ["of MQTT", "times in UTC"] });
  const list = table({
    label: "Retained messages",
    signal,
    seconds: REFRESH_SECONDS,
    key: (row) => row.name,
    columns: [
      {
        id: "name",
        label: "Name",
        isHead: true,
        cell: (row) => h("button.plain.brk", { type: "button", onclick: () => look(row) }, name(row.name)),
      },
      { id: "size", label: "Size", align: "n", cell: (row) => bytes(row.size) },
      { id: "qos", label: "QoS", align: "n", optional: 1, cell: (row) => number(row.qos) },
      { id: "type", label: "Content type", optional: 1, cell: (row) => (row.contentType ? name(row.contentType) : none()) },
      { id: "born", label: "Published", optional: 1, cell: (row) => h("span.nw", { title: fullTime(row.bornTime) }, time(row.bornTime)) },
      {
        id: "expires",
        label: "Expires",
        optional: 1,
        cell: (row) => (row.expiresAt ? h("span.nw", { title: fullTime(row.expiresAt) }, time(row.expiresAt)) : "never"),
      },
    ],
    filters: [{ name: "filter", label: "MQTT filter", hint: EVERYTHING }],
    load: ({ after, limit, filter, signal: asked }) => {
      wanted = filter.filter || EVERYTHING;
      return get("retained", { query: { after, limit, filter: wanted }, signal: asked });
    },
    actions: [{ label: (rows) => `Delete ${rows.length}`, isDanger: true, act: (rows) => deleteSome(rows, told) }],
    empty: { title: "Nothing is retained", text: "A message that is published with the retain flag stays here for new subscribers." },
  });
  place.append(
    top.element,
    told.element,
    panel("Retained", { unit: "+ stands for one level, # for all that follow", flush: list.element }),
  );
}

async function look(row) {
  const body = h("div.stack");
  const close = h("button", { type: "button" }, "Close");
  const dialog = openDialog(
    "Retained message",
    h("p.brk", name(row.name)),
    facts([
      ["Message", row.id ? h("span.mono.xs", name(row.id)) : null],
      ["Size", bytes(row.size)],
    ]),
    body,
    h("p.acts", close),
  );
  close.addEventListener("click", () => dialog.close());
  close.focus();
  const controller = new AbortController();
  dialog.closed.then(() => controller.abort());
  try {
    const answer = await get(pathOf("getRetained", row), { raw: true, headers: { accept: "*/*" }, signal: controller.signal });
    body.append(...bodyShown(await firstBytes(answer), row.size));
  } catch (error) {
    if (!controller.signal.aborted) body.append(failure("The body was not shown", error));
  }
}

function bodyShown(content, size) {
  if (size === 0) return [h("p.q", "The body is empty.")];
  const isCut = content.length < size;
  const text = textOf(content, isCut);
  const isText = text !== null && !text.includes("\0");
  const part = isCut ? `the first ${bytes(content.length)} of ${bytes(size)}` : bytes(size);
  const shown = isText ? textShown(text) : hexShown(content);
  return [h("p.unit", `${part}, ${isText ? "as text" : "in hexadecimal"}`), scrolling("Body", shown)];
}

/** The first bytes of an answer; the rest is not read. */
async function firstBytes(answer) {
  const found = [];
  const reader = answer.body.getReader();
  while (found.length < SHOWN_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    found.push(...value.subarray(0, SHOWN_BYTES - found.length));
  }
  await reader.cancel();
  return Uint8Array.from(found);
}

async function deleteSome(rows, told) {
  const verb = `Delete ${count(rows.length, "retained message")}`;
  const result = await confirm({
    title: `${verb}?`,
    loss: "New subscribers get nothing for these names until the next message. This cannot be undone.",
    ...namedInTurn(
      rows,
      (row) => name(row.name),
      (row, { isSure }) => ({
        cli: commandText("entrepot retained delete", [row.name], isSure ? " --yes" : ""),
        rest: rest("deleteRetained", row),
      }),
    ),
    verb,
    isDanger: true,
    run: () => inTurn(rows, (row) => perform("deleteRetained", row)),
  });
  if (!result) return false;
  tellInTurn(told, result.done, ["retained message"], "deleted", (row) => row.name);
  return result.done.done > 0;
}

async function deleteMatching(filter, told, reload, signal) {
  let found;
  try {
    found = await counted(filter, signal);
  } catch (error) {
    if (!signal.aborted) told.tell("bad", "What matches was not counted.", error.message);
    return;
  }
  const amount = number(found.amount, { atLeast: !found.isWhole });
  const result = await confirm({
    title: `Delete ${amount} retained messages that match ${filter}?`,
    loss: "New subscribers get nothing for these names until the next message. This cannot be undone.",
    cli: `entrepot retained delete --filter ${quoted(filter)}`,
    rest: rest("deleteRetainedMatching", {}, undefined, { filter }),
    verb: `Delete ${amount}`,
    isDanger: true,
    typed: filter,
    run: () => perform("deleteRetainedMatching", {}, undefined, { query: { filter } }),
  });
  if (!result) return;
  told.tell(
    "info",
    [
      `${count(result.done.deleted, "retained message")} that matched `,
      name(filter),
      result.done.deleted === 1 ? " was deleted." : " were deleted.",
    ],
    "The audit has an entry.",
  );
  await reload();
}

/** The number of messages that match, as far as it is counted. */
async function counted(filter, signal) {
  let amount = 0;
  let after = null;
  for (let asked = 0; asked < MOST_COUNTS; asked += 1) {
    const page = await get("retained", { query: { filter, after, limit: COUNTED }, signal });
    amount += page.value.length;
    after = page.next;
    if (after === null) return { amount, isWhole: true };
  }
  return { amount, isWhole: false };
}
