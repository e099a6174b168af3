"""Scripts: where dead letters go, and what they say of their way."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel, Properties
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case

COPIED = Properties(headers={"CC": ["copy"], "BCC": ["blind"]})


def _bound(stage: Stage, channel: Channel, exchange: str, *keys: str) -> dict[str, str]:
    """Queues bound to a direct exchange, by their keys."""
    channel.exchange_declare(exchange, "direct")
    queues = {}
    for key in keys:
        queues[key] = channel.queue_declare(stage.name(f"{exchange}.{key}")).queue
        channel.queue_bind(queues[key], exchange, key)
    return queues


def _died(channel: Channel, queue: str) -> tuple[object, ...]:
    """The letter that comes to a queue: key, keys of its first death, CC and BCC."""
    channel.wait_ready(queue, 1)
    (letter,) = channel.get_all(queue)
    headers = letter.properties.headers or {}
    return letter.routing_key, headers["x-death"][0]["routing-keys"], headers.get("CC"), headers.get("BCC")


@case(
    "dead letters go to the keys of CC and BCC",
    {key: ("key", ["key", "copy"], ["copy"], None) for key in ("key", "copy", "blind")},
)
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    source, letters = stage.name("e"), stage.name("dlx")
    channel.exchange_declare(source, "fanout")
    queues = _bound(stage, channel, letters, "key", "copy", "blind")
    queue = channel.queue_declare(stage.name("q"), arguments={"x-dead-letter-exchange": letters}).queue
    channel.queue_bind(queue, source)
    channel.publish(source, "key", b"x", COPIED)
    message = channel.get(queue)
    assert message is not None
    channel.reject(message.delivery_tag, requeue=False)
    return {key: _died(channel, each) for key, each in queues.items()}


@case("dead letters with a key of their own go to it alone", (("other", ["key", "copy"], None, None), [0, 0, 0]))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    source, letters = stage.name("e"), stage.name("dlx")
    channel.exchange_declare(source, "fanout")
    queues = _bound(stage, channel, letters, "other", "key", "copy", "blind")
    arguments = {"x-dead-letter-exchange": letters, "x-dead-letter-routing-key": "other"}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    channel.queue_bind(queue, source)
    channel.publish(source, "key", b"x", COPIED)
    message = channel.get(queue)
    assert message is not None
    channel.reject(message.delivery_tag, requeue=False)
    return _died(channel, queues["other"]), [channel.ready(queues[key]) for key in ("key", "copy", "blind")]


@case("dead letters of dead letters go to the keys of CC and BCC", [2, 2])
def _(stage: Stage) -> object:
    """What two queues of the first exchange let expire goes on to the keys of the second exchange, all of them."""
    channel = stage.channel(confirms=True)
    first, second = stage.name("first"), stage.name("second")
    last = _bound(stage, channel, second, "copy", "blind")
    channel.exchange_declare(first, "direct")
    for key in ("copy", "blind"):
        arguments = {"x-dead-letter-exchange": second, "x-message-ttl": 20}
        queue = channel.queue_declare(stage.name(f"between.{key}"), arguments=arguments).queue
        channel.queue_bind(queue, first, key)
    arguments = {"x-dead-letter-exchange": first, "x-message-ttl": 20}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    channel.publish("", queue, b"x", COPIED)
    for each in last.values():
        channel.wait_ready(each, 2)
    return [channel.ready(each) for each in last.values()]
