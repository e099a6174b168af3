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
