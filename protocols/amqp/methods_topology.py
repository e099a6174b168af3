"""Methods of exchanges and queues (classes 40 and 50)."""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.protocols.amqp.method_codec import CLIENT, SERVER, AmqpMethod, Bit, Long, ShortString, Table, method


@method(40, 10, "exchange.declare", CLIENT, before=("short",))
@dataclass(slots=True)
class ExchangeDeclare(AmqpMethod):
    """Declare an exchange: create it, or compare an existing one; `passive`: only check that it exists."""

    exchange: ShortString = ""
    type: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(40, 11, "exchange.declare-ok", SERVER)
@dataclass(slots=True)
class ExchangeDeclareOk(AmqpMethod):
    """The exchange exists."""


@method(40, 20, "exchange.delete", CLIENT, before=("short",))
@dataclass(slots=True)
class ExchangeDelete(AmqpMethod):
    """Delete an exchange."""

    exchange: ShortString = ""
    if_unused: Bit = False
    nowait: Bit = False


@method(40, 21, "exchange.delete-ok", SERVER)
@dataclass(slots=True)
class ExchangeDeleteOk(AmqpMethod):
    """The exchange is deleted."""


@method(40, 30, "exchange.bind", CLIENT, before=("short",))
@dataclass(slots=True)
class ExchangeBind(AmqpMethod):
    """Bind one exchange to another (RabbitMQ)."""

    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(40, 31, "exchange.bind-ok", SERVER)
@dataclass(slots=True)
class ExchangeBindOk(AmqpMethod):
    """The binding exists."""


@method(40, 40, "exchange.unbind", CLIENT, before=("short",))
@dataclass(slots=True)
class ExchangeUnbind(AmqpMethod):
    """Remove a binding between exchanges (RabbitMQ)."""

    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(40, 51, "exchange.unbind-ok", SERVER)
@dataclass(slots=True)
class ExchangeUnbindOk(AmqpMethod):
    """The binding is removed.  The number is RabbitMQ's."""


@method(50, 10, "queue.declare", CLIENT, before=("short",))
@dataclass(slots=True)
class QueueDeclare(AmqpMethod):
    """Declare a queue: create it, or compare an existing one; the server makes up a missing name."""

    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(50, 11, "queue.declare-ok", SERVER)
@dataclass(slots=True)
class QueueDeclareOk(AmqpMethod):
    """The queue exists; `message_count` messages are ready."""

    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method(50, 20, "queue.bind", CLIENT, before=("short",))
@dataclass(slots=True)
class QueueBind(AmqpMethod):
    """Bind a queue to an exchange."""

    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(50, 21, "queue.bind-ok", SERVER)
@dataclass(slots=True)
class QueueBindOk(AmqpMethod):
    """The binding exists."""


@method(50, 30, "queue.purge", CLIENT, before=("short",))
@dataclass(slots=True)
class QueuePurge(AmqpMethod):
    """Drop the ready messages of a queue."""

    queue: ShortString = ""
    nowait: Bit = False


@method(50, 31, "queue.purge-ok", SERVER)
@dataclass(slots=True)
class QueuePurgeOk(AmqpMethod):
    """The number of dropped messages."""

    message_count: Long = 0


@method(50, 40, "queue.delete", CLIENT, before=("short",))
@dataclass(slots=True)
class QueueDelete(AmqpMethod):
    """Delete a queue."""

    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@method(50, 41, "queue.delete-ok", SERVER)
@dataclass(slots=True)
class QueueDeleteOk(AmqpMethod):
    """The queue is deleted, and `message_count` messages with it."""

    message_count: Long = 0


@method(50, 50, "queue.unbind", CLIENT, before=("short",))
@dataclass(slots=True)
class QueueUnbind(AmqpMethod):
    """Remove a binding."""

    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Table = field(default_factory=dict)


@method(50, 51, "queue.unbind-ok", SERVER)
@dataclass(slots=True)
class QueueUnbindOk(AmqpMethod):
    """The binding is removed."""
