"""Scripts: what queues are declared with, how they end, what falls out of them and where to."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel, Properties, Refused
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case


def _is_gone(channel_of: Stage, queue: str) -> bool:
    try:
        channel_of.channel().queue_declare(queue, passive=True)
    except Refused as refused:
        return refused.code == 404
    return False


def _bodies(channel: Channel, queue: str) -> list[str]:
    return [message.body.decode() for message in channel.get_all(queue)]


@case("passive declare with counts", [("q", 0, 0), ("q", 2, 0), ("q", 0, 1)])
def _(stage: Stage) -> object:
    channel, consumer = stage.channel(confirms=True), stage.channel()
    queue = channel.queue_declare(stage.name("q")).queue
    found = [channel.queue_declare(queue, passive=True)]
    channel.publish_all("", queue, "1", "2")
    found.append(channel.queue_declare(queue, passive=True))
    consumer.consume(queue)
    consumer.wait_deliveries(2)
    found.append(channel.queue_declare(queue, passive=True))
    return [(stage.plain(each.queue), each.messages, each.consumers) for each in found]


@case("passive declare of a missing queue", ("channel", 404, "NOT_FOUND - no queue 'q' in vhost '/'"))
def _(stage: Stage) -> object:
    channel = stage.channel()
    return stage.plain(stage.refusal(lambda: channel.queue_declare(stage.name("q"), passive=True)))


@case("server-named queue", ("amq.gen-", True, True))
def _(stage: Stage) -> object:
    channel = stage.channel()
    one, two = channel.queue_declare("", exclusive=True).queue, channel.queue_declare("", exclusive=True).queue
    return one[:8], one != two, len(one) > len("amq.gen-") + 16


LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. "
    "It could be originally declared on another connection or the exclusive property value does not match that of "
    "the original declaration."
)


@case("exclusive queue", (("channel", 405, LOCKED), True))
def _(stage: Stage) -> object:
    owner = stage.connect()
    queue = owner.channel().queue_declare(stage.name("q"), exclusive=True).queue
    other = stage.channel()
    refused = stage.plain(stage.refusal(lambda: other.queue_declare(queue, passive=True)))
    owner.close()
    watcher = stage.connect()
    watcher.channel().wait(lambda: _is_gone(stage, queue), "the queue is gone")
    return refused, True


@case("auto-delete queue", (False, True))
def _(stage: Stage) -> object:
    channel = stage.channel()
    queue = channel.queue_declare(stage.name("q"), auto_delete=True).queue
    before = _is_gone(stage, queue)
    tag = channel.consume(queue)
    channel.cancel(tag)
    channel.wait(lambda: _is_gone(stage, queue), "the queue is gone")
    return before, True


INEQUIVALENT = (
    "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
    "received 'false' but current is 'true'"
)


@case("declared again with other arguments", ("channel", 406, INEQUIVALENT))
def _(stage: Stage) -> object:
    channel = stage.channel()
    channel.queue_declare(stage.name("q"), durable=True)
    return stage.plain(stage.refusal(lambda: channel.queue_declare(stage.name("q"))))


@case("purge", (3, 0))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish_all("", queue, "1", "2", "3")
    return channel.queue_purge(queue), channel.ready(queue)


@case("delete", (2, True, 0))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish_all("", queue, "1", "2")
    count = channel.queue_delete(queue)
    return count, _is_gone(stage, queue), channel.queue_delete(queue)


@case("delete a queue if unused", ("channel", 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"))
def _(stage: Stage) -> object:
    channel, other = stage.channel(), stage.channel()
    queue = channel.queue_declare(stage.name("q")).queue
    channel.consume(queue)
    return stage.plain(stage.refusal(lambda: other.queue_delete(queue, if_unused=True)))


@case("delete a queue if empty", ("channel", 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish("", queue, b"x")
    return stage.plain(stage.refusal(lambda: channel.queue_delete(queue, if_empty=True)))


@case("time to live of a message", ["stays"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish("", queue, b"goes", Properties(expiration="50"))
    channel.publish("", queue, b"stays")
    channel.wait_ready(queue, 1)
    return _bodies(channel, queue)


@case("time to live of a queue's messages", [])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-message-ttl": 50}).queue
    channel.publish_all("", queue, "1", "2")
    channel.wait_ready(queue, 0)
    return _bodies(channel, queue)


@case("a queue expires", True)
def _(stage: Stage) -> object:
    channel = stage.channel()
    queue = channel.queue_declare(stage.name("q"), arguments={"x-expires": 100}).queue
    # looking at it would renew its lease: a binding to it is asked for
    channel.wait(lambda: _cannot_be_bound(stage, queue), "the queue is gone")
    return True


def _cannot_be_bound(stage: Stage, queue: str) -> bool:
    try:
        stage.channel().queue_bind(queue, "amq.direct", queue)
    except Refused as refused:
        return refused.code == 404
    return False


def _dead_letters(stage: Stage, channel: Channel, **arguments: object) -> tuple[str, str]:
    """A queue with a dead letter exchange, and the queue behind that."""
    exchange, dead = stage.name("dlx"), stage.name("dead")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(dead)
    channel.queue_bind(dead, exchange)
    given = {"x-dead-letter-exchange": exchange} | {"x-" + key.replace("_", "-"): arguments[key] for key in arguments}
    return channel.queue_declare(stage.name("q"), arguments=given).queue, dead


def _deaths(stage: Stage, channel: Channel, queue: str, count: int = 1) -> list[object]:
    """Body, routing key, and what the headers say of each death but when."""
    channel.wait_ready(queue, count)
    found: list[object] = []
    for message in channel.get_all(queue):
        headers = dict(message.properties.headers or {})
        deaths = [{key: value for key, value in each.items() if key != "time"} for each in headers["x-death"]]
        assert all("time" in each for each in headers["x-death"])
        firsts = [headers.get(f"x-first-death-{key}") for key in ("reason", "queue", "exchange")]
        found.append(stage.plain((message.body.decode(), message.routing_key, deaths, firsts)))
    return found


def _death(reason: str, **more: object) -> dict[str, object]:
    return {"count": 1, "reason": reason, "queue": "q", "exchange": "", "routing-keys": ["q"]} | more


@case("dead letter: rejected", [("x", "q", [_death("rejected")], ["rejected", "q", ""])])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _dead_letters(stage, channel)
    channel.publish("", queue, b"x")
    message = channel.get(queue)
    assert message is not None
    channel.reject(message.delivery_tag, requeue=False)
    return _deaths(stage, channel, dead)


EXPIRED = _death("expired", **{"original-expiration": "50"})


@case("dead letter: expired", [("x", "q", [EXPIRED], ["expired", "q", ""])])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _dead_letters(stage, channel)
    channel.publish("", queue, b"x", Properties(expiration="50"))
    return _deaths(stage, channel, dead)


@case("dead letter: too long", [("1", "other", [_death("maxlen")], ["maxlen", "q", ""])])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue, dead = _dead_letters(stage, channel, max_length=2, dead_letter_routing_key="other")
    channel.publish_all("", queue, "1", "2", "3")
    return _deaths(stage, channel, dead)


@case("dead letter: twice", [("x", "dead", [_death("rejected", count=2)], ["rejected", "q", ""])])
def _(stage: Stage) -> object:
    """What comes back to the same queue and dies the same death is counted."""
    channel = stage.channel(confirms=True)
    dead = channel.queue_declare(stage.name("dead")).queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    channel.publish("", queue, b"x")
    for turn in range(2):
        message = channel.get(queue)
        assert message is not None
        channel.reject(message.delivery_tag, requeue=False)
        channel.wait_ready(dead, 1)
        if turn == 0:
            back = channel.get(dead, no_ack=True)
            assert back is not None
            channel.publish("", queue, back.body, Properties(headers=back.properties.headers))
            channel.wait_ready(queue, 1)
    return _deaths(stage, channel, dead)


@case("max-length drops the head", ["2", "3"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-max-length": 2}).queue
    channel.publish_all("", queue, "1", "2", "3")
    channel.wait_ready(queue, 2)
    return _bodies(channel, queue)


@case("max-length-bytes drops the head", ["333"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-max-length-bytes": 5}).queue
    channel.publish_all("", queue, "111", "222", "333")
    channel.wait_ready(queue, 1)
    return _bodies(channel, queue)


@case("max-length rejects", ([True, True, False], ["1", "2"]))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    return channel.publish_all("", queue, "1", "2", "3"), _bodies(channel, queue)


@case("priority", ["5", "9", "3", "1", "0", "none"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-max-priority": 5}).queue
    for priority in (1, 5, 0, 9, 3):
        channel.publish("", queue, str(priority).encode(), Properties(priority=priority))
    channel.publish("", queue, b"none")
    return _bodies(channel, queue)


@case("quorum queue counts deliveries", [(0, False), (1, True), (2, True)])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), durable=True, arguments={"x-queue-type": "quorum"}).queue
    channel.publish("", queue, b"x")
    found: list[object] = []
    for _turn in range(3):
        channel.wait_ready(queue, 1)
        message = channel.get(queue)
        assert message is not None
        found.append(((message.properties.headers or {}).get("x-delivery-count"), message.redelivered))
        channel.reject(message.delivery_tag, requeue=True)
    return found


@case("delivery limit", [("x", "q", [_death("delivery_limit")], ["delivery_limit", "q", ""])])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    exchange, dead = stage.name("dlx"), channel.queue_declare(stage.name("dead")).queue
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(dead, exchange)
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1, "x-dead-letter-exchange": exchange}
    queue = channel.queue_declare(stage.name("q"), durable=True, arguments=arguments).queue
    channel.publish("", queue, b"x")
    for _turn in range(2):
        channel.wait_ready(queue, 1)
        message = channel.get(queue)
        assert message is not None
        channel.reject(message.delivery_tag, requeue=True)
    return _deaths(stage, channel, dead)


@case("no delivery limit by itself", (25, True))
def _(stage: Stage) -> object:
    """As up to RabbitMQ 3.13, which is announced; 4.0 has a limit of 20."""
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), durable=True, arguments={"x-queue-type": "quorum"}).queue
    channel.publish("", queue, b"x")
    for _turn in range(25):
        channel.wait_ready(queue, 1)
        message = channel.get(queue)
        assert message is not None
        channel.reject(message.delivery_tag, requeue=True)
    channel.wait_ready(queue, 1)
    message = channel.get(queue)
    assert message is not None
    return (message.properties.headers or {}).get("x-delivery-count"), message.redelivered
