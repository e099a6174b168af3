// One stream of events for all tabs of a browser: six connections are all that HTTP/1.1 has.  One tab reads, and tells
// the others.  Hidden and paused tabs read nothing.

import { followEvents } from "./events.js";

const LEASE_MS = 6_000; // a tab without Web Locks reads for that long after its last sign

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
    try {
      await followEvents(this.path, {
        signal,
        heard: (event, data) => event === this.event && this.#share({ kind: "data", data: JSON.parse(data), at: Date.now() }),
        lost: (retryAt, wake) => {
          this.wake = wake;
          this.#share({ kind: "lost", retryAt });
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      this.#share({ kind: "refused" });
      await aborted(signal);
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
