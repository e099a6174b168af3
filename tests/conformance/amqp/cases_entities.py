"""Cases of queues, exchanges and bindings."""

from __future__ import annotations

from typing import Any

from pamqp.commands import Basic, Exchange, Queue

from tests.conformance.amqp.register import arguments, exchange, filled, queue, refused
from tests.conformance.amqp.wire_client import Wire, publishing

# -- what is not there ------------------------------------------------------------------------------------------------

refused("passive declare of a missing queue", lambda w: Queue.Declare(queue=w.name("q"), passive=True))
refused("consume from a missing queue", lambda w: Basic.Consume(queue=w.name("q")))
refused("get from a missing queue", lambda w: Basic.Get(queue=w.name("q")))
refused("purge a missing queue", lambda w: Queue.Purge(queue=w.name("q")))
refused("bind a missing queue", lambda w: Queue.Bind(queue=w.name("q"), exchange="amq.direct", routing_key="k"))
refused("bind to a missing exchange", lambda w: Queue.Bind(queue=w.name("q"), exchange=w.name("e")), setup=queue())
refused("passive declare of a missing exchange", lambda w: Exchange.Declare(exchange=w.name("e"), passive=True))
refused("publish to a missing exchange", lambda w: publishing(w.name("e")))
refused("bind a missing exchange", lambda w: Exchange.Bind(destination=w.name("e"), source="amq.direct"))
refused("bind from a missing exchange", lambda w: Exchange.Bind(destination="amq.direct", source=w.name("e")))
refused("delete a missing queue", lambda w: Queue.Delete(queue=w.name("q")))
refused("delete a missing exchange", lambda w: Exchange.Delete(exchange=w.name("e")))
refused("unbind what is not bound", lambda w: Queue.Unbind(queue=w.name("q"), exchange="amq.direct"), setup=queue())
refused("unbind a missing queue", lambda w: Queue.Unbind(queue=w.name("q"), exchange="amq.direct"))
refused("cancel an unknown consumer", lambda w: Basic.Cancel(consumer_tag="unknown"))
refused("bind '' with no queue declared", lambda w: Queue.Bind(queue="", exchange="amq.direct", routing_key="k"))
refused("consume '' with no queue declared", lambda w: Basic.Consume(queue=""))
refused("get '' with no queue declared", lambda w: Basic.Get(queue=""))
refused("passive declare of '' with no queue declared", lambda w: Queue.Declare(queue="", passive=True))
refused("bind '' is the queue declared last", lambda w: Queue.Bind(queue="", exchange="amq.direct"), setup=queue())

# -- declared again, otherwise ----------------------------------------------------------------------------------------


def _again(name: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    refused(f"queue again: {name}", lambda w: Queue.Declare(queue=w.name("q"), **second), setup=queue(**first))


_again("the same", {}, {})
_again("durable", {"durable": True}, {})
_again("not durable", {}, {"durable": True})
_again("auto-delete", {}, {"auto_delete": True})
_again("exclusive", {}, {"exclusive": True})
_again("an argument less", arguments(message_ttl=1000), {})
_again("an argument more", {}, arguments(message_ttl=1000))
_again("another value", arguments(message_ttl=1000), arguments(message_ttl=2000))
_again("the same value", arguments(message_ttl=1000), arguments(message_ttl=1000))
_again("a dead letter exchange more", {}, arguments(dead_letter_exchange="dlx"))
_again("another max-length", arguments(max_length=1), arguments(max_length=2))
_again("an unknown argument more", {}, arguments(unknown="u"))
_again("another priority", arguments(max_priority=5), arguments(max_priority=6))
_again("another type", {"durable": True}, {"durable": True, **arguments(queue_type="quorum")})


def _exchange_again(name: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    refused(
        f"exchange again: {name}", lambda w: Exchange.Declare(exchange=w.name("e"), **second), setup=exchange(**first)
    )


_exchange_again("the same", {}, {})
_exchange_again("type", {}, {"exchange_type": "topic"})
_exchange_again("durable", {"durable": True}, {})
_exchange_again("auto-delete", {"auto_delete": True}, {})
_exchange_again("internal", {}, {"internal": True})
_exchange_again("alternate", {}, {"arguments": {"alternate-exchange": "a"}})
_exchange_again("an unknown argument more", {}, {"arguments": {"x-unknown": 1}})
refused("exchange: unknown type", lambda w: Exchange.Declare(exchange=w.name("e"), exchange_type="magic"))

# -- what belongs to somebody else ------------------------------------------------------------------------------------


def _exclusive_elsewhere(wire: Wire) -> None:
    wire.other().ask(Queue.Declare(queue=wire.name("q"), exclusive=True))


refused("declare somebody's exclusive queue", lambda w: Queue.Declare(queue=w.name("q")), setup=_exclusive_elsewhere)
refused(
    "passive declare of somebody's exclusive queue",
    lambda w: Queue.Declare(queue=w.name("q"), passive=True),
    setup=_exclusive_elsewhere,
)
refused(
    "consume from somebody's exclusive queue", lambda w: Basic.Consume(queue=w.name("q")), setup=_exclusive_elsewhere
)
refused("get from somebody's exclusive queue", lambda w: Basic.Get(queue=w.name("q")), setup=_exclusive_elsewhere)
refused("purge somebody's exclusive queue", lambda w: Queue.Purge(queue=w.name("q")), setup=_exclusive_elsewhere)
refused("delete somebody's exclusive queue", lambda w: Queue.Delete(queue=w.name("q")), setup=_exclusive_elsewhere)
refused(
    "bind somebody's exclusive queue",
    lambda w: Queue.Bind(queue=w.name("q"), exchange="amq.direct"),
    setup=_exclusive_elsewhere,
)
refused("publish to somebody's exclusive queue", lambda w: publishing("", w.name("q")), setup=_exclusive_elsewhere)

refused("declare a queue amq.*", lambda w: Queue.Declare(queue="amq.mine"))
refused("declare an exchange amq.*", lambda w: Exchange.Declare(exchange="amq.mine"))
refused("declare amq.direct as it is", lambda w: Exchange.Declare(exchange="amq.direct", durable=True))
refused("declare amq.direct otherwise", lambda w: Exchange.Declare(exchange="amq.direct", exchange_type="fanout"))
refused("passive declare of amq.direct", lambda w: Exchange.Declare(exchange="amq.direct", passive=True))
refused("delete amq.direct", lambda w: Exchange.Delete(exchange="amq.direct"))
refused("declare the default exchange", lambda w: Exchange.Declare(exchange="", durable=True))
refused("passive declare of the default exchange", lambda w: Exchange.Declare(exchange="", passive=True))
refused("delete the default exchange", lambda w: Exchange.Delete(exchange=""))
refused("bind to the default exchange", lambda w: Queue.Bind(queue=w.name("q"), exchange=""), setup=queue())
refused("unbind from the default exchange", lambda w: Queue.Unbind(queue=w.name("q"), exchange=""), setup=queue())
refused("exchange.bind from the default exchange", lambda w: Exchange.Bind(destination="amq.direct", source=""))
refused("publish to an internal exchange", lambda w: publishing(w.name("e")), setup=exchange(internal=True))

# -- arguments of queues ----------------------------------------------------------------------------------------------


def _argument(name: str, durable: bool = False, exclusive: bool = False, **given: Any) -> None:
    refused(
        f"queue with {name}",
        lambda w: Queue.Declare(queue=w.name("q"), durable=durable, exclusive=exclusive, **arguments(**given)),
    )


_argument("a negative ttl", message_ttl=-1)
_argument("a ttl of 0", message_ttl=0)
_argument("a ttl of text", message_ttl="1000")
_argument("a ttl that is too long", message_ttl=2**32)
_argument("expires 0", expires=0)
_argument("expires of text", expires="1000")
_argument("a negative max-length", max_length=-1)
_argument("max-length of text", max_length="1")
_argument("negative max-length-bytes", max_length_bytes=-1)
_argument("an unknown overflow", overflow="explode")
_argument("overflow of a number", overflow=1)
_argument("overflow reject-publish-dlx", overflow="reject-publish-dlx")
_argument("priority 256", max_priority=256)
_argument("priority 255", max_priority=255)
_argument("a negative priority", max_priority=-1)
_argument("priority 0", max_priority=0)
_argument("priority of text", max_priority="5")
_argument("a dead letter routing key alone", dead_letter_routing_key="k")
_argument("a dead letter exchange of a number", dead_letter_exchange=1)
_argument("a dead letter exchange that is not there", dead_letter_exchange="not there")
_argument("single active consumer of text", single_active_consumer="yes")
_argument("an unknown type", queue_type="magic")
_argument("a type of a number", queue_type=1)
_argument("an unknown argument", unknown="value")
_argument("queue-mode lazy", queue_mode="lazy")
_argument("an unknown queue-mode", queue_mode="fast")
_argument("an unknown queue-version", queue_version=9)
_argument("an unknown leader locator", queue_master_locator="nowhere")
_argument("type quorum, not durable", queue_type="quorum")
_argument("type quorum, exclusive", durable=True, exclusive=True, queue_type="quorum")
_argument("type quorum, with priority", durable=True, queue_type="quorum", max_priority=5)
_argument("type quorum, lazy", durable=True, queue_type="quorum", queue_mode="lazy")
_argument("type quorum, with a ttl", durable=True, queue_type="quorum", message_ttl=1000)
_argument("type quorum, with a negative limit", durable=True, queue_type="quorum", delivery_limit=-5)
_argument("type classic, with a delivery limit", queue_type="classic", delivery_limit=3)
_argument("type stream, not durable", queue_type="stream")
_argument("type stream, with a ttl", durable=True, queue_type="stream", message_ttl=1000)
_argument("type stream, with a bad max-age", durable=True, queue_type="stream", max_age="soon")

# -- queues and exchanges in use --------------------------------------------------------------------------------------


def _consumed(wire: Wire) -> None:
    wire.ask(Queue.Declare(queue=wire.name("q")))
    wire.ask(Basic.Consume(queue=wire.name("q"), consumer_tag="tag"))


def _bound(wire: Wire) -> None:
    wire.ask(Exchange.Declare(exchange=wire.name("e")))
    wire.ask(Queue.Declare(queue=wire.name("q")))
    wire.ask(Queue.Bind(queue=wire.name("q"), exchange=wire.name("e")))


refused(
    "delete if-unused a queue with a consumer",
    lambda w: Queue.Delete(queue=w.name("q"), if_unused=True),
    setup=_consumed,
)
refused(
    "delete if-empty a queue with a message", lambda w: Queue.Delete(queue=w.name("q"), if_empty=True), setup=filled
)
refused(
    "delete if-unused a bound exchange", lambda w: Exchange.Delete(exchange=w.name("e"), if_unused=True), setup=_bound
)
refused("consumer tag again", lambda w: Basic.Consume(queue=w.name("q"), consumer_tag="tag"), setup=_consumed)
refused(
    "exclusive consume of a queue with a consumer",
    lambda w: Basic.Consume(queue=w.name("q"), exclusive=True),
    setup=_consumed,
)


def _exclusively_consumed(wire: Wire) -> None:
    wire.ask(Queue.Declare(queue=wire.name("q")))
    wire.ask(Basic.Consume(queue=wire.name("q"), exclusive=True))


refused("consume beside an exclusive consumer", lambda w: Basic.Consume(queue=w.name("q")), setup=_exclusively_consumed)
refused("get beside an exclusive consumer", lambda w: Basic.Get(queue=w.name("q")), setup=_exclusively_consumed)
refused(
    "consume with a priority of text",
    lambda w: Basic.Consume(queue=w.name("q"), arguments={"x-priority": "high"}),
    setup=queue(),
)
refused(
    "exclusive consume of a single active consumer queue",
    lambda w: Basic.Consume(queue=w.name("q"), exclusive=True),
    setup=queue(**arguments(single_active_consumer=True)),
)
