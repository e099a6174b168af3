// Actions on queues, exchanges, bindings and policies: each asks first.  All resolve to undefined if cancelled.

import { h, name } from "../dom.js";
import { number } from "../format.js";
import { confirm } from "./dialog.js";
import { formDialog } from "./form.js";
import { perform, rest } from "./operations.js";
import { admin, exchangeName, inPath, objectOf, objectSoFar, vhostField } from "./rabbitmq.js";

const TYPES = [
  ["classic", "classic"],
  ["quorum", "quorum"],
  ["stream", "stream"],
];
const EXCHANGE_TYPES = ["topic", "direct", "fanout", "headers"].map((each) => [each, each]);
const ARGUMENTS = {
  name: "arguments",
  label: "More arguments",
  type: "textarea",
  rows: 3,
  wide: true,
  hint: "A JSON object; empty: none.",
};
const CREATED = 201;

/** Put something that may be there already; true if it is new. */
const putNew = async (id, names, body) => (await perform(id, names, body, { raw: true })).status === CREATED;

/** Declare a queue.  Resolves to {done: {vhost, queue, isNew}}. */
export function declareQueue(vhosts, vhost) {
  const read = ({ type, durable, autoDelete, maxLength, messageTtl, deadLetterExchange, arguments: more }, parse) => {
    const given = {
      "x-queue-type": type,
      "x-max-length": maxLength,
      "x-message-ttl": messageTtl,
      "x-dead-letter-exchange": deadLetterExchange,
    };
    return { durable, auto_delete: autoDelete, arguments: { ...JSON.parse(JSON.stringify(given)), ...parse(more) } };
  };
  return formDialog("Create a queue", {
    fields: [
      vhostField(vhosts, vhost),
      { name: "queue", label: "Name", required: true, maxlength: 255 },
      { name: "type", label: "Type", type: "select", options: TYPES, value: "classic", problem: ["x-queue-type"] },
      { name: "durable", label: "Durable", type: "checkbox", value: true, hint: "It stays after a restart." },
      { name: "autoDelete", label: "Delete it after its last consumer", type: "checkbox", problem: ["auto_delete"] },
      { name: "maxLength", label: "Most messages", type: "number", problem: ["x-max-length"] },
      { name: "messageTtl", label: "Life of a message, ms", type: "number", problem: ["x-message-ttl"] },
      { name: "deadLetterExchange", label: "Dead letters go to exchange", problem: ["x-dead-letter-exchange"] },
      ARGUMENTS,
    ],
    submit: "Create queue",
    same: (values) => {
      const body = read(values, objectSoFar);
      const given = { name: values.queue ?? "", durable: body.durable, auto_delete: body.auto_delete, arguments: body.arguments };
      return {
        cli: admin(values.vhost ?? "/", "declare queue", given),
        rest: rest("declareQueue", { vhost: values.vhost, name: values.queue }, body),
      };
    },
    send: async (values) => {
      const body = read(values, (text) => objectOf("arguments", text));
      const isNew = await putNew("declareQueue", { vhost: values.vhost, name: values.queue }, body);
      return { vhost: values.vhost, queue: values.queue, isNew };
    },
  });
}

/** Declare an exchange.  Resolves to {done: {vhost, exchange, isNew}}. */
export function declareExchange(vhosts, vhost) {
  const read = ({ type, durable, autoDelete, internal, alternate, arguments: more }, parse) => ({
    type,
    durable,
    auto_delete: autoDelete,
    internal,
    arguments: { ...(alternate && { "alternate-exchange": alternate }), ...parse(more) },
  });
  return formDialog("Create an exchange", {
    fields: [
      vhostField(vhosts, vhost),
      { name: "exchange", label: "Name", required: true, maxlength: 255 },
      { name: "type", label: "Type", type: "select", options: EXCHANGE_TYPES, value: "topic" },
      { name: "durable", label: "Durable", type: "checkbox", value: true, hint: "It stays after a restart." },
      { name: "autoDelete", label: "Delete it after its last binding", type: "checkbox", problem: ["auto_delete"] },
      { name: "internal", label: "Only for other exchanges", type: "checkbox" },
      { name: "alternate", label: "What no binding takes goes to exchange", problem: ["alternate-exchange"] },
      ARGUMENTS,
    ],
    submit: "Create exchange",
    same: (values) => {
      const body = read(values, objectSoFar);
      const cli = admin(values.vhost ?? "/", "declare exchange", { name: values.exchange ?? "", ...body });
      return { cli, rest: rest("declareExchange", { vhost: values.vhost, name: values.exchange }, body) };
    },
    send: async (values) => {
      const body = read(values, (text) => objectOf("arguments", text));
      const isNew = await putNew("declareExchange", { vhost: values.vhost, name: values.exchange }, body);
      return { vhost: values.vhost, exchange: values.exchange, isNew };
    },
  });
}

/** Bind: one end is given, `{vhost, source}` or `{vhost, queue}`. */
export function bind({ vhost, source = null, queue = null }) {
  const ends = (values) => ({
    from: source ?? values.source ?? "",
    kind: queue === null ? values.kind : "q",
    to: queue ?? values.destination ?? "",
  });
  const names = ({ from, kind, to }) => ({ vhost, source: inPath(from), kind, destination: to });
  const other =
    queue === null
      ? [
          {
            name: "kind",
            label: "To",
            type: "select",
            options: [
              ["q", "a queue"],
              ["e", "an exchange"],
            ],
            value: "q",
          },
          { name: "destination", label: "Its name", required: true },
        ]
      : [{ name: "source", label: "Exchange", required: true }];
  return formDialog(queue === null ? "Bind to a queue or exchange" : "Bind to an exchange", {
    fields: [
      ...other,
      { name: "routing_key", label: "Routing key", hint: "Of topic exchanges: * is a word, # any number of words." },
      { ...ARGUMENTS, label: "Arguments", hint: "Of headers exchanges: a JSON object." },
    ],
    submit: "Bind",
    same: (values) => {
      const { from, kind, to } = ends(values);
      const body = { routing_key: values.routing_key ?? "", arguments: objectSoFar(values.arguments) };
      const given = { source: from, destination_type: kind === "q" ? "queue" : "exchange", destination: to, ...body };
      return { cli: admin(vhost, "declare binding", given), rest: rest("createBinding", names({ from, kind, to }), body) };
    },
    send: (values) =>
      perform("createBinding", names(ends(values)), {
        routing_key: values.routing_key ?? "",
        arguments: objectOf("arguments", values.arguments),
      }),
  });
}

/** Delete a binding as the API lists it. */
export function unbind(binding) {
  const { vhost, source, destination, destination_type: kind, routing_key: key, properties_key: properties } = binding;
  const names = { vhost, source: inPath(source), kind: kind === "queue" ? "q" : "e", destination, props: properties };
  const ends = { source, destination_type: kind, destination, properties_key: properties };
  return confirm({
    title: "Delete this binding?",
    loss: [
      exchangeName(source),
      " gives ",
      name(destination),
      " no more messages with the key ",
      name(key),
      ". What it has stays. You can bind it again.",
    ],
    cli: admin(vhost, "delete binding", ends),
    rest: rest("deleteBinding", names),
    verb: "Delete binding",
    isDanger: true,
    run: () => perform("deleteBinding", names),
  });
}

/** Delete all ready messages of a queue. */
export function purge(row) {
  const { vhost, name: queue, messages_ready: ready } = row;
  return confirm({
    title: `Purge the queue ${queue}?`,
    loss: [
      h("b", number(ready)),
      " ready messages are deleted. Those that a consumer has stay until it settles them. This cannot be undone.",
    ],
    cli: admin(vhost, "purge queue", { name: queue }),
    rest: rest("purgeQueue", row),
    verb: "Purge queue",
    isDanger: true,
    typed: queue,
    run: () => perform("purgeQueue", row),
  });
}

/** Delete one queue. */
export function deleteQueue(row) {
  const { vhost, name: queue, messages, consumers } = row;
  return confirm({
    title: `Delete the queue ${queue}?`,
    loss: [
      h("b", number(messages)),
      " messages, its bindings, and ",
      h("b", number(consumers)),
      " consumers lose it. This cannot be undone.",
    ],
    cli: admin(vhost, "delete queue", { name: queue }),
    rest: rest("deleteQueue", row),
    verb: "Delete queue",
    isDanger: true,
    typed: queue,
    run: () => perform("deleteQueue", row),
  });
}

/** Delete one exchange, which has so many bindings. */
export function deleteExchange(row, bindings) {
  const { vhost, name: exchange } = row;
  return confirm({
    title: `Delete the exchange ${exchange}?`,
    loss: [h("b", number(bindings)), " bindings are deleted with it. Publishing to it is refused from then on. This cannot be undone."],
    cli: admin(vhost, "delete exchange", { name: exchange }),
    rest: rest("deleteExchange", row),
    verb: "Delete exchange",
    isDanger: true,
    typed: exchange,
    run: () => perform("deleteExchange", row),
  });
}

const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"].map((each) => [each, each.replace("_", " ")]);

/** Create a policy, or change `policy`.  `kind`: policies or operator-policies. */
export function putPolicy(kind, vhosts, vhost, policy = null) {
  const body = (values, parse) => ({
    pattern: values.pattern ?? "",
    definition: parse(values.definition),
    priority: values.priority ?? 0,
    "apply-to": values["apply-to"],
  });
  const of = (values) => ({ vhost: policy?.vhost ?? values.vhost ?? "", name: policy?.name ?? values.policy ?? "" });
  const isOperators = kind === "operator-policies";
  const named = policy === null ? [vhostField(vhosts, vhost), { name: "policy", label: "Name", required: true }] : [];
  const [command, id] = isOperators ? ["declare operator_policy", "setOperatorPolicy"] : ["declare policy", "setPolicy"];
  return formDialog(policy === null ? "Create a policy" : `Change the policy ${policy.name}`, {
    fields: [...named, ...policyFields(isOperators, policy)],
    submit: policy === null ? "Create policy" : "Change policy",
    same: (values) => ({
      loss: "It holds at once, for all that match.",
      cli: admin(of(values).vhost || "/", command, { name: of(values).name, ...body(values, objectSoFar) }),
      rest: rest(id, of(values), body(values, objectSoFar)),
    }),
    send: async (values) => {
      await perform(
        id,
        of(values),
        body(values, (text) => objectOf("definition", text)),
      );
      return of(values).name;
    },
  });
}

function policyFields(isOperators, policy) {
  return [
    { name: "pattern", label: "Pattern of names", required: true, value: policy?.pattern, hint: "A regular expression, such as ^orders" },
    {
      name: "apply-to",
      label: "For",
      type: "select",
      options: isOperators ? APPLY_TO.slice(1, 5) : APPLY_TO,
      value: policy?.["apply-to"] ?? "queues",
      problem: ["apply-to"],
    },
    {
      name: "priority",
      label: "Priority",
      type: "number",
      value: policy?.priority ?? 0,
      hint: "Of the matching ones, the highest holds.",
    },
    {
      name: "definition",
      label: "Definition",
      type: "textarea",
      wide: true,
      required: true,
      value: policy ? JSON.stringify(policy.definition, null, 2) : '{"max-length": 10000}',
      hint: "A JSON object of arguments without x-",
    },
  ];
}
