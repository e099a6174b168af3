"""Scripts: get, consume, acknowledgements, prefetch, what comes again, consumers among themselves."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Channel, Properties, Refused
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case


def _filled(stage: Stage, *bodies: str, **how: object) -> tuple[Channel, str]:
    """A channel of a connection of its own, and a queue in which the messages are ready."""
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), **how).queue  # type: ignore[arg-type]
    channel.publish_all("", queue, *bodies)
    channel.wait_ready(queue, len(bodies))
    return channel, queue


@case("get", (("1", 1, False, ""), ("2", 0, False, ""), None))
def _(stage: Stage) -> object:
    channel, queue = _filled(stage, "1", "2")
    found: list[object] = []
    for _turn in range(3):
        message = channel.get(queue)
        if message is None:
            found.append(None)
            continue
        channel.ack(message.delivery_tag)
        found.append((message.body.decode(), message.message_count, message.redelivered, message.exchange))
    return tuple(found)


@case("consume and acknowledge", (["1", "2", "3"], [False, False, False], 0))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.consume(queue)
    found = channel.wait_deliveries(3)
    channel.ack(found[-1].delivery_tag, multiple=True)
    channel.close()
    left = watcher.queue_declare(queue, passive=True)
    return [each.body.decode() for each in found], [each.redelivered for each in found], left.messages


@case("consume without acknowledgements", (["1", "2", "3"], 0))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.consume(queue, no_ack=True)
    found = channel.bodies(3)
    channel.close()
    return found, watcher.ready(queue)


@case("a channel closes: all comes again, marked", [("1", True), ("2", True), ("3", False)])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.qos(2)
    channel.consume(queue)
    channel.wait_deliveries(2)
    channel.close()
    watcher.wait_ready(queue, 3)
    return [(each.body.decode(), each.redelivered) for each in watcher.get_all(queue)]


@case("a connection is cut: all comes again, marked", [("1", True), ("2", True)])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2")
    peer = stage.connect()
    channel = peer.channel()
    channel.consume(queue)
    channel.wait_deliveries(2)
    peer.cut()
    watcher.wait_ready(queue, 2)
    return [(each.body.decode(), each.redelivered) for each in watcher.get_all(queue)]


@case("prefetch of each consumer", ((2, 2), 1))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3", "4", "5")
    channel = stage.channel()
    channel.qos(2)
    tags = [channel.consume(queue, tag="one"), channel.consume(queue, tag="two")]
    found = channel.wait_deliveries(4)
    watcher.wait_ready(queue, 1)
    return tuple(sum(each.consumer_tag == tag for each in found) for tag in tags), watcher.ready(queue)


@case("prefetch of the channel", (2, 3))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3", "4", "5")
    channel = stage.channel()
    channel.qos(2, whole_channel=True)
    channel.consume(queue, tag="one")
    channel.consume(queue, tag="two")
    channel.wait_deliveries(2)
    watcher.wait_ready(queue, 3)
    return len(channel.seen.deliveries), watcher.ready(queue)


@case("prefetch: an acknowledgement makes room", ["1", "2", "3"])
def _(stage: Stage) -> object:
    _, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.qos(1)
    channel.consume(queue)
    for count in (1, 2, 3):
        channel.ack(channel.wait_deliveries(count)[count - 1].delivery_tag)
    return channel.bodies(3)


@case("nack with requeue: at the old place, marked", [("1", True), ("2", True), ("3", False)])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.get(queue)
    last = channel.get(queue)
    assert last is not None
    channel.nack(last.delivery_tag, multiple=True, requeue=True)
    watcher.wait_ready(queue, 3)
    return [(each.body.decode(), each.redelivered) for each in watcher.get_all(queue)]


@case("nack without requeue", ["3"])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2", "3")
    channel = stage.channel()
    channel.get(queue)
    last = channel.get(queue)
    assert last is not None
    channel.nack(last.delivery_tag, multiple=True, requeue=False)
    channel.close()
    return [each.body.decode() for each in watcher.get_all(queue)]


@case("reject", [("2", True)])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2")
    channel = stage.channel()
    first, second = channel.get(queue), channel.get(queue)
    assert first is not None
    assert second is not None
    channel.reject(first.delivery_tag, requeue=False)
    channel.reject(second.delivery_tag, requeue=True)
    watcher.wait_ready(queue, 1)
    return [(each.body.decode(), each.redelivered) for each in watcher.get_all(queue)]


@case("recover", [("1", False), ("2", False), ("1", True), ("2", True)])
def _(stage: Stage) -> object:
    _, queue = _filled(stage, "1", "2")
    channel = stage.channel()
    channel.consume(queue)
    channel.wait_deliveries(2)
    channel.recover()
    return [(each.body.decode(), each.redelivered) for each in channel.wait_deliveries(4)]


@case("cancel: what was delivered stays the channel's", (["1", "2"], 0, 1))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, "1", "2")
    channel = stage.channel()
    tag = channel.consume(queue)
    found = channel.bodies(2)
    channel.cancel(tag)
    consumers = watcher.queue_declare(queue, passive=True).consumers
    watcher.publish("", queue, b"3")
    watcher.wait_ready(queue, 1)
    channel.ack(channel.seen.deliveries[-1].delivery_tag, multiple=True)
    channel.close()
    return found, consumers, watcher.ready(queue)


@case("consumer cancel notify", ["gone"])
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage)
    channel = stage.channel()
    channel.consume(queue, tag="gone")
    watcher.queue_delete(queue)
    channel.wait(lambda: channel.seen.cancelled, "a consumer cancelled")
    return channel.seen.cancelled


@case("exclusive consumer", ("channel", 403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"))
def _(stage: Stage) -> object:
    _, queue = _filled(stage)
    stage.channel().consume(queue, exclusive=True)
    other = stage.channel()
    return stage.plain(stage.refusal(lambda: other.consume(queue)))


@case("single active consumer", ([["1", "2"], ["3"]], [["1", "2"], []]))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage, arguments={"x-single-active-consumer": True})
    first, second = stage.channel(), stage.channel()
    first.consume(queue, tag="first", no_ack=True)
    second.consume(queue, tag="second", no_ack=True)
    watcher.publish_all("", queue, "1", "2")
    before = [first.bodies(2), second.bodies(0)]
    first.cancel("first")
    watcher.publish("", queue, b"3")
    return [first.bodies(2), second.bodies(1)], before


@case("consumer priority", (["1", "2", "3"], ["4"]))
def _(stage: Stage) -> object:
    """The one that comes first has no more room after three messages; the next one is the other's."""
    watcher, queue = _filled(stage)
    low, high = stage.channel(), stage.channel()
    low.qos(3)
    high.qos(3)
    low.consume(queue, arguments={"x-priority": 1})
    high.consume(queue, arguments={"x-priority": 10})
    watcher.publish_all("", queue, "1", "2", "3", "4")
    return high.bodies(3), low.bodies(1)


@case("consumers take turns", (3, 3))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage)
    channel = stage.channel()
    channel.qos(3)
    channel.consume(queue, tag="one")
    channel.consume(queue, tag="two")
    watcher.publish_all("", queue, *map(str, range(6)))
    found = channel.wait_deliveries(6)
    return tuple(sum(each.consumer_tag == tag for each in found) for tag in ("one", "two"))


@case("direct reply-to", ("amq.rabbitmq.reply-to.", b"question", b"answer", ""))
def _(stage: Stage) -> object:
    server, queue = _filled(stage)
    client = stage.channel()
    client.consume("amq.rabbitmq.reply-to", no_ack=True)
    client.publish("", queue, b"question", Properties(reply_to="amq.rabbitmq.reply-to"))
    server.wait_ready(queue, 1)
    asked = server.get(queue, no_ack=True)
    assert asked is not None
    reply_to = asked.properties.reply_to or ""
    server.publish("", reply_to, b"answer")
    answer = client.wait_deliveries(1)[0]
    return reply_to[:22], asked.body, answer.body, answer.exchange


@case("unknown delivery tag", ("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 99"))
def _(stage: Stage) -> object:
    _, queue = _filled(stage, "1")
    channel = stage.channel()
    channel.get(queue)

    def acknowledge() -> None:
        channel.ack(99)
        channel.queue_declare(queue, passive=True)

    return stage.refusal(acknowledge)


@case("a channel's prefetch counts its consumers together", (5, 35))
def _(stage: Stage) -> object:
    watcher, queue = _filled(stage)
    channel, burst = stage.channel(), stage.channel()
    channel.qos(5, whole_channel=True)
    for tag in "abc":
        channel.consume(queue, tag=tag)
    burst.publish_all("", queue, *map(str, range(40)))
    channel.wait_deliveries(5)
    watcher.wait_ready(queue, 35)
    return len(channel.seen.deliveries), watcher.ready(queue)


@case("a channel's prefetch leaves out what it got", ("2", ["1", "3"]))
def _(stage: Stage) -> object:
    _, queue = _filled(stage, "1", "2", "3", "4")
    channel = stage.channel()
    channel.qos(1, whole_channel=True)
    channel.consume(queue)
    [first] = channel.wait_deliveries(1)
    got = channel.get(queue)
    channel.ack(first.delivery_tag)
    return got and got.body.decode(), channel.bodies(2)


@case("a full channel stops consumers without acknowledgements", (1, ["1", "2"]))
def _(stage: Stage) -> object:
    watcher, one = _filled(stage, "1")
    channel, two = stage.channel(), watcher.queue_declare(stage.name("two")).queue
    channel.qos(1, whole_channel=True)
    channel.consume(one)
    [first] = channel.wait_deliveries(1)
    channel.consume(two, no_ack=True)
    watcher.publish("", two, b"2")
    watcher.wait_ready(two, 1)
    waiting = watcher.ready(two)
    channel.ack(first.delivery_tag)
    return waiting, channel.bodies(2)


@case("the queues of a full channel come in turn", True)
def _(stage: Stage) -> object:
    filler, channel = stage.channel(confirms=True), stage.channel()
    queues = [filler.queue_declare(stage.name(f"q{place}")).queue for place in range(3)]
    for place, queue in enumerate(queues):
        filler.publish_all("", queue, *[str(place)] * 20)
    channel.qos(1, whole_channel=True)
    for queue in queues:
        channel.consume(queue)
    for count in range(1, 31):
        channel.ack(channel.wait_deliveries(count)[count - 1].delivery_tag)
    bodies = channel.bodies(30)
    return min(bodies.count(str(place)) for place in range(3)) >= 5


@case("a name for replies can be declared while its client waits", (("", 0, 1), ("", 0, 1), 404))
def _(stage: Stage) -> object:
    peer = stage.connect()
    client, server = peer.channel(), stage.channel()
    client.consume("amq.rabbitmq.reply-to", no_ack=True)
    queue = server.queue_declare(stage.name("calls")).queue
    client.publish("", queue, b"question", Properties(reply_to="amq.rabbitmq.reply-to"))
    server.consume(queue, no_ack=True)
    name = server.wait_deliveries(1)[0].properties.reply_to or ""
    found = [server.queue_declare(name, passive=passive) for passive in (True, False)]
    peer.close()

    def refused() -> int:
        try:
            stage.channel().queue_declare(name, passive=True)
        except Refused as refusal:
            return refusal.code
        return 0

    server.wait(refused, "the name is gone")
    return *((each.queue.removeprefix(name), each.messages, each.consumers) for each in found), refused()


@case("transactions: an unknown tag is refused at the acknowledgement", [406, 406, 406])
def _(stage: Stage) -> object:
    """Neither a tag of the future nor one that the transaction has settled waits for the commit to be refused."""
    publishing, found = stage.channel(confirms=True), list[int]()
    queue = publishing.queue_declare(stage.name("q")).queue
    publishing.publish_all("", queue, "1", "2")
    for wrong in ("beyond", "twice", "twice, multiple"):
        channel = stage.channel()
        channel.tx_select()
        publishing.wait_ready(queue, 2)
        message = channel.get(queue)
        assert message is not None
        channel.ack(message.delivery_tag)
        channel.ack(message.delivery_tag + (wrong == "beyond"), multiple=wrong != "twice")
        found.append(stage.refusal(lambda channel=channel: channel.queue_declare(queue, passive=True))[1])
    return found


@case("transactions: recover leaves what is acknowledged", ([2], ["1"], True))
def _(stage: Stage) -> object:
    """What the transaction has acknowledged does not come back; after a rollback it does."""
    channel = stage.channel(confirms=False)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.tx_select()
    channel.publish_all("", queue, "1", "2")
    channel.tx_commit()
    one, two = channel.get(queue), channel.get(queue)
    assert one is not None and two is not None
    channel.ack(one.delivery_tag)
    channel.recover()
    channel.wait_ready(queue, 1)
    again = channel.get(queue)
    assert again is not None
    channel.ack(again.delivery_tag)
    channel.tx_rollback()
    channel.recover()
    channel.wait_ready(queue, 2)
    back = [channel.get(queue), channel.get(queue)]
    bodies = [each.body.decode() for each in back if each is not None]
    channel.tx_commit()
    return [int(again.body)], bodies[:1], all(each is not None and each.redelivered for each in back)


@case("transactions: a prefetch limit is free at the commit", [1, 1, 2])
def _(stage: Stage) -> object:
    publishing, channel = stage.channel(confirms=True), stage.channel()
    queue = publishing.queue_declare(stage.name("q")).queue
    publishing.publish_all("", queue, "1", "2")
    channel.tx_select()
    channel.qos(1, whole_channel=True)
    channel.consume(queue)
    (first,) = channel.wait_deliveries(1)
    found = [len(channel.seen.deliveries)]
    channel.ack(first.delivery_tag)
    publishing.wait_ready(queue, 1)
    channel.tx_rollback()
    found.append(len(channel.seen.deliveries))
    channel.ack(first.delivery_tag)
    channel.tx_commit()
    channel.wait_deliveries(2)
    return [*found, len(channel.seen.deliveries)]
