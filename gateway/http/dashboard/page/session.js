// The user who is logged in, and their rights.

import { del, get, post } from "./api.js";

let now = null;

/** The session: {user, isSuper, isAnonymous, expiresAt, setupNeeded, tls, cluster, gateway, version, may}. */
export const session = () => now;

/** Ask the server who is logged in.  Raises ApiError. */
export async function loadSession() {
  now = await get("session");
  return now;
}

/** Log in by {name, password} or {token}.  Raises ApiError. */
export async function logIn(credentials) {
  now = await post("session", credentials);
  return now;
}

/** Log out on every gateway.  Raises ApiError. */
export async function logOut() {
  await del("session");
  now = null;
}

/** True if pages may be shown: somebody is logged in, or the gateway is open. */
export const isIn = () => now !== null && (now.user !== null || now.isAnonymous);

/** True if the user has a right on the whole cluster, such as `Cluster:LIST`.  Rights on single topics and groups are
 * asked for by trying: the server names the missing one. */
export const may = (right) => !right || Boolean(now?.isSuper) || (now?.may ?? []).includes(right);
