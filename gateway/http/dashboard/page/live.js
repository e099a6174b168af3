// Data that is asked for again and again, while somebody looks and updates are not paused.

import { overviewStream } from "./stream.js";

/** Call `work()` every `seconds`, until the signal aborts.  It is not called while it runs, while the page is hidden, or
 * while updates are paused. */
export function every(seconds, work, signal) {
  let isRunning = false;
  const timer = setInterval(async () => {
    if (isRunning || document.visibilityState !== "visible" || overviewStream.isPaused) return;
    isRunning = true;
    try {
      await work();
    } finally {
      isRunning = false;
    }
  }, seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
