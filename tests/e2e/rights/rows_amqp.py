"""The grid's rows of the AMQP door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]

from tests.e2e.rights.grid import Doors, Need, Row

EXCHANGES = {
    "grid": "topic",
    "grid.x": "topic",
    "direct": "direct",
    "fanout": "fanout",
    "headers": "headers",
    "hash": "x-consistent-hash",
    "modulus": "x-modulus-hash",
    "random": "x-random",
    "local": "x-local-random",
    "delayed": "x-delayed-message",
}
QUEUES = ("gq", "gr", "gq.x")
ROOT = "root"
Act = Callable[[Any], object]


def prepare(doors: Doors) -> None:
    """What the rows name, in `/` and in the virtual host `plant`."""
    for vhost in ("/", "plant"):
        with doors.amqp(ROOT, vhost, ROOT) as connection:
            channel = connection.channel()
            for name, kind in EXCHANGES.items():
                arguments = {"x-delayed-type": "direct"} if kind.endswith("message") else {}
                channel.exchange_declare(name, kind, durable=True, arguments=arguments)
            for name in QUEUES:
                channel.queue_declare(name, durable=True)
            channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})


def row(
    verb: str, form: str, needs: tuple[Need, ...], act: Act, *ways: str, vhost: str = "/", before: Act | None = None
) -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        refusals: list[ChannelClosedByBroker] = []
        with doors.amqp(user, vhost) as connection:
            try:
                channel = connection.channel()
                act(channel)
                if channel.is_open:
                    channel.close()  # and hears what was refused before
            except ChannelClosedByBroker as refusal:
                refusals.append(refusal)
        assert [each.reply_code for each in refusals] in ([], [403]), refusals
        return bool(refusals)

    def prepared(doors: Doors) -> None:
        assert before is not None
        with doors.amqp(ROOT, vhost, ROOT) as connection:
            before(connection.channel())

    found = frozenset((verb, *ways))
    return Row("AMQP", verb, form, needs, is_denied, found, None if before is None else prepared)


def topic(action: str, name: str) -> Need:
    return action, f"Topic:{name}"


def pub(*names: str) -> tuple[Need, ...]:
    return tuple(topic("PUB", name) for name in names)


def group(name: str) -> tuple[Need, ...]:
    return (("SUB", f"Group:{name}"),)


def publish(exchange: str, key: str, **headers: Any) -> Act:
    properties = pika.BasicProperties(headers=headers or None)
    return lambda channel: channel.basic_publish(exchange, key, b"x", properties)


def transaction(channel: Any) -> None:
    channel.tx_select()
    channel.basic_publish("grid", "secret.x", b"x")
    channel.tx_commit()


def bind(queue: str, exchange: str, key: str, **arguments: Any) -> Act:
    return lambda channel: channel.queue_bind(queue, exchange, key, arguments or None)


def declare(queue: str, **arguments: Any) -> Act:
    """`x_max_age` is the argument `x-max-age`."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return lambda channel: channel.queue_declare(queue, durable=True, arguments=named)


def declaring(name: str, *letters: str) -> tuple[Need, ...]:
    """A queue whose dead letters go there."""
    return (topic("CREATE", name), *(group(name) if letters else ()), *pub(*letters))


def binding(*taken: str) -> tuple[Need, ...]:
    return (topic("UPDATE", "gq"), *(topic("SUB", name) for name in taken))


def alternate(name: str, to: str) -> Act:
    return lambda channel: channel.exchange_declare(name, "direct", arguments={"alternate-exchange": to})


def read_stream(channel: Any) -> None:
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("stream", lambda *given: None)


DLX, DLK = "x-dead-letter-exchange", "x-dead-letter-routing-key"
BIND, DECLARE = "QueueBind", "QueueDeclare"
PUBLISHING = [
    row("BasicPublish", "exchange and key", pub("grid/secret/x"), publish("grid", "secret.x"), "topic"),
    row("BasicPublish", "an exchange alone", pub("grid"), publish("grid", "")),
    row("BasicPublish", "a key with /", pub("grid/secret/x"), publish("grid", "secret/x")),
    row("BasicPublish", "a key that is no name", pub("grid/#"), publish("grid", "secret.#")),
    row("BasicPublish", "CC", pub("grid/a", "grid/secret/x"), publish("grid", "a", CC=["secret.x"]), "CC"),
    row("BasicPublish", "BCC", pub("grid/a", "grid/secret/x"), publish("grid", "a", BCC=["secret.x"]), "BCC"),
    row("BasicPublish", "CC to queues", pub("gq", "gr"), publish("", "gq", CC=["gr"]), "CC"),
    row("BasicPublish", "a name of MQTT", pub("secret/x"), publish("amq.topic", "secret.x")),
    row("BasicPublish", "a queue", pub("gq"), publish("", "gq")),
    row("BasicPublish", "a queue with a dot", pub("gq%2Ex"), publish("", "gq.x")),
    row("BasicPublish", "a stream", pub("stream"), publish("", "stream")),
    row("BasicPublish", "an exchange with a dot", pub("grid%2Ex/a"), publish("grid.x", "a")),
    row("BasicPublish", "an exchange of the server", pub("amq%2Edirect/a"), publish("amq.direct", "a")),
    row("BasicPublish", "delayed", pub("delayed/secret"), publish("delayed", "secret", **{"x-delay": 60_000})),
    *(
        row("BasicPublish", kind, pub(f"{kind}/secret"), publish(kind, "secret"))
        for kind in ("direct", "fanout", "headers", "hash")
    ),
    row("TxCommit", "exchange and key", pub("grid/secret/x"), transaction, "TxSelect"),
    row("BasicPublish", "virtual host", pub("$ns/plant/grid/secret/x"), publish("grid", "secret.x"), vhost="plant"),
    row("BasicPublish", "MQTT of a virtual host", pub("$ns/plant/a/b"), publish("amq.topic", "a.b"), vhost="plant"),
]
READING = [
    row("BasicConsume", "a queue", group("gq"), lambda c: c.basic_consume("gq", lambda *given: None)),
    row("BasicConsume", "a queue with a dot", group("gq%2Ex"), lambda c: c.basic_consume("gq.x", lambda *given: None)),
    row("BasicConsume", "a stream", group("stream"), read_stream),
    row("BasicGet", "a queue", group("gq"), lambda c: c.basic_get("gq")),
    row("BasicGet", "virtual host", group("$ns/plant/gq"), lambda c: c.basic_get("gq"), vhost="plant"),
    row("QueuePurge", "a queue", group("gr"), lambda c: c.queue_purge("gr")),
]
DECLARING = [
    row(DECLARE, "a queue", declaring("made"), declare("made")),
    row(DECLARE, "a queue with a dot", declaring("made%2Ex"), declare("made.x")),
    row(DECLARE, "dead letters", declaring("d1", "grid/#"), declare("d1", **{DLX: "grid"}), DLX),
    row(
        DECLARE,
        "dead letters with a key",
        declaring("d2", "grid/secret/x"),
        declare("d2", **{DLX: "grid", DLK: "secret.x"}),
        DLX,
        DLK,
    ),
    row(DECLARE, "dead letters to a queue", declaring("d3", "gr"), declare("d3", **{DLX: "", DLK: "gr"}), DLX, DLK),
    row(DECLARE, "dead letters to any queue", declaring("d4", "#"), declare("d4", **{DLX: ""}), DLX),
    row(DECLARE, "dead letters to MQTT", declaring("d5", "a/b"), declare("d5", **{DLX: "amq.topic", DLK: "a.b"}), DLX),
    row(
        DECLARE,
        "overflow",
        declaring("d6", "grid/#"),
        declare("d6", **{DLX: "grid", "x-overflow": "reject-publish-dlx", "x-max-length": 1}),
        DLX,
    ),
    row(DECLARE, "expiry", declaring("d7", "grid/#"), declare("d7", **{DLX: "grid", "x-message-ttl": 1}), DLX),
    row(
        DECLARE,
        "dead letters of a virtual host",
        (topic("CREATE", "$ns/plant/d8"), *group("$ns/plant/d8"), *pub("$ns/plant/+/#")),
        declare("d8", **{DLX: ""}),
        DLX,
        vhost="plant",
    ),
    row("ExchangeDeclare", "an exchange", (topic("CREATE", "e1"),), lambda c: c.exchange_declare("e1", "direct")),
    row(
        "ExchangeDeclare",
        "alternate",
        (topic("CREATE", "e2"), topic("SUB", "e2/#"), *pub("grid/#")),
        alternate("e2", "grid"),
        "alternate-exchange",
    ),
    row("QueueDelete", "a queue", (topic("DELETE", "x1"),), lambda c: c.queue_delete("x1"), before=declare("x1")),
    row(
        "ExchangeDelete",
        "an exchange",
        (topic("DELETE", "x2"),),
        lambda c: c.exchange_delete("x2"),
        before=lambda c: c.exchange_declare("x2", "direct"),
    ),
]
BINDING = [
    row(BIND, "pattern", binding("grid/secret/+"), bind("gq", "grid", "secret.*"), "topic"),
    row(BIND, "pattern with # inside", binding("grid/a/#"), bind("gq", "grid", "a.#.b"), "topic"),
    row(BIND, "all", binding("grid/#"), bind("gq", "grid", "#"), "topic"),
    row(BIND, "key", binding("direct/secret/x"), bind("gq", "direct", "secret.x"), "direct"),
    row(BIND, "fanout", binding("fanout/#"), bind("gq", "fanout", "ignored"), "fanout"),
    row(BIND, "headers", binding("headers/#"), bind("gq", "headers", "", a="b"), "headers"),
    row(BIND, "hash", binding("hash/#"), bind("gq", "hash", "1"), "x-consistent-hash"),
    row(BIND, "modulus", binding("modulus/#"), bind("gq", "modulus", "1"), "x-modulus-hash"),
    row(BIND, "random", binding("random/#"), bind("gq", "random", "1"), "x-random"),
    row(BIND, "local random", binding("local/#"), bind("gq", "local", "1"), "x-local-random"),
    row(BIND, "delayed", binding("delayed/a"), bind("gq", "delayed", "a"), "x-delayed-message"),
    row(BIND, "names of MQTT", binding("a/+/#"), bind("gq", "amq.topic", "a.*.#")),
    row(BIND, "all names of MQTT", binding("#"), bind("gq", "amq.topic", "#")),
    row(
        BIND,
        "all names of a virtual host",
        (topic("UPDATE", "$ns/plant/gq"), topic("SUB", "$ns/plant/+/#")),
        bind("gq", "amq.topic", "#"),
        vhost="plant",
    ),
    row(
        BIND,
        "virtual host",
        (topic("UPDATE", "$ns/plant/gq"), topic("SUB", "$ns/plant/grid/a")),
        bind("gq", "grid", "a"),
        vhost="plant",
    ),
    row("QueueUnbind", "a queue", (topic("UPDATE", "gq"),), lambda c: c.queue_unbind("gq", "grid", "z")),
    row(
        "ExchangeBind",
        "pattern",
        (topic("UPDATE", "direct"), topic("SUB", "grid/secret/+"), *pub("direct/secret/+")),
        lambda c: c.exchange_bind("direct", "grid", "secret.*"),
    ),
    row(
        "ExchangeBind",
        "fanout",
        (topic("UPDATE", "direct"), topic("SUB", "fanout/#"), *pub("direct/#")),
        lambda c: c.exchange_bind("direct", "fanout", "k"),
    ),
    row(
        "ExchangeUnbind",
        "an exchange",
        (topic("UPDATE", "direct"),),
        lambda c: c.exchange_unbind("direct", "grid", "z"),
    ),
]
ROWS = [*PUBLISHING, *READING, *DECLARING, *BINDING]
