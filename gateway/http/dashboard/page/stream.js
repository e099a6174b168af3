// One stream of events for all tabs of a browser: six connections are all that HTTP/1.1 has.  One tab reads, and tells
// the others.  Hidden and paused tabs read nothing.

import { address, refusal } from "./api.js";

const RETRY_SECONDS = [1, 2, 4, 8, 15, 30];
const SILENCE_MS = 15_000; // longest silence of a stream that lives
const LEASE_MS = 6_000; // a tab without Web Locks reads for that long after its last sign
const MAX_EVENT_CHARACTERS = 4 << 20;

/** A stream that tabs share.  `path`: its address below `/api/v1/`; `event`: the event whose data is told. */
export class SharedStream {
  constructor(path, event) {
    Object.assign(this, { path, event, isPaused: false, last: null, lastAt: null, retryAt: null });
    this.state = "asking"; // asking, live, lost, paused, hidden, refused
    this.listeners = new Set();
    this.channel = new BroadcastChannel(`entrepot ${location.pathname} ${path}`);
    this.channel.onmessage = ({ data }) => this.#heard(data);
    document.addEventListener("visibilitychange", () => this.#adjust());
  }

  /** Call `listener(data, stream)` with each event, and `listener(null, stream)` for each change of state.  The last
   * event is told at once. */
  watch(listener, signal) {
    this.listeners.add(listener);
    signal?.addEventListener("abort", () => this.unwatch(listener));
    if (this.last !== null) listener(this.last, this);
    this.#adjust();
  }

  unwatch(listener) {
    this.listeners.delete(listener);
    this.#adjust();
  }

  /** Stop or go on with live updates, in this tab. */
  pause(isPaused) {
    this.isPaused = isPaused;
    this.#adjust();
  }

  /** Try again now. */
  retry() {
    this.wake?.();
  }

  #adjust() {
    const isWanted = this.listeners.size > 0 && !this.isPaused && document.visibilityState === "visible";
    if (isWanted && !this.running) {
      this.running = new AbortController();
      this.#tell("asking");
      this.#takeTurn(this.running.signal);
    } else if (!isWanted && this.running) {
      this.running.abort();
      this.running = null;
      this.#tell(this.isPaused ? "paused" : "hidden");
    } else if (!isWanted) this.#tell(this.isPaused ? "paused" : "hidden");
  }

  async #takeTurn(signal) {
    while (!signal.aborted) {
      try {
        if (navigator.locks) await navigator.locks.request(this.channel.name, { signal }, () => this.#read(signal));
        else await withLease(this.channel.name, signal, () => this.#read(signal));
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
  }

  async #read(signal) {
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#readOnce(signal, () => (failures = 0));
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 403) {
          this.#share({ kind: "refused" });
          await aborted(signal);
          return;
        }
      }
      if (signal.aborted) return;
      const seconds = RETRY_SECONDS[Math.min(failures, RETRY_SECONDS.length - 1)];
      failures += 1;
      this.retryAt = Date.now() + seconds * 1000;
      this.#share({ kind: "lost", retryAt: this.retryAt });
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, seconds * 1000);
        signal.addEventListener("abort", resolve, { once: true });
      });
    }
  }

  async #readOnce(signal, onEvent) {
    const once = new AbortController();
    const end = () => once.abort();
    signal.addEventListener("abort", end, { once: true });
    let silence = setTimeout(end, SILENCE_MS);
    try {
      const headers = { accept: "text/event-stream", "x-entrepot-dashboard": "1" };
      const answer = await fetch(address(this.path), { headers, signal: once.signal, cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw await refusal(answer);
      for await (const [event, data] of events(answer.body)) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MS);
        onEvent();
        if (event === this.event) this.#share({ kind: "data", data: JSON.parse(data), at: Date.now() });
      }
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", end);
      once.abort();
    }
  }

  #share(message) {
    this.channel.postMessage(message);
    this.#heard(message);
  }

  #heard(message) {
    if (!this.running) return;
    if (message.kind === "data") {
      Object.assign(this, { last: message.data, lastAt: message.at, retryAt: null, state: "live" });
      for (const listener of this.listeners) listener(message.data, this);
    } else if (message.kind === "lost") {
      this.retryAt = message.retryAt;
      this.#tell("lost");
    } else if (message.kind === "refused") this.#tell("refused");
  }

  #tell(state) {
    if (this.state === state && state !== "lost") return;
    this.state = state;
    for (const listener of this.listeners) listener(null, this);
  }
}

const aborted = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));

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

/** Without Web Locks (pages over plain HTTP have none): the turn is a lease in localStorage, which its owner renews. */
async function withLease(name, signal, work) {
  const own = String(Math.random());
  const isMine = () => {
    const [owner, until] = (localStorage.getItem(name) ?? "").split(" ");
    return owner === own || !owner || Number(until) < Date.now();
  };
  const renew = () => localStorage.setItem(name, `${own} ${Date.now() + LEASE_MS}`);
  while (!signal.aborted) {
    if (isMine()) {
      renew();
      const timer = setInterval(renew, LEASE_MS / 3);
      try {
        return await work();
      } finally {
        clearInterval(timer);
        if (isMine()) localStorage.removeItem(name);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS / 3));
  }
}

/** The overview, every two seconds while anybody looks. */
export const overviewStream = new SharedStream("overview:watch", "overview");
