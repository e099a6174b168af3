"""Scripts: exchanges of every type, bindings, and what leads from one to another."""

from __future__ import annotations

from typing import Any

from tests.support.amqp.peers.peer import Channel, Properties
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case


def _queues(stage: Stage, channel: Channel, *words: str) -> list[str]:
    return [channel.queue_declare(stage.name(word)).queue for word in words]


def _bodies(channel: Channel, *queues: str) -> list[list[str]]:
    """What is in each queue."""
    return [[message.body.decode() for message in channel.get_all(queue)] for queue in queues]


@case("direct exchange", [["a"], ["a", "b"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "direct")
    one, two = _queues(stage, channel, "one", "two")
    for queue, key in ((one, "a"), (two, "a"), (two, "b")):
        channel.queue_bind(queue, exchange, key)
    for key in ("a", "b", "c", "A"):
        channel.publish(exchange, key, key.encode())
    return _bodies(channel, one, two)


@case("default exchange", [["a"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    (queue,) = _queues(stage, channel, "q")
    channel.publish("", queue, b"a")
    return _bodies(channel, queue)


@case("fanout exchange", [["x"], ["x"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout")
    one, two = _queues(stage, channel, "one", "two")
    channel.queue_bind(one, exchange, "a")
    channel.queue_bind(one, exchange, "b")
    channel.queue_bind(two, exchange, "c")
    channel.publish(exchange, "any", b"x")
    return _bodies(channel, one, two)


@case("topic exchange", [["a.b", "a.c"], ["a", "a.b", "a.b.c", "a.c"], ["a.b", "a.b.c", "b"], ["a", "b"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "topic")
    words = _queues(stage, channel, "star", "hash", "middle", "one")
    for queue, patterns in zip(words, (("a.*",), ("a.#",), ("#.b.#",), ("*",)), strict=True):
        for pattern in patterns:
            channel.queue_bind(queue, exchange, pattern)
    for key in ("a", "a.b", "a.b.c", "a.c", "b", ""):
        channel.publish(exchange, key, key.encode())
    return [sorted(found) for found in _bodies(channel, *words)]


@case("headers exchange", [["both"], ["both", "one"], ["both", "one"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "headers")
    queues = _queues(stage, channel, "all", "any", "default")
    wanted: list[dict[str, Any]] = [
        {"x-match": "all", "a": 1, "b": "two"},
        {"x-match": "any", "a": 1, "b": "two"},
        {"a": 1},
    ]
    for queue, arguments in zip(queues, wanted, strict=True):
        channel.queue_bind(queue, exchange, "", arguments)
    channel.publish(exchange, "", b"both", Properties(headers={"a": 1, "b": "two", "c": "x"}))
    channel.publish(exchange, "", b"one", Properties(headers={"a": 1, "b": "three"}))
    channel.publish(exchange, "", b"none", Properties(headers={"a": "1"}))
    channel.publish(exchange, "", b"bare")
    return _bodies(channel, *queues)


@case("exchange to exchange", [["a.b"], []])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    source, destination = stage.name("source"), stage.name("destination")
    channel.exchange_declare(source, "topic")
    channel.exchange_declare(destination, "fanout")
    (queue,) = _queues(stage, channel, "q")
    channel.queue_bind(queue, destination)
    channel.exchange_bind(destination, source, "a.*")
    channel.publish(source, "a.b", b"a.b")
    channel.publish(source, "b", b"b")
    before = _bodies(channel, queue)
    channel.exchange_unbind(destination, source, "a.*")
    channel.publish(source, "a.b", b"a.b")
    return before + _bodies(channel, queue)


@case("exchanges in a circle", [["x"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    one, two = stage.name("one"), stage.name("two")
    for exchange in (one, two):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(one, two, "")
    channel.exchange_bind(two, one, "")
    (queue,) = _queues(stage, channel, "q")
    channel.queue_bind(queue, one)
    channel.queue_bind(queue, two)
    channel.publish(one, "", b"x")
    return _bodies(channel, queue)


@case("alternate exchange", [["routed"], ["other"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    alternate, exchange = stage.name("alternate"), stage.name("e")
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    one, two = _queues(stage, channel, "one", "two")
    channel.queue_bind(one, exchange, "routed")
    channel.queue_bind(two, alternate)
    channel.publish(exchange, "routed", b"routed")
    channel.publish(exchange, "other", b"other", mandatory=True)
    return _bodies(channel, one, two)


@case("unbind", [["1"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    (queue,) = _queues(stage, channel, "q")
    key = stage.name("k")
    channel.queue_bind(queue, "amq.direct", key)
    channel.publish("amq.direct", key, b"1")
    channel.queue_unbind(queue, "amq.direct", key)
    channel.publish("amq.direct", key, b"2")
    return _bodies(channel, queue)


@case("predeclared exchanges", [["amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"]])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    (queue,) = _queues(stage, channel, "q")
    key, mark = stage.name("k"), stage.name("mark")
    for exchange in ("amq.direct", "amq.fanout", "amq.topic"):
        channel.queue_bind(queue, exchange, key)
    for exchange in ("amq.headers", "amq.match"):
        channel.queue_bind(queue, exchange, "", {"mark": mark})
    properties = Properties(headers={"mark": mark})
    for exchange in ("amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"):
        channel.publish(exchange, key, exchange.encode(), properties)
    # others publish to amq.fanout at the same time
    return [[body for body in found if body.startswith("amq.")] for found in _bodies(channel, queue)]


@case("CC and BCC", ([["x"], ["x"], ["x"]], {"CC": ["two"]}))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queues = _queues(stage, channel, "one", "two", "three")
    headers = {"CC": [queues[1]], "BCC": [queues[2]]}
    channel.publish("", queues[0], b"x", Properties(headers=headers))
    found = [channel.get(queue, no_ack=True) for queue in queues]
    assert found[0] is not None
    seen = stage.plain(found[0].properties.headers)
    return [[message.body.decode()] if message else [] for message in found], seen


@case("passive declare of a missing exchange", ("channel", 404, "NOT_FOUND - no exchange 'e' in vhost '/'"))
def _(stage: Stage) -> object:
    channel = stage.channel()
    return stage.plain(stage.refusal(lambda: channel.exchange_declare(stage.name("e"), passive=True)))


OTHER_TYPE = (
    "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'e' in vhost '/': "
    "received 'topic' but current is 'direct'"
)


@case("another type", ("channel", 406, OTHER_TYPE))
def _(stage: Stage) -> object:
    channel = stage.channel()
    channel.exchange_declare(stage.name("e"), "direct")
    return stage.plain(stage.refusal(lambda: channel.exchange_declare(stage.name("e"), "topic")))


@case("delete an exchange if unused", (("channel", 406, "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use"), 404))
def _(stage: Stage) -> object:
    channel = stage.channel()
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout")
    (queue,) = _queues(stage, channel, "q")
    channel.queue_bind(queue, exchange)
    refused = stage.plain(stage.refusal(lambda: channel.exchange_delete(exchange, if_unused=True)))
    other = stage.channel()
    other.queue_unbind(queue, exchange)
    other.exchange_delete(exchange, if_unused=True)
    return refused, stage.refusal(lambda: other.exchange_declare(exchange, passive=True))[1]


@case("auto-delete exchange", 404)
def _(stage: Stage) -> object:
    channel = stage.channel()
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    (queue,) = _queues(stage, channel, "q")
    channel.queue_bind(queue, exchange)
    channel.queue_unbind(queue, exchange)
    return stage.refusal(lambda: channel.exchange_declare(exchange, "fanout", passive=True))[1]


@case("internal exchange", ("channel", 403))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    channel.exchange_declare(stage.name("e"), "fanout", internal=True)
    return stage.refusal(lambda: channel.publish(stage.name("e"), "", b"x"))[:2]
