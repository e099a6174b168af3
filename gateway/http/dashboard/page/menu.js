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
  { route: "queues", page: "queues", section: "Messages", label: "Queues and exchanges" },
  { route: "queues/:vhost/:name", page: "queue", under: "queues" },
  { route: "exchanges", page: "exchanges", under: "queues" },
  { route: "exchanges/:vhost/:name", page: "exchange", under: "queues" },
  { route: "bindings", page: "bindings", under: "queues" },
  { route: "policies", page: "policies", under: "queues" },
  { route: "webhooks", page: "webhooks", section: "Clients", label: "Webhooks" },
  { route: "webhooks/:id", page: "webhook", under: "webhooks" },
  { route: "bridges", page: "bridges", section: "Move", label: "Bridges", right: "Cluster:LIST" },
  { route: "bridges/:name", page: "bridge", under: "bridges" },
  { route: "event-rules", page: "event_rules", section: "Move", label: "Event rules" },
  { route: "event-rules/:topic", page: "event_rule", under: "event-rules" },
  { route: "ingest-jobs", page: "ingest_jobs", section: "Move", label: "Spark jobs", right: "Cluster:LIST" },
  { route: "components", page: "components", section: "Govern", label: "Component sheet" },
  { route: "find/:text", page: "find" },
];

/** The first page. */
export const START = "overview";
