"""Scripts: queues with a limit of messages, of bytes or of time, and what comes to them by every way."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel
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
