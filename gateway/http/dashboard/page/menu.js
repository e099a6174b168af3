// All pages: the address, the module below pages/, and the place in the menu.  A page that is not there has no line.

import { topicExists } from "./parts/topic_calls.js";

export const SECTIONS = ["Watch", "Messages", "Clients", "Move", "Govern"];

/** `route`: the address behind `#/`, where `:name` stands for one segment.  `page`: the module `pages/<page>.js`.
 * `section`, `label`: the entry of the menu; a page without them is reached from others, and `under` names the route of
 * the entry that is marked instead.  `count`: the number beside it, from the overview (null: none).  `right`: needed on
 * the whole cluster to see the entry.  `finds`: {what, exists(text, signal)} makes the find box look for names of this
 * page's one parameter; without `exists` the page itself looks. */
export const PAGES = [
  { route: "overview", page: "overview", section: "Watch", label: "Overview" },
  { route: "cluster", page: "cluster", section: "Watch", label: "Cluster", right: "Cluster:LIST" },
  { route: "topics", page: "topics", section: "Messages", label: "Topics", count: (overview) => overview.counts?.topics },
  { route: "topics/:name", page: "topic", under: "topics", finds: { what: "topic", exists: topicExists } },
  { route: "components", page: "components", section: "Govern", label: "Component sheet" },
  { route: "find/:text", page: "find" },
];

/** The first page. */
export const START = "overview";
