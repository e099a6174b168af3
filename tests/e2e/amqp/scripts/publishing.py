"""Scripts: connections, publishing, confirms, returns, transactions, properties."""

from __future__ import annotations

from tests.support.amqp.peers.peer import Properties, Refused
from tests.support.amqp.peers.stage import Cases, Stage

CASES = Cases()
case = CASES.case

BIG = 3 * 131_072 + 17
"""A body of several frames, the last of which is not full."""


@case("connect and close", "closed")
def _(stage: Stage) -> object:
    peer = stage.connect()
    peer.channel().close()
    peer.close()
    return "closed"


@case("wrong password", 403)
def _(stage: Stage) -> object:
    try:
        stage.connect(password="not the password")
    except Refused as refused:
        return refused.code
    return "connected"


@case("wrong vhost", 530)
def _(stage: Stage) -> object:
    try:
        stage.connect(vhost="no such vhost")
    except Refused as refused:
        return refused.code
    return "connected"


@case("publish and confirm", ([True, True, True], 3))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q"), durable=True).queue
    confirmed = channel.publish_all("", queue, "1", "2", "3", properties=Properties(delivery_mode=2))
    return confirmed, channel.ready(queue)


@case("publish without a queue is confirmed", True)
def _(stage: Stage) -> object:
    return stage.channel(confirms=True).publish("amq.direct", stage.name("nowhere"), b"x")


@case("publish to a missing exchange", ("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '/'"))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    return stage.plain(stage.refusal(lambda: channel.publish(stage.name("missing"), "k", b"x")))


@case("mandatory return", [(312, "NO_ROUTE", "amq.direct", "nowhere", b"lost")])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    channel.publish("amq.direct", stage.name("nowhere"), b"lost", mandatory=True)
    channel.wait(lambda: channel.seen.returned, "a message returned")
    found = channel.seen.returned
    return [(*stage.plain((each.code, each.text, each.exchange, each.routing_key)), each.body) for each in found]


@case("mandatory and routed", ([], ["kept"]))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish("", queue, b"kept", mandatory=True)
    return channel.seen.returned, [each.body.decode() for each in channel.get_all(queue)]


@case("transactions", ([0, 2, 2], ["1", "2"]))
def _(stage: Stage) -> object:
    peer = stage.connect()
    channel, other = peer.channel(), peer.channel()
    queue = other.queue_declare(stage.name("q")).queue
    channel.tx_select()
    channel.publish_all("", queue, "1", "2")
    counts = [other.ready(queue)]
    channel.tx_commit()
    counts.append(other.ready(queue))
    channel.publish_all("", queue, "3", "4")
    channel.tx_rollback()
    counts.append(other.ready(queue))
    return counts, [each.body.decode() for each in other.get_all(queue)]


@case("transactions of acknowledgements", (["a", "b"], ["a"]))
def _(stage: Stage) -> object:
    """An acknowledgement that is rolled back may be given again; one that is committed holds."""
    channel, other = stage.channel(), stage.channel()
    queue = other.queue_declare(stage.name("q")).queue
    other.publish_all("", queue, "a", "b")
    other.wait_ready(queue, 2)
    channel.tx_select()
    got = [message for message in (channel.get(queue), channel.get(queue)) if message]
    channel.ack(got[0].delivery_tag)
    channel.tx_rollback()
    channel.ack(got[1].delivery_tag)
    channel.tx_commit()
    channel.close()
    other.wait_ready(queue, 1)
    return [each.body.decode() for each in got], [each.body.decode() for each in other.get_all(queue)]


ALL_PROPERTIES = Properties(
    content_type="text/plain; charset=ütf",
    content_encoding="gzip",
    headers={
        "text": "häß",
        "empty": "",
        "yes": True,
        "no": False,
        "small": -1,
        "large": 2**40,
        "inner": {"deep": {"er": "x"}, "list": [1, "two", False]},
        "list": ["a", {"b": 1}],
        "x" * 128: "long name",
    },
    delivery_mode=2,
    priority=7,
    correlation_id="correlation-\N{GRINNING FACE}",
    reply_to="reply.to",
    message_id="id 1",
    timestamp=1_700_000_000,
    type="a.type",
    user_id="guest",
    app_id="app",
)


@case("properties", ALL_PROPERTIES)
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish("", queue, b"x", ALL_PROPERTIES)
    message = channel.get(queue, no_ack=True)
    assert message is not None
    return message.properties


@case("no properties", (b"", Properties()))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    channel.publish("", queue)
    message = channel.get(queue, no_ack=True)
    assert message is not None
    return message.body, message.properties


@case("big bodies", [True, True, True])
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    bodies = [bytes(range(256)) * (size // 256) + b"e" * (size % 256) for size in (131_064, 131_065, BIG)]
    for body in bodies:
        channel.publish("", queue, body)
    return [message.body == body for message, body in zip(channel.get_all(queue), bodies, strict=True)]


@case("user id of somebody else", ("channel", 406))
def _(stage: Stage) -> object:
    channel = stage.channel(confirms=True)
    queue = channel.queue_declare(stage.name("q")).queue
    return stage.refusal(lambda: channel.publish("", queue, b"x", Properties(user_id="somebody")))[:2]
