"""Cases of publishing, acknowledging, modes of a channel, direct reply-to and streams."""

from __future__ import annotations

from typing import Any

from pamqp import header
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from tests.conformance.amqp.register import arguments, both, case, filled, queue, refused
from tests.conformance.amqp.wire_client import Said, Wire, publishing

# -- publishing -------------------------------------------------------------------------------------------------------

refused("publish immediate", lambda w: publishing("", w.name("q"), immediate=True), setup=queue())
refused("expiration that is no number", lambda w: publishing("", "q", properties={"expiration": "soon"}))
refused("a negative expiration", lambda w: publishing("", "q", properties={"expiration": "-1"}))
refused("expiration 0", lambda w: publishing("", "q", properties={"expiration": "0"}))
refused("an expiration that is too long", lambda w: publishing("", "q", properties={"expiration": str(2**32)}))
refused("user id of somebody else", lambda w: publishing("", "q", properties={"user_id": "other"}))
refused("user id of the login", lambda w: publishing("", "q", properties={"user_id": "guest"}))
refused("CC that is no list", lambda w: publishing("", "q", properties={"headers": {"CC": "q"}}))
refused(
    "a body that is announced too big",
    lambda w: [
        Basic.Publish(routing_key="q"),
        header.ContentHeader(0, 1 << 40, Basic.Properties()),
    ],
)


@case("mandatory and unroutable: return before ack")
def _(wire: Wire) -> Said:
    wire.opened()
    wire.ask(Confirm.Select())
    wire.send(*publishing("amq.direct", wire.name("nowhere"), b"lost", mandatory=True))
    seen: list[Any] = []
    while not seen or seen[-1] != "Basic.Ack":
        found = wire.next()[1]
        seen.append(found.name)
        if isinstance(found, Basic.Return):
            seen += [found.reply_code, found.reply_text, found.exchange]
    return tuple(seen)


# -- acknowledging ----------------------------------------------------------------------------------------------------


def _got(wire: Wire) -> None:
    filled(wire)
    wire.ask(Basic.Get(queue=wire.name("q")))


refused("ack of an unknown tag", lambda w: Basic.Ack(delivery_tag=99))
refused("ack of an unknown tag, multiple", lambda w: Basic.Ack(delivery_tag=99, multiple=True))
refused("ack 0 without multiple", lambda w: Basic.Ack(delivery_tag=0))
refused("ack 0 multiple with nothing outstanding", lambda w: Basic.Ack(delivery_tag=0, multiple=True))
refused("ack twice", lambda w: Basic.Ack(delivery_tag=1), lambda w: Basic.Ack(delivery_tag=1), setup=_got)
refused("ack multiple beyond what is outstanding", lambda w: Basic.Ack(delivery_tag=5, multiple=True), setup=_got)
refused("nack of an unknown tag", lambda w: Basic.Nack(delivery_tag=99))
refused("reject of an unknown tag", lambda w: Basic.Reject(delivery_tag=99))
refused("reject twice", lambda w: Basic.Reject(delivery_tag=1), lambda w: Basic.Reject(delivery_tag=1), setup=_got)
refused("recover without requeue", lambda w: Basic.Recover(requeue=False))
refused("recover with requeue", lambda w: Basic.Recover(requeue=True))
refused("qos with a size", lambda w: Basic.Qos(prefetch_size=10))
refused("channel.flow off", lambda w: Channel.Flow(active=False))
refused("channel.flow on", lambda w: Channel.Flow(active=True))

# -- modes ------------------------------------------------------------------------------------------------------------


def _in_confirm(wire: Wire) -> None:
    wire.ask(Confirm.Select())


def _in_tx(wire: Wire) -> None:
    wire.ask(Tx.Select())


refused("tx.commit without tx.select", lambda w: Tx.Commit())
refused("tx.rollback without tx.select", lambda w: Tx.Rollback())
refused("confirm.select on a transacted channel", lambda w: Confirm.Select(), setup=_in_tx)
refused("tx.select on a confirming channel", lambda w: Tx.Select(), setup=_in_confirm)
refused("confirm.select twice", lambda w: Confirm.Select(), setup=_in_confirm)
refused("tx.select twice", lambda w: Tx.Select(), setup=_in_tx)

# -- direct reply-to and streams --------------------------------------------------------------------------------------

REPLY_TO = "amq.rabbitmq.reply-to"
refused("reply-to: consume with acknowledgements", lambda w: Basic.Consume(queue=REPLY_TO))
refused("reply-to: publish before consuming", lambda w: publishing("", "q", properties={"reply_to": REPLY_TO}))
refused("reply-to: passive declare", lambda w: Queue.Declare(queue=REPLY_TO, passive=True))
refused("reply-to: declare", lambda w: Queue.Declare(queue=REPLY_TO))
refused("reply-to: delete", lambda w: Queue.Delete(queue=REPLY_TO))
refused("reply-to: get", lambda w: Basic.Get(queue=REPLY_TO, no_ack=True))
refused(
    "reply-to: consume twice",
    lambda w: Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="two"),
    setup=lambda w: w.ask(Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="one")),
)

STREAM = queue(durable=True, **arguments(queue_type="stream"))
refused("stream: consume without qos", lambda w: Basic.Consume(queue=w.name("q")), setup=STREAM)
refused("stream: get", lambda w: Basic.Get(queue=w.name("q")), setup=STREAM)
refused("stream: purge", lambda w: Queue.Purge(queue=w.name("q")), setup=STREAM)
refused(
    "stream: consume without acknowledgements",
    lambda w: Basic.Consume(queue=w.name("q"), no_ack=True),
    setup=both(STREAM, lambda w: w.ask(Basic.Qos(prefetch_count=5))),
)
refused(
    "stream: a bad offset",
    lambda w: Basic.Consume(queue=w.name("q"), arguments={"x-stream-offset": "somewhere"}),
    setup=both(STREAM, lambda w: w.ask(Basic.Qos(prefetch_count=5))),
)
