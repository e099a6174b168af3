// Links to the pages of topics, groups and messages; only the name where there is no such page.

import { h, name } from "../dom.js";
import { link, path } from "../links.js";
import { PAGES } from "../menu.js";
import { DEFAULT_NAMESPACE } from "./namespaces.js";

const hasPage = (route) => PAGES.some((entry) => entry.route.replace(/:\w+/, ":") === route);

/** The query of an address that says a namespace, which the default one need not. */
export const namespaceQuery = (namespace) => (namespace && namespace !== DEFAULT_NAMESPACE ? { namespace } : {});

/** The address of a group's page. */
export const groupAddress = (group, namespace, query = {}) => link(path("groups", group), { ...namespaceQuery(namespace), ...query });

/** The address of a group's dead letters. */
export const lettersAddress = (group, namespace, query = {}) =>
  link(path("dead-letters", group), { ...namespaceQuery(namespace), ...query });

/** A group's name, with its page. */
export const groupLink = (group, namespace) => h("a", { href: groupAddress(group, namespace) }, name(group));

/** A topic's name, with its page. */
export function topicLink(topic, namespace) {
  return hasPage("topics/:") ? h("a", { href: link(path("topics", topic), namespaceQuery(namespace)) }, name(topic)) : name(topic);
}

/** A message's id, with its journey. */
export function messageLink(id) {
  return hasPage("journey/:") ? h("a.mono.xs", { href: link(path("journey", id)) }, name(id)) : h("span.mono.xs", name(id));
}
