"""Scripts: what applications build of the parts, as the tutorials of the clients show it."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel, Message, Properties
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case


def _taken(channel: Channel, queue: str) -> Message:
    """The next message of a queue, once there is one."""
    channel.wait(lambda: channel.ready(queue) > 0, "a message is ready")
    message = channel.get(queue)
    assert message is not None
    return message


@case("pattern: publish and subscribe", (["a", "b"], ["a", "b"], ["b"]))
def _(stage: Stage) -> object:
    """Each subscriber has a server-named exclusive queue; who comes later sees what comes later."""
    publisher = stage.channel(confirms=True)
    exchange = stage.name("logs")
    publisher.exchange_declare(exchange, "fanout")
    subscribers = [_subscriber(stage, exchange), _subscriber(stage, exchange)]
    publisher.publish(exchange, "", b"a")
    subscribers.append(_subscriber(stage, exchange))
    publisher.publish(exchange, "", b"b")
    return subscribers[0].bodies(2), subscribers[1].bodies(2), subscribers[2].bodies(1)


def _subscriber(stage: Stage, exchange: str) -> Channel:
    channel = stage.channel()
    queue = channel.queue_declare("", exclusive=True).queue
    channel.queue_bind(queue, exchange)
    channel.consume(queue, no_ack=True)
    return channel


@case("pattern: call with a queue for answers", [("1", "one"), ("2", "two")])
def _(stage: Stage) -> object:
    server, client = stage.channel(), stage.channel()
    calls = server.queue_declare(stage.name("rpc")).queue
    answers = client.queue_declare("", exclusive=True).queue
    client.consume(answers, no_ack=True)
    for number, word in (("1", b"one"), ("2", b"two")):
        client.publish("", calls, word, Properties(correlation_id=number, reply_to=answers))
    for _turn in range(2):
        call = _taken(server, calls)
        back = Properties(correlation_id=call.properties.correlation_id)
        server.publish("", call.properties.reply_to or "", call.body, back)
        server.ack(call.delivery_tag)
    return [(each.properties.correlation_id, each.body.decode()) for each in client.wait_deliveries(2)]


@case("pattern: wait in a queue with a time to live", ("later", "work", "expired"))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    work = channel.queue_declare(stage.name("work")).queue
    arguments = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
    waiting = channel.queue_declare(stage.name("waiting"), arguments=arguments).queue
    channel.publish("", waiting, b"later")
    message = _taken(channel, work)
    headers = message.properties.headers or {}
    return message.body.decode(), stage.plain(message.routing_key), headers["x-death"][0]["reason"]


@case("pattern: retry with a waiting queue", [0, 1, 2])
def _(stage: Stage) -> object:
    """Work that fails is rejected into a queue whose messages come back; x-death counts the turns."""
    channel = stage.channel(confirms=True)
    work, waiting = stage.name("work"), stage.name("waiting")
    back = {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
    channel.queue_declare(waiting, arguments=back)
    channel.queue_declare(work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": waiting})
    channel.publish("", work, b"task")
    counts: list[object] = []
    for _turn in range(3):
        message = _taken(channel, work)
        deaths = (message.properties.headers or {}).get("x-death", [])
        counts.append(sum(each["count"] for each in deaths if each["reason"] == "rejected"))
        channel.reject(message.delivery_tag, requeue=False)
    return counts


@case("pattern: a worker that dies hands over", [("1", True), ("2", True), ("3", False)])
def _(stage: Stage) -> object:
    publisher = stage.channel(confirms=True)
    queue = publisher.queue_declare(stage.name("tasks"), durable=True).queue
    publisher.publish_all("", queue, "1", "2", properties=Properties(delivery_mode=2))
    first = stage.connect()
    dying = first.channel()
    dying.consume(queue)
    dying.wait_deliveries(2)
    heir = stage.channel()
    heir.consume(queue)
    first.close()
    heir.wait_deliveries(2)
    publisher.publish("", queue, b"3", Properties(delivery_mode=2))
    return [(each.body.decode(), each.redelivered) for each in heir.wait_deliveries(3)]


@case("pattern: a single active consumer is succeeded", (["1"], ["2"]))
def _(stage: Stage) -> object:
    publisher = stage.channel(confirms=True)
    queue = publisher.queue_declare(stage.name("q"), arguments={"x-single-active-consumer": True}).queue
    active = stage.connect()
    first, second = active.channel(), stage.channel()
    first.consume(queue, no_ack=True)
    second.consume(queue, no_ack=True)
    publisher.publish("", queue, b"1")
    before = first.bodies(1)
    active.close()
    publisher.publish("", queue, b"2")
    return before, second.bodies(1)


@case("a queue gets a message once", (1, 1))
def _(stage: Stage) -> object:
    """However many bindings lead to it, directly or through another exchange."""
    channel = stage.channel(confirms=True)
    source, other = stage.name("source"), stage.name("other")
    for exchange in (source, other):
        channel.exchange_declare(exchange, "topic")
    queue = channel.queue_declare(stage.name("q")).queue
    for pattern in ("#", "a.*", "a.b"):
        channel.queue_bind(queue, source, pattern)
        channel.queue_bind(queue, other, pattern)
        channel.exchange_bind(other, source, pattern)
    channel.publish(source, "a.b", b"x")
    first = channel.queue_purge(queue)
    channel.queue_bind(queue, source, "a.b")
    channel.queue_unbind(queue, source, "a.b")
    channel.publish(source, "a.b", b"x")
    return first, channel.queue_purge(queue)


@case("mandatory, where the alternate exchange has no queue", [312])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    alternate, exchange = stage.name("alternate"), stage.name("e")
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    channel.publish(exchange, "k", b"x", mandatory=True)
    channel.wait(lambda: channel.seen.returned, "a message returned")
    return [each.code for each in channel.seen.returned]


@case("overflow rejects and dead-letters", ([True, False], "2", "maxlen"))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    dead = channel.queue_declare(stage.name("dead")).queue
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    arguments["x-dead-letter-routing-key"] = dead
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    confirmed = channel.publish_all("", queue, "1", "2")
    message = _taken(channel, dead)
    return confirmed, message.body.decode(), (message.properties.headers or {})["x-death"][0]["reason"]


@case("dead letters to a missing exchange are dropped", (0, ["after"]))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    arguments = {"x-dead-letter-exchange": stage.name("missing")}
    queue = channel.queue_declare(stage.name("q"), arguments=arguments).queue
    channel.publish("", queue, b"x")
    channel.reject(_taken(channel, queue).delivery_tag, requeue=False)
    left = channel.ready(queue)
    channel.publish("", queue, b"after")
    return left, [each.body.decode() for each in channel.get_all(queue)]


@case("the shorter time to live holds", [])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-message-ttl": 50}).queue
    other = channel.queue_declare(stage.name("other"), arguments={"x-message-ttl": 600_000}).queue
    channel.publish("", queue, b"x", Properties(expiration="600000"))
    channel.publish("", other, b"x", Properties(expiration="50"))
    channel.wait_ready(queue, 0)
    channel.wait_ready(other, 0)
    return channel.get_all(queue) + channel.get_all(other)


@case("purge leaves what is not acknowledged", (1, ["1"]))
def _(stage: Stage) -> object:
    channel, other = stage.channel(confirms=True), stage.channel()
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish_all("", queue, "1", "2")
    channel.wait_ready(queue, 2)
    other.get(queue)
    count = channel.queue_purge(queue)
    other.close()
    channel.wait_ready(queue, 1)
    return count, [each.body.decode() for each in channel.get_all(queue)]


@case("an exclusive queue's name is free again", ("q", False))
def _(stage: Stage) -> object:
    owner = stage.connect()
    name = owner.channel().queue_declare(stage.name("q"), exclusive=True).queue
    owner.close()
    found = stage.channel().queue_declare(name, durable=True, arguments={"x-max-length": 5})
    return stage.plain(found.queue), found.messages > 0


@case("priority after requeue", ["9", "5", "5", "1"])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), arguments={"x-max-priority": 9}).queue
    for priority in (1, 5, 5):
        channel.publish("", queue, str(priority).encode(), Properties(priority=priority))
    channel.reject(_taken(channel, queue).delivery_tag, requeue=True)
    channel.wait_ready(queue, 3)
    channel.publish("", queue, b"9", Properties(priority=9))
    return [each.body.decode() for each in channel.get_all(queue)]


@case("confirms of two channels are each their own", ([True] * 20, [True] * 20, 40))
def _(stage: Stage) -> object:
    peer = stage.connect()
    one, two = peer.channel(confirms=True), peer.channel(confirms=True)
    queue = one.queue_declare(stage.name("q"), durable=True).queue
    confirmed: tuple[list[bool], list[bool]] = ([], [])
    for number in range(20):
        confirmed[0].append(one.publish("", queue, str(number).encode(), Properties(delivery_mode=2)))
        confirmed[1].append(two.publish("", queue, str(number).encode(), Properties(delivery_mode=2)))
    return *confirmed, one.queue_purge(queue)


@case("what was published before a close is there", [True] * 50)
def _(stage: Stage) -> object:
    """Without confirms: close-ok comes after what the channel published, so that another connection finds it."""
    watcher, peer = stage.channel(), stage.connect()
    queue = watcher.queue_declare(stage.name("q")).queue
    found = []
    for number in range(50):
        channel = peer.channel()
        channel.publish("", queue, str(number).encode())
        channel.close()
        message = watcher.get(queue, no_ack=True)
        found.append(message is not None and message.body == str(number).encode())
    return found
