// All pages: the address, the module below pages/, and the place in the menu.  A page that is not there has no line.

export const SECTIONS = ["Watch", "Messages", "Clients", "Move", "Govern"];

/** `route`: the address behind `#/`, where `:name` stands for one segment.  `page`: the module `pages/<page>.js`.
 * `section`, `label`: the entry of the menu; a page without them is reached from others, and `under` names the route of
 * the entry that is marked instead.  `count`: the number beside it, from the overview (null: none).  `right`: needed on
 * the whole cluster to see the entry.  `finds`: {what, exists(text, signal)} makes the find box look for names of this
 * page's one parameter; without `exists` the page itself looks. */
export const PAGES = [
  { route: "overview", page: "overview", section: "Watch", label: "Overview" },
  { route: "cluster", page: "cluster", section: "Watch", label: "Cluster", right: "Cluster:LIST" },
  { route: "alarms", page: "alarms", section: "Watch", label: "Alarms", count: (overview) => overview.alarms.length || null, right: "Cluster:LIST" },
  { route: "groups", page: "groups", section: "Messages", label: "Groups", count: (overview) => overview.counts.groups },
  { route: "groups/:name", page: "group", under: "groups", finds: { what: "group", exists: isGroup } },
  { route: "dead-letters", page: "dead_letters", section: "Messages", label: "Dead letters" },
  { route: "dead-letters/:name", page: "group_letters", under: "dead-letters" },
  { route: "timers", page: "timers", section: "Messages", label: "Timers" },
  { route: "transactions", page: "transactions", section: "Messages", label: "Transactions" },
  { route: "retained", page: "retained", section: "Messages", label: "Retained", count: (overview) => overview.counts.retained },
  { route: "components", page: "components", section: "Govern", label: "Component sheet" },
  { route: "find/:text", page: "find" },
];

/** Loaded when it is first asked: the menu is below all pages. */
async function isGroup(text, signal) {
  return (await import("./parts/group_actions.js")).groupExists(text, signal);
}

/** The first page. */
export const START = "overview";
