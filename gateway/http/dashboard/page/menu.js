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
  { route: "journey", page: "journey", section: "Messages", label: "Message journey" },
  { route: "journey/:id", page: "journey", under: "journey", finds: { what: "message", exists: isMessage } },
  { route: "components", page: "components", section: "Govern", label: "Component sheet" },
  { route: "find/:text", page: "find" },
];

/** Loaded when it is first asked: the menu is below all pages. */
async function isMessage(text, signal) {
  return (await import("./parts/journey_words.js")).isMessage(text, signal);
}

/** The first page. */
export const START = "overview";
