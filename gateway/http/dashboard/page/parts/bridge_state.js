// Bridges in words.

import { h } from "../dom.js";
import { number } from "../format.js";
import { state } from "./states.js";

const STATES = {
  connected: ["ok", "connected"],
  connecting: ["warn", "connecting"],
  "back-off": ["bad", "waits to try again"],
  standby: ["idle", "standby"],
};

/** The state of a bridge, or of it at one gateway. */
export const bridgeState = (bridge) => state(...(STATES[bridge.state] ?? ["unknown", bridge.state]));

/** Messages that either side refused for good. */
export function refused(row) {
  const sum = row.refusedIn + row.refusedOut;
  return h("span", { class: sum ? "warn-t" : "" }, number(sum, row));
}
