// Server-sent events read by fetch, which sends headers and tells refusals: read, and read again after a loss.

import { address, refusal } from "./api.js";

const RETRY_SECONDS = [1, 2, 4, 8, 15, 30];
const SILENCE_MS = 15_000; // longest silence of a stream that lives
const MAX_EVENT_CHARACTERS = 4 << 20;

/** Read a stream until the signal aborts; after a loss wait, longer each time, and read again.
 *
 * `path`: below `/api/v1/`.  `heard(event, data)`: called with each event.  `lost(retryAt, wake)`: called after a loss, with
 * the time of the next try in epoch milliseconds and a function that tries at once.  `refuses(error)`: true for a refusal that
 * another try would not change.  Raises that refusal. */
export async function followEvents(
  path,
  { query = {}, signal, heard, lost, silence = SILENCE_MS, refuses = (error) => error.status === 403 },
) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await readOnce(address(path, query), signal, silence, (event, data) => {
        failures = 0;
        heard(event, data);
      });
    } catch (error) {
      if (signal.aborted) return;
      if (refuses(error)) throw error;
    }
    if (signal.aborted) return;
    const seconds = RETRY_SECONDS[Math.min(failures, RETRY_SECONDS.length - 1)];
    failures += 1;
    await new Promise((resolve) => {
      setTimeout(resolve, seconds * 1000);
      signal.addEventListener("abort", resolve, { once: true });
      lost(Date.now() + seconds * 1000, resolve);
    });
  }
}

async function readOnce(url, signal, silence, heard) {
  const once = new AbortController();
  const end = () => once.abort();
  signal.addEventListener("abort", end, { once: true });
  let timer = setTimeout(end, silence);
  try {
    const headers = { accept: "text/event-stream", "x-entrepot-dashboard": "1" };
    const answer = await fetch(url, { headers, signal: once.signal, cache: "no-store", credentials: "same-origin" });
    if (!answer.ok) throw await refusal(answer);
    for await (const [event, data] of events(answer.body)) {
      clearTimeout(timer);
      timer = setTimeout(end, silence);
      heard(event, data);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    once.abort();
  }
}

/** The events of a text/event-stream, as [event, data]; comments are events named "". */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    if (rest.length > MAX_EVENT_CHARACTERS) throw new Error("an event of the stream is too long");
    for (const block of blocks) yield fieldsOf(block);
  }
}

function fieldsOf(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? [event, data.join("\n")] : ["", ""];
}
