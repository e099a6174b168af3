// Addresses of pages: what stands behind `#`.

import { START } from "./menu.js";

/** The address of a page: `link("overview")`, `link(path("topics", name), {sort: "lag"})`. */
export function link(route, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${route}${text ? `?${text}` : ""}`;
}

/** A route of segments, each of which may be any text. */
export const path = (...segments) => segments.map(encodeURIComponent).join("/");

/** The route and the parameters (URLSearchParams) of the address now. */
export function here() {
  const [route, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return [route || START, new URLSearchParams(query)];
}

/** Keep parameters in the address without showing the page anew, so that it can be linked to.  Empty ones leave it. */
export function keepInAddress(query) {
  const [route, now] = here();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") now.delete(key);
    else now.set(key, value);
  }
  history.replaceState(null, "", link(route, Object.fromEntries(now)));
}
