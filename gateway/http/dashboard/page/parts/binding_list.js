// Lists of bindings: of a queue, an exchange, or a virtual host.

import { h, name } from "../dom.js";
import { link, path } from "../links.js";
import { unbind } from "./amqp_dialogs.js";
import { argumentsText, exchangeName, inPath, pageOfPath } from "./rabbitmq.js";
import { table } from "./table.js";

export const BINDING_COLUMNS = ["source", "vhost", "destination", "destination_type", "routing_key", "arguments", "properties_key"];

const NOBODY = {
  source: "No exchange gives it messages.",
  destination: "It gives its messages to nobody.",
  both: "There is no queue yet.",
};

/** A list of bindings.  `address`: its path; `label`; `end`: the end that is shown, "source" or
 * "destination", or "both"; `told`: of `results`. */
export function bindingList({ address, label, end, told, signal, sort = null, inAddress = false }) {
  const remove = async (binding) => {
    if (!(await unbind(binding))) return;
    told.tell(
      "info",
      ["The binding of ", name(binding.destination), " to ", exchangeName(binding.source), " was deleted."],
      "The audit has an entry.",
    );
    await list.reload();
  };
  const list = table({
    label,
    signal,
    inAddress,
    sort,
    what: "its bindings",
    key: (row) => [row.source, row.destination_type, row.destination, row.properties_key].join(" "),
    columns: columns(end, remove),
    load: (asked) => pageOfPath(address, asked, BINDING_COLUMNS),
    empty: { title: "No bindings", text: NOBODY[end] },
  });
  return list;
}

function columns(end, remove) {
  const source = (row) => h("a", { href: link(path("exchanges", row.vhost, inPath(row.source))) }, exchangeName(row.source));
  const route = (row) =>
    row.destination_type === "queue" ? path("queues", row.vhost, row.destination) : path("exchanges", row.vhost, inPath(row.destination));
  const destination = (row) => [h("span.q", row.destination_type, " "), h("a", { href: link(route(row)) }, name(row.destination))];
  const ends = [
    { id: "source", label: "Exchange", isHead: end === "source", sort: "source", cell: source },
    { id: "destination", label: "To", isHead: end !== "source", sort: "destination", cell: destination },
  ];
  return [
    ...ends.filter((each) => end === "both" || each.id === end),
    {
      id: "key",
      label: "Routing key",
      sort: "routing_key",
      cell: (row) => h("span.mono.xs", row.routing_key ? name(row.routing_key) : h("span.q", "(empty)")),
    },
    { id: "arguments", label: "Arguments", optional: 1, cell: (row) => argumentsText(row.arguments) },
    {
      id: "do",
      label: "",
      cell: (row) =>
        row.source !== "" &&
        h(
          "button.small.danger",
          { type: "button", "aria-label": `Unbind ${row.destination} from ${row.source}`, onclick: () => remove(row) },
          "Unbind",
        ),
    },
  ];
}
