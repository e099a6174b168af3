"""Scripts: queues with a limit of messages, of bytes or of time, and what comes to them by every way."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel, Properties
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case


def _bodies(channel: Channel, queue: str) -> list[str]:
    return [message.body.decode() for message in channel.get_all(queue)]


REJECTS = {"x-max-length": 1, "x-overflow": "reject-publish"}


@case("a full queue leaves the message to the open one", ([True, False, False], ["1"], ["1", "2", "3"]))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout")
    full = channel.queue_declare(stage.name("full"), arguments=REJECTS).queue
    wide = channel.queue_declare(stage.name("open")).queue
    for queue in (full, wide):
        channel.queue_bind(queue, exchange)
    confirmed = channel.publish_all(exchange, "", "1", "2", "3")
    return confirmed, _bodies(channel, full), _bodies(channel, wide)


@case("a full queue leaves the message to the open one, without confirms", (["1"], ["1", "2", "3"]))
def _(stage: Stage) -> object:
    channel = stage.channel()
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout")
    full = channel.queue_declare(stage.name("full"), arguments=REJECTS).queue
    wide = channel.queue_declare(stage.name("open")).queue
    for queue in (full, wide):
        channel.queue_bind(queue, exchange)
    channel.publish_all(exchange, "", "1", "2", "3")
    channel.wait_ready(wide, 3)
    return _bodies(channel, full), _bodies(channel, wide)


@case(
    "a full queue that dead-letters leaves the message to the open one", ([True, False], ["1"], ["1", "2"], ["maxlen"])
)
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange = stage.name("e")
    channel.exchange_declare(exchange, "fanout")
    dead = channel.queue_declare(stage.name("dead")).queue
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    arguments["x-dead-letter-routing-key"] = dead
    full = channel.queue_declare(stage.name("full"), arguments=arguments).queue
    wide = channel.queue_declare(stage.name("open")).queue
    for queue in (full, wide):
        channel.queue_bind(queue, exchange)
    confirmed = channel.publish_all(exchange, "", "1", "2")
    channel.wait_ready(dead, 1)
    deaths = [(each.properties.headers or {})["x-death"][0]["reason"] for each in channel.get_all(dead)]
    return confirmed, _bodies(channel, full), _bodies(channel, wide), deaths


@case("a time to live of 0 reaches a consumer that waits", ["1", "2", "3", "4", "5", "6"])
def _(stage: Stage) -> object:
    channel, consumer = stage.channel(confirms=True), stage.channel()
    queue = channel.queue_declare(stage.name("q"), arguments={"x-message-ttl": 0}).queue
    plain = channel.queue_declare(stage.name("plain")).queue
    for each in (queue, plain):
        consumer.consume(each, no_ack=True)
    for number in range(1, 7):
        if number <= 3:
            channel.publish("", queue, b"%d" % number)
        else:
            channel.publish("", plain, b"%d" % number, Properties(expiration="0"))
        consumer.wait_deliveries(number)
    return consumer.bodies(6)


@case("a time to live of 0 without a consumer", (0, None, ["1"], "expired"))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    dead = channel.queue_declare(stage.name("dead")).queue
    arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    channel.publish("", queue, b"1")
    channel.wait_ready(dead, 1)
    found = channel.get_all(dead)
    reason = (found[0].properties.headers or {})["x-death"][0]["reason"]
    return channel.ready(queue), channel.get(queue), [each.body.decode() for each in found], reason


@case("a short time to live in a burst reaches a consumer that waits", 500)
def _(stage: Stage) -> object:
    channel, consumer = stage.channel(), stage.channel()
    queue = channel.queue_declare(stage.name("q"), arguments={"x-message-ttl": 20}).queue
    consumer.consume(queue, no_ack=True)
    channel.publish_all("", queue, *map(str, range(500)))
    consumer.wait_deliveries(500)
    return len(consumer.bodies(500))


@case("a time to live counts for a consumer without room", ([1], 0))
def _(stage: Stage) -> object:
    channel, consumer = stage.channel(confirms=True), stage.channel()
    queue = channel.queue_declare(stage.name("q"), arguments={"x-message-ttl": 0}).queue
    consumer.qos(1)
    consumer.consume(queue)
    channel.publish("", queue, b"1")
    (first,) = consumer.wait_deliveries(1)
    channel.publish("", queue, b"2")
    channel.wait_ready(queue, 0)
    consumer.ack(first.delivery_tag)
    consumer.ready(queue)  # its answer comes behind the acknowledgement
    channel.publish("", queue, b"3")
    consumer.wait_deliveries(2)
    return [int(body) for body in consumer.bodies(2) if body != "3"], channel.ready(queue)


def _letters(stage: Stage, channel: Channel, **limits: object) -> tuple[str, str]:
    """A queue, and the one that its dead letters go to, which has limits."""
    given = {f"x-{name.replace('_', '-')}": value for name, value in limits.items()}
    dead = channel.queue_declare(stage.name("dead"), arguments=given).queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    return channel.queue_declare(stage.name("q"), arguments=arguments).queue, dead


def _reject_all(channel: Channel, queue: str) -> None:
    while (message := channel.get(queue)) is not None:
        channel.reject(message.delivery_tag, requeue=False)


@case("dead letters obey a limit that drops", ["3", "4"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _letters(stage, channel, max_length=2)
    channel.publish_all("", queue, "1", "2", "3", "4")
    _reject_all(channel, queue)
    channel.wait_ready(queue, 0)
    channel.wait_ready(dead, 2)
    return _bodies(channel, dead)


@case("dead letters obey a limit that rejects", (["1", "2"], 0))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _letters(stage, channel, max_length=2, overflow="reject-publish")
    channel.publish_all("", queue, "1", "2", "3", "4")
    _reject_all(channel, queue)
    channel.wait_ready(dead, 2)
    return _bodies(channel, dead), channel.ready(queue)


@case("dead letters obey a limit in bytes", ["333"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _letters(stage, channel, max_length_bytes=5)
    channel.publish_all("", queue, "111", "222", "333")
    _reject_all(channel, queue)
    channel.wait_ready(dead, 1)
    return _bodies(channel, dead)


@case("a chain flows through a queue without room", [("maxlen", "second"), ("expired", "first")])
def _(stage: Stage) -> object:
    """What expires in the first queue goes to the second, which takes nothing, and so to the third."""
    channel = stage.channel(confirms=True)
    third = channel.queue_declare(stage.name("third")).queue
    arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": third}
    second = channel.queue_declare(stage.name("second"), arguments={**arguments, "x-max-length": 0}).queue
    arguments |= {"x-dead-letter-routing-key": second, "x-message-ttl": 50}
    first = channel.queue_declare(stage.name("first"), arguments=arguments).queue
    channel.publish("", first, b"x")
    channel.wait_ready(third, 1)
    (letter,) = channel.get_all(third)
    deaths = (letter.properties.headers or {})["x-death"]
    return [(each["reason"], stage.plain(each["queue"])) for each in deaths]


@case("what is given back obeys a limit that drops", (["2"], ["2", "1"]))
def _(stage: Stage) -> object:
    """The head is what came back: it goes. A queue that rejects keeps it."""
    channel, found = stage.channel(confirms=True), list[list[str]]()
    for limits in ({"x-max-length": 1}, REJECTS):
        queue = channel.queue_declare(stage.name(f"q{len(found)}"), arguments=limits).queue
        channel.publish("", queue, b"1")
        message = channel.get(queue)
        assert message is not None
        channel.publish("", queue, b"2")
        channel.reject(message.delivery_tag, requeue=True)
        channel.wait_ready(queue, 1 if limits is not REJECTS else 2)
        found.append(sorted(_bodies(channel, queue), reverse=True))
    return tuple(found)


@case("what a closed channel gives back obeys a limit that drops", (["1", "2"], ["3"]))
def _(stage: Stage) -> object:
    channel, consumer = stage.channel(confirms=True), stage.channel()
    dead = channel.queue_declare(stage.name("dead")).queue
    arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    consumer.consume(queue)
    for number in (1, 2):
        channel.publish("", queue, b"%d" % number)
        consumer.wait_deliveries(number)
    consumer.cancel(consumer.seen.deliveries[0].consumer_tag)
    channel.publish("", queue, b"3")
    consumer.close()
    channel.wait_ready(dead, 2)
    return sorted(_bodies(channel, dead)), _bodies(channel, queue)
